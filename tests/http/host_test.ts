// GET /agent/v1/host beside what its parts say: counts, warnings, and readings that failed.

import { assertEquals, assertMatch } from "@std/assert";
import { instantAfter } from "../../src/domain/instant.ts";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
import { withoutProperties } from "../../src/config/policy.ts";
import { hostRoutes, type HostSources } from "../../src/http/routes/host.ts";
import { DAY_SECONDS } from "../../src/domain/instant.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { openClockedStore } from "../support/clocked_store.ts";
import { T0 } from "../support/job.ts";
import { assertDescribed, operation } from "./openapi_operations.ts";
import { type HttpAgent, jobIn, objectOf, withHttpAgent } from "./http_agent.ts";
import { failingReader, hostSources, readerOf, READINGS } from "./host_sources.ts";
import { bearer, READ, withTokens } from "./token_agent.ts";

/** Runs a test with an agent on a host with these changes. */
async function withHost(
  changes: Partial<HostSources>,
  run: (agent: HttpAgent, page: () => Promise<JsonObject>) => Promise<void>,
): Promise<void> {
  const clock = { now: T0 };
  const store = await openClockedStore(":memory:", clock);
  try {
    const sources = hostSources(store, { now: () => clock.now, ...changes });
    await withHttpAgent(async (agent) => {
      await run({ ...agent, store, clock }, async () => {
        const answer = await agent.call("GET", "/agent/v1/host");
        assertDescribed(operation("host"), answer);
        return objectOf(answer);
      });
    }, { store, now: () => clock.now, routes: [hostRoutes(sources)] });
  } finally {
    await store.close();
  }
}

const codesOf = (page: JsonObject) =>
  (page.warnings as JsonObject[]).map(({ code }) => String(code));

Deno.test("GET /agent/v1/host returns a complete page, without warnings when all is well", async () => {
  await withHost({}, async (_agent, page) => {
    const { warnings, slots, jobs, pool, index, mode, brands } = await page();
    assertEquals([warnings, mode, brands], [[], "ssh", ["kvm", "bhyve"]]);
    assertEquals(slots, { total: 4, busy: 1 });
    assertEquals(jobs, { queued: 0, running: 0, waiting: 0, failed_24h: 0, last_failed: [] });
    const value = { name: "zones", used_bytes: 1, free_bytes: 1024 ** 4 };
    assertEquals(pool, { read_at: T0, error: null, value });
    assertEquals(isJsonObject(index) && index.age_seconds, null);
  });
});

Deno.test("GET /agent/v1/host counts unfinished jobs, and names recent failures", async () => {
  await withHost({}, async (agent, page) => {
    for (const execution of ["failed", "running", "waiting", "succeeded"] as const) {
      await jobIn(agent, execution);
    }
    const failed = await jobIn(agent, "failed");
    await jobIn(agent, "queued");
    const { jobs } = await page();
    const { last_failed, ...counts } = jobs as JsonObject;
    assertEquals(counts, { queued: 1, running: 1, waiting: 1, failed_24h: 2 });
    const [newest, ...others] = last_failed as JsonObject[];
    assertEquals([newest?.uuid, newest?.error, others.length], [failed, "boom", 1]);
    agent.clock.now = instantAfter(T0, (DAY_SECONDS + 3600) * 1000);
    assertEquals(
      (objectOf(await agent.call("GET", "/agent/v1/host")).jobs as JsonObject).failed_24h,
      0,
    );
  });
});

Deno.test("an unreadable part of the host says why; the others are shown", async () => {
  const broken = { ...READINGS, pool: failingReader("exit code 1: no such pool") };
  await withHost({ readings: broken }, async (_agent, page) => {
    const { pool, networks, warnings } = await page();
    assertEquals(pool, { read_at: T0, error: "exit code 1: no such pool", value: null });
    assertEquals((networks as JsonObject).value, ["admin"]);
    assertEquals(warnings, [{
      code: "pool_unread",
      message: "pool could not be read: exit code 1: no such pool",
      hint: "zonewright doctor --running",
    }]);
  });
});

Deno.test("a failed sync is a warning at once, unless the index is already called old", async () => {
  const ok = { status: "ok", detail: "compared 9 s ago" } as const;
  for (const index of [ok, { ...ok, status: "warn" } as const]) {
    const readiness = () => Promise.resolve({ ready: true, checks: { index } });
    await withHost({ readiness }, async ({ store }, page) => {
      await store.index.swap([], [], {
        started_at: T0,
        finished_at: T0,
        upstream: "https://images.example.org",
        outcome: "failed",
        added: 0,
        changed: 0,
        removed: 0,
        unchanged: 0,
        problems: [{ document: "v1/index.json", message: "Cannot read it", kept: true }],
      });
      const [warning, ...others] = (await page()).warnings as JsonObject[];
      assertEquals(others, []);
      assertEquals(warning?.hint, "zonewright image status");
      const failed = "the last sync of the image index failed: Cannot read it";
      assertEquals(warning?.message, index === ok ? failed : "index: compared 9 s ago");
    });
  }
});

Deno.test("where the disk is full, the database that cannot be written leads to the disk", async () => {
  const failed = (detail: string) => ({ status: "failed", detail }) as const;
  const checks = { store: failed("disk is full"), disk: failed("0 B free") };
  const readiness = () => Promise.resolve({ ready: false, checks });
  await withHost({ readiness }, async (_agent, page) => {
    const hints = ((await page()).warnings as JsonObject[]).map(({ hint }) => hint);
    const hint = "zonewright doctor --running --run disk";
    assertEquals(hints, [hint, hint]);
  });
});

Deno.test("each problem is a separate warning", async () => {
  const check = (status: "warn" | "failed") => ({ status, detail: "old" });
  const changes: Partial<HostSources> = {
    settingsWaiting: () => ["slots", "listen"],
    settingsProblem: () => "Cannot read a.toml",
    readiness: () =>
      Promise.resolve({
        ready: false,
        checks: { index: check("warn"), disk: check("failed"), admission: check("warn") },
      }),
    readings: {
      ...READINGS,
      pool: readerOf({ name: "zones", used_bytes: 1, free_bytes: 1024 ** 3 }),
      walls: readerOf([
        { name: "network", ok: false, detail: "shared" },
        { name: "user", ok: true, detail: "nobody" },
      ]),
    },
  };
  await withHost(changes, async (_agent, page) => {
    const shown = await page();
    assertEquals(codesOf(shown), [
      "index",
      "disk",
      "admission",
      "pool_low",
      "walls_open",
      "settings_not_reloaded",
      "settings_waiting",
    ]);
    const warnings = shown.warnings as JsonObject[];
    assertMatch(String(warnings[2]?.hint), /^zonewright host uncordon gz-7$/);
    const messages = warnings.map(({ message }) => message);
    assertEquals(messages.slice(3), [
      "the pool zones has 1 GiB free, expected 10 GiB",
      "1 of the 2 walls around tasks does not stand: network (shared)",
      "the settings were not reloaded, and the earlier ones apply: Cannot read a.toml",
      "changed settings wait for a restart: slots, listen",
    ]);
  });
});

Deno.test("the page shows the policy by the names of its settings, with forbidden properties", async () => {
  const policy = withoutProperties({ ...DEFAULT_POLICY, ramMiBMax: 4096, brands: ["bhyve"] }, [
    "quota",
    "nics.mac",
  ]);
  await withHost({ policy }, async (_agent, page) => {
    const shown = (await page()).policy as JsonObject;
    assertEquals(
      [shown.ram_mib_max, shown.allow_brand, shown.forbid_property, shown.foreign_machines],
      [4096, ["bhyve"], ["quota", "nics.mac"], "change"],
    );
  });
});

Deno.test("the scope read sees the page; query parameters are refused", async () => {
  const store = await openSqliteStore(":memory:");
  await withTokens(async (agent) => {
    const answer = await agent.call("GET", "/agent/v1/host", undefined, bearer(READ));
    assertDescribed(operation("host"), answer);
    assertEquals(answer.status, 200);
    assertEquals((await agent.call("GET", "/agent/v1/host")).status, 401);
    const other = await agent.call("GET", "/agent/v1/host?fresh=1", undefined, bearer(READ));
    assertEquals(other.status, 409);
  }, { routes: [hostRoutes(hostSources(store))] });
  await store.close();
});

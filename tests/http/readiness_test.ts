import { assertEquals } from "@std/assert";
import type { Admission } from "../../src/domain/host.ts";
import { openAgentReadiness, openMachineList } from "../../src/agent/readiness.ts";
import { readConfig } from "../../src/config/sources.ts";
import {
  openReadiness,
  type ReadinessCheck,
  type ReadinessFinding,
  readinessRoutes,
} from "../../src/http/routes/monitoring.ts";
import type { ProgramFile } from "../../src/runtime/executable.ts";
import { simulatedTransport } from "../../src/host/transport.ts";
import { openVmadm } from "../../src/host/vmadm/vmadm.ts";
import type { ReadingClocks } from "../../src/http/answer/cached_reading.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { T0 } from "../support/job.ts";
import { withFolder } from "../support/until.ts";
import { withHttpAgent } from "./http_agent.ts";
import { selfOfRun } from "../support/agent_process.ts";

const clocksAt = (monotonicMs: () => number): ReadingClocks => ({ now: () => T0, monotonicMs });

const OK: ReadinessFinding = { status: "ok", detail: "fine" };

function checkOf(look: ReadinessCheck["look"], fields: Partial<ReadinessCheck> = {}) {
  return { keepMs: 1000, deadlineMs: 60_000, look, ...fields };
}

Deno.test("GET /readyz answers 200 with a warning, and 503 with a failure, each by its name", async () => {
  let disk: ReadinessFinding = { status: "warn", detail: "little" };
  const readiness = openReadiness({
    store: checkOf(() => Promise.resolve(OK)),
    disk: checkOf(() => Promise.resolve(disk), { keepMs: 0 }),
  }, clocksAt(() => 0));
  await withHttpAgent(async (agent) => {
    const warned = await agent.call("GET", "/readyz");
    assertEquals(warned.status, 200);
    assertEquals(warned.body, { status: "ready", checks: { store: OK, disk } });
    disk = { status: "failed", detail: "none" };
    const failed = await agent.call("GET", "/readyz");
    assertEquals(failed.status, 503);
    assertEquals(failed.body, { status: "not_ready", checks: { store: OK, disk } });
    assertEquals((await agent.call("GET", "/healthz")).status, 200);
  }, { routes: [readinessRoutes(readiness)] });
});

Deno.test("a check's result is cached, and two checks never run at the same time", async () => {
  let looks = 0;
  let ms = 0;
  const gate = Promise.withResolvers<ReadinessFinding>();
  const answers = [gate.promise, Promise.resolve(OK)];
  const readiness = openReadiness({
    host: checkOf(() => answers[looks++] ?? Promise.resolve(OK)),
  }, clocksAt(() => ms));
  const both = [readiness(), readiness()];
  gate.resolve(OK);
  await Promise.all(both);
  await readiness();
  assertEquals(looks, 1);
  ms = 1000;
  await readiness();
  assertEquals(looks, 2);
});

Deno.test("a check that throws or never ends counts as failed, with its reason", async () => {
  const readiness = openReadiness({
    host: checkOf(() => Promise.reject(new Error("no vmadm"))),
    store: checkOf(() => new Promise(() => {}), { deadlineMs: 20 }),
    disk: checkOf(
      (signal) =>
        new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
      { deadlineMs: 20 },
    ),
  }, clocksAt(() => 0));
  const late = { status: "failed", detail: "no answer within 20 ms" } as const;
  assertEquals(await readiness(), {
    ready: false,
    checks: { host: { status: "failed", detail: "no vmadm" }, store: late, disk: late },
  });
});

Deno.test("readiness covers the store, the disk, the guests, the host and the index", async () => {
  await withFolder(async (stateDir) => {
    const store = await openSqliteStore(":memory:");
    try {
      const config = readConfig({
        flags: { host: "simulated", index: "https://index.example.com", "state-dir": stateDir },
        env: {},
        cwd: "/",
        os: "linux",
      });
      let now = "2026-11-20T12:00:00.000Z";
      let free = 1e12;
      let admission: Admission = "open";
      let startProblem: string | undefined;
      let programState: ProgramFile["state"] = "same";
      const vmadm = openVmadm(simulatedTransport({ self: selfOfRun(), stateDir }));
      const ask = async (host = vmadm) => {
        const freeBytes = () => Promise.resolve(free);
        const machines = openMachineList({ now: () => now }, host);
        const program = () => Promise.resolve({ file: "/opt/zonewright", state: programState });
        const guests = { startProblem };
        const runner = { admission };
        const places = { store, machines, stateDir, freeBytes, runner, guests, program };
        const { ready, checks } = await openAgentReadiness({ config, now: () => now }, places)();
        const found = Object.entries(checks).map(([name, { status }]) => [name, status]);
        return [ready, Object.fromEntries(found)];
      };
      const fine = { store: "ok", disk: "ok", guests: "ok", host: "ok", admission: "ok" };
      assertEquals(await ask(), [false, { ...fine, index: "failed" }]);
      const counts = { added: 0, changed: 0, removed: 0, unchanged: 0, problems: [] };
      const sync = { started_at: T0, finished_at: T0, upstream: "x", outcome: "complete" } as const;
      await store.index.swap([], [], { ...sync, ...counts, compared_at: now });
      assertEquals(await ask(), [true, { ...fine, index: "ok" }]);
      now = "2026-11-22T12:00:00.000Z";
      assertEquals(await ask(), [true, { ...fine, index: "warn" }]);
      free = 1e6;
      const mute = { ...vmadm, list: () => Promise.reject(new Error("no vmadm")) };
      const worse = { ...fine, disk: "failed", host: "failed", index: "warn" };
      assertEquals(await ask(mute), [false, worse]);
      free = 1e12;
      for (
        const [word, ready, status] of [["cordoned", true, "warn"], [
          "forgotten",
          false,
          "failed",
        ]] as const
      ) {
        admission = word;
        assertEquals(await ask(), [ready, { ...fine, index: "warn", admission: status }]);
      }
      admission = "open";
      programState = "replaced";
      assertEquals(await ask(), [true, { ...fine, index: "warn", guests: "warn" }]);
      startProblem = "its process ended with exit code 1";
      assertEquals(await ask(), [false, { ...fine, index: "warn", guests: "failed" }]);
      [startProblem, programState] = [undefined, "removed"];
      assertEquals(await ask(), [false, { ...fine, index: "warn", guests: "failed" }]);
    } finally {
      await store.close();
    }
  });
});

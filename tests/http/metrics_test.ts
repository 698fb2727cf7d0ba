// /metrics of an application with everything that it measures, but a runner.

import { assert, assertEquals } from "@std/assert";
import type { MachineUuid } from "../../src/domain/id.ts";
import { countedConsoles } from "../../src/agent/host.ts";
import { agentMetrics, countedStore } from "../../src/agent/monitoring.ts";
import { metricsRoutes } from "../../src/http/routes/monitoring.ts";
import { type Meters, openMeters } from "../../src/metrics/meters.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { Store } from "../../src/store/store.ts";
import { readExposition, type ReadFamily, valueOf } from "../metrics/exposition_reader.ts";
import { jobOf, RUNNER, T0 } from "../support/job.ts";
import { findProgram, programTest } from "../support/program.ts";
import { type HttpAgent, jobIn, newJob, NO_MACHINES, withHttpAgent } from "./http_agent.ts";
import { NO_LIMIT } from "../support/limits.ts";

interface Measured {
  readonly agent: HttpAgent;
  readonly store: Store;
  readonly meters: Meters;
  text(): Promise<string>;
  families(): Promise<ReadFamily[]>;
}

async function withMeasured(run: (measured: Measured) => Promise<void>): Promise<void> {
  const meters = openMeters();
  const file = await openSqliteStore(":memory:");
  const store = countedStore(file, meters);
  let now = T0;
  const routes = metricsRoutes(() =>
    agentMetrics({
      meters,
      store,
      hostUuid: RUNNER,
      slots: 4,
      build: { version: "0.1.0" },
      startedAt: T0,
      now: () => now,
    })
  );
  try {
    await withHttpAgent(async (agent) => {
      const text = async () => {
        now = agent.clock.now;
        const answer = await agent.call("GET", "/metrics");
        const type = answer.headers.get("content-type");
        assertEquals([answer.status, type], [200, "text/plain; version=0.0.4; charset=utf-8"]);
        return answer.text;
      };
      const families = async () => readExposition(await text());
      await run({ agent: { ...agent, store }, store, meters, text, families });
    }, { store, routes: [routes], requests: meters });
  } finally {
    await file.close();
  }
}

Deno.test("/metrics keeps the format and the conventions, and no label is a uuid", async () => {
  await withMeasured(async ({ agent, text }) => {
    const uuid = await jobIn(agent, "succeeded");
    await agent.call("GET", `/jobs/${uuid}`);
    await agent.call("GET", `/jobs/${uuid}/nonsense-${uuid}`);
    const shown = await text();
    readExposition(shown);
    assert(!/[0-9a-f]{8}-[0-9a-f]{4}-/.test(shown), "a uuid is in the metrics");
    assert(!shown.includes("nonsense"), "a path is in the metrics");
  });
});

Deno.test("/metrics shows nothing that the table of docs/operations.md leaves out", async () => {
  const table = await Deno.readTextFile(new URL("../../docs/operations.md", import.meta.url));
  await withMeasured(async ({ families }) => {
    const names = (await families()).map(({ name }) => name.replace(/^zonewright_/, ""));
    const reported = (name: string) => new RegExp("`" + name + "[`{,]").test(table);
    assertEquals(names.filter((name) => !reported(name)), []);
  });
});

programTest("promtool", "/metrics passes promtool check metrics", async () => {
  await withMeasured(async ({ agent, text }) => {
    await jobIn(agent, "failed");
    const promtool = findProgram("promtool") ?? "";
    const process = new Deno.Command(promtool, {
      args: ["check", "metrics"],
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const writer = process.stdin.getWriter();
    await writer.write(new TextEncoder().encode(await text()));
    await writer.close();
    const { code, stdout, stderr } = await process.output();
    const decoder = new TextDecoder();
    assertEquals([code, decoder.decode(stdout), decoder.decode(stderr)], [0, "", ""]);
  });
});

Deno.test("a request is counted under its route's pattern, method and status", async () => {
  await withMeasured(async ({ agent, families }) => {
    const uuid = await newJob(agent);
    await agent.call("GET", `/jobs/${uuid}`);
    await agent.call("HEAD", `/jobs/${uuid}`);
    await agent.call("GET", "/jobs/no-uuid");
    await agent.call("GET", "/nowhere");
    await agent.call("DELETE", "/stats");
    await agent.call("GET", "/stats", undefined, { origin: "https://elsewhere.example" });
    const read = await families();
    const count = (route: string, method: string, code: string) =>
      valueOf(read, "http_requests_total", { route, method, code });
    assertEquals(count("/jobs", "POST", "201"), 1);
    assertEquals(count("/jobs/:job_uuid", "GET", "200"), 1);
    assertEquals(count("/jobs/:job_uuid", "HEAD", "200"), 1);
    assertEquals(count("none", "GET", "404"), 1);
    assertEquals(count("none", "DELETE", "405"), 1);
    assertEquals(count("none", "GET", "403"), 1);
    const times = { route: "/jobs/:job_uuid", method: "HEAD" };
    assertEquals(valueOf(read, "http_request_duration_seconds_count", times), 1);
  });
});

Deno.test("jobs are shown by execution, and their ends are counted once each", async () => {
  await withMeasured(async ({ agent, store, families }) => {
    for (const end of ["succeeded", "failed", "canceled", "queued", "succeeded"] as const) {
      await jobIn(agent, end);
    }
    const canceled = (await store.jobs.list({ execution: "canceled" }))[0]?.job.uuid;
    assertEquals((await agent.call("POST", `/jobs/${canceled}/cancel`, {})).status, 409);
    const read = await families();
    const jobs = (execution: string) => valueOf(read, "jobs", { execution });
    // Claiming takes what is due, so that the queued one runs since the last was claimed.
    assertEquals(["succeeded", "failed", "canceled", "running"].map(jobs), [2, 1, 1, 1]);
    const ended = (result: string) => valueOf(read, "jobs_total", { result });
    assertEquals(["succeeded", "failed", "canceled", "retried"].map(ended), [2, 1, 1, 0]);
    assertEquals(valueOf(read, "jobs_created_total"), 5);
  });
});

Deno.test("the age of the queue is that of the job that could have run longest", async () => {
  await withMeasured(async ({ agent, store, families }) => {
    const age = async () => valueOf(await families(), "queue_oldest_age_seconds");
    assertEquals(await age(), 0);
    const at = (time: string) => `2026-11-20T${time}.000Z`;
    agent.clock.now = at("14:00:00");
    const made = { created_at: at("13:00:00") };
    await store.jobs.create(jobOf(1, { ...made, exec_after: at("15:00:00") }), NO_LIMIT);
    assertEquals(await age(), 0);
    await store.jobs.create(jobOf(2, { ...made, exec_after: at("13:59:30") }), NO_LIMIT);
    assertEquals(await age(), 30);
    agent.clock.now = at("12:00:00");
    assertEquals(await age(), 0);
  });
});

Deno.test("bytes that were placed and bytes that are kept are shown", async () => {
  await withMeasured(async ({ meters, store, families }) => {
    meters.media.placed += 700;
    const sha256 = "a".repeat(64);
    const file = { sha256, name: "a.iso", path: null, size: 300, source: "url" } as const;
    const rest = { origin: "https://example.com/a", label: "a", level: "index" } as const;
    const times = { created_at: T0, last_used_at: T0, verified_at: T0 };
    const download = { packed: "none", sha256, sha512: null };
    await store.media.keep({ ...file, ...rest, ...times }, download);
    const read = await families();
    assertEquals(valueOf(read, "media_placed_bytes_total"), 700);
    assertEquals(valueOf(read, "media_downloaded_bytes_total"), 0);
    assertEquals(valueOf(read, "media_cache_bytes"), 300);
  });
});

Deno.test("a console is counted while it is open, however often it is closed", async () => {
  await withMeasured(async ({ meters, families }) => {
    const stream = {
      greeting: new Uint8Array(),
      read: () => Promise.resolve(null),
      write: () => Promise.resolve(),
      close: () => {},
    };
    const vmadm = { ...NO_MACHINES, connectVnc: () => Promise.resolve(stream) };
    const address = { host: "127.0.0.1", port: 5900, display: 0 };
    const sessions = async () => valueOf(await families(), "vnc_sessions");
    const console = await countedConsoles(vmadm, meters).connectVnc(address);
    assertEquals(await sessions(), 1);
    console.close();
    console.close();
    assertEquals(await sessions(), 0);
    assertEquals(await countedConsoles(vmadm, meters).get("x" as MachineUuid), null);
  });
});

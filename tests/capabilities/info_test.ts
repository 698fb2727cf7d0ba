import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { openProgress } from "../../src/capabilities/info.ts";
import { AgentError } from "../../src/domain/error.ts";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import type { CapabilityName } from "../../src/wall/protocol.ts";
import { T0, uuidOf } from "../support/job.ts";
import { callsOf, notesOf, withHost } from "./simulated_host.ts";
import { isoBytes } from "../support/medium.ts";
import { smallDiskTest, withSmallDisk } from "../support/small_disk.ts";
import { heldTimers } from "../support/timers.ts";
import { until, withFolder } from "../support/until.ts";

const { signal } = new AbortController();
const { taskInfoCharsMax, taskInfoEntriesMax } = DEFAULT_LIMITS;

Deno.test("info() appends its object to the info of the job", async () => {
  await withHost(async ({ store, newJob }) => {
    const { uuid, perform } = await newJob(1);
    await perform("info", [{ done: 1, more: { deep: [1] } }], signal);
    await perform("info", [{}], signal);
    assertEquals(await store.info.list(uuid), [{ done: 1, more: { deep: [1] } }, {}]);
  });
});

Deno.test("info() accepts only objects, and refuses large ones", async () => {
  await withHost(async ({ store, newJob }) => {
    const { uuid, perform } = await newJob(1);
    for (const args of [[], ["x"], [null], [[1]], [5]]) {
      const error = await assertRejects(() => perform("info", args, signal), AgentError);
      assertEquals(error.code, "invalid_argument");
    }
    const large = () => perform("info", [{ text: "x".repeat(taskInfoCharsMax) }], signal);
    assertEquals((await assertRejects(large, AgentError)).code, "too_large");
    assertEquals(await store.info.list(uuid), []);
  });
});

Deno.test("info() refuses entries beyond the limit of one execution", async () => {
  await withHost(async ({ store, performFor, newJob }) => {
    const { uuid, perform } = await newJob(1);
    for (let entry = 1; entry <= taskInfoEntriesMax; entry += 1) {
      await perform("info", [{ entry }], signal);
    }
    const error = await assertRejects(() => perform("info", [{}], signal), AgentError);
    assertEquals(error.code, "too_large");
    // Log lines are dropped, since no task fails for logging too much.
    assertEquals(await perform("log.info", ["one more"], signal), null);
    assertEquals((await store.info.list(uuid))?.length, taskInfoEntriesMax);
    const next = performFor({ job_uuid: uuid, task_name: "next", signal });
    assertEquals(await next("info", [{}], signal), null);
  });
});

const timers = heldTimers();
/** Too large for what a full disk has left. */
const LARGE = { text: "x".repeat(60_000) };
const ROOMY = { taskInfoCharsMax: 100_000, taskLogCharsMax: 100_000 };

smallDiskTest(
  "a full disk of the store fails no task: info() waits for room beyond its deadline, log.*() drops its line",
  () =>
    withFolder((storeDir) =>
      withSmallDisk(storeDir, 2, () =>
        withHost(async ({ store, newJob, lines }) => {
          const { uuid, perform } = await newJob(1);
          const filler = join(storeDir, "filler");
          await assertRejects(() => Deno.writeFile(filler, new Uint8Array(4 << 20)));
          const noting = perform("info", [LARGE], signal);
          const waits = () => lines.some((line) => line.includes("task waits for the store"));
          await until("the task to wait", waits);
          timers.advance(3_600_000);
          assertEquals(await perform("log.info", [LARGE.text], signal), null);
          await Deno.remove(filler);
          assertEquals(await noting, null);
          assertEquals(await store.info.list(uuid), [LARGE]);
        }, { storeDir, timers, limits: ROOMY }))
    ),
);

Deno.test("info() of a job that is gone is refused", async () => {
  await withHost(async ({ performFor }) => {
    const perform = performFor({ job_uuid: uuidOf<JobUuid>(404), task_name: "t", signal });
    const error = await assertRejects(() => perform("info", [{}], signal), AgentError);
    assertEquals(error.code, "not_found");
  });
});

Deno.test("log.*() writes to the agent's log with job and task, and to the info of the job", async () => {
  await withHost(async ({ store, newJob, lines }) => {
    const { uuid, perform } = await newJob(1);
    for (const level of ["debug", "info", "warn", "error"] as const) {
      lines.length = 0;
      const name: CapabilityName = `log.${level}`;
      assertEquals(await perform(name, [`said\n${level}`, { n: 1 }], signal), null);
      const logged = JSON.parse(lines[0] ?? "{}");
      assertEquals([logged.level, logged.message, logged.job_uuid, logged.task_name], [
        level,
        `said\n${level}`,
        uuid,
        "t",
      ]);
      assertEquals(lines.join("").includes("\n"), false);
    }
    assertEquals((await notesOf(store, uuid))[0], {
      task: "t",
      log: "debug",
      message: "said\ndebug",
      fields: { n: 1 },
    });
  });
});

Deno.test("log.*() masks secrets by their names, in the message and at any depth of the fields", async () => {
  await withHost(async ({ store, newJob, lines }) => {
    const { uuid, perform } = await newJob(1);
    const secret = "hunter2222";
    const fields = {
      vnc_password: secret,
      params: { customer_metadata: [{ root_pw: secret }], admin_pw: { deep: secret }, pwd: "kept" },
      said: `spice_password=${secret}`,
    };
    await perform("log.warn", [`made with {"root_pw":"${secret}"}`, fields], signal);
    const [entry] = await notesOf(store, uuid);
    assert(!JSON.stringify([entry, lines]).includes(secret), JSON.stringify(entry));
    assertEquals(entry?.fields, {
      vnc_password: "***",
      params: { customer_metadata: "***", admin_pw: "***", pwd: "kept" },
      said: 'spice_password="***"',
    });
  });
});

Deno.test("log.*() accepts any message and cuts a long one", async () => {
  await withHost(async ({ store, newJob }) => {
    const { uuid, perform } = await newJob(1);
    await perform("log.info", [{ a: 1 }], signal);
    await perform("log.info", ["x".repeat(100_000)], signal);
    const [first, second] = await notesOf(store, uuid);
    assertEquals(first?.message, '{"a":1}');
    assert(String(second?.message).length < 10_000);
    const missing = await assertRejects(() => perform("log.info", [], signal), AgentError);
    assertEquals(missing.code, "invalid_argument");
    const fields = await assertRejects(() => perform("log.info", ["x", 5], signal), AgentError);
    assertEquals(fields.code, "invalid_argument");
  });
});

/** The progress entries that finding a file of so many bytes writes, by a clock of such steps. */
async function progressOf(bytes: number, stepMs: number): Promise<JsonObject[]> {
  let calls = 0;
  const found: JsonObject[] = [];
  await withHost(async ({ store, newJob, mediaDir }) => {
    const { uuid, perform } = await newJob(1);
    const path = join(mediaDir, "large.iso");
    await Deno.writeFile(path, isoBytes(bytes));
    await perform("media.find", [{ path }], signal);
    const calls = (await callsOf(store, uuid)).length;
    for (const { task, progress } of (await store.info.list(uuid) ?? []).slice(0, -calls)) {
      assertEquals(task, "t");
      assert(isJsonObject(progress));
      found.push(progress);
    }
  }, { now: () => instantAfter(T0, stepMs * calls++) });
  return found;
}

const MIB = 1024 * 1024;

Deno.test("the progress of a long call is written less and less often", async () => {
  let seconds = 0;
  const now = () => instantAfter(T0, seconds * 1000);
  await withHost(async ({ store, log, newJob }) => {
    const { uuid } = await newJob(1);
    const deps = { store, log, now, limits: DEFAULT_LIMITS };
    const progress = openProgress(deps, { job_uuid: uuid, task_name: "t" });
    const total = 12 * 3600;
    for (; seconds < total; seconds += 1) progress.report("download", seconds, total);
    progress.report("download", total, total);
    await progress.end();
    const entries = await store.info.list(uuid) ?? [];
    assert(entries.length > 300 && entries.length < 700, `${entries.length} entries`);
    const last = { task: "t", progress: { phase: "download", done: total, total, rate: 1 } };
    assertEquals(entries.at(-1), last);
  });
});

Deno.test("progress is written once a second, and at the end", async () => {
  const total = 8 * MIB;
  const fast = await progressOf(total, 1);
  assertEquals(fast.map(({ rate: _, ...reported }) => reported), [
    { phase: "verify", done: MIB, total },
    { phase: "verify", done: total, total },
  ]);
  assertEquals(fast[0]?.rate, null);
  const slow = await progressOf(total, 400);
  assertEquals(slow.at(-1), { phase: "verify", done: total, total, rate: MIB * 1000 / 400 });
  assertEquals(slow.map(({ done }) => Number(done) / MIB), [1, 4, 7, 8]);
});

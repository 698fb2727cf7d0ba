// Following jobs: the real HTTP application and store; the test does what a runner would do, and
// waits for what a person would see.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import { endOf, readJob } from "../../src/cli/client/job.ts";
import {
  BODY,
  claimAll,
  endTask,
  holdOf,
  type HttpAgent,
  jobIn,
  newJob,
  newWorkflow,
  withHttpAgent,
} from "../http/http_agent.ts";
import { until } from "../support/until.ts";
import { said, type Screen, screenFor, type ScreenOptions } from "./screen.ts";
import { NO_LIMIT } from "../support/limits.ts";

const MIB = 1_048_576;

/** A followed job, under way. */
interface Following {
  readonly agent: HttpAgent;
  readonly screen: Screen;
  readonly uuid: JobUuid;
  readonly ended: Promise<number>;
  info(entry: Record<string, unknown>): Promise<void>;
  /** Waits until standard error holds this. */
  sees(text: string): Promise<unknown>;
}

/** Runs a function beside `job run` with these flags, on a workflow of two tasks. */
function following(
  flags: readonly string[],
  run: (following: Following) => Promise<void>,
  options: ScreenOptions = {},
): Promise<void> {
  return withHttpAgent(async (agent) => {
    const chain = [{ name: "place", body: BODY }, { name: "boot", body: BODY }];
    const workflow = await newWorkflow(agent, { name: "provision", chain });
    const screen = screenFor(agent.url, options);
    const ended = screen.run("job", "run", workflow, ...flags);
    const listed = await until("the job", async () => (await agent.store.jobs.list({}))[0]);
    const { uuid } = listed.job;
    await run({
      agent,
      screen,
      uuid,
      ended,
      info: async (entry) => {
        // What a test tells is JSON.
        await agent.store.info.append(
          uuid,
          JSON.parse(JSON.stringify(entry)),
          agent.clock.now,
          NO_LIMIT,
        );
      },
      sees: (text) => until(JSON.stringify(text), () => screen.err().includes(text)),
    });
    await ended;
  });
}

/** Lines without the time that each of them begins with; one without is a failure. */
function untimed(text: string): string[] {
  return text.split("\n").map((line) => {
    if (line === "") return line;
    const [, rest] = /^(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d (.*)$/.exec(line) ?? [];
    assert(rest !== undefined, `no time: ${line}`);
    return rest;
  });
}

/** Records the end of a task that took some milliseconds. */
async function end(
  { agent, uuid }: Following,
  name: string,
  next: Parameters<typeof endTask>[2],
  ms: number,
  error = "",
): Promise<void> {
  const finished_at = new Date(Date.parse(agent.clock.now) + ms).toISOString();
  await endTask(agent, uuid, next, { name, error, finished_at });
}

const SUCCEEDED = { kind: "succeed" } as const;
const FAILED = { kind: "fail", onerror: false } as const;

Deno.test("--follow off a terminal prints one line per step, message and quarter", () =>
  following(["--follow"], async (job) => {
    await job.sees("queued, waiting for a slot\n");
    await claimAll(job.agent);
    for (const share of [1, 10, 26, 30, 51, 99, 100]) {
      await job.info({
        task: "place",
        progress: { phase: "copy", done: share * MIB, total: 100 * MIB },
      });
    }
    await job.info({ task: "place", message: "sees the medium as /a.iso\x1b[2J" });
    await job.sees("sees the medium");
    await end(job, "place", { kind: "continue" }, 1_500);
    await job.info({ task: "boot", message: "booting" });
    await job.sees("booting\n");
    await end(job, "boot", SUCCEEDED, 100);
    assertEquals(await job.ended, 0);
    assertEquals(untimed(job.screen.err()), [
      "queued, waiting for a slot",
      "place: copy 26 MiB / 100 MiB (26 %)",
      "place: copy 51 MiB / 100 MiB (51 %)",
      "place: copy 99 MiB / 100 MiB (99 %)",
      "place: copy 100 MiB / 100 MiB (100 %)",
      "place: sees the medium as /a.iso\\x1b[2J",
      "place ok 1.5 s",
      "boot: booting",
      "boot ok 0.1 s",
      "",
    ]);
    assertEquals(job.screen.out().split("\n"), [
      `job      ${job.uuid}`,
      "state    succeeded",
      "elapsed  0.0 s",
      "",
    ]);
  }));

Deno.test("--follow exits 5 and names the failed task and its error", () =>
  following(["--follow"], async (job) => {
    await claimAll(job.agent);
    await end(job, "place", FAILED, 40, "no space");
    assertEquals(await job.ended, 5);
    assertStringIncludes(job.screen.err(), "place failed 0.0 s: no space\n");
    assertStringIncludes(
      job.screen.err(),
      `zonewright: Job ${job.uuid} failed in place: no space\n` +
        `hint: zonewright job why ${job.uuid}  shows its attempts and log\n` +
        `hint: zonewright job retry ${job.uuid}  to create it again\n`,
    );
  }));

Deno.test("job tail of a failed job that was retried names the job that repeats it", () =>
  withHttpAgent(async (agent) => {
    const uuid = await jobIn(agent, "failed");
    const retried = await said(agent, ["job", "retry", uuid]);
    const tail = await said(agent, ["job", "tail", uuid]);
    assertEquals([retried.code, tail.code], [0, 5]);
    const next = `hint: zonewright job why ${retried.out().trim()}  the job that repeats it\n`;
    assertStringIncludes(tail.err(), next);
    assertEquals(tail.err().includes("job retry"), false);
  }));

Deno.test("job tail of a job that asked to be created again says why it was not", () =>
  withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    await claimAll(agent);
    await agent.store.jobs.recordTask({
      ...await holdOf(agent, uuid),
      props: { next_attempt_refused: "job 1 locks the target" },
      elapsed_ms: 10,
      event: { kind: "cb_retry" },
    });
    const tail = await said(agent, ["job", "tail", uuid]);
    assertEquals(tail.code, 5);
    const ended = `Job ${uuid} asked to be created again, but was not: job 1 locks the target\n` +
      `hint: zonewright job retry ${uuid}  to create it again\n`;
    assertStringIncludes(tail.err(), ended);
  }));

Deno.test("--wait shows the end of the job, the failed task, its error and the time it took", () =>
  following(["--wait"], async (job) => {
    await claimAll(job.agent);
    await end(job, "place", { kind: "continue" }, 40);
    job.agent.clock.now = instantAfter(job.agent.clock.now, 65_000);
    await end(job, "boot", FAILED, 0, "no such device\x1b[2J");
    assertEquals(await job.ended, 5);
    assertEquals(job.screen.out().split("\n"), [
      `job      ${job.uuid}`,
      "state    failed",
      "task     boot",
      "error    no such device\\x1b[2J",
      "elapsed  1 m 05 s",
      "",
    ]);
  }));

Deno.test("--follow reads a long info in parts", () =>
  following(["--follow"], async (job) => {
    await claimAll(job.agent);
    const count = 2_345;
    await Promise.all(
      Array.from({ length: count }, (_, index) => job.info({ message: `message ${index}` })),
    );
    await end(job, "place", { kind: "continue" }, 10);
    await end(job, "boot", SUCCEEDED, 10);
    assertEquals(await job.ended, 0);
    const reported = untimed(job.screen.err()).filter((line) => line.startsWith("message "));
    assertEquals(reported, Array.from({ length: count }, (_, index) => `message ${index}`));
  }));

Deno.test("--follow and job tail show lines of a log with level, fields and failed attempts", () =>
  following(["--follow"], async (job) => {
    // The job as it was read first comes behind the lines of that time.
    await job.sees("queued");
    await claimAll(job.agent);
    await job.info({ task: "place", log: "warn", message: "slow", fields: { disk: 2 } });
    await job.info({ task: "place", log: "info", message: "on", fields: {} });
    const hold = await holdOf(job.agent, job.uuid);
    const { now } = job.agent.clock;
    const attempt = {
      ...{ task: "place", index: 0, attempt: 1, fallback: false, error: "no space" },
      ...{ started_at: now, finished_at: now, wait_seconds: 5 },
    };
    assert(
      await job.agent.store.jobs.recordAttempt({ ...hold, attempt, failures: 0, elapsed_ms: 0 }),
    );
    await job.sees("attempt 1 failed");
    await end(job, "place", FAILED, 40, "no space");
    assertEquals(await job.ended, 5);
    const shown = [
      'place: warn: slow {"disk":2}',
      "place: on",
      "place: warn: attempt 1 failed: no space; the next one follows after 5 s",
      "place failed 0.0 s: no space",
    ];
    assertEquals(untimed(job.screen.err().split("zonewright: ")[0] ?? "").slice(-5, -1), shown);
    const tail = screenFor(job.agent.url);
    assertEquals(await tail.run("job", "tail", job.uuid), 5);
    assertEquals(untimed(tail.out()), [...shown, ""]);
  }));

Deno.test("a step's lines come before its end, however many arrive at once", () =>
  withHttpAgent(async (agent) => {
    const chain = [{ name: "place", body: BODY }, { name: "boot", body: BODY }];
    const workflow = await newWorkflow(agent, { name: "provision", chain });
    const uuid = await newJob(agent, { workflow }) as JobUuid;
    await claimAll(agent);
    const say = (task: string, n: number) =>
      agent.store.info.append(uuid, { task, message: `${n}` }, agent.clock.now, NO_LIMIT);
    const count = 1_200;
    for (let n = 0; n < count; n++) await say("place", n);
    await endTask(agent, uuid, { kind: "continue" }, { name: "place" });
    for (let n = 0; n < count; n++) await say("boot", n);
    await endTask(agent, uuid, SUCCEEDED, { name: "boot" });
    const tail = screenFor(agent.url);
    assertEquals(await tail.run("job", "tail", uuid), 0);
    const numbers = Array.from({ length: count }, (_, n) => n);
    assertEquals(untimed(tail.out()), [
      ...[...numbers.map((n) => `place: ${n}`), "place ok 0.0 s"],
      ...[...numbers.map((n) => `boot: ${n}`), "boot ok 0.0 s", ""],
    ]);
  }));

Deno.test("a line about a task that has not started is shown", () =>
  following(["--follow"], async (job) => {
    await claimAll(job.agent);
    await job.info({ task: "boot", message: "soon" });
    await job.sees("boot: soon\n");
    await job.info({ task: "place", message: "on" });
    await job.sees("place: on\n");
    await end(job, "place", { kind: "continue" }, 10);
    await end(job, "boot", SUCCEEDED, 10);
    assertEquals(await job.ended, 0);
  }));

Deno.test("--follow --json and job tail --json print one object a line, the job last", () =>
  following(["--follow", "--json"], async (job) => {
    await claimAll(job.agent);
    await job.info({ task: "place", message: "one" });
    await job.info({ task: "place", progress: { phase: "copy", done: 1, total: 2 } });
    await until("the progress", () => job.screen.out().includes('"progress":{'));
    await end(job, "place", { kind: "continue" }, 40);
    await job.info({ task: "boot", message: "two" });
    await end(job, "boot", FAILED, 100, "no such device");
    assertEquals(await job.ended, 5);
    const tail = screenFor(job.agent.url);
    assertEquals(await tail.run("job", "tail", job.uuid, "--json"), 5);
    for (const screen of [job.screen, tail]) {
      const lines = screen.out().trimEnd().split("\n").map((line) => JSON.parse(line));
      const said = lines.filter(({ kind }) => kind !== "job").map((line) => [
        line.kind,
        line.task ?? line.result?.uuid,
        line.message ?? line.progress?.done ?? line.state ?? line.result?.execution,
      ]);
      assertEquals(said, [
        ["log", "place", "one"],
        ["log", "place", 1],
        ["task", "place", "done"],
        ["log", "boot", "two"],
        ["task", "boot", "failed"],
        ["end", job.uuid, "failure"],
      ]);
      assertEquals(lines.filter(({ kind }) => kind === "job").at(-1).state, "failed");
      assert(lines.slice(0, -1).every(({ job_uuid }) => job_uuid === job.uuid));
      const { code, exit_code } = JSON.parse(screen.err());
      assertEquals([code, exit_code], ["job_failed", 5]);
    }
  }));

Deno.test("--wait prints no steps, and exits 7 for a canceled job", () =>
  following(["--wait", "--json"], async (job) => {
    await claimAll(job.agent);
    await job.agent.call("POST", `/jobs/${job.uuid}/cancel`, {});
    assertEquals(await job.ended, 7);
    assertEquals(JSON.parse(job.screen.out()).execution, "canceled");
    assertEquals(JSON.parse(job.screen.err()), {
      code: "canceled",
      message: `Job ${job.uuid} was canceled`,
      hint: `zonewright job retry ${job.uuid}  to create it again`,
      exit_code: 7,
    });
  }));

Deno.test("--timeout exits 124, says how to go on, and leaves the job alone", () =>
  following(["--wait", "--timeout", "1s"], async (job) => {
    assertEquals(await job.ended, 124);
    assertStringIncludes(job.screen.err(), `Gave up waiting for job ${job.uuid}`);
    assertStringIncludes(job.screen.err(), `hint: zonewright job tail ${job.uuid}`);
    assertEquals((await job.agent.store.jobs.get(job.uuid))?.execution, "queued");
  }));

Deno.test("Ctrl-C exits 130, says how to go on, and leaves the job alone", () =>
  following(["--follow"], async (job) => {
    await job.sees("queued, waiting for a slot\n");
    job.screen.interrupt();
    assertEquals(await job.ended, 130);
    assertStringIncludes(job.screen.err(), `Stopped watching job ${job.uuid}: it continues`);
    assertStringIncludes(job.screen.err(), `hint: zonewright job cancel ${job.uuid}`);
    assertEquals((await job.agent.store.jobs.get(job.uuid))?.execution, "queued");
  }));

Deno.test("--follow shows a job that waits, and its steps after it was resumed", () =>
  following(["--follow"], async (job) => {
    await claimAll(job.agent);
    await end(job, "place", { kind: "cb_wait" }, 10, "wait");
    await job.sees("waiting for zonewright job resume\n");
    assertEquals(job.screen.err().includes("place ok"), false);
    await job.agent.call("POST", `/jobs/${job.uuid}/resume`, {});
    await job.sees("place ok");
    await claimAll(job.agent);
    await end(job, "boot", SUCCEEDED, 100);
    assertEquals(await job.ended, 0);
  }));

Deno.test("--follow on a terminal keeps ended steps and moves one line", () =>
  following(["--follow"], async (job) => {
    await claimAll(job.agent);
    for (const done of [100, 412]) {
      await job.info({
        task: "place",
        progress: { phase: "copy", done: done * MIB, total: 631 * MIB },
      });
      await job.sees(`copy ${done} MiB / 631 MiB`);
    }
    await job.sees("65 %");
    await job.info({ task: "place", message: "631 MiB" });
    await end(job, "place", { kind: "continue" }, 2_100);
    await job.sees("boot");
    await end(job, "boot", FAILED, 300, "no such device");
    assertEquals(await job.ended, 5);
    const lines = job.screen.err().split("\n").map((line) => line.split("\r\x1b[2K").at(-1) ?? "");
    assertEquals(lines.slice(0, 3).map((line) => line.replace(/ {3,}/g, "   ")), [
      "  2026-01-01 12:00:00 place: 631 MiB",
      "✓ place   2.1 s",
      "✗ boot   no such device   0.3 s",
    ]);
    // Every line of a step fits into the window of 101 columns, so that none is broken.
    assert(lines.slice(1, 3).every((line) => [...line].length === 100));
    const moving = job.screen.err().split("\r\x1b[2K").filter((line) => !line.endsWith("\n"));
    assert(moving.every((line) => [...line].length <= 100));
    assert(job.screen.err().includes("eta "));
  }, { isTerminal: true, columns: 101, env: { NO_COLOR: "1" } }));

Deno.test("--follow with TERM=dumb moves nothing", () =>
  following(["--follow"], async (job) => {
    await claimAll(job.agent);
    await end(job, "place", { kind: "continue" }, 10);
    await end(job, "boot", SUCCEEDED, 10);
    assertEquals(await job.ended, 0);
    assertEquals(job.screen.err().includes("\x1b"), false);
    assertStringIncludes(job.screen.err(), "boot ok 0.0 s\n");
  }, { isTerminal: true, columns: 60, env: { TERM: "dumb" } }));

Deno.test("job tail prints a finished job like a running one", () =>
  withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const run = screenFor(agent.url);
    await run.run("job", "run", workflow);
    const uuid = run.out().trim() as JobUuid;
    await claimAll(agent);
    await agent.store.info.append(uuid, { "10%": "copied" }, agent.clock.now, NO_LIMIT);
    await endTask(agent, uuid, SUCCEEDED);
    const tail = screenFor(agent.url);
    assertEquals(await tail.run("job", "tail", uuid), 0);
    assertEquals(untimed(tail.out()), ['{"10%":"copied"}', "first ok 0.0 s", ""]);
    const wait = screenFor(agent.url);
    assertEquals([await wait.run("job", "wait", uuid), wait.out()], [0, "succeeded\n"]);
  }));

Deno.test("job wait and job tail exit 4 for a missing job", () =>
  withHttpAgent(async (agent) => {
    for (const verb of ["wait", "tail"]) {
      assertEquals(await screenFor(agent.url).run("job", verb, "nothing"), 4);
    }
  }));

Deno.test("endOf() knows the words of both conventions", () => {
  const end = (execution: string) => endOf(readJob({ execution }));
  assertEquals(["success", "succeeded", "failure", "failed", "canceled", "retried"].map(end), [
    "success",
    "success",
    "failure",
    "failure",
    "canceled",
    "retried",
  ]);
  assertEquals(["queued", "running", "waiting", "later"].map(end), [
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});

Deno.test("readJob() shows the running step of a fallback chain, and errors that are objects", () => {
  const job = readJob({
    execution: "running",
    chain: [{ name: "a" }, { name: "b" }],
    chain_results: [{ name: "a", error: { name: "Error", message: "no disk" } }],
    onerror: [{ name: "undo" }],
    onerror_results: [],
  });
  assertEquals(job.steps.map(({ name, state, error }) => [name, state, error]), [
    ["a", "failed", "no disk"],
    ["undo", "running", undefined],
  ]);
});

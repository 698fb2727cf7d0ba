// Failed attempts of tasks: each is recorded when it ends, and the runner goes on where it was.

import { assertEquals, assertObjectMatch } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import type { Store } from "../../src/store/store.ts";
import { jobOf, RUNNER, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { openClockedStore } from "../support/clocked_store.ts";
import { until } from "../support/until.ts";
import { Clock, openClockedRunner, type OpenTask, success } from "./clocked_runner.ts";
import { NO_LIMIT } from "../support/limits.ts";

const JOB = uuidOf<JobUuid>(1);
const RETRYING = workflowOf({ chain: [{ ...taskOf("first"), retry: 3, retry_delay: 3600 }] });

async function withStore(run: (store: Store, clock: Clock) => Promise<void>): Promise<void> {
  const clock = new Clock();
  const store = await openClockedStore(":memory:", clock);
  try {
    await run(store, clock);
  } finally {
    await store.close();
  }
}

function nextTask(tasks: readonly OpenTask[]): Promise<OpenTask> {
  return until("a task", () => Promise.resolve(tasks[0]));
}

function failure({ run }: OpenTask, error: string) {
  return { kind: "failure", error, job: run.job } as const;
}

Deno.test("a job that waits for its next attempt does not hold up an agent that stops", () =>
  withStore(async (store, clock) => {
    await store.jobs.create(jobOf(1, { workflow: RETRYING }), NO_LIMIT);
    const { runner, tasks } = openClockedRunner(store, clock, RUNNER);
    await runner.start();
    const task = await nextTask(tasks);
    task.end(failure(task, "busy"));
    const failures = (count: number) =>
      until("the attempt", async () => (await store.jobs.get(JOB))?.failures === count);
    await failures(1);
    // As long as an agent may ever drain: the test would end before.
    await runner.stop(2 ** 31 - 1);
    const left = await store.jobs.get(JOB);
    assertEquals([left?.execution, left?.starts, left?.failures], ["queued", 0, 1]);
    assertEquals(left?.retry_at, "2026-01-01T13:00:00.000Z");

    // One that ends while the agent stops begins no other attempt here.
    clock.pass(3_600_000);
    const second = openClockedRunner(store, clock, RUNNER);
    await second.runner.start();
    const again = await nextTask(second.tasks);
    const stopped = second.runner.stop(2 ** 31 - 1);
    again.end(failure(again, "busy still"));
    await stopped;
    const then = await store.jobs.get(JOB);
    assertEquals([then?.execution, then?.starts, then?.failures], ["queued", 0, 2]);
  }));

Deno.test("a failed attempt is recorded at once, and the next one goes on after a restart", () =>
  withStore(async (store, clock) => {
    await store.jobs.create(jobOf(1, { workflow: RETRYING }), NO_LIMIT);
    const first = openClockedRunner(store, clock, RUNNER);
    await first.runner.start();
    const task = await nextTask(first.tasks);
    clock.pass(1500);
    const left = { ...task.run.job, tries: 1, params: { disk: 2 } };
    task.end({ kind: "failure", error: "disk died", job: left });
    const waiting = await until("the attempt", async () => {
      const job = await store.jobs.get(JOB);
      return job?.failures === 1 ? job : undefined;
    });
    assertEquals(waiting.chain_results, []);
    assertEquals(waiting.retry_at, "2026-01-01T13:00:01.500Z");
    await first.runner.stop(0);
    assertEquals((await store.jobs.get(JOB))?.execution, "queued");

    // The delay was over while no agent ran.
    clock.pass(3_600_000);
    const second = openClockedRunner(store, clock, RUNNER);
    await second.runner.start();
    const again = await nextTask(second.tasks);
    // What the attempt left in the job counts as much as its failure.
    assertObjectMatch({ ...again.run.job }, { attempt: 2, tries: 1, params: { disk: 2 } });
    again.end(success(again));
    const done = await until("the end", async () => {
      const job = await store.jobs.get(JOB);
      return job?.execution === "succeeded" ? job : undefined;
    });
    assertEquals([done.chain_results[0]?.attempts, done.chain_results[0]?.error], [2, ""]);
    assertEquals(await store.log.attempts(JOB), [{
      phase: "chain",
      task: "first",
      index: 0,
      attempt: 1,
      fallback: false,
      error: "disk died",
      started_at: T0,
      finished_at: "2026-01-01T12:00:01.500Z",
      wait_seconds: 3600,
    }]);
    await second.runner.stop(0);
  }));

Deno.test("the rest of a delay is measured by the clock of the store, not of the host", () =>
  withStore(async (store, clock) => {
    await store.jobs.create(jobOf(1, { workflow: RETRYING }), NO_LIMIT);
    const first = openClockedRunner(store, clock, RUNNER);
    await first.runner.start();
    const task = await nextTask(first.tasks);
    task.end(failure(task, "busy"));
    await until("the attempt", async () => (await store.jobs.get(JOB))?.failures === 1);
    await first.runner.stop(0);
    clock.pass(3_600_000);
    // An hour behind: by its own clock the whole delay would be left.
    const second = openClockedRunner(store, new Clock(), RUNNER);
    await second.runner.start();
    const again = await nextTask(second.tasks);
    again.end(success(again));
    await second.runner.stop(0);
    assertEquals((await store.jobs.get(JOB))?.execution, "succeeded");
  }));

Deno.test("attempts that failed before a restart still count", () =>
  withStore(async (store, clock) => {
    const workflow = workflowOf({ chain: [{ ...taskOf("first"), retry: 1 }] });
    await store.jobs.create(jobOf(1, { workflow }), NO_LIMIT);
    const first = openClockedRunner(store, clock, RUNNER);
    await first.runner.start();
    const task = await nextTask(first.tasks);
    task.end(failure(task, "one"));
    await until(
      "the second attempt",
      () => Promise.resolve(first.tasks[0]?.run.job.attempt === 2 || undefined),
    );
    await first.runner.stop(0);
    const second = openClockedRunner(store, clock, RUNNER);
    await second.runner.start();
    const again = await nextTask(second.tasks);
    assertEquals(again.run.job.attempt, 2);
    again.end(failure(again, "two"));
    const done = await until("the end", async () => {
      const job = await store.jobs.get(JOB);
      return job?.execution === "failed" ? job : undefined;
    });
    assertEquals([done.chain_results[0]?.error, done.chain_results[0]?.attempts], ["two", 2]);
    const kept = await store.log.attempts(JOB);
    assertEquals(kept.map(({ error, wait_seconds }) => [error, wait_seconds]), [
      ["one", 0],
      ["two", null],
    ]);
    await second.runner.stop(0);
  }));

Deno.test("the log warns with the reason of a failed job, and not about others", () =>
  withStore(async (store, clock) => {
    const chain = [{ ...taskOf("first"), fallback: "function (err, job, cb) { cb(err); }" }];
    await store.jobs.create(jobOf(1, { workflow: workflowOf({ chain }) }), NO_LIMIT);
    await store.jobs.create(
      jobOf(2, { workflow: workflowOf({ chain: [taskOf("good")] }) }),
      NO_LIMIT,
    );
    const lines: Record<string, unknown>[] = [];
    const { runner, tasks } = openClockedRunner(store, clock, RUNNER, 1, (line) => {
      lines.push(JSON.parse(line));
    });
    await runner.start();
    const body = await nextTask(tasks);
    body.end(failure(body, "disk\n  died"));
    const fallback = await nextTask(tasks);
    assertEquals(fallback.run.kind, "fallback");
    fallback.end(failure(fallback, "still dead"));
    const good = await nextTask(tasks);
    good.end(success(good));
    await until(
      "both ends",
      () =>
        Promise.resolve(
          lines.filter(({ msg }) => msg === "job finished").length === 2 || undefined,
        ),
    );
    const [failed, succeeded] = lines.filter(({ msg }) => msg === "job finished");
    assertObjectMatch(failed ?? {}, {
      level: "warn",
      job_uuid: JOB,
      execution: "failed",
      task: "first",
      attempts: 1,
      error: "still dead",
    });
    assertObjectMatch(succeeded ?? {}, { level: "info", execution: "succeeded" });
    const kept = await store.log.attempts(JOB);
    assertEquals(kept.map(({ error, fallback }) => [error, fallback]), [
      ["disk\n  died", false],
      ["still dead", true],
    ]);
    await runner.stop(0);
  }));

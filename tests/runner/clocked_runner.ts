// A runner on a clock that stands still until it is moved, whose tasks answer when they are told to.

import { type Incarnation, type JobUuid, randomUuid, type RunnerId } from "../../src/domain/id.ts";
import { type Instant, instantAfter } from "../../src/domain/instant.ts";
import { openLog } from "../../src/metrics/log.ts";
import { openMemoryBudget } from "../../src/domain/memory_budget.ts";
import { Runner } from "../../src/runner/runner.ts";
import type { TaskOutcome, TaskRun } from "../../src/sandbox/run_task.ts";
import type { JobStore } from "../../src/store/job_store.ts";
import type { RunnerLife } from "../../src/store/run_store.ts";
import type { Store } from "../../src/store/store.ts";
import { lifeOf } from "../support/clocked_store.ts";
import { T0 } from "../support/job.ts";
import type { Perform } from "../../src/sandbox/task_calls.ts";
import { noCapabilities, ownerNamed } from "../sandbox/bodies.ts";

/** One clock for all runners of a test. */
export class Clock {
  now: Instant = T0;
  ms = 0;
  /** Lives of each runner that there were. */
  readonly #lives = new Map<RunnerId, number>();

  /** The next life of a runner; tests that claim by hand have had the first one. */
  nextLife(runner_id: RunnerId): { life: RunnerLife; earlier: Incarnation[] } {
    const lives = this.#lives.get(runner_id) ?? 1;
    this.#lives.set(runner_id, lives + 1);
    const earlier = Array.from({ length: lives }, (_, at) => lifeOf(runner_id, at + 1).incarnation);
    return { life: lifeOf(runner_id, lives + 1), earlier };
  }

  pass(ms: number): void {
    this.now = instantAfter(this.now, ms);
    this.ms += ms;
  }
}

/** An execution that has begun and not ended. */
export interface OpenTask {
  readonly uuid: JobUuid;
  readonly run: TaskRun;
  end(outcome: TaskOutcome): void;
}

export interface ClockedRunner {
  readonly runner: Runner;
  /** Executions under way, the oldest first. */
  readonly tasks: OpenTask[];
  /** Until when the runner has renewed its lease, one after the other. */
  readonly renewals: Instant[];
}

/** Makes a runner, not yet started. @param write takes the lines of its log */
export function openClockedRunner(
  store: Store,
  clock: Clock,
  runner_id: RunnerId,
  slots = 1,
  write?: (line: string) => void,
): ClockedRunner {
  const tasks: OpenTask[] = [];
  const renewals: Instant[] = [];
  const { jobs } = store;
  const begin: JobStore["begin"] = async (life, earlier, leaseMs) => {
    const outcome = await jobs.begin(life, earlier, leaseMs);
    if (outcome.kind === "begun") renewals.push(instantAfter(clock.now, leaseMs));
    return outcome;
  };
  const renew: JobStore["renew"] = async (life, held, leaseMs) => {
    const outcome = await jobs.renew(life, held, leaseMs);
    if (outcome.kind === "renewed") renewals.push(instantAfter(clock.now, leaseMs));
    return outcome;
  };
  const runTask = (run: TaskRun, _perform: Perform, signal: AbortSignal) =>
    new Promise<TaskOutcome>((resolve) => {
      const open: OpenTask = {
        uuid: run.job.uuid as JobUuid,
        run,
        end: (outcome) => {
          if (tasks.includes(open)) tasks.splice(tasks.indexOf(open), 1);
          resolve(outcome);
        },
      };
      tasks.push(open);
      if (signal.aborted) open.end({ kind: "aborted" });
      signal.addEventListener("abort", () => open.end({ kind: "aborted" }), { once: true });
    });
  const runner = new Runner({
    budget: openMemoryBudget(),
    ownerOf: ({ workflow_uuid }) => Promise.resolve(ownerNamed(workflow_uuid)),
    store: { ...store, jobs: { ...jobs, begin, renew } },
    ...clock.nextLife(runner_id),
    slots,
    leaseMs: 60_000,
    guests: { run: runTask },
    performFor: noCapabilities,
    now: () => clock.now,
    monotonicMs: () => clock.ms,
    newUuid: randomUuid,
    retryCountsFirst: false,
    log: openLog({
      level: write === undefined ? "error" : "info",
      format: "json",
      write: write ?? (() => {}),
      now: () => clock.now,
    }),
  });
  return { runner, tasks, renewals };
}

/** A body that has succeeded. */
export function success({ run }: OpenTask): TaskOutcome {
  return { kind: "success", result: "OK", job: run.job };
}

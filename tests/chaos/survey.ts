// Everything that is known of one state folder, and the looks at it that every chaos test ends with:
// all of it after each start, and the end of every job once the agent is left alone.

import { until, withDeadline } from "../support/until.ts";
import { type ChaosAgent, listOf, objectOf, type Reply } from "./agent_under_chaos.ts";
import { JobBook, type JobRecord } from "./job_book.ts";
import { changeNow } from "./job_calls.ts";
import { isFinal } from "./job_rules.ts";
import { type LoadDeps, lookAtInfo } from "./looks.ts";
import type { Random } from "./random.ts";
import { expectStats } from "./stats.ts";
import { WorkflowBook } from "./workflow_book.ts";
import { type Workload, WORKLOADS } from "./workloads.ts";

/** Milliseconds in which an agent that was asked to stop has ended (promise P17, and some more). */
export const STOP_MS_MAX = 90_000;
/** Milliseconds in which every job comes to its end once the agent is left alone. */
const SETTLE_MS_MAX = 300_000;
/** Of the finished jobs whose info was read before, how many are read again after a crash. */
const READ_AGAIN = 0.05;

/** What differs between the loads of the tests. */
export interface LoadOptions {
  /** Told of every acknowledged write, before anything else is done. */
  readonly acknowledged?: () => void;
  /** Called with every answer. */
  readonly answered?: (reply: Reply) => void;
  /** Statuses after which nothing has happened. */
  readonly notNow?: readonly number[];
  /** Statuses after which nobody knows what has happened, as without an answer. */
  readonly unknown?: readonly number[];
  readonly workloads?: readonly Workload[];
  /** Whether the callers are to end although the agent answers. */
  readonly over?: () => boolean;
}

/** All that is known of one state folder. */
export class Survey {
  readonly #random: Random;
  readonly #beganMs = performance.now();
  readonly #clock = () => `[life ${this.jobs.lives}, ${this.seconds.toFixed(3)} s]`;
  readonly jobs = new JobBook(this.#clock);
  readonly workflows = new WorkflowBook(this.#clock);
  /** The uuid of each workload's workflow. */
  readonly uuids = new Map<string, string>();
  /** Number of writes that the agent has acknowledged. */
  acknowledged = 0;
  #marks = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  get seconds(): number {
    return (performance.now() - this.#beganMs) / 1000;
  }

  /** Makes the workflows of the workloads, which nobody changes afterwards. */
  async makeWorkflows(agent: ChaosAgent): Promise<void> {
    for (const { name, definition } of WORKLOADS) {
      const record = this.workflows.begin(name, true);
      const body = { name, ...definition };
      record.may(body);
      const made = objectOf(await agent.ask("POST", "/workflows", body));
      record.is(made, "POST acknowledged");
      record.uuid = String(made.uuid);
      this.uuids.set(name, record.uuid);
      this.acknowledged += 1;
    }
  }

  /** What callers work with. Their load is over with the first request that is not answered. */
  deps(agent: ChaosAgent, more: LoadOptions = {}): LoadDeps {
    const { acknowledged, notNow = [503], unknown = [], workloads = WORKLOADS, over } = more;
    let silent = false;
    return {
      agent: {
        ...agent,
        call: async (...request) => {
          const reply = await agent.call(...request);
          const known = reply !== undefined && !unknown.includes(reply.status);
          silent ||= !known;
          if (reply !== undefined) more.answered?.(reply);
          return known ? reply : undefined;
        },
      },
      jobs: this.jobs,
      workflows: this.workflows,
      uuids: this.uuids,
      random: this.#random,
      workloads,
      newMark: () => `m${++this.#marks}`,
      acknowledged: () => {
        this.acknowledged += 1;
        acknowledged?.();
      },
      notNow,
      over: () => silent || over?.() === true,
    };
  }

  /** Everything that the agent shows is held against everything that is known. */
  async lookAtEverything(agent: ChaosAgent): Promise<void> {
    this.workflows.lookAtAll(listOf(await agent.ask("GET", "/workflows")));
    await this.lookAtJobs(agent);
    const deps = { agent, jobs: this.jobs };
    for (const record of this.jobs.records) {
      const known = record.checkedPosts === record.posted.length;
      if (!known || this.#random.chance(READ_AGAIN)) await lookAtInfo(deps, record);
    }
  }

  async lookAtJobs(agent: ChaosAgent): Promise<void> {
    const since = this.jobs.now();
    this.jobs.lookAtAll(listOf(await agent.ask("GET", "/jobs")), since);
  }

  /** The last life: nothing hurts the agent, and everything must come to its end. */
  async leaveAlone(agent: ChaosAgent): Promise<void> {
    await this.lookAtEverything(agent);
    const deps = this.deps(agent);
    const unfinished = () =>
      this.jobs.records.filter(({ view }) => view === undefined || !isFinal(view));
    await until("every job to come to its end", async () => {
      const waiting = unfinished().filter(({ view }) => view?.execution === "waiting");
      for (const record of waiting) {
        await record.turns.take(() => changeNow(deps, "resume", record, 1));
      }
      await this.lookAtJobs(agent);
      return unfinished().length === 0;
    }, SETTLE_MS_MAX).catch((error) => {
      for (const record of unfinished()) this.jobs.expectEnd(record);
      throw error;
    });
    for (const record of this.jobs.records) await this.#lookAtEnd(agent, record);
    const all = listOf(await agent.ask("GET", "/jobs"));
    expectStats(objectOf(await agent.ask("GET", "/stats")), all);
    agent.signal("SIGTERM");
    const { code } = await withDeadline(agent.ended, STOP_MS_MAX, () => "the agent to stop");
    if (code !== 0) throw new Error(`The agent was asked to stop and ended with ${code}`);
  }

  async #lookAtEnd(agent: ChaosAgent, record: JobRecord): Promise<void> {
    // An oncancel chain may go on after its job is canceled.
    await until(`the chains of job ${record.uuid} to end`, async () => {
      await lookAtInfo({ agent, jobs: this.jobs }, record);
      return record.view?.runner_id === undefined;
    });
    this.jobs.expectEnd(record);
  }
}

// One run of the crash loop: an agent that is killed again and again under load, and held against
// everything that it ever acknowledged or showed.

import { join } from "@std/path";
import type { Program } from "../support/agent_process.ts";
import { withDeadline, withFolder } from "../support/until.ts";
import { beginAgent, type ChaosAgent, killAgent, startChaosAgent } from "./agent_under_chaos.ts";
import { expectWholeDatabase } from "./database.ts";
import { withLog } from "./history.ts";
import { repeatUnanswered } from "./job_calls.ts";
import { callInTurn } from "./load.ts";
import { expectNoProcesses } from "./processes.ts";
import { type Random, randomOf } from "./random.ts";
import { STOP_MS_MAX, Survey } from "./survey.ts";

const CALLERS = 10;
const FLAGS = ["--slots", "8", "--log-level", "info"];
/** Milliseconds of load before a kill that waits for nothing. */
const LOAD_MS_MIN = 50;
const LOAD_MS_MAX = 1_800;
/** Acknowledged writes after which the agent is killed, at the most. */
const ACKNOWLEDGED_MAX = 60;
const STARTING_MS_MAX = 500;
const DRAIN_MS_MAX = 500;
/** The ways in which a life of the agent ends: each of them in every eight. */
const ENDS = [
  "kill",
  "kill",
  "acknowledgement",
  "acknowledgement",
  "term",
  "term_then_kill",
  "start",
  "start",
] as const;
type LifeEnd = typeof ENDS[number];
type Timer = ReturnType<typeof setTimeout>;

export interface CrashRunOptions {
  readonly program: Program;
  readonly seed: number;
  /** Lives of the agent that end by force or by a signal. */
  readonly cycles: number;
}

export interface CrashRunReport {
  readonly ends: Readonly<Record<LifeEnd, number>>;
  readonly acknowledged: number;
  readonly jobs: number;
  readonly workflows: number;
  readonly seconds: number;
}

/** Runs the loop. @throws {Error} for the first promise that was broken, with its history */
export async function crashRun(options: CrashRunOptions): Promise<CrashRunReport> {
  return await withFolder((folder) => new CrashRun(options, join(folder, "state")).run());
}

class CrashRun {
  readonly #options: CrashRunOptions;
  readonly #stateDir: string;
  readonly #random: Random;
  readonly #survey: Survey;
  #next: readonly LifeEnd[] = [];
  readonly #ends = { kill: 0, acknowledgement: 0, term: 0, term_then_kill: 0, start: 0 };
  #agent: ChaosAgent | undefined;

  constructor(options: CrashRunOptions, stateDir: string) {
    this.#options = options;
    this.#stateDir = stateDir;
    this.#random = randomOf(options.seed);
    this.#survey = new Survey(this.#random);
  }

  async run(): Promise<CrashRunReport> {
    try {
      const first = await this.#start();
      await this.#survey.makeWorkflows(first);
      await killAgent(first);
      for (let cycle = 0; cycle < this.#options.cycles; cycle++) {
        if (cycle % ENDS.length === 0) this.#next = this.#random.shuffled(ENDS);
        const end = this.#next[cycle % ENDS.length] ?? "kill";
        this.#ends[end] += 1;
        if (end === "start") await this.#killWhileStarting();
        else await this.#live(end);
        expectWholeDatabase(this.#stateDir);
        await expectNoProcesses(this.#stateDir);
      }
      await this.#survey.leaveAlone(await this.#start());
      expectWholeDatabase(this.#stateDir);
    } catch (error) {
      throw withLog(error, this.#agent?.log());
    } finally {
      if (this.#agent !== undefined) await killAgent(this.#agent);
    }
    return {
      ends: this.#ends,
      acknowledged: this.#survey.acknowledged,
      jobs: this.#survey.jobs.records.length,
      workflows: this.#survey.workflows.records.length,
      seconds: this.#survey.seconds,
    };
  }

  #how() {
    return { program: this.#options.program, stateDir: this.#stateDir, flags: FLAGS };
  }

  async #start(): Promise<ChaosAgent> {
    this.#survey.jobs.lives += 1;
    this.#agent = await startChaosAgent(this.#how());
    return this.#agent;
  }

  /** The moment of the kill is random: it is the fault, nothing waits for it. */
  async #killWhileStarting(): Promise<void> {
    this.#survey.jobs.lives += 1;
    const starting = beginAgent(this.#how());
    setTimeout(() => starting.signal("SIGKILL"), this.#random.integer(0, STARTING_MS_MAX));
    await starting.started;
    await starting.ended;
  }

  /** One life: everything is looked at, then the load runs until the agent is killed. */
  async #live(end: Exclude<LifeEnd, "start">): Promise<void> {
    const agent = await this.#start();
    await this.#survey.lookAtEverything(agent);
    const countdown = { left: Number.POSITIVE_INFINITY };
    const deps = this.#survey.deps(agent, {
      acknowledged: () => {
        countdown.left -= 1;
        if (countdown.left === 0) agent.signal("SIGKILL");
      },
    });
    const timers = this.#endLater(agent, end, countdown);
    await repeatUnanswered(deps);
    let failure: unknown;
    const callers = Array.from({ length: CALLERS }, () =>
      callInTurn(deps).catch((error) => {
        failure ??= error;
        agent.signal("SIGKILL");
      }));
    const stopped = await withDeadline(
      agent.ended,
      STOP_MS_MAX + LOAD_MS_MAX * 3,
      () => `the agent to end:\n${agent.log()}`,
    );
    for (const timer of timers) clearTimeout(timer);
    await Promise.all(callers);
    if (failure !== undefined) throw failure;
    if (end === "term" && stopped.code !== 0) {
      throw new Error(`The agent was asked to stop and ended with ${stopped.code}`);
    }
    if (agent.log().includes('"job lost"')) throw new Error("The agent lost a job");
  }

  #endLater(agent: ChaosAgent, end: LifeEnd, countdown: { left: number }): Timer[] {
    const ms = this.#random.integer(LOAD_MS_MIN, LOAD_MS_MAX);
    const kill = () => agent.signal("SIGKILL");
    switch (end) {
      case "acknowledgement":
        countdown.left = this.#random.integer(1, ACKNOWLEDGED_MAX);
        return [setTimeout(kill, LOAD_MS_MAX * 2)];
      case "term":
        return [setTimeout(() => agent.signal("SIGTERM"), ms)];
      case "term_then_kill":
        return [
          setTimeout(() => agent.signal("SIGTERM"), ms),
          setTimeout(kill, ms + this.#random.integer(0, DRAIN_MS_MAX)),
        ];
      default:
        return [setTimeout(kill, ms)];
    }
  }
}

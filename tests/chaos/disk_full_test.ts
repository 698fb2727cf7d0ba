// A disk that becomes full while jobs run. What cannot be kept is refused in the words of the
// interface, what was acknowledged is there, and once there is room again everything goes on.

import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { smallDiskTest, withSmallDisk } from "../support/small_disk.ts";
import { until, withFolder } from "../support/until.ts";
import {
  type ChaosAgent,
  killAgent,
  length,
  objectOf,
  type Reply,
  startChaosAgent,
} from "./agent_under_chaos.ts";
import { expectWholeDatabase } from "./database.ts";
import { postJob } from "./job_calls.ts";
import { isFinal } from "./job_rules.ts";
import { callTogether } from "./load.ts";
import { type Random, randomOf } from "./random.ts";
import { Survey } from "./survey.ts";
import { PATIENT_WORKLOADS, QUICK, SLOW } from "./workloads.ts";
import { programOfRun } from "../support/agent_process.ts";

const DISK_MIB = 8;
const BLOCK_BYTES = 4_096;
/** Bytes that are left before the load, at the most. */
const LEFT_BYTES_MAX = 1_500_000;
const CALLERS = 6;
/** Refusals after which a load has felt the full disk enough. */
const REFUSALS = 40;
/** Posts one after the other while nothing fits any more. */
const POSTS_WHILE_FULL = 10;
/** Milliseconds in which an agent takes writes again once there is room (test plan, T3). */
const RECOVERED_MS_MAX = length({ quick: 120_000, full: 5_000 });
/** Milliseconds in which the disk has become full for the agent. */
const FULL_MS_MAX = 180_000;

const INSUFFICIENT_STORAGE = 507;

for (const killed of [false, true]) {
  const then = killed ? "killed meanwhile, and started again" : "that goes on when there is room";
  smallDiskTest(`a full disk costs no acknowledged write of an agent ${then}`, async () => {
    const reported = [];
    for (let seed = 1; seed <= length({ quick: 2, full: 10 }); seed++) {
      reported.push(await withFolder((folder) => fillOnce(folder, randomOf(seed), killed)));
    }
    console.log(reported.join("\n"));
  });
}

/** @returns in words, what came of it */
async function fillOnce(folder: string, random: Random, killed: boolean): Promise<string> {
  const disk = join(folder, "disk");
  await Deno.mkdir(disk);
  let reported = "";
  await withSmallDisk(disk, DISK_MIB, async () => {
    const scene = new Scene(disk, random);
    try {
      await scene.begin();
      await scene.fill();
      await scene.loadUntilRefused();
      await scene.postWhileFull();
      if (killed) await killAgent(scene.agent);
      await scene.makeRoom();
      if (killed) await scene.start();
      await scene.recover();
      await scene.survey.leaveAlone(scene.agent);
      expectWholeDatabase(scene.stateDir);
      reported = scene.reported;
    } finally {
      await scene.end();
    }
  });
  return reported;
}

class Scene {
  readonly survey: Survey;
  readonly stateDir: string;
  readonly #random: Random;
  readonly #ballast: string;
  readonly #lives: ChaosAgent[] = [];
  #refused = 0;
  #acknowledgedWhenFull = 0;
  #leftBytes = 0;
  #recoveredMs = 0;

  constructor(disk: string, random: Random) {
    this.stateDir = join(disk, "state");
    this.#ballast = join(disk, "ballast");
    this.#random = random;
    this.survey = new Survey(random);
  }

  get agent(): ChaosAgent {
    return this.#lives.at(-1) as ChaosAgent;
  }

  get reported(): string {
    return `${this.#leftBytes} bytes left: ${this.survey.acknowledged} acknowledged, ` +
      `${this.#refused} refused, ${this.#acknowledgedWhenFull} acknowledged after the first ` +
      `refusal, ${Math.round(this.#recoveredMs)} ms to recover`;
  }

  async start(): Promise<void> {
    this.survey.jobs.lives += 1;
    const flags = ["--slots", "4"];
    const { stateDir } = this;
    this.#lives.push(await startChaosAgent({ program: programOfRun(), stateDir, flags }));
  }

  async end(): Promise<void> {
    for (const agent of this.#lives) await killAgent(agent);
  }

  /** Some jobs are in the midst of their tasks when the disk becomes full. */
  async begin(): Promise<void> {
    await this.start();
    await this.survey.makeWorkflows(this.agent);
    const deps = this.survey.deps(this.agent);
    for (let job = 0; job < 8; job++) await postJob(deps, SLOW, {});
    await until("jobs to run", async () => {
      await this.survey.lookAtJobs(this.agent);
      return this.survey.jobs.records.some(({ view }) => view?.execution === "running");
    });
  }

  async fill(): Promise<void> {
    this.#leftBytes = this.#random.integer(0, LEFT_BYTES_MAX);
    const file = await Deno.open(this.#ballast, { write: true, create: true });
    try {
      const block = new Uint8Array(BLOCK_BYTES);
      for (;;) await file.write(block);
    } catch (error) {
      if (!String(error).includes("No space left")) throw error;
    } finally {
      const { size } = await file.stat();
      await file.truncate(Math.max(size - this.#leftBytes, 0));
      file.close();
    }
  }

  async makeRoom(): Promise<void> {
    await Deno.remove(this.#ballast);
  }

  #answered(reply: Reply): void {
    if (reply.status === INSUFFICIENT_STORAGE) {
      this.#refused += 1;
      const { code, error_code, message } = objectOf(reply);
      assertEquals([code, error_code], ["InsufficientStorage", "storage_full"]);
      assert(typeof message === "string" && message !== "");
    } else if (reply.status === 201 && this.#refused > 0) this.#acknowledgedWhenFull += 1;
  }

  async loadUntilRefused(): Promise<void> {
    const endMs = performance.now() + FULL_MS_MAX;
    const deps = this.survey.deps(this.agent, {
      workloads: PATIENT_WORKLOADS,
      notNow: [503, INSUFFICIENT_STORAGE],
      answered: (reply) => this.#answered(reply),
      over: () => this.#refused >= REFUSALS || performance.now() > endMs,
    });
    await callTogether(deps, CALLERS);
    assert(this.#refused >= REFUSALS, `only ${this.#refused} requests were refused`);
  }

  /** What is answered 201 although the disk is full was kept all the same: the survey proves it. */
  async postWhileFull(): Promise<void> {
    const deps = this.survey.deps(this.agent, {
      workloads: PATIENT_WORKLOADS,
      notNow: [503, INSUFFICIENT_STORAGE],
      answered: (reply) => this.#answered(reply),
    });
    for (let post = 0; post < POSTS_WHILE_FULL; post++) {
      assert(await postJob(deps, QUICK, {}), "the agent does not answer on a full disk");
    }
    assertEquals((await this.agent.ask("GET", "/ping")).status, 200);
    await this.survey.lookAtEverything(this.agent);
  }

  async recover(): Promise<void> {
    const beganMs = performance.now();
    const known = this.survey.jobs.records.length;
    const deps = this.survey.deps(this.agent, { notNow: [503, INSUFFICIENT_STORAGE] });
    await until("the agent to take a job again", async () => {
      await postJob(deps, QUICK, {});
      return this.survey.jobs.records.length > known;
    }, RECOVERED_MS_MAX);
    const mark = this.survey.jobs.records.at(-1);
    await until("a job to run again", async () => {
      await this.survey.lookAtJobs(this.agent);
      return mark?.view !== undefined && (isFinal(mark.view) || mark.view.started_at !== undefined);
    });
    this.#recoveredMs = performance.now() - beganMs;
  }
}

// The clock of the host is set while jobs run and wait (promise P7): nothing runs early by the clock
// that the agent sees, nothing is lost, and what is due at once is not put off. How long something
// has run is another clock's matter.

import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { until, withFolder } from "../support/until.ts";
import {
  type ChaosAgent,
  endAgent,
  killAgent,
  length,
  listOf,
  objectOf,
  startChaosAgent,
} from "./agent_under_chaos.ts";
import { clockTest, fakeClock, type FakedClock } from "./faked_clock.ts";
import { isFinal, PHASES, resultsOf } from "./job_rules.ts";
import { expectStats } from "./stats.ts";
import { tellingBody } from "./workloads.ts";
import { programOfRun } from "../support/agent_process.ts";

const HOUR_SECONDS = 3_600;
const DAY_SECONDS = 86_400;
/** Both are taken at the beginning, so that what is posted next is queued when the clock is set. */
const SLOTS = 2;
const DELAYED = 20;
const IMMEDIATE = 5;
/** Milliseconds in which a clock that was set has been noticed, and what is due has run. */
const NOTICED_MS_MAX = 180_000;

const WORKFLOWS: Readonly<Record<string, readonly JsonObject[]>> = {
  quick: [{ name: "only", body: tellingBody("only", "cb();") }],
  long: [
    { name: "first", body: tellingBody("first", "await sleep(2500); cb();") },
    { name: "second", body: tellingBody("second", "await sleep(500); cb();") },
  ],
  stuck: [{ name: "stuck", timeout: 3, body: tellingBody("stuck", "await sleep(3600000);") }],
};

/** One agent with a clock that is set, and the jobs that were asked of it. */
class Scene {
  readonly #uuids = new Map<string, string>();
  /** The jobs that were asked for at a date; for the others `exec_after` is when they were made. */
  readonly #dated = new Set<string>();

  constructor(
    readonly clock: FakedClock,
    readonly stateDir: string,
    public agent: ChaosAgent,
  ) {}

  async makeWorkflows(): Promise<void> {
    for (const [name, chain] of Object.entries(WORKFLOWS)) {
      const made = await this.agent.ask("POST", "/workflows", { name, chain: [...chain] });
      this.#uuids.set(name, String(objectOf(made).uuid));
    }
  }

  /** @param afterSeconds counted from what the faked clock shows @returns its uuid */
  async post(workflow: keyof typeof WORKFLOWS, afterSeconds?: number): Promise<string> {
    const due = afterSeconds === undefined ? {} : {
      exec_after: new Date(Date.parse(this.clock.now()) + afterSeconds * 1000).toISOString(),
    };
    const request = { workflow: this.#uuids.get(workflow) ?? "", ...due };
    const reply = await this.agent.ask("POST", "/jobs", request);
    assertEquals(reply.status, 201);
    const uuid = String(objectOf(reply).uuid);
    if (afterSeconds !== undefined) this.#dated.add(uuid);
    return uuid;
  }

  async postMany(count: number, afterSeconds?: number): Promise<string[]> {
    return await Promise.all(
      Array.from(
        { length: count },
        (_, at) =>
          this.post("quick", afterSeconds === undefined ? undefined : afterSeconds + at / 10),
      ),
    );
  }

  async job(uuid: string): Promise<JsonObject> {
    return objectOf(await this.agent.ask("GET", `/jobs/${uuid}`));
  }

  /** Starts a job that runs on, and one whose task never ends, and waits until both have begun. */
  async occupySlots(): Promise<{ long: string; stuck: string }> {
    const [long, stuck] = [await this.post("long"), await this.post("stuck")];
    for (const uuid of [long, stuck]) {
      await until(`job ${uuid} to begin`, async () => (await this.executions(uuid)).length > 0);
    }
    return { long, stuck };
  }

  /** The tasks whose executions began, in order. */
  async executions(uuid: string): Promise<string[]> {
    const info = listOf(await this.agent.ask("GET", `/jobs/${uuid}/info`));
    return info.flatMap(({ began }) => typeof began === "string" ? [began] : []);
  }

  async expectEnds(uuids: readonly string[], execution = "success"): Promise<void> {
    for (const uuid of uuids) {
      const job = await until(`job ${uuid} to end`, async () => {
        const read = await this.job(uuid);
        return isFinal(read) ? read : undefined;
      }, NOTICED_MS_MAX);
      assertEquals(job.execution, execution, `job ${uuid}`);
      if (this.#dated.has(uuid)) expectNotEarly(job);
    }
  }

  async expectNotStarted(uuids: readonly string[]): Promise<void> {
    for (const uuid of uuids) {
      const { execution, started_at, exec_after } = await this.job(uuid);
      const what = `job ${uuid}, due at ${exec_after}, at ${this.clock.now()}`;
      assertEquals([execution, started_at], ["queued", undefined], what);
    }
  }

  /** One execution of each task: the agent has not taken its own jobs for somebody's left behind. */
  async expectUndisturbed({ long, stuck }: { long: string; stuck: string }): Promise<void> {
    await this.expectEnds([long]);
    await this.expectEnds([stuck], "failure");
    assertEquals(await this.executions(long), ["first", "second"]);
    assertEquals(await this.executions(stuck), ["stuck"]);
    const [entry] = resultsOf(await this.job(stuck), "chain");
    assertEquals(entry?.error, "task timeout error");
  }

  /** Everything in its order: counters, and no time that has passed is negative. */
  async expectSane(): Promise<void> {
    const jobs = listOf(await this.agent.ask("GET", "/jobs"));
    expectStats(objectOf(await this.agent.ask("GET", "/stats")), jobs);
    for (const job of jobs) {
      assert(Number(job.elapsed ?? 0) >= 0, `job ${job.uuid} has elapsed ${job.elapsed}`);
      expectInOrder(job, `job ${job.uuid}`);
      for (const entry of PHASES.flatMap((phase) => resultsOf(job, phase))) {
        expectInOrder(entry, `task ${entry.name} of job ${job.uuid}`);
      }
    }
    const negative = this.agent.log().split("\n").filter((line) => /"\w*ms":-/.test(line));
    assertEquals(negative, []);
  }

  async restart(): Promise<void> {
    await killAgent(this.agent);
    this.agent = await startUnderClock(this.clock, this.stateDir);
  }
}

function expectNotEarly({ uuid, started_at, exec_after }: JsonObject): void {
  const early = String(started_at) < String(exec_after);
  assert(!early, `job ${uuid} was started at ${started_at}, before ${exec_after}`);
}

function expectInOrder({ started_at, finished_at }: JsonObject, what: string): void {
  if (started_at === undefined || finished_at === undefined) return;
  const negative = String(finished_at) < String(started_at);
  assert(!negative, `${what} was started at ${started_at} and finished at ${finished_at}`);
}

function startUnderClock(clock: FakedClock, stateDir: string): Promise<ChaosAgent> {
  const flags = ["--slots", String(SLOTS)];
  return startChaosAgent({ program: programOfRun(), stateDir, flags, env: clock.env });
}

function sceneTest(name: string, run: (scene: Scene) => Promise<void>): void {
  clockTest(name, () =>
    withFolder(async (folder) => {
      const clock = await fakeClock(folder);
      const stateDir = join(folder, "state");
      const scene = new Scene(clock, stateDir, await startUnderClock(clock, stateDir));
      try {
        await scene.makeWorkflows();
        await run(scene);
      } catch (error) {
        const log = scene.agent.log().split("\n").filter((line) => !line.includes("request "));
        throw new Error(`${error}\n${log.join("\n")}`, { cause: error });
      } finally {
        await endAgent(scene.agent);
      }
    }));
}

for (const back of length({ quick: [HOUR_SECONDS], full: [HOUR_SECONDS, DAY_SECONDS] })) {
  sceneTest(
    `a clock set back by ${back} s delays only what has a date`,
    async (scene) => {
      const delayed = await scene.postMany(DELAYED, 5);
      const busy = await scene.occupySlots();
      const before = await scene.postMany(IMMEDIATE);
      await scene.clock.set(-back);
      const after = await scene.postMany(IMMEDIATE);
      await scene.expectUndisturbed(busy);
      await scene.expectEnds([...before, ...after]);
      await scene.expectNotStarted(delayed);
      await scene.clock.set(0);
      await scene.expectEnds(delayed);
      await scene.expectSane();
    },
  );
}

sceneTest(
  "a clock set forward by a day starts what is due, and ends nothing",
  async (scene) => {
    const due = await scene.postMany(DELAYED, HOUR_SECONDS);
    const later = await scene.postMany(IMMEDIATE, 2 * DAY_SECONDS);
    const busy = await scene.occupySlots();
    const before = await scene.postMany(IMMEDIATE);
    await scene.clock.set(DAY_SECONDS);
    const after = await scene.postMany(IMMEDIATE);
    await scene.expectUndisturbed(busy);
    await scene.expectEnds([...before, ...after, ...due]);
    await scene.expectNotStarted(later);
    await scene.expectSane();
    // Back again: what was made in the meantime seems to come from the future.
    await scene.clock.set(0);
    await scene.expectEnds(await scene.postMany(IMMEDIATE));
    await scene.expectNotStarted(later);
    await scene.expectSane();
  },
);

for (
  const offset of length({
    quick: [-HOUR_SECONDS],
    full: [-HOUR_SECONDS, -DAY_SECONDS, DAY_SECONDS],
  })
) {
  sceneTest(
    `an agent that starts after its clock moved by ${offset} s continues where it was`,
    async (scene) => {
      const delayed = await scene.postMany(DELAYED, 5);
      const later = await scene.postMany(IMMEDIATE, 10 * DAY_SECONDS);
      const { long, stuck } = await scene.occupySlots();
      const before = await scene.postMany(IMMEDIATE);
      await killAgent(scene.agent);
      await scene.clock.set(offset);
      await scene.restart();
      await scene.expectEnds([...before, long, ...await scene.postMany(IMMEDIATE)]);
      await scene.expectEnds([stuck], "failure");
      if (offset < 0) await scene.expectNotStarted(delayed);
      else await scene.expectEnds(delayed);
      await scene.expectNotStarted(later);
      await scene.clock.set(0);
      await scene.expectEnds(delayed);
      await scene.expectSane();
    },
  );
}

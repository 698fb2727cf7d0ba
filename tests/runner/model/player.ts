// Plays a sequence on the real runner, and holds it against the model after every step.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid } from "../../../src/domain/id.ts";
import { instantAfter } from "../../../src/domain/instant.ts";
import type { Job, NewJob } from "../../../src/domain/job/job.ts";
import { isFinal } from "../../../src/domain/job/state.ts";
import type { Workflow } from "../../../src/domain/job/workflow.ts";
import { assertStats } from "../../store/store_case.ts";
import { uuidOf } from "../../support/job.ts";
import type { Sequence, SomeEvent } from "./any_sequence.ts";
import { isOpen, type ModelJob } from "./model_job.ts";
import { answer, workflowFrom } from "./script.ts";
import { World } from "./world.ts";
import { type ClockedStore, dueOf } from "../../support/clocked_store.ts";
import { NO_LIMIT } from "../../support/limits.ts";

/** Rounds in which everything must have come to its end once it is left alone. */
const ROUNDS_MAX = 300;

/** Plays a sequence, and checks after every step that all is as the model says. */
export async function play(sequence: Sequence, store: ClockedStore): Promise<void> {
  const world = new World(store, sequence.slots, sequence.eager);
  const player = new Player(world, store, sequence);
  try {
    await player.play();
  } finally {
    await world.end();
  }
}

class Player {
  readonly #world: World;
  readonly #store: ClockedStore;
  readonly #sequence: Sequence;
  readonly #workflows: readonly Workflow[];
  #posted = 0;

  constructor(world: World, store: ClockedStore, sequence: Sequence) {
    this.#world = world;
    this.#store = store;
    this.#sequence = sequence;
    this.#workflows = sequence.workflows.map((some, index) => workflowFrom(some, index + 1));
  }

  async play(): Promise<void> {
    for (const workflow of this.#workflows) {
      await this.#store.workflows.create(workflow, { max: NO_LIMIT });
    }
    await this.#world.start();
    let atWork: Promise<void>[] = [];
    for (const { event, joined } of this.#sequence.events) {
      const alone = event.kind === "pass" || event.kind === "set" || event.kind === "start";
      if (!joined || alone) {
        await Promise.all(atWork);
        atWork = [];
        await this.#check();
      }
      atWork.push(this.#happen(event));
    }
    await Promise.all(atWork);
    await this.#check();
    await this.#finish();
  }

  async #happen(event: SomeEvent): Promise<void> {
    const world = this.#world;
    switch (event.kind) {
      case "post":
        return await this.#post(event);
      case "answer": {
        const task = pick(world.tasks, event.which);
        if (task !== undefined) answer(task);
        return;
      }
      case "deny": {
        // A fallback waits for its guest instead.
        const bodies = world.tasks.filter(({ run }) => run.kind === "body");
        return pick(bodies, event.which)?.end({ kind: "not_started", why: "no guest" });
      }
      case "pass":
        return world.move(event.ms, true);
      case "set":
        return world.move(event.ms, false);
      case "cancel": {
        const job = pick([...world.model.jobs.keys()], event.which);
        return job === undefined ? undefined : await world.cancel(job);
      }
      case "retry": {
        const job = pick([...world.model.jobs.values()], event.which);
        return job === undefined ? undefined : await world.retry(job.uuid, this.#anew(job));
      }
      case "resume": {
        const jobs = [...world.model.jobs.values()];
        const waiting = jobs.filter(({ execution }) => execution === "waiting");
        const job = pick(waiting.length > 0 ? waiting : jobs, event.which);
        const error = event.failed ? "no disk" : undefined;
        return job === undefined ? undefined : await world.resume(job.uuid, error);
      }
      case "kill":
        for (let life = 0; life < event.lives; life++) {
          world.kill();
          await world.start();
        }
        return event.lives === 0 ? world.kill() : undefined;
      case "doom":
        return world.doom(event.writes, event.made);
      case "stop":
        return await world.stop();
      case "start":
        return await world.start();
    }
  }

  async #post({ which, target, variant, delayMs }: SomeEvent & { kind: "post" }): Promise<void> {
    const { now } = this.#world;
    const workflow = pick(this.#workflows, which);
    assert(workflow !== undefined);
    await this.#world.create({
      uuid: uuidOf<JobUuid>(++this.#posted),
      workflow,
      exec_after: instantAfter(now, delayMs),
      target,
      params: { variant },
    });
  }

  /** The wish for the same job again. */
  #anew({ workflow, target, params }: ModelJob): NewJob {
    const uuid = uuidOf<JobUuid>(++this.#posted);
    return { uuid, workflow, target, params };
  }

  /** Leaves everything alone: it must come to its end. */
  async #finish(): Promise<void> {
    const world = this.#world;
    for (let round = 0; round < ROUNDS_MAX; round++) {
      await world.start();
      const jobs = [...world.model.jobs.values()];
      if (!jobs.some(isOpen)) {
        await assertStats(this.#store, world.now);
        assertEquals(await dueOf(this.#store), { kind: "none" });
        return;
      }
      const waiting = jobs.filter(({ execution }) => execution === "waiting");
      for (const { uuid } of waiting) await world.resume(uuid, undefined);
      const open = world.tasks.filter(answer);
      if (waiting.length === 0 && open.length === 0) world.move(3_700_000, true);
      await this.#check();
    }
    throw new Error(`Not all jobs have come to their end in ${ROUNDS_MAX} rounds`);
  }

  /** Holds every job against the model, and what runs against what should. */
  async #check(): Promise<void> {
    const world = this.#world;
    const { model } = world;
    await world.settle();
    assertEquals(world.errors, []);
    const jobs = (await this.#store.jobs.list({})).map(({ job }) => job);
    assertEquals(jobs.length, model.jobs.size);
    for (const job of jobs) assertEquals(shownBy(job), shownByModel(model.job(job.uuid)));
    if (!world.alive) return;
    const held = [...model.jobs.values()].filter((job) => job.held);
    assertEquals(world.tasks.map(({ uuid }) => uuid).sort(), held.map(({ uuid }) => uuid).sort());
    // A job whose last result came too late for a cancel undoes although its slot was given away.
    const doing = held.filter(({ phase }) => phase !== "oncancel");
    assert(doing.length <= this.#sequence.slots, "more jobs run than there are slots");
    if (held.length >= this.#sequence.slots || world.paused) return;
    const left = [...model.jobs.values()].filter((job) => model.due(job));
    assertEquals(left.map(({ uuid }) => uuid), [], "jobs are due and slots are free");
  }
}

function pick<T>(list: readonly T[], which: number): T | undefined {
  return list[which % Math.max(list.length, 1)];
}

/** What of a job the model speaks of. */
function shownBy(job: Job) {
  const shorten = ({ error, result, name, attempts }: Job["chain_results"][number]) => {
    return { error, result, name, attempts };
  };
  return {
    uuid: job.uuid,
    execution: job.execution,
    phase: job.phase,
    results: {
      chain: job.chain_results.map(shorten),
      onerror: job.onerror_results.map(shorten),
      oncancel: job.oncancel_results.map(shorten),
    },
    seen: job.props.seen ?? 0,
    starts: job.starts,
    failures: job.failures,
    lease: job.lease,
    held: job.runner_id !== null,
    claimable: job.claimable_at !== null,
    finished: job.finished_at !== null,
    elapsed_ms: job.elapsed_ms,
    phases_ms: job.phases_ms,
    target: job.target,
  };
}

function shownByModel(job: ModelJob): ReturnType<typeof shownBy> {
  const { uuid, execution, phase, results, seen, starts, failures, lease, held, target } = job;
  return {
    uuid,
    execution,
    phase,
    results,
    seen,
    starts,
    failures,
    lease,
    held,
    claimable: job.readyAt !== null,
    finished: isFinal(execution),
    elapsed_ms: job.elapsedMs,
    phases_ms: job.phasesMs,
    target,
  };
}

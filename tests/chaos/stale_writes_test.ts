// Two hosts on one database claim, write, lose and take over the same jobs, several calls at a time and at random. A
// model keeps what each call was answered: every result that counted is recorded once, in its order, and none counts
// that was written when its runner could know that it had lost the job.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { Job } from "../../src/domain/job/job.ts";
import type { RunnerLife } from "../../src/store/run_store.ts";
import { FREE } from "../store/place_suite.ts";
import { LEASE, register } from "../store/host_suite.ts";
import { fleetTests, HOSTS } from "../store/postgres_fleet.ts";
import { create, holdOf, present, recordOf } from "../store/store_case.ts";
import { type ClockedStore, lifeOf } from "../support/clocked_store.ts";
import { jobOf, resultOf, taskOf, workflowOf } from "../support/job.ts";
import { length } from "./agent_under_chaos.ts";
import { randomOf } from "./random.ts";

const ROUNDS = length({ quick: 250, full: 3_000 });
/** Calls that are under way at the same time. */
const CALLS = 4;
/** Unfinished jobs. */
const JOBS = 4;
const CHAIN = Array.from({ length: 8 }, (_, at) => taskOf(`task ${at}`));
const WORKFLOWS = [workflowOf({ chain: CHAIN }), { ...FREE.workflow, chain: CHAIN }];
const SEED = Number(Deno.env.get("ZONEWRIGHT_CHAOS_SEED") ?? Date.now() % 1_000_000);

/** A claim, as its runner remembers it. */
interface Claim {
  readonly job: Job;
  readonly host: Host;
  /** Results that it has, its own included. */
  results: number;
  /** Whether its runner was told that it no longer holds. */
  isLost: boolean;
  /** Whether its runner has given it back, or a call about it is under way. */
  isAtRest: boolean;
}

interface Host {
  readonly store: ClockedStore;
  life: RunnerLife;
  lives: number;
}

/** A job, as far as answers tell. */
interface Known {
  readonly claims: Claim[];
  readonly written: { readonly lease: number; readonly text: string }[];
  isEnded: boolean;
}

const CALL_WEIGHTS = {
  write: 8,
  claim: 4,
  renew: 3,
  rescue: 3,
  tick: 3,
  giveBack: 1,
  restart: 1,
  cancel: 1,
} as const;

class Model {
  readonly #hosts: readonly Host[];
  readonly #random = randomOf(SEED);
  readonly #jobs = new Map<JobUuid, Known>();
  readonly counts = { counted: 0, refused: 0, stale: 0 };
  #made = 0;

  constructor(stores: readonly ClockedStore[]) {
    this.#hosts = stores.map((store, at) => ({
      store,
      life: lifeOf(HOSTS[at] as typeof HOSTS[0]),
      lives: 1,
    }));
  }

  async begin(): Promise<void> {
    for (const [at, { store, life }] of this.#hosts.entries()) {
      await register(store, life, [], { name: `gz0${at}` });
      await store.jobs.begin(life, [], LEASE);
    }
  }

  async round(): Promise<void> {
    const unfinished = [...this.#jobs.values()].filter(({ isEnded }) => !isEnded).length;
    for (let missing = JOBS - unfinished; missing > 0; missing--) await this.#post();
    await Promise.all(Array.from({ length: CALLS }, () => this.#call()));
  }

  #call(): Promise<void> {
    const host = this.#random.pick(this.#hosts);
    switch (this.#random.weighted(CALL_WEIGHTS)) {
      case "write":
        return this.#write();
      case "claim":
        return this.#claim(host);
      case "renew":
        return this.#renew(host);
      case "rescue":
        return host.store.jobs.rescue(host.life.runner_id).then(() => {});
      case "tick": {
        const { clock } = host.store;
        clock.now = instantAfter(clock.now, this.#random.integer(1, LEASE / 2));
        return Promise.resolve();
      }
      case "giveBack":
        return this.#giveBack();
      case "restart":
        return this.#restart(host);
      case "cancel":
        return this.#cancel(host);
    }
  }

  async #post(): Promise<void> {
    const { store } = this.#random.pick(this.#hosts);
    const workflow = this.#random.pick(WORKFLOWS);
    const job = await create(store, jobOf(++this.#made, { workflow }));
    this.#jobs.set(job.uuid, { claims: [], written: [], isEnded: false });
  }

  #known({ uuid }: Job): Known {
    const known = this.#jobs.get(uuid);
    assert(known !== undefined, `nobody has posted ${uuid}`);
    return known;
  }

  #isLost({ job, isLost }: Claim): boolean {
    return isLost || this.#known(job).claims.some((other) => other.job.lease > job.lease);
  }

  #learn(host: Host, jobs: readonly Job[]): void {
    for (const job of jobs) {
      const { claims } = this.#known(job);
      const before = claims.find((claim) => claim.job.lease === job.lease);
      // A renewal tells of a claim whose answer is still on its way.
      if (before === undefined) {
        const results = job.chain_results.length;
        claims.push({ job, host, results, isLost: false, isAtRest: false });
      } else assertEquals(before.host, host, `two hosts have ${job.uuid} by lease ${job.lease}`);
    }
  }

  async #claim(host: Host): Promise<void> {
    const { store: { jobs }, life } = host;
    const way = this.#random.pick(["all", "free", "ahead"] as const);
    if (way !== "ahead") {
      const which = way === "free" ? way : undefined;
      return this.#learn(host, (await jobs.claim(life, 2, which)).jobs);
    }
    // As a runner does that begins before its claims are written.
    const ready = (await jobs.ready(life, 2, new Set())).jobs;
    const held = await jobs.hold(life, ready);
    this.#learn(host, ready.filter(({ uuid }) => held.includes(uuid)));
  }

  /** A claim of any job that is not over for its runner, the latest or one before. */
  #anyClaim(): Claim | undefined {
    const jobs = [...this.#jobs.values()].slice(-3 * JOBS);
    const claims = jobs.flatMap((known) => known.claims).filter(({ isAtRest }) => !isAtRest);
    return claims.length === 0 ? undefined : this.#random.pick(claims);
  }

  async #write(): Promise<void> {
    const claim = this.#anyClaim();
    if (claim === undefined) return;
    const { job, host: { store }, results } = claim;
    const known = this.#known(job);
    const isStale = this.#isLost(claim) || known.isEnded;
    const text = `result ${this.counts.counted + this.counts.refused} of lease ${job.lease}`;
    const isLast = results >= CHAIN.length - 1;
    claim.isAtRest = true;
    const counts = await store.jobs.recordTask({
      ...recordOf(job, { kind: isLast ? "succeed" : "continue" }),
      ...holdOf(job, job.runner_id as RunnerLife["runner_id"]),
      position: results,
      entry: resultOf(`task ${results}`, { result: text }),
    });
    claim.isAtRest = false;
    if (isStale) this.counts.stale += 1;
    if (!counts) return void (this.counts.refused += 1);
    assert(!isStale, `${text} of ${job.uuid} counts, and its runner had lost the job`);
    this.counts.counted += 1;
    known.written.push({ lease: job.lease, text });
    claim.results += 1;
    if (isLast) known.isEnded = true;
  }

  async #giveBack(): Promise<void> {
    const claim = this.#anyClaim();
    if (claim === undefined) return;
    const { job, host: { store: { jobs } } } = claim;
    const isLost = this.#isLost(claim);
    claim.isAtRest = true;
    const hold = holdOf(job, job.runner_id as RunnerLife["runner_id"]);
    const gave = await (this.#random.chance(0.5) ? jobs.release(hold, 1) : jobs.abandon(hold));
    assert(!gave || !isLost, `${job.uuid} was given back by a runner that had lost it`);
    // A refused one is tried again with other calls.
    claim.isAtRest = gave;
  }

  #claimsOf(host: Host): Claim[] {
    const all = [...this.#jobs.values()].flatMap(({ claims }) => claims);
    return all.filter((claim) => claim.host === host && !claim.isAtRest);
  }

  async #renew(host: Host): Promise<void> {
    const { store, life } = host;
    const held = this.#claimsOf(host).filter((claim) => !this.#isLost(claim));
    const holds = held.map(({ job }) => holdOf(job, life.runner_id));
    const outcome = await store.jobs.renew(life, holds, LEASE);
    if (outcome.kind === "superseded") return;
    for (const claim of held) {
      if (outcome.lost.includes(claim.job.uuid)) claim.isLost = true;
    }
    this.#learn(host, outcome.unknown);
  }

  /** Another agent of the host begins, without a word of the one before. */
  async #restart(host: Host): Promise<void> {
    const { store, life: before } = host;
    const claims = this.#claimsOf(host);
    const life = lifeOf(before.runner_id, ++host.lives);
    const outcome = await store.jobs.begin(life, [before.incarnation], LEASE);
    if (outcome.kind !== "begun") return;
    host.life = life;
    for (const claim of claims) claim.isLost = true;
  }

  async #cancel({ store }: Host): Promise<void> {
    const [uuid, known] = this.#random.pick([...this.#jobs].slice(-JOBS));
    const { kind } = await store.jobs.cancel(uuid);
    if (kind === "changed" || kind === "made") known.isEnded = true;
  }

  /** Compares what is recorded with what was answered. @returns how many jobs have results of several claims */
  async check(): Promise<number> {
    let passedOn = 0;
    for (const [uuid, { written }] of this.#jobs) {
      const { chain_results } = await present(this.#random.pick(this.#hosts).store, uuid);
      const inOrder = written.toSorted((one, other) => one.lease - other.lease);
      assertEquals(chain_results.map(({ result }) => result), inOrder.map(({ text }) => text));
      if (new Set(written.map(({ lease }) => lease)).size > 1) passedOn += 1;
    }
    return passedOn;
  }
}

fleetTests()(
  `a write of a runner that has lost its job never counts, and one that counts is recorded once (seed ${SEED})`,
  async ({ one, other }) => {
    const model = new Model([one, other]);
    await model.begin();
    for (let round = 0; round < ROUNDS; round++) await model.round();
    const passedOn = await model.check();
    const { counted, stale } = model.counts;
    const words = `${counted} counted, ${stale} stale, ${passedOn} jobs of several claims`;
    assert(Math.min(counted, stale, passedOn) > 0, words);
  },
);

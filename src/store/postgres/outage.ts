// The store of an agent whose database may be away. Meanwhile bound jobs continue on the journal, and reads of jobs
// that this host runs, or has shown lately, are answered from memory.

import { isAway } from "../../domain/error.ts";
import type { JobUuid, RunnerId } from "../../domain/id.ts";
import { type Now, systemNow } from "../../domain/instant.ts";
import type { Job } from "../../domain/job/job.ts";
import { isHeld, stateOf } from "../../domain/job/state.ts";
import type { Log } from "../../metrics/log.ts";
import type { JobNotice } from "../host_store.ts";
import type { JobStore } from "../job_store.ts";
import type { BeginOutcome, Claimed, Hold } from "../run_store.ts";
import type { MachineClaim, MachineClaimStore } from "../claim_store.ts";
import type { InfoStore, JournalStore, Store } from "../store.ts";
import type { Showing, StoredText } from "../stored_text.ts";
import { HeldJobs, KeptTexts } from "./held_jobs.ts";
import { Journal, type JournalEntry } from "./journal.ts";
import type { UnwrittenHold } from "./job/host_lost.ts";
import { textOfJob } from "./job/texts.ts";

/** Memory for the texts of jobs shown lately, bytes. */
const KEPT_BYTES_MAX = 16 * 1024 * 1024;

/** What the store needs to get through an outage. */
export interface OutageOptions {
  /** The journal's rows, in a file of this host. */
  readonly rows: JournalStore;
  /** Bytes that the journal may take on the disk. */
  readonly journalBytesMax: number;
  readonly now?: Now;
  readonly log: Log;
}

interface OutageParts extends OutageOptions {
  /** Milliseconds since the database last answered. */
  readonly silentMs: () => number;
  /** As JobStore.begin(), but the `kept` jobs are not released. */
  readonly begin: (
    ...call: [...Parameters<JobStore["begin"]>, kept: readonly JobUuid[]]
  ) => Promise<BeginOutcome>;
  /** Fails the current task of a job of this host. @returns whether the host still held the job */
  readonly fail: (hold: UnwrittenHold, error: string) => Promise<boolean>;
  /** Reads the claims of these jobs on machines. */
  readonly claimsOf: (jobs: readonly JobUuid[]) => Promise<MachineClaim[]>;
}

/**
 * Wraps the shared store of one host.
 * @returns the store, and the journal, which must be delivered once the database answers again
 */
export async function openOutage(
  shared: Store,
  parts: OutageParts,
): Promise<{ readonly store: Store; readonly journal: Pick<Journal, "delivered" | "ended"> }> {
  const followers = new Set<(notice: JobNotice) => void>();
  const held = new HeldJobs();
  const journal = await Journal.open({
    rows: parts.rows,
    shared,
    bytesMax: parts.journalBytesMax,
    refused(job_uuid) {
      for (const noticed of followers) noticed({ kind: "canceled", job_uuid });
    },
    fail: parts.fail,
    emptied: () => held.settled(),
    log: parts.log,
  });
  const outage = new Outage(shared, journal, held, parts);
  const { jobs } = shared;
  const store: Store = {
    ...shared,
    jobs: {
      ...jobs,
      ...outage.reads(),
      ...outage.claims(),
      ...outage.records(),
      follow(noticed) {
        followers.add(noticed);
        const end = jobs.follow(noticed);
        return () => {
          followers.delete(noticed);
          end();
        };
      },
    },
    info: { ...shared.info, append: outage.append() },
    machineClaims: { ...shared.machineClaims, ...outage.machineClaims() },
    measures: {
      ...shared.measures,
      async check() {
        await shared.measures.check();
        journal.requireAccepted();
      },
    },
  };
  return { store, journal };
}

class Outage {
  readonly #shared: Store;
  readonly #journal: Journal;
  readonly #held: HeldJobs;
  readonly #kept: KeptTexts<StoredText>;
  readonly #parts: OutageParts;
  readonly #now: Now;
  #runner: RunnerId | undefined;
  /** Jobs of an earlier life whose journal entries are not delivered yet; afterwards they count as interrupted. */
  readonly #interrupted = new Set<JobUuid>();

  constructor(shared: Store, journal: Journal, held: HeldJobs, parts: OutageParts) {
    this.#shared = shared;
    this.#journal = journal;
    this.#held = held;
    this.#kept = new KeptTexts(KEPT_BYTES_MAX);
    this.#parts = parts;
    this.#now = parts.now ?? systemNow;
  }

  /** Calls that return jobs, from which this class learns the state of those that the host runs. */
  reads(): Pick<JobStore, "get" | "text" | "order" | "cancel" | "resume"> {
    const { jobs } = this.#shared;
    return {
      get: async (uuid) => {
        const job = await jobs.get(uuid);
        if (job !== undefined) this.#seen(job);
        return job;
      },
      text: async (uuid, showing) => {
        try {
          return this.#shown(uuid, showing, await jobs.text(uuid, showing));
        } catch (error) {
          const stale = isAway(error) ? this.#stale(uuid, showing) : undefined;
          if (stale === undefined) throw error;
          return stale;
        }
      },
      order: async (order, rules) => {
        const outcome = await jobs.order(order, rules);
        if ("text" in outcome) this.#shown(outcome.job.uuid, rules.showing, outcome.text);
        return outcome;
      },
      cancel: async (uuid, showing) => {
        const outcome = await jobs.cancel(uuid, showing);
        if ("text" in outcome) this.#shown(uuid, showing, outcome.text);
        return outcome;
      },
      resume: async (uuid, resume, showing, call) => {
        const outcome = await jobs.resume(uuid, resume, showing, call);
        if ("text" in outcome) this.#shown(uuid, showing, outcome.text);
        return outcome;
      },
    };
  }

  /**
   * Nothing is claimed before the journal is delivered. The lease is renewed even when the database answers but rejects
   * an entry, because the host is alive.
   */
  claims(): Pick<JobStore, "begin" | "renew" | "claim" | "ready" | "hold"> {
    const { jobs } = this.#shared;
    const journal = this.#journal;
    return {
      begin: async (life, earlier, leaseMs) => {
        this.#runner = life.runner_id;
        const kept = await journal.undelivered();
        const outcome = await this.#parts.begin(life, earlier, leaseMs, kept);
        if (outcome.kind === "begun") { for (const uuid of kept) this.#interrupted.add(uuid); }
        return outcome;
      },
      renew: async (life, holds, leaseMs) => {
        const waiting = await journal.undelivered();
        const outcome = await jobs.renew(life, holds, leaseMs);
        for (const hold of holds) {
          if (outcome.kind !== "renewed" || outcome.lost.includes(hold.job_uuid)) {
            this.#held.lost(hold);
          }
        }
        if (outcome.kind !== "renewed") return outcome;
        await this.#readClaims(this.#held.unread);
        const known = outcome.unknown.filter(({ uuid }) => !waiting.includes(uuid));
        const unknown = await this.#uninterrupted(known);
        await this.#took(unknown);
        return { ...outcome, unknown };
      },
      claim: async (life, limit, which) => {
        if ((await journal.undelivered()).length > 0) return NOTHING;
        const claimed = await jobs.claim(life, limit, which);
        await this.#took(claimed.jobs);
        return claimed;
      },
      ready: async (life, limit, passedOver) => {
        if ((await journal.undelivered()).length > 0) return NOTHING;
        return await jobs.ready(life, limit, passedOver);
      },
      hold: async (life, begun) => {
        const uuids = new Set(await jobs.hold(life, begun));
        await this.#took(begun.filter(({ uuid }) => uuids.has(uuid)));
        return [...uuids];
      },
    };
  }

  /** The writes of a runner about the jobs that it holds. */
  records(): Pick<JobStore, "recordTask" | "recordAttempt" | "release" | "abandon"> {
    const { jobs } = this.#shared;
    return {
      recordTask: async (record, patient) => {
        const entry = { op: "task", record } as const;
        const owned = await this.#write(record, entry, () => jobs.recordTask(record, patient));
        if (owned) this.#held.recorded(record, this.#now(), this.#journal.waits);
        else this.#held.lost(record);
        return owned;
      },
      recordAttempt: async (record) => {
        const entry = { op: "attempt", record } as const;
        const owned = await this.#write(record, entry, () => jobs.recordAttempt(record));
        if (owned) this.#held.attempted(record, this.#now());
        return owned;
      },
      release: async (hold, elapsed_ms) => {
        const entry = { op: "release", hold, elapsed_ms } as const;
        const owned = await this.#write(hold, entry, () => jobs.release(hold, elapsed_ms));
        this.#held.lost(hold);
        return owned;
      },
      abandon: async (hold) => {
        const entry = { op: "abandon", hold } as const;
        const owned = await this.#write(hold, entry, () => jobs.abandon(hold));
        this.#held.lost(hold);
        return owned;
      },
    };
  }

  /** Info entries of tasks go through the journal; those of callers need the database. */
  append(): InfoStore["append"] {
    const { info } = this.#shared;
    return async (job_uuid, entry, at, entriesMax, attempt, call = crypto.randomUUID()) => {
      const append = () => info.append(job_uuid, entry, at, entriesMax, attempt, call);
      if (attempt === undefined || !this.#held.has(job_uuid)) return await append();
      const note = { job_uuid, entry, at, entries_max: entriesMax, attempt, call };
      return await this.#journal.write({ op: "note", note }, append, "appended");
    };
  }

  /** Calls about the claims of jobs on machines. This host knows the claims of the jobs that it runs. */
  machineClaims(): Pick<MachineClaimStore, "take" | "get" | "release"> {
    const { machineClaims } = this.#shared;
    const held = this.#held;
    return {
      take: async (machine) => {
        const { uuid, job_uuid } = machine;
        const lease = held.leaseOf(job_uuid);
        if (lease === undefined) return await machineClaims.take(machine);
        const entry = { op: "claim", machine, lease } as const;
        const take = () => machineClaims.take(machine, lease);
        const taken = await this.#written(entry, () => this.#journal.write(entry, take, true));
        const fresh = { claimed_at: this.#now(), tries: 0, next_try_at: null, error: null };
        const named = { ...machine, host_uuid: null };
        if (taken) held.claimed(uuid, { ...named, ...fresh });
        return taken;
      },
      get: async (uuid) => {
        const known = held.claimOn(uuid);
        if (this.#journal.waits && known !== undefined) return known ?? undefined;
        try {
          return await machineClaims.get(uuid);
        } catch (error) {
          if (!isAway(error) || !held.claimsKnown) throw error;
          return known ?? undefined;
        }
      },
      release: async (uuid, job_uuid) => {
        const lease = held.leaseOf(job_uuid);
        if (lease === undefined) return await machineClaims.release(uuid, job_uuid);
        const release = () => machineClaims.release(uuid, job_uuid, lease);
        await this.#journal.write({ op: "unclaim", uuid, job_uuid, lease }, release, undefined);
        held.released(uuid, job_uuid, this.#journal.waits);
      },
    };
  }

  /** Releases jobs that an earlier life was running; their starts stay counted. @returns the other jobs */
  async #uninterrupted(jobs: readonly Job[]): Promise<readonly Job[]> {
    const interrupted = jobs.filter(({ uuid }) => this.#interrupted.has(uuid));
    for (const { uuid, lease, phase, runner_id } of interrupted) {
      if (runner_id === null) continue;
      await this.#shared.jobs.abandon({ job_uuid: uuid, runner_id, lease, phase });
      this.#interrupted.delete(uuid);
    }
    return jobs.filter((job) => !interrupted.includes(job));
  }

  /** Writes about a claim, into the journal if the database is away. @returns whether the runner still holds the job */
  async #write(
    hold: Hold,
    entry: JournalEntry,
    write: () => Promise<boolean>,
  ): Promise<boolean> {
    return await this.#written(
      entry,
      () => this.#held.holds(hold) ? this.#journal.write(entry, write, true) : write(),
    );
  }

  /**
   * Makes a write, and fails its job if the database can never accept it.
   * @returns whether the runner still holds the job
   */
  async #written(entry: JournalEntry, write: () => Promise<boolean>): Promise<boolean> {
    try {
      return await write();
    } catch (error) {
      return await this.#journal.failed(entry, error);
    }
  }

  /** Notes jobs that this host's runner now holds. A job that was claimed before may have claimed machines. */
  async #took(jobs: readonly Job[]): Promise<void> {
    for (const job of jobs) this.#held.took(job);
    await this.#readClaims(jobs.filter(({ lease }) => lease > 1).map(({ uuid }) => uuid));
  }

  /** Reads which machines these jobs have claimed; if the database is away, renew() tries again. */
  async #readClaims(jobs: readonly JobUuid[]): Promise<void> {
    if (jobs.length === 0) return;
    try {
      const claims = await this.#parts.claimsOf(jobs);
      this.#held.claimsRead(jobs, claims, this.#journal.waits);
    } catch (error) {
      if (!isAway(error)) throw error;
      this.#held.claimsUnread(jobs);
    }
  }

  /** Learns from a read job that it was canceled: then the runner has lost it, or runs its oncancel chain. */
  #seen(job: Job): void {
    const { uuid, runner_id, phase, lease } = job;
    if (runner_id === null) {
      const known = this.#held.get(uuid);
      // lost() compares leases: a read that began before the claim has an older one, and changes nothing.
      if (known !== undefined && !this.#journal.waits) this.#held.lost({ job_uuid: uuid, lease });
      return;
    }
    if (runner_id !== this.#runner || phase !== "oncancel" || !isHeld(stateOf(job))) return;
    if (!this.#held.has(uuid) || this.#held.get(uuid)?.phase !== phase) this.#held.took(job);
  }

  /** Keeps a text that is in memory as a whole; a large one is read in parts, only once. */
  #shown<T extends StoredText | undefined>(
    uuid: JobUuid,
    showing: Showing | undefined,
    text: T,
  ): T {
    const isWhole = text?.parts.every((part) => part instanceof Uint8Array);
    if (text !== undefined && isWhole === true) this.#kept.put(keyOf(uuid, showing), text);
    return text;
  }

  #stale(uuid: JobUuid, showing: Showing): StoredText | undefined {
    const job = this.#held.get(uuid);
    if (job !== undefined) {
      return { ...textOfJob({ job, host: undefined }, showing), staleMs: this.#parts.silentMs() };
    }
    const kept = this.#kept.get(keyOf(uuid, showing));
    return kept === undefined ? undefined : { ...kept.text, staleMs: kept.ageMs };
  }
}

/** The answer while the journal is not delivered. */
const NOTHING: Claimed = { jobs: [], due: { kind: "none" } };

/** A job's key. The texts differ by whether secrets are masked. */
function keyOf(uuid: JobUuid, showing: Showing | undefined): string {
  return `${uuid} ${showing?.masksSecrets === true}`;
}

// Keeps jobs running while the database is away. Each write of a runner is synced to a file of this host before the job
// continues, and replayed in order once the database answers. Until the journal is empty, every write of a runner joins
// it and nothing is claimed. So no job is claimed whose row does not yet show a task that has run.
//
//     runner ──▶ database              while it answers and the journal is empty
//     runner ──▶ journal ──▶ database  otherwise
//
// Each write still names its claim. If the job was canceled meanwhile, the database refuses the write, and the host
// runs the oncancel chain.

import { AgentError, isAway, messageOf, unreachable } from "../../domain/error.ts";
import type { JobUuid, MachineUuid } from "../../domain/id.ts";
import type { Instant } from "../../domain/instant.ts";
import type { JsonObject } from "../../domain/json.ts";
import type { Log } from "../../metrics/log.ts";
import type { AttemptRecord, Hold, TaskRecord } from "../run_store.ts";
import type { MachineClaim } from "../claim_store.ts";
import type { JournalRow, JournalStore, Store } from "../store.ts";
import type { UnwrittenHold } from "./job/host_lost.ts";
import { isBadData } from "./errors.ts";

/** A write of a runner, as the journal stores it. */
export type JournalEntry =
  | { readonly op: "task"; readonly record: TaskRecord }
  | { readonly op: "attempt"; readonly record: AttemptRecord }
  | { readonly op: "release"; readonly hold: Hold; readonly elapsed_ms: number }
  | { readonly op: "abandon"; readonly hold: Hold }
  | { readonly op: "note"; readonly note: JournaledNote }
  | { readonly op: "claim"; readonly machine: ClaimedMachine; readonly lease: number }
  | {
    readonly op: "unclaim";
    readonly uuid: MachineUuid;
    readonly job_uuid: JobUuid;
    readonly lease: number;
  };

type ClaimedMachine = Pick<MachineClaim, "uuid" | "host" | "job_uuid">;

/** An info entry of a job, and the id of the call, by which it is appended only once. */
interface JournaledNote {
  readonly job_uuid: JobUuid;
  readonly entry: JsonObject;
  readonly at: Instant;
  readonly entries_max: number;
  readonly attempt: number;
  readonly call: string;
}

/**
 * Info entries may fill the journal's size divided by this: a task that logs a lot must not block the results of
 * others.
 */
const NOTES_SHARE = 2;

/** Where the journal is stored, and where it is delivered. */
interface JournalOptions {
  readonly rows: JournalStore;
  readonly shared: Pick<Store, "jobs" | "info" | "machineClaims">;
  readonly bytesMax: number;
  /** Called when the database refused a write because this runner no longer holds the job, or the job has failed. */
  readonly refused: (job: JobUuid) => void;
  /** Fails the current task of a job. @returns whether the runner still held the job */
  readonly fail: (hold: UnwrittenHold, error: string) => Promise<boolean>;
  /** Called when the journal is empty again. */
  readonly emptied: () => void;
  readonly log: Log;
}

/** The journal of one host. */
export class Journal {
  readonly #options: JournalOptions;
  /** Entries that are not delivered, including those that are still being synced. */
  #waiting: number;
  #bytes: number;
  readonly #appending = new Set<Promise<void>>();
  /** Rows that are delivered but not removed yet, because a full disk refuses removals too. */
  readonly #delivered = new Set<number>();
  #delivering: Promise<void> | undefined;
  /** Why the database rejects an entry although it answers. */
  #rejected: string | undefined;

  private constructor(options: JournalOptions, size: { rows: number; bytes: number }) {
    this.#options = options;
    this.#waiting = size.rows;
    this.#bytes = size.bytes;
  }

  /** Opens the journal with the entries that an earlier agent left. */
  static async open(options: JournalOptions): Promise<Journal> {
    const size = await options.rows.size();
    if (size.rows > 0) options.log.warn("journal to be delivered", size);
    return new Journal(options, size);
  }

  /** Whether any entry is not delivered. */
  get waits(): boolean {
    return this.#waiting > 0;
  }

  /**
   * Writes to the database, or to the journal while the database is away or the journal is not empty.
   * @param done the value that the database returns for a write that it accepts
   * @throws {AgentError} `storage_full` when the journal or its disk is full
   */
  async write<T>(entry: JournalEntry, write: () => Promise<T>, done: T): Promise<T> {
    if (!this.waits) {
      try {
        return await write();
      } catch (error) {
        if (!isAway(error)) throw error;
      }
    }
    await this.#append(entry);
    return done;
  }

  /**
   * Delivers all entries.
   * @throws {AgentError} `overloaded` when the database is away; undelivered entries stay in the journal
   */
  async delivered(): Promise<void> {
    if (!this.waits) return;
    await (this.#delivering ??= this.#deliver().finally(() => this.#delivering = undefined));
  }

  /**
   * Delivers as many entries as possible.
   * @returns the jobs with entries that the database rejects although it answers
   * @throws {AgentError} `overloaded` when the database is away
   */
  async undelivered(): Promise<readonly JobUuid[]> {
    try {
      await this.delivered();
      return [];
    } catch (error) {
      if (isAway(error)) throw error;
      return await this.#options.rows.jobs();
    }
  }

  /** @throws {AgentError} `internal` while the database rejects an entry although it answers */
  requireAccepted(): void {
    if (this.#rejected === undefined) return;
    const words = `the database rejects an entry of the journal: ${this.#rejected}`;
    throw new AgentError("internal", `Cannot claim jobs: ${words}`);
  }

  /** Settles when no delivery is running. */
  async ended(): Promise<void> {
    await this.#delivering?.catch(() => {});
  }

  async #append(entry: JournalEntry): Promise<void> {
    const { rows, bytesMax } = this.#options;
    const text = JSON.stringify(entry);
    const bytes = new TextEncoder().encode(text).length;
    if (this.#bytes + bytes > (entry.op === "note" ? bytesMax / NOTES_SHARE : bytesMax)) {
      const words = `it has ${this.#bytes} of ${bytesMax} bytes, and the database is away`;
      throw new AgentError("storage_full", `Cannot write to the journal: ${words}`);
    }
    this.#count(1, bytes);
    const appending = rows.append(jobOf(entry), text);
    this.#appending.add(appending);
    try {
      await appending;
    } catch (error) {
      this.#count(-1, -bytes);
      throw error;
    } finally {
      this.#appending.delete(appending);
    }
  }

  #count(rows: number, bytes: number): void {
    this.#waiting += rows;
    this.#bytes += bytes;
  }

  async #deliver(): Promise<void> {
    const { rows, emptied, log } = this.#options;
    let total = 0;
    while (this.waits) {
      const page = await rows.first();
      // Entries that are still being synced have no row yet.
      if (page.length === 0) await Promise.allSettled(this.#appending);
      else total += await this.#deliverPage(page);
    }
    this.#rejected = undefined;
    log.info("journal delivered", { rows: total });
    emptied();
  }

  /**
   * Delivers a job's entries in order, and those of several jobs in parallel, so that they share transactions. @returns
   * the number of entries
   */
  async #deliverPage(page: readonly JournalRow[]): Promise<number> {
    const jobs = Map.groupBy(page, ({ job_uuid }) => job_uuid);
    const ends = await Promise.allSettled(Array.from(jobs.values(), async (ofJob) => {
      for (const row of ofJob) {
        if (!this.#delivered.has(row.id)) await this.#deliverRow(row);
        this.#delivered.add(row.id);
      }
    }));
    const done = page.filter(({ id }) => this.#delivered.has(id));
    await this.#options.rows.remove(done.map(({ id }) => id));
    for (const { id, entry } of done) {
      this.#delivered.delete(id);
      this.#count(-1, -new TextEncoder().encode(entry).length);
    }
    for (const end of ends) if (end.status === "rejected") throw end.reason;
    return done.length;
  }

  async #deliverRow({ job_uuid, entry: text }: JournalRow): Promise<void> {
    const { refused } = this.#options;
    // This class made the text from an entry.
    const entry = JSON.parse(text) as JournalEntry;
    try {
      if (await this.#isTaken(entry)) return;
      refused(job_uuid);
    } catch (error) {
      if (!isAway(error)) this.#noteUntaken(job_uuid, entry, error);
      throw error;
    }
  }

  /** @returns whether the job continues as the entry says */
  async #isTaken(entry: JournalEntry): Promise<boolean> {
    const { shared, log } = this.#options;
    try {
      if (await carryOut(shared, entry)) return true;
      const fields = { job_uuid: jobOf(entry), op: entry.op };
      log.warn("journal entry refused: the runner no longer has the job", fields);
      return false;
    } catch (error) {
      return await this.failed(entry, error);
    }
  }

  /**
   * Fails a job if the database can never accept its write: retrying would block the job and all entries behind it.
   * @returns whether the job continues without the write
   * @throws the error itself when a retry may succeed
   */
  async failed(entry: JournalEntry, error: unknown): Promise<boolean> {
    if (!isBadData(error)) throw error;
    const { fail, log } = this.#options;
    log.error("entry of a job cannot be written", { job_uuid: jobOf(entry), op: entry.op, error });
    const unwritten = unwrittenOf(entry);
    if (unwritten === undefined) return true;
    await fail(unwritten.hold, `Cannot write ${unwritten.what}: ${messageOf(error)}`);
    return false;
  }

  /** Logs a rejection once, and keeps its reason for the readiness check. */
  #noteUntaken(job_uuid: JobUuid, { op }: JournalEntry, error: unknown): void {
    const why = messageOf(error);
    if (why !== this.#rejected) {
      this.#options.log.error("journal entry not written", { job_uuid, op, error });
    }
    this.#rejected = why;
  }
}

/**
 * The write whose loss must fail its job, as errors name it. The loss of an info entry or of a given-up claim fails
 * nothing: the machine of such a claim is handled as a leftover.
 */
function unwrittenOf(
  entry: JournalEntry,
): { readonly hold: UnwrittenHold; readonly what: string } | undefined {
  switch (entry.op) {
    case "task":
      return { hold: entry.record, what: "the end of the task" };
    case "attempt":
      return { hold: entry.record, what: "an attempt of the task" };
    case "release":
    case "abandon":
      return { hold: entry.hold, what: "the release of the job" };
    case "claim": {
      // The machine may exist, and without the claim nobody would know which job made it. A canceled job undoes its
      // work anyway, so only the chain fails.
      const { machine: { job_uuid, uuid }, lease } = entry;
      return { hold: { job_uuid, lease, phase: "chain" }, what: `the claim on machine ${uuid}` };
    }
    default:
      return undefined;
  }
}

/** The job that an entry is about. */
function jobOf(entry: JournalEntry): JobUuid {
  switch (entry.op) {
    case "task":
    case "attempt":
      return entry.record.job_uuid;
    case "release":
    case "abandon":
      return entry.hold.job_uuid;
    case "note":
      return entry.note.job_uuid;
    case "claim":
      return entry.machine.job_uuid;
    default:
      return entry.job_uuid;
  }
}

/** Repeats a write on the database. @returns whether the claim that it names still held */
async function carryOut(
  { jobs, info, machineClaims }: JournalOptions["shared"],
  entry: JournalEntry,
): Promise<boolean> {
  switch (entry.op) {
    case "task":
      return await jobs.recordTask(entry.record);
    case "attempt":
      return await jobs.recordAttempt(entry.record);
    case "release":
      await jobs.release(entry.hold, entry.elapsed_ms);
      return true;
    case "abandon":
      await jobs.abandon(entry.hold);
      return true;
    case "note": {
      const { job_uuid, entry: noted, at, entries_max, attempt, call } = entry.note;
      await info.append(job_uuid, noted, at, entries_max, attempt, call);
      return true;
    }
    case "claim":
      return await machineClaims.take(entry.machine, entry.lease);
    case "unclaim":
      await machineClaims.release(entry.uuid, entry.job_uuid, entry.lease);
      return true;
    default:
      return unreachable(entry);
  }
}

// What is known of every job that was asked for: which requests were acknowledged, which of them may
// have come about, and what has been read. Everything that is read is held against it.

import { canonicalJson, isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { History, Turns } from "./history.ts";
import {
  type Asked,
  brokenBetween,
  brokenEnd,
  brokenExecutions,
  brokenIn,
  isFinal,
  resultsOf,
} from "./job_rules.ts";
import { nextWorkload, QUICK, type Workload } from "./workloads.ts";

/** One info entry that was posted from outside. */
interface Posted {
  readonly id: string;
  readonly acknowledged: boolean;
}

/** One job that was asked for, or that followed from a retry. */
export class JobRecord {
  /** Changes from outside take turns, so that it is known what an answer is about. */
  readonly turns = new Turns();
  /** So do the posts and reads of its info. */
  readonly infoTurns = new Turns();
  readonly history: History;
  asked: Asked = { cancel: "no", resume: "no", retry: "no" };
  /** What was posted under an idempotency key, so that it can be posted again. */
  keyed: JsonObject | undefined;
  view: JsonObject | undefined;
  /** When `view` was read, in the count of the book's looks. */
  viewedAt = 0;
  posted: Posted[] = [];
  info: readonly JsonObject[] = [];
  /** Posts of info when the info was last read after the end of the job; undefined before. */
  checkedPosts: number | undefined;

  constructor(
    readonly mark: string,
    readonly workload: Workload,
    readonly target: string | undefined,
    /** The life of the agent in which it was asked for. */
    readonly bornIn: number,
    clock: () => string,
  ) {
    this.history = new History(clock);
  }

  get uuid(): string | undefined {
    return this.view === undefined ? undefined : String(this.view.uuid);
  }

  expect(rules: readonly string[]): void {
    this.history.expect(`job ${this.uuid ?? this.mark} (${this.workload.name})`, rules);
  }
}

/** All jobs of one state folder. */
export class JobBook {
  readonly #byMark = new Map<string, JobRecord>();
  readonly #byUuid = new Map<string, JobRecord>();
  /** Posts without an answer: each of them made one job or none. */
  readonly #open = new Map<string, { record: JobRecord; mustExist: boolean }>();
  readonly #clock: () => string;
  #looks = 0;
  /** Posts under an idempotency key without an answer, to be made once more. */
  readonly toRepeat: JobRecord[] = [];
  /** Lives of the agent so far. */
  lives = 0;

  constructor(clock: () => string) {
    this.#clock = clock;
  }

  get records(): readonly JobRecord[] {
    return [...this.#byUuid.values()];
  }

  /** Begins a record; it counts once `created` or `unanswered` says so. */
  begin(mark: string, workload: Workload, target?: string, bornIn = this.lives): JobRecord {
    return new JobRecord(mark, workload, target, bornIn, this.#clock);
  }

  /** Called when the agent has answered 201. */
  created(record: JobRecord, job: JsonObject): void {
    record.history.add(`POST /jobs acknowledged: ${job.uuid}`);
    this.#byMark.set(record.mark, record);
    this.look(record, job, this.now());
  }

  /** @param mustExist when another answer has shown that one of the posts made the job */
  unanswered(record: JobRecord, mustExist: boolean): void {
    record.history.add("POST /jobs not answered");
    this.#byMark.set(record.mark, record);
    this.#open.set(record.mark, { record, mustExist });
    if (record.keyed !== undefined) this.toRepeat.push(record);
  }

  /** The count of looks, taken before a request is sent. */
  now(): number {
    return this.#looks;
  }

  /**
   * Holds one reading of a job against everything known.
   * @param since the count of looks when the request was sent: of two readings that were under way
   * at the same time nobody knows which is the older one, so they are not compared
   * @param change whether it is the answer to a change, from which everything later follows
   */
  look(record: JobRecord, job: JsonObject, since: number, change = false): void {
    const overtaken = record.view !== undefined && record.viewedAt > since;
    if (overtaken && !change) return;
    this.#looks += 1;
    const before = overtaken ? undefined : record.view;
    const reported = `${job.execution} ${JSON.stringify(job.chain_results)}`;
    if (before === undefined || canonicalJson(before) !== canonicalJson(job)) {
      record.history.add(`read: ${reported}`);
    }
    record.view = job;
    record.viewedAt = this.#looks;
    this.#byUuid.set(String(job.uuid), record);
    record.expect([
      ...(before === undefined ? [] : brokenBetween(before, job, record.asked)),
      ...brokenIn(job, record.workload, record.asked),
    ]);
  }

  /** A change was acknowledged by an answer that does not show the job itself. */
  changed(record: JobRecord): void {
    this.#looks += 1;
    record.viewedAt = this.#looks;
  }

  /** Holds one reading of a job's info against what was posted, read and recorded. */
  lookAtInfo(record: JobRecord, info: readonly JsonObject[], job: JsonObject): void {
    const before = record.info;
    const broken: string[] = [];
    const kept = info.slice(0, before.length);
    if (canonicalJson([...kept]) !== canonicalJson([...before])) {
      broken.push(`the info that was read has changed from ${JSON.stringify(before)}`);
    }
    record.info = info;
    const found = info.flatMap(({ posted }) => typeof posted === "string" ? [posted] : []);
    const known = record.posted.filter(({ id, acknowledged }) =>
      acknowledged || found.includes(id)
    );
    const wanted = known.map(({ id }) => id);
    if (JSON.stringify(found) !== JSON.stringify(wanted)) {
      broken.push(
        `the info posted is ${JSON.stringify(found)}, expected ${JSON.stringify(wanted)}`,
      );
    }
    const lives = this.lives - record.bornIn + 1;
    broken.push(...brokenExecutions(job, info, record.workload, lives));
    if (isFinal(job)) record.checkedPosts = record.posted.length;
    if (broken.length > 0) record.history.add(`info: ${JSON.stringify(info)}`);
    record.expect(broken);
  }

  /** Holds a list of all jobs, read while nobody posts, against the jobs that there must be. */
  lookAtAll(jobs: readonly JsonObject[], since: number): void {
    const seen = new Set<string>();
    // Oldest first: the job that asked to be retried comes before the one that was made.
    for (const job of jobs.toReversed()) {
      const uuid = String(job.uuid);
      if (seen.has(uuid)) throw new Error(`Job ${uuid} is listed twice`);
      seen.add(uuid);
      this.look(this.#byUuid.get(uuid) ?? this.#found(job), job, since);
    }
    for (const record of this.records) {
      if (!seen.has(String(record.uuid))) record.expect(["it was acknowledged and is not listed"]);
    }
    for (const { record, mustExist } of this.#open.values()) {
      record.history.add("not found after the agent was started again");
      if (mustExist) {
        record.expect(["an equal request was refused for its sake and it is not there"]);
      }
    }
    this.#open.clear();
    this.#expectOneOfEach(jobs);
    for (const record of this.records) settleChanges(record);
  }

  /** A job that no answer has named: from a post without an answer, or from a retry. */
  #found(job: JsonObject): JobRecord {
    const mark = String(isJsonObject(job.params) ? job.params.mark : "");
    const known = this.#byMark.get(mark);
    if (job.prev_attempt !== undefined) {
      const before = this.#byUuid.get(String(job.prev_attempt));
      const { workload, target, bornIn } = before ?? {};
      // It may have been made in any life since that of the job it follows.
      const record = this.begin(mark, nextWorkload(workload), target, bornIn);
      record.history.add(`follows ${job.prev_attempt}`);
      if (before?.view?.next_attempt !== job.uuid) {
        record.expect([`job ${job.prev_attempt} does not name it as its next attempt`]);
      }
      return record;
    }
    const open = this.#open.get(mark);
    if (open === undefined || known !== open.record) {
      const record = known ?? this.begin(mark, QUICK);
      record.expect([`job ${job.uuid} with mark "${mark}" was asked for by nobody, or twice`]);
    }
    this.#open.delete(mark);
    return (open as { record: JobRecord }).record;
  }

  /** Promise P10, in one list: no two unfinished jobs with the same target and params. */
  #expectOneOfEach(jobs: readonly JsonObject[]): void {
    const held = new Set<string>();
    for (const job of jobs) {
      if (job.target === undefined || isFinal(job)) continue;
      const key = `${job.target} ${canonicalJson(job.params ?? null)}`;
      if (held.has(key)) throw new Error(`Two unfinished jobs have target and params ${key}`);
      held.add(key);
    }
  }

  /** Everything that must hold of a job that has come to its end. */
  expectEnd(record: JobRecord): void {
    record.expect(brokenEnd(record.view ?? {}, record.workload, record.asked));
  }
}

/** What has become of changes without an answer is plain once nobody sends any more. */
function settleChanges(record: JobRecord): void {
  const { asked, view = {} } = record;
  if (asked.cancel === "maybe") {
    record.asked = { ...record.asked, cancel: view.execution === "canceled" ? "done" : "no" };
  }
  if (asked.retry === "maybe") {
    record.asked = { ...record.asked, retry: view.next_attempt === undefined ? "no" : "done" };
  }
  if (asked.resume === "maybe") {
    const waits = resultsOf(view, "chain").some(({ error }) => error === "wait");
    record.asked = { ...record.asked, resume: waits ? "no" : "done" };
  }
}

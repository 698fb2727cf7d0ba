// The jobs that this host runs, as it knows them: it can go on with them, and show them, while the database is away.

import type { JobUuid, MachineUuid } from "../../domain/id.ts";
import { type Instant, instantAfter, MS_PER_SECOND } from "../../domain/instant.ts";
import { isFree, type Job, jobAfter } from "../../domain/job/job.ts";
import { afterTask, heldIn, isClaimable, isHeld } from "../../domain/job/state.ts";
import { valueWeight } from "../../domain/json.ts";
import type { AttemptRecord, Hold, TaskRecord } from "../job_store.ts";
import type { MachineClaim } from "../machine_store.ts";

/** Bytes of a job that is known here; of a larger one only its claim is, or it would take the memory of running jobs. */
const KNOWN_BYTES_MAX = 512 * 1024;

interface HeldJob {
  readonly lease: number;
  /** Whether any host may run it: another one may have it already, so that nothing of it waits in the journal. */
  readonly free: boolean;
  /** Undefined for a large one. */
  readonly job: Job | undefined;
  /** Whether it has left its runner, and the journal has yet to say so. */
  readonly left: boolean;
}

/** The jobs of one host's runner. */
export class HeldJobs {
  readonly #jobs = new Map<JobUuid, HeldJob>();
  /** The claims of these jobs on machines; null for one that was given up. */
  readonly #machines = new Map<MachineUuid, MachineClaim | null>();
  /** Jobs whose claims could not be read. */
  readonly #unread = new Set<JobUuid>();

  /** The runner has the job. */
  took(job: Job): void {
    this.#put(job, false);
  }

  /** Whether the claim of a bound job stands, as far as this host knows. */
  holds({ job_uuid, lease }: Hold): boolean {
    const held = this.#jobs.get(job_uuid);
    return held?.lease === lease && !held.left && !held.free;
  }

  /** Whether the runner has the job, and no other can have it. */
  has(uuid: JobUuid): boolean {
    const held = this.#jobs.get(uuid);
    return held !== undefined && !held.left && !held.free;
  }

  /** The claim under which the runner has a job that no other can have. */
  leaseOf(uuid: JobUuid): number | undefined {
    return this.has(uuid) ? this.#jobs.get(uuid)?.lease : undefined;
  }

  get(uuid: JobUuid): Job | undefined {
    return this.#jobs.get(uuid)?.job;
  }

  /** A task has ended. @param waits whether the journal has yet to say so */
  recorded(record: TaskRecord, now: Instant, waits: boolean): void {
    const { job_uuid, phase, event, lease } = record;
    const move = afterTask(heldIn(phase), event);
    const held = this.#jobs.get(job_uuid);
    if (held?.lease !== lease) return;
    const left = !isHeld(move.to);
    if (left && !waits) return this.lost(record);
    if (held.job === undefined) return void this.#jobs.set(job_uuid, { ...held, left });
    const { params, props, entry } = record;
    const ended = move.phase !== phase || left;
    this.#put({
      ...jobAfter(held.job, move, { params, props }, entry),
      runner_id: left ? null : held.job.runner_id,
      claimable_at: isClaimable(move.to) ? now : null,
      elapsed_ms: ended ? 0 : record.elapsed_ms,
      phases_ms: held.job.phases_ms + (ended ? record.elapsed_ms : 0),
      elapsed_at: left ? null : now,
      finished_at: move.ends ? now : held.job.finished_at,
    }, left);
  }

  /** An attempt has failed, and another follows. */
  attempted(record: AttemptRecord, now: Instant): void {
    const { job_uuid, lease, params, props, failures, elapsed_ms, attempt } = record;
    const held = this.#jobs.get(job_uuid);
    if (held?.lease !== lease || held.job === undefined) return;
    const retry_at = instantAfter(now, attempt.wait_seconds * MS_PER_SECOND);
    const failed = { params, props, failures: failures + 1, retry_at, elapsed_ms, elapsed_at: now };
    this.#put({ ...held.job, ...failed }, held.left);
  }

  /** The runner has the job no more under this claim, which may be older than that under which it has it now. */
  lost({ job_uuid, lease }: Pick<Hold, "job_uuid" | "lease">): void {
    const held = this.#jobs.get(job_uuid);
    if (held === undefined || held.lease > lease) return;
    this.#jobs.delete(job_uuid);
    this.#unread.delete(job_uuid);
    for (const [machine, claim] of this.#machines) {
      if (claim?.job_uuid === job_uuid) this.#machines.delete(machine);
    }
  }

  /** Nothing waits in the journal any more. */
  settled(): void {
    for (const [job_uuid, { left, lease }] of this.#jobs) if (left) this.lost({ job_uuid, lease });
    this.#forgetReleased();
  }

  #forgetReleased(): void {
    for (const [machine, claim] of this.#machines) {
      if (claim === null) this.#machines.delete(machine);
    }
  }

  /** Notes a job's claim on a machine. */
  claimed(machine: MachineUuid, claim: MachineClaim): void {
    this.#machines.set(machine, claim);
  }

  /** A job has given its claim on a machine up. @param waits whether the journal has yet to say so */
  released(machine: MachineUuid, job: JobUuid, waits: boolean): void {
    const claim = this.#machines.get(machine);
    if (claim !== undefined && claim?.job_uuid !== job) return;
    // A read of its claims may be under way, which began before this.
    if (waits || this.#unread.has(job)) this.#machines.set(machine, null);
    else this.#machines.delete(machine);
  }

  /** The claim of one of these jobs on a machine; undefined when none is known. */
  claimOn(machine: MachineUuid): MachineClaim | null | undefined {
    return this.#machines.get(machine);
  }

  /** The claims of these jobs could not be read. */
  claimsUnread(uuids: readonly JobUuid[]): void {
    for (const uuid of uuids) if (this.#jobs.has(uuid)) this.#unread.add(uuid);
  }

  /**
   * The claims of these jobs were read; what was claimed or given up since is known better here.
   * @param waits whether the journal has yet to say what was given up
   */
  claimsRead(uuids: readonly JobUuid[], claims: readonly MachineClaim[], waits: boolean): void {
    for (const claim of claims) {
      if (!this.#machines.has(claim.uuid)) this.#machines.set(claim.uuid, claim);
    }
    for (const uuid of uuids) this.#unread.delete(uuid);
    if (!waits && this.#unread.size === 0) this.#forgetReleased();
  }

  /** The jobs whose claims could not be read. */
  get unread(): readonly JobUuid[] {
    return [...this.#unread];
  }

  /** Whether a machine without a known claim has none of these jobs. */
  get claimsKnown(): boolean {
    return this.#unread.size === 0;
  }

  #put(job: Job, left: boolean): void {
    const { uuid, lease, params, props, chain_results, onerror_results } = job;
    let bytes = valueWeight(params) + valueWeight(props);
    for (const { result } of [...chain_results, ...onerror_results]) bytes += valueWeight(result);
    const free = isFree(props);
    this.#jobs.set(uuid, { lease, free, job: bytes <= KNOWN_BYTES_MAX ? job : undefined, left });
  }
}

// Answers about other jobs: those that this agent gave lately.

/** The texts of jobs that were shown lately, the latest last. */
export class KeptTexts<Text extends { readonly bytes: number }> {
  readonly #bytesMax: number;
  readonly #texts = new Map<string, { readonly text: Text; readonly atMs: number }>();
  #bytes = 0;

  /** @param bytesMax bytes of all of them together; the oldest go first */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  put(key: string, text: Text): void {
    this.#remove(key);
    if (text.bytes > this.#bytesMax) return;
    this.#texts.set(key, { text, atMs: performance.now() });
    this.#bytes += text.bytes;
    for (const oldest of this.#texts.keys()) {
      if (this.#bytes <= this.#bytesMax) return;
      this.#remove(oldest);
    }
  }

  /** The text, and how old it is. */
  get(key: string): { readonly text: Text; readonly ageMs: number } | undefined {
    const kept = this.#texts.get(key);
    return kept === undefined
      ? undefined
      : { text: kept.text, ageMs: performance.now() - kept.atMs };
  }

  #remove(key: string): void {
    this.#bytes -= this.#texts.get(key)?.text.bytes ?? 0;
    this.#texts.delete(key);
  }
}

// The jobs that this host runs, as far as it knows them, and texts of other jobs that it showed lately, so that it can
// continue and show them while the database is away.

import type { JobUuid, MachineUuid } from "../../domain/id.ts";
import { type Instant, instantAfter, MS_PER_SECOND } from "../../domain/instant.ts";
import { isFree, type Job, jobAfter } from "../../domain/job/job.ts";
import { afterTask, heldIn, isClaimable, isHeld } from "../../domain/job/state.ts";
import { valueWeight } from "../../domain/json.ts";
import type { AttemptRecord, Hold, TaskRecord } from "../run_store.ts";
import type { MachineClaim } from "../claim_store.ts";

/** Bytes of a job that is kept as a whole. Of a larger job only the claim is kept, to save memory for running jobs. */
const KNOWN_BYTES_MAX = 512 * 1024;

interface HeldJob {
  readonly lease: number;
  /** Whether no host is bound to the job. Another host may already run it, so its writes bypass the journal. */
  readonly free: boolean;
  /** Undefined for a job that is too large. */
  readonly job: Job | undefined;
  /** Whether the runner has released the job, although the journal has not delivered that yet. */
  readonly left: boolean;
}

/** The jobs of one host's runner. */
export class HeldJobs {
  readonly #jobs = new Map<JobUuid, HeldJob>();
  /** The claims of these jobs on machines; null for one that was given up. */
  readonly #machines = new Map<MachineUuid, MachineClaim | null>();
  /** Jobs whose claims on machines could not be read. */
  readonly #unread = new Set<JobUuid>();

  /** Notes that the runner holds the job. */
  took(job: Job): void {
    this.#put(job, false);
  }

  /** Whether this claim of a bound job still holds, as far as this host knows. */
  holds({ job_uuid, lease }: Hold): boolean {
    const held = this.#jobs.get(job_uuid);
    return held?.lease === lease && !held.left && !held.free;
  }

  /** Whether the runner holds the job and no other runner can. */
  has(uuid: JobUuid): boolean {
    const held = this.#jobs.get(uuid);
    return held !== undefined && !held.left && !held.free;
  }

  /** The lease under which the runner holds a bound job. */
  leaseOf(uuid: JobUuid): number | undefined {
    return this.has(uuid) ? this.#jobs.get(uuid)?.lease : undefined;
  }

  get(uuid: JobUuid): Job | undefined {
    return this.#jobs.get(uuid)?.job;
  }

  /** Notes the end of a task. @param waits whether the journal has not delivered it yet */
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

  /** Notes a failed attempt of a task that will be repeated. */
  attempted(record: AttemptRecord, now: Instant): void {
    const { job_uuid, lease, params, props, failures, elapsed_ms, attempt } = record;
    const held = this.#jobs.get(job_uuid);
    if (held?.lease !== lease || held.job === undefined) return;
    const retry_at = instantAfter(now, attempt.wait_seconds * MS_PER_SECOND);
    const failed = { params, props, failures: failures + 1, retry_at, elapsed_ms, elapsed_at: now };
    this.#put({ ...held.job, ...failed }, held.left);
  }

  /** Notes that the runner has lost this claim. It may meanwhile hold the job under a newer one, which stays. */
  lost({ job_uuid, lease }: Pick<Hold, "job_uuid" | "lease">): void {
    const held = this.#jobs.get(job_uuid);
    if (held === undefined || held.lease > lease) return;
    this.#jobs.delete(job_uuid);
    this.#unread.delete(job_uuid);
    for (const [machine, claim] of this.#machines) {
      if (claim?.job_uuid === job_uuid) this.#machines.delete(machine);
    }
  }

  /** Forgets released jobs and claims, once the journal is empty. */
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

  /** Notes that a job gave up its claim on a machine. @param waits whether the journal has not delivered it yet */
  released(machine: MachineUuid, job: JobUuid, waits: boolean): void {
    const claim = this.#machines.get(machine);
    if (claim !== undefined && claim?.job_uuid !== job) return;
    // While a read of the job's claims may be running, null keeps the read from adding this claim again.
    if (waits || this.#unread.has(job)) this.#machines.set(machine, null);
    else this.#machines.delete(machine);
  }

  /** The claim on a machine; null when it was given up, undefined when none is known. */
  claimOn(machine: MachineUuid): MachineClaim | null | undefined {
    return this.#machines.get(machine);
  }

  /** Notes that the claims of these jobs could not be read. */
  claimsUnread(uuids: readonly JobUuid[]): void {
    for (const uuid of uuids) if (this.#jobs.has(uuid)) this.#unread.add(uuid);
  }

  /**
   * Adds the claims that were read; a claim that was taken or given up since then is left as it is.
   * @param waits whether the journal has not delivered yet what was given up
   */
  claimsRead(uuids: readonly JobUuid[], claims: readonly MachineClaim[], waits: boolean): void {
    for (const claim of claims) {
      if (!this.#machines.has(claim.uuid)) this.#machines.set(claim.uuid, claim);
    }
    for (const uuid of uuids) this.#unread.delete(uuid);
    if (!waits && this.#unread.size === 0) this.#forgetReleased();
  }

  /** Jobs whose claims must be read again. */
  get unread(): readonly JobUuid[] {
    return [...this.#unread];
  }

  /** Whether a machine without a known claim is certainly not claimed by these jobs. */
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

/** A bounded cache of the texts of jobs shown lately, the latest last. */
export class KeptTexts<Text extends { readonly bytes: number }> {
  readonly #bytesMax: number;
  readonly #texts = new Map<string, { readonly text: Text; readonly atMs: number }>();
  #bytes = 0;

  /** @param bytesMax bytes of all texts together; the oldest are dropped first */
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

  /** The text and its age. */
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

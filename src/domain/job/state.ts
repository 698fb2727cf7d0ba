// The state machine of a job: what each event does in each state, decided here and nowhere else. Stores and routes ask
// decide(), the runner and whatever counts its tasks afterTask(), a route of retries denialOf(), and what offers changes
// isCancelable() and isRetryable(). The store writes the decision in a statement that changes nothing unless the job is
// still in the state that was decided on.
//
//                          continue, fail (onerror follows)
//                                   ┌─────┐
//                                   ▼     │
//   create ──▶ queued ── claim ──▶ running ──┬─ succeed ──▶ succeeded
//               ▲  ▲                  │      ├─ fail ─────▶ failed ◀─────────┐
//               │  └── cb_queue, ─────┤      ├─ cb_retry ─▶ retried          │
//               │      release,       │      └─ cb_wait ──▶ waiting          │
//               │      abandon,       │                     │   │            │
//               │      rescue ────────┘                     │   └─ resume_failed
//               └───────────────── resume ──────────────────┘
//
//   queued, running, waiting ── cancel ──▶ canceled
//
//   running ── cb_cancel ──▶ canceled
//
//   queued, running, waiting ── host_lost ──▶ failed
//
//   A cancel of a canceled job counts as made: nothing is written.
//
//   The onerror chain ends in failed, also when its last task succeeds, unless a task of it calls cb('retry') or
//   cb('cancel'), or a caller cancels the job.
//
//   A job that has begun and has an oncancel chain is canceled too, but goes on with that chain:
//
//   running ── cancel, cb_cancel ─────▶ undoing ── succeed, fail, cb_* ──▶ canceled
//                               claim ▲ │ ▲ └─ continue ─┐
//                                     │ │ └──────────────┘
//                                     │ ▼ release, abandon, rescue
//   queued, waiting ── cancel ──▶ undo_queued
//   undo_queued, undoing ── host_lost ──▶ canceled
//
//   Where agents share a store, one cancels what a runner of another agent holds. Without an oncancel chain the job
//   then keeps its target and its machine until that runner has ended the guest, or can have none any more:
//
//   running ── cancel ─────▶ stopping ── release, abandon, rescue, host_lost ──▶ canceled
//
//   succeeded, failed, retried, canceled: at rest. `retry` makes another job and leaves this one as it
//   is; `prune` removes it.
//
// A queued job waits for its claimable_at and a free slot. One that a runner has begun before its claim is
// written is queued, and nothing of what it does counts or leaves its guest. An event of a runner counts only while its
// claim holds: the statement names runner and lease. `renew` moves no job; it puts `rescue` off.
// Whether a job may be created at all depends on other jobs: see CreateJobOutcome.

import { AgentError, unreachable } from "../error.ts";
import type { HostState } from "../host.ts";

/** Every execution of a job, as document 2 and the store spell it. */
export const EXECUTIONS = [
  "queued",
  "running",
  "waiting",
  "succeeded",
  "failed",
  "canceled",
  "retried",
] as const;
/** The execution of a job, as callers see it. @see document 2, States and transitions */
export type Execution = typeof EXECUTIONS[number];
/** A value for each execution. */
export function byExecution<T>(valueOf: (execution: Execution) => T): Record<Execution, T> {
  const values = EXECUTIONS.map((execution) => [execution, valueOf(execution)]);
  return Object.fromEntries(values) as Record<Execution, T>;
}

/** The executions that a job ends with. */
export type FinalExecution = Extract<Execution, "succeeded" | "failed" | "canceled" | "retried">;
/** A value for each of them. */
export function byEnd<T>(valueOf: (execution: FinalExecution) => T): Record<FinalExecution, T> {
  const values = EXECUTIONS.filter(isFinal).map((execution) => [execution, valueOf(execution)]);
  return Object.fromEntries(values) as Record<FinalExecution, T>;
}

/** Executions of jobs that have not ended. */
export const UNFINISHED: readonly Execution[] = EXECUTIONS.filter((word) => !isFinal(word));

/** The chains of a job, as its workflow names them. */
export const PHASES = ["chain", "onerror", "oncancel"] as const;
/** Which of its chains a job is in. */
export type Phase = typeof PHASES[number];

/** Every state. A canceled job may still be stopping, or have its oncancel chain pending or running. */
export const JOB_STATES = [...EXECUTIONS, "stopping", "undo_queued", "undoing"] as const;
/** An execution, or one of the three states of a canceled job that is not at rest. */
export type JobState = typeof JOB_STATES[number];

/** Everything that can happen to a job after its creation, with the facts that decide what follows. */
export type JobEvent =
  /** A runner takes the job. */
  | { readonly kind: "claim" }
  | TaskEvent
  /** The agent stops, or no guest started: the present task starts again later as if it had not started. */
  | { readonly kind: "release" }
  /** The run was cut off by a bug in the agent. */
  | { readonly kind: "abandon" }
  /**
   * The runner does not answer. `lapsed`: its lease has expired, or it is this runner's earlier life. `attempting`:
   * the current task was executing, not waiting for its next attempt.
   */
  | { readonly kind: "rescue"; readonly lapsed: boolean; readonly attempting: boolean }
  /** The only host that may run the job was forgotten: none of its chains runs any more. */
  | { readonly kind: "host_lost" }
  /** A caller cancels the job. */
  | CancelEvent
  /** A caller reports the outcome of the waiting task, a result or an error. */
  | { readonly kind: "resume" }
  | { readonly kind: "resume_failed" }
  /** A caller retries the finished job. `retried`: it was retried before. */
  | { readonly kind: "retry"; readonly retried: boolean }
  /** The job is old. Retention asks the store whether a callback or an idempotency key still needs it. */
  | { readonly kind: "prune" };

/** `begun`: the job was claimed before. `elsewhere`: it is held by a runner of another agent. */
interface CancelEvent {
  readonly kind: "cancel";
  readonly oncancel: boolean;
  readonly begun: boolean;
  readonly elsewhere: boolean;
}

/** The end of a task, or of a phase whose tasks have all ended. */
export type TaskEvent =
  /** It succeeded, and another task of the phase follows. */
  | { readonly kind: "continue" }
  /** The task succeeded, and was the last one of its phase. */
  | { readonly kind: "succeed" }
  /** It failed, including its retries and its fallback. `onerror`: the job has such a chain. */
  | { readonly kind: "fail"; readonly onerror: boolean }
  /** It called cb() with one of the four words. */
  | { readonly kind: "cb_queue" }
  | { readonly kind: "cb_wait" }
  | { readonly kind: "cb_retry" }
  | { readonly kind: "cb_cancel"; readonly oncancel: boolean };

/** Why an event is refused. */
export type DenialReason =
  | "finalized" // only retry and prune still apply
  | "not_queued"
  | "not_running"
  | "not_waiting"
  | "lease_holds" // the runner is alive as far as is known
  | "unfinished" // it is not final, or not at rest
  | "retried"; // another job was made of it

/** The state and phase of a job when an event happens. */
export interface Standing {
  readonly state: JobState;
  readonly phase: Phase;
}

/** The effect of an event: the new state and phase, and what is written with them. */
export interface Move {
  readonly kind: "move";
  readonly to: JobState;
  readonly phase: Phase;
  /** The effect on the count of starts of the current task; see startsAfter(). */
  readonly starts: "kept" | "added" | "taken_off" | "one" | "none";
  /** Whether the job becomes final: finished_at is set, and the callback becomes due. */
  readonly ends: boolean;
}

/**
 * The answer of decide(): the move to write, or the reason for a refusal. `made` means that the event has already
 * happened and the job is where it would put it.
 */
type Decision =
  | Move
  | { readonly kind: "made" }
  | { readonly kind: "denied"; readonly reason: DenialReason };

/** Where every job begins. */
export const CREATED: Standing = { state: "queued", phase: "chain" };

/** What an event does to a job, or why it is refused. */
export function decide(at: Standing, event: JobEvent): Decision {
  const { state } = at;
  switch (event.kind) {
    case "claim":
      if (state === "queued") return moved(at, "running", "added");
      if (state === "undo_queued") return moved(at, "undoing", "added");
      return denied(isAtRest(state) ? "finalized" : "not_queued");
    case "release":
    case "abandon":
    case "rescue":
      if (!isHeld(state)) return denied(isAtRest(state) ? "finalized" : "not_running");
      if (event.kind === "rescue" && !event.lapsed) return denied("lease_holds");
      // A runner gives a job back only after it has ended all of its work.
      if (state === "stopping") return moved(at, "canceled", "none");
      return moved(at, state === "undoing" ? "undo_queued" : "queued", startsOf(event));
    case "host_lost":
      if (isAtRest(state)) return denied("finalized");
      return moved(at, executionOf(state) === "canceled" ? "canceled" : "failed", "none");
    case "cancel":
      // The caller may repeat the cancel because its first answer was lost.
      if (executionOf(state) === "canceled") return { kind: "made" };
      if (isFinal(executionOf(state))) return denied("finalized");
      if (event.oncancel && event.begun) return undoing(at);
      return moved(at, event.elsewhere && isHeld(state) ? "stopping" : "canceled", "none");
    // Document 2 refuses a resume of a finalized job in the same words as of a queued one.
    case "resume":
      return state === "waiting" ? moved(at, "queued", "kept") : denied("not_waiting");
    case "resume_failed":
      return state === "waiting" ? moved(at, "failed", "kept") : denied("not_waiting");
    case "retry":
      if (!isAtRest(state)) return denied("unfinished");
      return event.retried ? denied("retried") : moved(at, state, "kept");
    case "prune":
      if (!isAtRest(state)) return denied("unfinished");
      return moved(at, state, "kept");
    default:
      return isHeld(state) && state !== "stopping"
        ? afterTask(at, event)
        : denied(isAtRest(state) ? "finalized" : "not_running");
  }
}

/** Starts stay counted for attempts that were cut off, since the next one may be cut off too. */
function startsOf(event: JobEvent): Move["starts"] {
  return event.kind === "release" || event.kind === "rescue" && !event.attempting
    ? "taken_off"
    : "kept";
}

/** Why an event is refused in a state, whatever the phase; undefined when it is allowed. */
export function denialOf(state: JobState, event: JobEvent): DenialReason | undefined {
  const decision = decide({ state, phase: "chain" }, event);
  return decision.kind === "denied" ? decision.reason : undefined;
}

/** Whether a cancel changes a job in this state; a canceled job stays as it is. */
export function isCancelable(state: JobState): boolean {
  const event: JobEvent = { kind: "cancel", oncancel: false, begun: false, elsewhere: false };
  return decide({ state, phase: "chain" }, event).kind === "move";
}

/** Whether a job in this state may be retried. @param retried whether it was retried before */
export function isRetryable(state: JobState, retried: boolean): boolean {
  return denialOf(state, { kind: "retry", retried }) === undefined;
}

/** The effect of the end of a task on the job that its runner holds. */
export function afterTask(at: Standing, event: TaskEvent): Move {
  if (event.kind === "continue") return moved(at, at.state, "one");
  // Nothing runs after the oncancel chain, whatever its tasks pass to their callbacks.
  if (at.state === "undoing") return moved(at, "canceled", "none");
  switch (event.kind) {
    case "succeed":
      return moved(at, at.phase === "chain" ? "succeeded" : "failed", "none");
    case "fail":
      return event.onerror && at.phase === "chain"
        ? { ...moved(at, "running", "one"), phase: "onerror" }
        : moved(at, "failed", "none");
    case "cb_queue":
      return moved(at, "queued", "none");
    case "cb_wait":
      return moved(at, "waiting", "none");
    case "cb_retry":
      return moved(at, "retried", "none");
    case "cb_cancel":
      return event.oncancel ? undoing(at) : moved(at, "canceled", "none");
    default:
      return unreachable(event);
  }
}

function undoing(at: Standing): Move {
  const move = isHeld(at.state) ? moved(at, "undoing", "one") : moved(at, "undo_queued", "none");
  return { ...move, phase: "oncancel" };
}

function moved({ state, phase }: Standing, to: JobState, starts: Move["starts"]): Move {
  const ends = isFinal(executionOf(to)) && !isFinal(executionOf(state));
  return { kind: "move", to, phase, starts, ends };
}

function denied(reason: DenialReason): Decision {
  return { kind: "denied", reason };
}

/** The count of starts of the present task after a move. */
export function startsAfter({ starts: effect }: Move, starts: number): number {
  switch (effect) {
    case "kept":
      return starts;
    case "added":
      return starts + 1;
    case "taken_off":
      return Math.max(starts - 1, 0);
    case "one":
      return 1;
    case "none":
      return 0;
    default:
      return unreachable(effect);
  }
}

/** The stored columns that show the state of a job. */
export interface KeptState {
  readonly execution: Execution;
  readonly phase: Phase;
  readonly runner_id: string | null;
  readonly claimable_at: string | null;
}

/** The state of a job, from those columns. */
export function stateOf({ execution, phase, runner_id, claimable_at }: KeptState): JobState {
  if (execution !== "canceled") return execution;
  if (runner_id !== null) return phase === "oncancel" ? "undoing" : "stopping";
  return claimable_at === null ? "canceled" : "undo_queued";
}

/** Whether a job is canceled, but not at rest yet. */
export function isUndoing(job: KeptState): boolean {
  return isFinal(job.execution) && !isAtRest(stateOf(job));
}

/**
 * Whether nothing of a canceled job's task can still run. A host that is away may not know of the cancel.
 * @param host the host of the job, if known
 */
export function isStopConfirmed(
  job: KeptState,
  host: { readonly state: HostState } | undefined,
): boolean {
  const state = stateOf(job);
  return state !== "stopping" && (state !== "undoing" || host?.state !== "away");
}

/** The execution that stands for a state, in answers and in the store. */
export function executionOf(state: JobState): Execution {
  return state === "stopping" || state === "undo_queued" || state === "undoing"
    ? "canceled"
    : state;
}

/** The state of a job that a runner holds in a phase. */
export function heldIn(phase: Phase): Standing {
  return { state: phase === "oncancel" ? "undoing" : "running", phase };
}

/** Whether a runner holds a job in this state, so that no other may claim it. */
export function isHeld(state: JobState): boolean {
  return state === "running" || state === "stopping" || state === "undoing";
}

/** Whether a runner may claim a job in this state. */
export function isClaimable(state: JobState): boolean {
  return state === "queued" || state === "undo_queued";
}

/** Whether nothing runs or will run for a job in this state. */
export function isAtRest(state: JobState): boolean {
  return isFinal(executionOf(state)) && !isHeld(state) && !isClaimable(state);
}

/** Whether a job has ended for its callers; the oncancel chain of a canceled one may still run. */
export function isFinal(execution: Execution): execution is FinalExecution {
  return execution === "succeeded" || execution === "failed" || execution === "canceled" ||
    execution === "retried";
}

/**
 * Whether a move was already made when its event is reported again because the first answer was lost. A job that has
 * left its runner may have moved on since; one that is still held has not.
 */
export function isMade(move: Move, at: Standing): boolean {
  if (isHeld(move.to)) return at.state === move.to && at.phase === move.phase;
  return !isHeld(at.state);
}

/** The move after an event that must be allowed. @throws {AgentError} `internal` when it is denied */
export function moveOf(at: Standing, event: JobEvent): Move {
  const decision = decide(at, event);
  if (decision.kind === "move") return decision;
  const reason = decision.kind === "made" ? "it was done before" : decision.reason;
  throw new AgentError("internal", `Cannot ${event.kind} a job in ${at.state}: ${reason}`);
}

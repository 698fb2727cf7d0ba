// The state machine of a job's `execution`. Every state times every event is decided here, once;
// the store carries decisions out as conditional updates and never decides.
//
//              claim            succeed ──▶ succeeded
//   queued ───────────▶ running ── fail ──▶ failed
//     ▲  ▲                │ │ └──── retry ─▶ retried
//     │  └─ queue,rescue ─┘ └─ wait ─▶ waiting ── resume_failed ──▶ failed
//     └──────────────── resume ──────────┘
//   queued, running, waiting ── cancel ──▶ canceled
//
// succeeded, failed, canceled and retried are final: they accept no event. A job that is canceled
// while it has an oncancel chain stays canceled; that chain runs beside the state, see job.ts.

import { unreachable } from "../error.ts";

/** Every state of a job. */
export const EXECUTIONS = [
  "queued",
  "running",
  "waiting",
  "succeeded",
  "failed",
  "canceled",
  "retried",
] as const;
/** Where a job is. @see document 2, States and transitions */
export type Execution = typeof EXECUTIONS[number];

/** Everything that can happen to a job. */
export const JOB_EVENTS = [
  "claim", // a runner takes the job
  "queue", // a task puts its job back to the queue
  "rescue", // the runner that owned the job is gone
  "wait", // a task sets its job to waiting
  "succeed", // the chain is done
  "fail", // the chain has failed, and onerror is done
  "retry", // a task asks for the whole job to be made anew
  "resume", // somebody reports the outcome of the waiting task
  "resume_failed", // the same, with an error
  "cancel",
] as const;
/** One of the events. */
export type JobEvent = typeof JOB_EVENTS[number];

/** Why an event is refused. */
export type DenialReason = "finalized" | "not_running" | "not_waiting" | "not_queued";

/** What an event does to a job: a move, or a refusal with its reason. */
export type Decision =
  | { readonly kind: "move"; readonly to: Execution }
  | { readonly kind: "denied"; readonly reason: DenialReason };

/** Whether no event can change this state any more. */
export function isFinal(execution: Execution): boolean {
  return execution === "succeeded" || execution === "failed" || execution === "canceled" ||
    execution === "retried";
}

/** What an event does to a job in this state, or why it is refused. */
export function decide(execution: Execution, event: JobEvent): Decision {
  if (isFinal(execution) && !isResume(event)) return denied("finalized");
  switch (event) {
    case "claim":
      return execution === "queued" ? move("running") : denied("not_queued");
    case "queue":
    case "rescue":
      return execution === "running" ? move("queued") : denied("not_running");
    case "wait":
      return execution === "running" ? move("waiting") : denied("not_running");
    case "succeed":
      return execution === "running" ? move("succeeded") : denied("not_running");
    case "fail":
      return execution === "running" ? move("failed") : denied("not_running");
    case "retry":
      return execution === "running" ? move("retried") : denied("not_running");
    case "resume":
      return execution === "waiting" ? move("queued") : denied("not_waiting");
    case "resume_failed":
      return execution === "waiting" ? move("failed") : denied("not_waiting");
    case "cancel":
      return move("canceled");
    default:
      return unreachable(event);
  }
}

/** Document 2 gives a finalized job and a queued one the same refusal of resume: not waiting. */
function isResume(event: JobEvent): boolean {
  return event === "resume" || event === "resume_failed";
}

function move(to: Execution): Decision {
  return { kind: "move", to };
}

function denied(reason: DenialReason): Decision {
  return { kind: "denied", reason };
}

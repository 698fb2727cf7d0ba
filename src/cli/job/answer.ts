// A job as the agent answers it, and what a person wants to know of it: its steps with their state,
// how it ended, and where the running step is.

import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import { numberIn, objectsIn, readObject, textIn } from "../client/api_call.ts";
import { durationText } from "../output/printer.ts";
import type { Invocation } from "../command/command.ts";
import { SIGNALS } from "../../wall/protocol.ts";

/** What the command line reads of a job. @see document 2, Job */
export interface JobAnswer {
  readonly uuid: string;
  readonly name: string;
  readonly execution: string;
  /** Why it does not run at present: `scheduled`, `waiting_for_slot`, `waiting_for_resume`. */
  readonly reason: string | undefined;
  /** When a scheduled job becomes due. */
  readonly next_run_at: string | undefined;
  readonly steps: readonly Step[];
  /** Everything the agent sent. */
  readonly raw: JsonObject;
}

/** State of a task, by its entry and the job's execution. */
type StepState = "pending" | "running" | "waiting" | "done" | "failed";

/** Whether a step has come to its end, good or bad. */
export function hasEnded({ state }: Step): boolean {
  return state === "done" || state === "failed";
}

/** One task of a job. */
export interface Step {
  readonly name: string;
  readonly state: StepState;
  /** Of a step that ended. */
  readonly seconds: number | undefined;
  /** Text of what a failed step failed with. */
  readonly error: string | undefined;
}

/** How a job ended, or that it has not. */
export type JobEnd = "success" | "failure" | "canceled" | "retried" | undefined;

const PHASES = ["chain", "onerror", "oncancel"] as const;

/** @throws {AgentError} `internal` when it is no job */
export function readJob(body: unknown): JobAnswer {
  const raw = readObject(body, "the job");
  const execution = textIn(raw, "execution") ?? "";
  return {
    uuid: textIn(raw, "uuid") ?? "",
    name: textIn(raw, "name") ?? "",
    execution,
    reason: textIn(raw, "reason"),
    next_run_at: textIn(raw, "next_run_at"),
    steps: PHASES.flatMap((phase) => stepsOf(raw, phase, execution)),
    raw,
  };
}

/** Both wordings of document 2 and of node-workflow are understood. */
export function endOf(job: JobAnswer): JobEnd {
  switch (job.execution) {
    case "success":
    case "succeeded":
      return "success";
    case "failure":
    case "failed":
      return "failure";
    case "canceled":
    case "retried":
      return job.execution;
    default:
      return undefined;
  }
}

/** Seconds from the start of a job to its end; undefined while one of them is not known. */
export function elapsedSeconds({ raw }: JobAnswer): number | undefined {
  return secondsBetween(textIn(raw, "started_at"), textIn(raw, "finished_at"));
}

function secondsBetween(from: string | undefined, to: string | undefined): number | undefined {
  const seconds = (Date.parse(to ?? "") - Date.parse(from ?? "")) / 1000;
  return Number.isNaN(seconds) ? undefined : seconds;
}

/** The first step that failed. */
export function failedStep(job: JobAnswer): Step | undefined {
  return job.steps.find((step) => step.state === "failed");
}

function stepsOf(raw: JsonObject, phase: typeof PHASES[number], execution: string): Step[] {
  const tasks = objectsIn(raw, phase);
  const results = objectsIn(raw, `${phase}_results`);
  const ended = results.map((result, index) => {
    const waits = execution === "waiting" && result.error === "wait" &&
      index === results.length - 1;
    return endedStep(result, tasks[index], waits);
  });
  if (ended.some((step) => step.state === "failed")) return ended;
  const chainFailed = objectsIn(raw, "chain_results").some((one) => failure(one) !== undefined);
  const runs = execution === "running" && (phase === "chain" || phase === "onerror" && chainFailed);
  const open = tasks.slice(results.length).map((task, index): Step => ({
    name: nameOf(task),
    state: index === 0 && runs ? "running" : "pending",
    seconds: undefined,
    error: undefined,
  }));
  // What a fallback chain would do is no step of a job before it does it.
  return [...ended, ...(phase === "chain" || runs ? open : [])];
}

function endedStep(result: JsonObject, task: JsonObject | undefined, waits: boolean): Step {
  const error = failure(result);
  return {
    name: textIn(result, "name") ?? nameOf(task ?? {}),
    state: error !== undefined ? "failed" : waits ? "waiting" : "done",
    seconds: secondsBetween(textIn(result, "started_at"), textIn(result, "finished_at")),
    error,
  };
}

function nameOf(task: JsonObject): string {
  return textIn(task, "name") ?? textIn(task, "uuid") ?? "task";
}

/**
 * The text of what a task failed with: a text, or an object with a message. The word of a signal is in the
 * place of an error, and is none.
 */
function failure({ error }: JsonObject): string | undefined {
  if (
    error === undefined || error === null || error === "" || SIGNALS.some((word) => word === error)
  ) {
    return undefined;
  }
  if (typeof error === "string") return error;
  return (isJsonObject(error) ? textIn(error, "message") : undefined) ?? JSON.stringify(error);
}

/** Bytes that a step has moved. */
export interface StepProgress {
  readonly task: string;
  /** `download`, `verify` or `copy`. */
  readonly phase: string;
  readonly done: number;
  readonly total: number | undefined;
}

/** One member of a job's info as the command line reads it. */
export type InfoEntry =
  | { readonly kind: "progress"; readonly progress: StepProgress }
  | { readonly kind: "message"; readonly task: string | undefined; readonly text: string }
  /** What the agent recorded about the capability calls of a task. */
  | { readonly kind: "call"; readonly task: string; readonly text: string };

/** Reads one member of a job's info; what is not known is shown as JSON. */
export function readInfo(entry: JsonObject): InfoEntry {
  const task = textIn(entry, "task");
  const { progress, message } = entry;
  if (isJsonObject(progress) && typeof progress.done === "number") {
    const phase = textIn(progress, "phase") ?? "copy";
    const total = numberIn(progress, "total");
    return { kind: "progress", progress: { task: task ?? "", phase, done: progress.done, total } };
  }
  const calls = callsText(entry);
  if (calls !== undefined) return { kind: "call", task: task ?? "", text: calls };
  if (typeof message === "string") return { kind: "message", task, text: message };
  return { kind: "message", task: undefined, text: JSON.stringify(entry) };
}

// The agent's record of the capability calls of a task, as lines for people.

/** Characters of one line about a call. */
const LINE_CHARS_MAX = 400;

/** The line of an entry about calls; undefined when the entry is about something else. */
export function callsText(entry: JsonObject): string | undefined {
  const { zonewright_call: call, zonewright_calls: calls } = entry;
  if (isJsonObject(call)) return oneCall(call).slice(0, LINE_CHARS_MAX);
  if (isJsonObject(calls)) return allCalls(calls).slice(0, LINE_CHARS_MAX);
  return undefined;
}

/** `vmadm.boot uuid=… order=cd ok 1.2 s`. */
function oneCall(call: JsonObject): string {
  const args = isJsonObject(call.args) ? Object.entries(call.args) : [];
  return [
    textIn(call, "name") ?? "call",
    ...args.map(([name, value]) => `${name}=${word(value)}`),
    textIn(call, "ended") ?? "",
    took(call),
  ].join(" ");
}

/** `calls: vmadm.get 12 (1 failed) 2.1 s, vnc.wait 1 9.8 s`. */
function allCalls(calls: JsonObject): string {
  const each = Object.entries(calls).map(([name, entry]) => {
    const count = isJsonObject(entry) ? entry : {};
    const failed = numberIn(count, "failed");
    const part = failed === undefined ? "" : ` (${failed} failed)`;
    return `${name} ${numberIn(count, "count") ?? 0}${part} ${took(count)}`;
  });
  return `calls: ${each.join(", ")}`;
}

function took(of: JsonObject): string {
  return durationText((numberIn(of, "ms") ?? 0) / 1000);
}

function word(value: JsonValue): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

// Paths of the HTTP interface that are made of what somebody typed.

/** `/jobs/` and the first operand; a text that is no uuid stays one segment and is not found. */
export function jobPath(call: Invocation): string {
  return `/jobs/${encodeURIComponent(call.args.operands[0] ?? "")}`;
}

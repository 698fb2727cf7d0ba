// Reads a job from the agent's answer, and derives what people want to know: its steps with their states, how
// it ended, and the progress of the running step.

import { AgentError } from "../../domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import { EXECUTION_WORDS, parseExecutionFilter } from "../../domain/job/wire.ts";
import { maskedJson } from "../../domain/masking.ts";
import { numberIn, objectsAt, readObject, textIn } from "./answer.ts";
import type { Client } from "./client.ts";
import type { Printer } from "../output/printer.ts";
import { durationText } from "../output/table.ts";
import { SIGNALS } from "../../wall/protocol.ts";
import { type Phase, PHASES } from "../../domain/job/state.ts";

/** What the command line reads of a job. @see document 2, Job */
export interface JobAnswer {
  readonly uuid: string;
  readonly name: string;
  readonly execution: string;
  /** Why it is not running now: `scheduled`, `waiting_for_slot`, `waiting_for_resume`. */
  readonly reason: string | undefined;
  /** When a scheduled job becomes due. */
  readonly next_run_at: string | undefined;
  readonly steps: readonly Step[];
  /** Everything the agent sent, with secrets masked. */
  readonly raw: JsonObject;
}

/** State of a task, from its entry and the job's execution. */
type StepState = "pending" | "running" | "waiting" | "done" | "failed";

/** `gz03, which is away`: the host of a job that takes none now; undefined for one that takes jobs. */
export function absentHost(job: JsonObject): string | undefined {
  const state = textIn(job, "host_state");
  if (state === undefined || state === "connected") return undefined;
  return `${textIn(job, "host") ?? "its host"}, which is ${state}`;
}

/** Says of a job that was just ordered that it waits for its host. */
export function noteAbsent(printer: Pick<Printer, "note">, job: JsonObject): void {
  const absent = absentHost(job);
  if (absent !== undefined) printer.note(`the job waits for ${absent}`);
}

/** Whether a step has ended, well or badly. */
export function hasEnded({ state }: Step): boolean {
  return state === "done" || state === "failed";
}

/** One task of a job. */
export interface Step {
  readonly name: string;
  readonly state: StepState;
  /** Duration of a step that ended. */
  readonly seconds: number | undefined;
  readonly finished_at: string | undefined;
  /** The error of a failed step as text. */
  readonly error: string | undefined;
  /** The result of a step that is done, as text or JSON; undefined for nothing and for the usual `OK`. */
  readonly result: string | undefined;
}

/** How a job ended; undefined while it has not. */
export type JobEnd = "success" | "failure" | "canceled" | "retried" | undefined;

/**
 * A job for people and for --json.
 * @param secrets names of its secrets, in addition to those masked everywhere
 * @throws {AgentError} `internal` when it is not a job
 */
export function readJob(body: unknown, secrets: ReadonlySet<string> = new Set()): JobAnswer {
  const raw = maskedJson(readObject(body, "the job"), secrets) as JsonObject;
  const execution = executionWord(textIn(raw, "execution") ?? "");
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

/** Names of fields that the job's workflow declares secret. @param summary as the agent sends it */
export function secretsIn({ secret_params: names }: JsonObject): ReadonlySet<string> {
  return new Set(Array.isArray(names) ? names.filter((name) => typeof name === "string") : []);
}

/** Reads those of one job. @throws {AgentError} `not_found` */
export async function readSecrets(
  client: Client,
  uuid: string,
  signal?: AbortSignal,
): Promise<ReadonlySet<string>> {
  return secretsIn(readObject(await client.get(`/agent/v1/jobs/${uuid}`, signal), "the job"));
}

/**
 * The document of a job that was just changed, with its secrets masked.
 * @throws {AgentError} naming the job, since the change has been made
 */
export async function changedDocument(client: Client, job: JobAnswer): Promise<JsonObject> {
  try {
    return readJob(job.raw, await readSecrets(client, job.uuid)).raw;
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    const message = `Cannot show job ${job.uuid}, which is ${job.execution}: ${error.message}`;
    throw new AgentError(error.code, message, { cause: error });
  }
}

/** The word that filters and lists use for an execution in either wording; another word is kept. */
export function executionWord(word: string): string {
  return EXECUTION_WORDS.includes(word) ? parseExecutionFilter(word) : word;
}

/** How a job ended; undefined while it has not. */
export function endOf(job: JobAnswer): JobEnd {
  switch (job.execution) {
    case "succeeded":
      return "success";
    case "failed":
      return "failure";
    case "canceled":
    case "retried":
      return job.execution;
    default:
      return undefined;
  }
}

/** Seconds from the start of a job to its end; undefined while either is unknown. */
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

function stepsOf(raw: JsonObject, phase: Phase, execution: string): Step[] {
  const tasks = objectsAt(raw, phase);
  const results = objectsAt(raw, `${phase}_results`);
  const ended = results.map((result, index) => {
    const waits = execution === "waiting" && result.error === "wait" &&
      index === results.length - 1;
    return endedStep(result, tasks[index], waits);
  });
  if (ended.some((step) => step.state === "failed")) return ended;
  const chainFailed = objectsAt(raw, "chain_results").some((one) => failure(one) !== undefined);
  const runs = execution === "running" && (phase === "chain" || phase === "onerror" && chainFailed);
  const open = tasks.slice(results.length).map((task, index): Step => ({
    name: nameOf(task),
    state: index === 0 && runs ? "running" : "pending",
    seconds: undefined,
    finished_at: undefined,
    error: undefined,
    result: undefined,
  }));
  // Tasks of a fallback chain only count as steps once it runs.
  return [...ended, ...(phase === "chain" || runs ? open : [])];
}

function endedStep(result: JsonObject, task: JsonObject | undefined, waits: boolean): Step {
  const error = failure(result);
  return {
    name: textIn(result, "name") ?? nameOf(task ?? {}),
    state: error !== undefined ? "failed" : waits ? "waiting" : "done",
    seconds: secondsBetween(textIn(result, "started_at"), textIn(result, "finished_at")),
    finished_at: textIn(result, "finished_at"),
    error,
    result: error === undefined ? resultText(result.result) : undefined,
  };
}

function resultText(result: JsonValue | undefined): string | undefined {
  if (result === undefined || result === null || result === "" || result === "OK") return undefined;
  return typeof result === "string" ? result : JSON.stringify(result);
}

function nameOf(task: JsonObject): string {
  return textIn(task, "name") ?? textIn(task, "uuid") ?? "task";
}

/**
 * The error of a task as text: a string, or the message of an object. The word of a signal is in the same
 * place and is not an error.
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
  /** As capabilities report it: `download`, `verify` or `copy`. */
  readonly phase: string;
  readonly done: number;
  readonly total: number | undefined;
}

/** One entry of a job's info, or one line of its log, as the command line reads it. */
export type InfoEntry =
  & {
    /** The line of the log; an entry of the info has none. */
    readonly line?: JsonObject;
  }
  & (
    | { readonly kind: "progress"; readonly progress: StepProgress }
    | { readonly kind: "message"; readonly task: string | undefined; readonly text: string }
    /** The agent's record of a task's capability calls. */
    | { readonly kind: "call"; readonly task: string; readonly text: string }
    /** The attempt with which a task failed for good; its step says the same. */
    | { readonly kind: "failure" }
  );

/** Reads one entry of a job's info; one of unknown form is shown as JSON. */
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

/** Reads one line of a job's log. @see GET /agent/v1/jobs/:uuid/log */
export function readLine(line: JsonObject): InfoEntry {
  const { fields, level } = line;
  const task = textIn(line, "task");
  const said = textIn(line, "message");
  if (said === undefined) {
    const progress = line.progress ?? null;
    return { line, ...readInfo({ ...(task === undefined ? {} : { task }), progress }) };
  }
  if (!isJsonObject(fields)) return { line, kind: "message", task, text: levelText(level) + said };
  const calls = callsText(fields);
  if (calls !== undefined) return { line, kind: "call", task: task ?? "", text: calls };
  // For a failed attempt, the message says everything.
  if (Object.hasOwn(fields, "wait_seconds")) {
    if (fields.wait_seconds === null) return { line, kind: "failure" };
    return { line, kind: "message", task, text: levelText(level) + said };
  }
  // The message of an entry without one is the list of its field names.
  const named = Object.keys(fields).join(", ") === said;
  const text = named ? JSON.stringify(fields) : `${said} ${JSON.stringify(fields)}`;
  return { line, kind: "message", task, text: levelText(level) + text };
}

function levelText(level: JsonValue | undefined): string {
  return typeof level !== "string" || level === "info" ? "" : `${level}: `;
}

/** Characters of one line about a call. */
const LINE_CHARS_MAX = 400;

/**
 * The agent's record of a task's capability calls as a line for people; undefined for any other
 * entry.
 */
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

// Watches a trial to its end, with the views of a followed job, and shows the outcome: the results of its tasks, the
// machines of the simulated host, the exit code. It looks often, since there is no network and the store is in
// memory.

import { TASK_TIMEOUT, WORKFLOW_TIMEOUT } from "../../domain/job/job.ts";
import type { Resume } from "../../domain/job/request.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import { maskedJson } from "../../domain/masking.ts";
import type { Trial } from "../../trial/trial.ts";
import { numberIn, objectsAt, textCell, textIn } from "../client/answer.ts";
import type { FollowView } from "../follow/views.ts";
import {
  elapsedSeconds,
  endOf,
  failedStep,
  type InfoEntry,
  type JobAnswer,
  readInfo,
  readJob,
  type Step,
} from "../client/job.ts";
import { unreachable } from "../../domain/error.ts";
import { EXIT, type ExitCode, type Invocation } from "../command/command.ts";
import { reportOutcome } from "../command/failure.ts";
import type { Printer } from "../output/printer.ts";
import { durationText } from "../output/table.ts";
import { SIGNALS } from "../../wall/protocol.ts";
import { PHASES } from "../../domain/job/state.ts";

/** Longest time until the output of a task shows, milliseconds. */
const LOOK_MS = 100;

/** How a trial ended, with its job and its host at that time. */
export type TrialEnd =
  & {
    readonly job: JobAnswer;
    readonly info: readonly JsonObject[];
    readonly machines: readonly JsonObject[];
  }
  & { readonly kind: "ended" | "waiting" | "timeout" | "interrupted" };

interface TrialWatch {
  /** Names that the workflow declares secret. */
  readonly secrets: ReadonlySet<string>;
  /** Given to the waits of the job, one after another. */
  readonly resumes: readonly Resume[];
  readonly signal: AbortSignal;
  readonly nowMs: () => number;
  readonly timeoutMs?: number;
}

/** Shows the trial until its job has ended, waits without a resume left, or is abandoned. */
export async function watchTrial(
  trial: Trial,
  view: FollowView,
  { secrets, resumes, signal, nowMs, timeoutMs = Number.POSITIVE_INFINITY }: TrialWatch,
): Promise<TrialEnd> {
  const startMs = nowMs();
  const info: JsonObject[] = [];
  const warnOfLong = openLongWarning(view.note);
  let resumed = 0;
  const news = async () => {
    const entries = masked(await trial.info(info.length), secrets);
    info.push(...entries);
    return entries.map(entryOf);
  };
  for (;;) {
    // The job is read after its info, so that no message appears before the step it follows.
    const before = await news();
    const { job: raw, state } = await trial.look();
    const last = state === "under_way" ? [] : await news();
    const job = readJob(raw, secrets);
    view.update(goingOn(job), [...before, ...last], nowMs());
    if (state === "under_way") warnOfLong(job, nowMs());
    const resume = state === "waiting" ? resumes[resumed] : undefined;
    const given = nowMs() - startMs >= timeoutMs;
    if (signal.aborted) return { kind: "interrupted", job, info, machines: [] };
    if (state === "under_way" && !given) await trial.changed(LOOK_MS, signal);
    else if (resume !== undefined && !given) {
      resumed += 1;
      view.note(resume.kind === "error" ? "resumed with an error" : "resumed");
      await trial.resume(resume);
    } else {
      const kind = state === "under_way" ? "timeout" : state;
      return { kind, job, info, machines: masked(await trial.machines(), secrets) };
    }
  }
}

function masked(objects: readonly JsonObject[], secrets: ReadonlySet<string>): JsonObject[] {
  return objects.map((one) => maskedJson(one, secrets) as JsonObject);
}

/** Milliseconds after which a note says what will end a running task. */
const LONG_MS = 10_000;

/** Notes once for each task that runs long, such as one that never calls back, what will end it. */
function openLongWarning(note: FollowView["note"]): (job: JobAnswer, nowMs: number) => void {
  let running = { at: -1, sinceMs: 0, warned: false };
  return ({ raw, steps }, nowMs) => {
    const at = steps.findIndex(({ state }) => state === "running");
    if (at !== running.at) running = { at, sinceMs: nowMs, warned: false };
    const step = steps[at];
    if (step === undefined || running.warned || nowMs - running.sinceMs < LONG_MS) return;
    running.warned = true;
    const seconds = timeoutOf(raw, step.name);
    const end = seconds === undefined
      ? `it has no timeout, and that of the workflow is ${numberIn(raw, "timeout")} s; ` +
        "--timeout ends the trial before"
      : `its timeout is ${seconds} s`;
    note(`${step.name} has run for ${durationText(LONG_MS / 1000)} without calling back: ${end}`);
  };
}

/** Seconds for one run of a task, by its name; undefined when it has no such limit. */
function timeoutOf(job: JsonObject, name: string): number | undefined {
  const tasks = PHASES.flatMap((phase) => objectsAt(job, phase));
  const task = tasks.find((one) => one.name === name || one.uuid === name);
  return task === undefined ? undefined : numberIn(task, "timeout");
}

/**
 * The job without its reason for not running: in a trial nothing else delays it, so the reason is no news.
 */
function goingOn(job: JobAnswer): JobAnswer {
  const still = job.execution === "queued" || job.execution === "waiting";
  return still ? { ...job, execution: "running" } : job;
}

/** An entry of the info with everything its author wrote. */
function entryOf(entry: JsonObject): InfoEntry {
  const read = readInfo(entry);
  if (read.kind !== "message") return read;
  const { message, log, fields, ...others } = entry;
  const plain = Object.keys(others).every((key) => key === "task");
  if (typeof message !== "string" || !plain) {
    return { kind: "message", task: undefined, text: JSON.stringify(entry) };
  }
  const level = typeof log === "string" ? `${log}: ` : "";
  const more = fields === undefined ? "" : ` ${JSON.stringify(fields)}`;
  return { kind: "message", task: textIn(entry, "task"), text: `${level}${message}${more}` };
}

/** Prints the outcome, as text or as one JSON document. */
export function showTrial(printer: Printer, end: TrialEnd): void {
  const { kind, job, info, machines } = end;
  if (printer.json) {
    return printer.document({ outcome: kind, job: job.raw, info, machines });
  }
  const seconds = elapsedSeconds(job);
  printer.pairs([
    ["workflow", job.name],
    ["state", job.execution],
    ...(seconds === undefined ? [] : [["elapsed", durationText(seconds)] as const]),
  ]);
  const results = PHASES.flatMap((phase) => objectsAt(job.raw, `${phase}_results`));
  if (results.length > 0) {
    printer.data("");
    printer.table([
      { head: "TASK", flexible: true, cell: textCell("name") },
      {
        head: "STATE",
        cell: (result) => hasFailed(result) ? "failed" : signalOf(result) ?? "done",
      },
      { head: "TIME", right: true, cell: timeText },
      { head: "TRIES", right: true, cell: (result) => String(numberIn(result, "attempts") ?? 1) },
      { head: "RESULT", flexible: true, cell: resultText },
    ], results);
  }
  if (kind !== "interrupted") showMachines(printer, machines);
}

/** The word with which a task has ended, such as `wait`. */
function signalOf({ error }: JsonObject): string | undefined {
  return SIGNALS.find((one) => one === error);
}

function hasFailed(result: JsonObject): boolean {
  return (result.error ?? "") !== "" && signalOf(result) === undefined;
}

function timeText(result: JsonObject): string {
  const started = Date.parse(textIn(result, "started_at") ?? "");
  const finished = Date.parse(textIn(result, "finished_at") ?? "");
  return durationText((finished - started) / 1000);
}

function resultText(entry: JsonObject): string {
  const { error = "", result = null } = entry;
  return hasFailed(entry) ? errorText(error) : JSON.stringify(result);
}

function errorText(error: JsonValue): string {
  if (typeof error === "string") return error;
  return (isJsonObject(error) ? textIn(error, "message") : undefined) ?? JSON.stringify(error);
}

function showMachines(printer: Printer, machines: readonly JsonObject[]): void {
  printer.data("");
  if (machines.length === 0) return printer.data("the simulated host has no machines");
  printer.table([
    { head: "MACHINE", cell: textCell("uuid") },
    { head: "ALIAS", flexible: true, cell: textCell("alias") },
    { head: "BRAND", cell: textCell("brand") },
    { head: "STATE", cell: textCell("state") },
    { head: "RAM", right: true, cell: (machine) => `${numberIn(machine, "ram") ?? "-"} MiB` },
  ], machines);
}

/** The exit code, as of `job run --wait`. Prints why it is not 0. */
export function trialExit(call: Invocation, { kind, job }: TrialEnd): ExitCode {
  switch (kind) {
    case "ended":
      return endedExit(call, job);
    case "waiting":
      call.printer.note(
        "The job waits: POST /jobs/:job_uuid/resume or zonewright job resume continues it",
      );
      call.printer.note(`hint: --resume-with '{"result": "OK"}'  to try the tasks after it`);
      return EXIT.ok;
    case "timeout":
      return badEnd(call, "timeout", "Gave up the trial: the job has not ended in time");
    case "interrupted":
      return badEnd(call, "interrupted", "Gave up the trial: it was interrupted");
    default:
      return unreachable(kind);
  }
}

function badEnd(
  { terminal, printer }: Invocation,
  code: keyof typeof EXIT,
  message: string,
): ExitCode {
  const hints = ["zonewright workflow validate FILE  names likely mistakes"];
  return reportOutcome(terminal, code, { message, hints, json: printer.json });
}

/** The limit that ended a step; empty if it ended by itself. */
function limitText({ name, error }: Step, { raw }: JobAnswer): string {
  if (error === TASK_TIMEOUT) return `: it did not call back within ${timeoutOf(raw, name)} s`;
  if (error !== WORKFLOW_TIMEOUT) return "";
  return `: the chain did not end within ${numberIn(raw, "timeout")} s`;
}

function endedExit(call: Invocation, job: JobAnswer): ExitCode {
  const end = endOf(job);
  switch (end) {
    case "success":
    case undefined:
      return EXIT.ok;
    case "canceled":
      return badEnd(call, "canceled", "The job was canceled");
    case "retried": {
      const message = "The job asked to be created again, which only an agent does";
      return badEnd(call, "job_failed", message);
    }
    case "failure": {
      const step = failedStep(job);
      const place = step === undefined
        ? ""
        : ` in ${step.name}: ${step.error}${limitText(step, job)}`;
      return badEnd(call, "job_failed", `The job failed${place}`);
    }
    default:
      return unreachable(end);
  }
}

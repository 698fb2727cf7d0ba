// What may be between two looks at one job, however often the agent died between them (promises P1
// to P5 and P8): pure, reported as a list of broken rules.

import {
  canonicalJson,
  isJsonObject,
  type JsonObject,
  type JsonValue,
} from "../../src/domain/json.ts";
import type { Workload } from "./workloads.ts";

/** The three lists of results, with the tasks they belong to. */
export const PHASES = ["chain", "onerror", "oncancel"] as const;
export type Phase = typeof PHASES[number];

/** What never changes once the job was answered. */
const FIXED_FIELDS = [
  ..."uuid workflow_uuid name chain onerror oncancel timeout exec_after target created_at".split(
    " ",
  ),
];
/** What never changes once it is there. */
const ONCE_FIELDS = ["started_at", "finished_at", "next_attempt", "prev_attempt"];
const FINAL = ["success", "failure", "canceled", "retried"];
/** Errors of an entry that no body has made. */
const ENGINE_ERRORS = ["task timeout error", "workflow timeout", "interrupted"];

/** What was asked of a job from outside, as far as it may have come about. */
export interface Asked {
  /** `maybe`: no answer came, so that it happened or not. */
  readonly cancel: "no" | "maybe" | "done";
  readonly resume: "no" | "maybe" | "done";
  /** A new job in the place of this one, which has ended. */
  readonly retry: "no" | "maybe" | "done";
  /** What the waiting task's entry holds once the job is resumed. */
  readonly resumed?: { readonly result: JsonValue; readonly error: string };
}

/** Whether a job has come to its end. */
export function isFinal(job: JsonObject): boolean {
  return FINAL.includes(String(job.execution));
}

/** The results of one phase. */
export function resultsOf(job: JsonObject, phase: Phase): JsonObject[] {
  const results = job[`${phase}_results`];
  return Array.isArray(results) ? results.filter(isJsonObject) : [];
}

/** The tasks of one phase. */
export function tasksOf(job: JsonObject, phase: Phase): JsonObject[] {
  const tasks = job[phase];
  return Array.isArray(tasks) ? tasks.filter(isJsonObject) : [];
}

function same(one: JsonValue | undefined, other: JsonValue | undefined): boolean {
  return canonicalJson(one ?? null) === canonicalJson(other ?? null);
}

/** Rules that the later of two looks breaks. */
export function brokenBetween(before: JsonObject, after: JsonObject, asked: Asked): string[] {
  const broken: string[] = [];
  for (const field of FIXED_FIELDS) {
    if (!same(before[field], after[field])) broken.push(`${field} has changed`);
  }
  for (const field of ONCE_FIELDS) {
    if (before[field] !== undefined && !same(before[field], after[field])) {
      broken.push(`${field} was set and has changed`);
    }
  }
  if (asked.retry === "no" && before.next_attempt !== after.next_attempt && isFinal(before)) {
    broken.push("nobody has asked for its next attempt");
  }
  for (const phase of PHASES) broken.push(...brokenResults(before, after, phase, asked));
  if (isFinal(before)) {
    if (before.execution !== after.execution) {
      broken.push(`final "${before.execution}" became "${after.execution}"`);
    } else if (before.execution !== "canceled" && !same(besides(before), besides(after))) {
      broken.push("a finished job has changed");
    } else if (!same(before.chain_results, after.chain_results)) {
      broken.push("a canceled job has a later result of its chain");
    }
  }
  return broken;
}

/** A finished job without what a retry sets on it. */
function besides({ next_attempt: _, ...job }: JsonObject): JsonObject {
  return job;
}

/** What was recorded stays; only a resume rewrites the entry of the task that waits. */
function brokenResults(
  before: JsonObject,
  after: JsonObject,
  phase: Phase,
  { resume, resumed }: Asked,
): string[] {
  const [old, now] = [resultsOf(before, phase), resultsOf(after, phase)];
  if (now.length < old.length) {
    return [`${phase}_results had ${old.length} entries and has ${now.length}`];
  }
  return old.flatMap((entry, position) => {
    const present = now[position] ?? {};
    if (same(entry, present)) return [];
    const place = `${phase}_results[${position}]`;
    if (entry.error !== "wait") return [`${place} has changed`];
    if (resume === "no") return [`${place} was resumed by nobody`];
    const expected = { ...entry, ...resumed, finished_at: present.finished_at ?? null };
    return same(expected, present) ? [] : [`${place} is not what resume sent`];
  });
}

/** Rules that a job breaks by itself, whatever it was before. */
export function brokenIn(job: JsonObject, workload: Workload, asked: Asked): string[] {
  const broken: string[] = [];
  const { execution } = job;
  if (asked.cancel === "done" && execution !== "canceled") {
    broken.push(`its cancel was acknowledged and it is "${execution}"`);
  }
  if (execution === "canceled" && asked.cancel === "no" && workload.end !== "canceled") {
    broken.push("nobody canceled it");
  }
  if (asked.resume === "done" && resultsOf(job, "chain").some(({ error }) => error === "wait")) {
    broken.push("its resume was acknowledged and its task still waits");
  }
  if (asked.retry === "done" && job.next_attempt === undefined) {
    broken.push("its retry was acknowledged and it names no next attempt");
  }
  for (const phase of PHASES) broken.push(...brokenOrder(job, phase));
  const failed = resultsOf(job, "chain").at(-1)?.error;
  if (resultsOf(job, "onerror").length > 0 && (failed === "" || failed === undefined)) {
    broken.push("onerror has run although the chain has not failed");
  }
  const { started_at, exec_after } = job;
  if (started_at !== undefined && String(started_at) < String(exec_after)) {
    broken.push(`it was started at ${started_at}, before exec_after ${exec_after}`);
  }
  if ((job.finished_at !== undefined) !== isFinal(job)) {
    broken.push(`it is "${execution}" with finished_at ${job.finished_at}`);
  }
  return broken;
}

/** At most one entry per task, in the order of the tasks; each with its property of the job. */
function brokenOrder(job: JsonObject, phase: Phase): string[] {
  const tasks = tasksOf(job, phase);
  return resultsOf(job, phase).flatMap((entry, position) => {
    const place = `${phase}_results[${position}]`;
    const task = tasks[position];
    if (task === undefined) return [`${place} is of no task`];
    if (entry.name !== task.name) {
      return [`${place} is of task "${entry.name}", expected "${task.name}"`];
    }
    const token = tokenOf(entry);
    const property = job[String(task.name)];
    if (token !== undefined && property !== token) {
      return [`${place} has token ${token}, the job's property of that task has ${property}`];
    }
    return [];
  });
}

/** The token of the execution that an entry came from, or undefined when it carries none. */
function tokenOf({ result, error }: JsonObject): string | undefined {
  if (isJsonObject(result) && typeof result.token === "string") return result.token;
  if (typeof error !== "string" || ENGINE_ERRORS.includes(error)) return undefined;
  return /^(?:broken|again) (\w+)$/.exec(error)?.[1];
}

/**
 * Rules that executions break: the info of a job that was read after the job.
 * @param lives how often the agent was started while the job was there
 */
export function brokenExecutions(
  job: JsonObject,
  info: readonly JsonObject[],
  workload: Workload,
  lives: number,
): string[] {
  const began = info.flatMap(({ began, token }) =>
    typeof began === "string" ? [{ task: began, token }] : []
  );
  const order = PHASES.flatMap((phase) => tasksOf(job, phase).map(({ name }) => String(name)));
  const broken: string[] = [];
  let latest = 0;
  for (const { task } of began) {
    const place = order.indexOf(task);
    if (place < latest) broken.push(`task "${task}" was executed after "${order[latest]}"`);
    latest = Math.max(latest, place);
  }
  for (const phase of PHASES) {
    for (const entry of resultsOf(job, phase)) {
      const executions = began.filter(({ task }) => task === entry.name);
      const recorded = tokenOf(entry);
      const last = executions.at(-1)?.token;
      if (recorded !== undefined && recorded !== last) {
        broken.push(`task "${entry.name}" has recorded ${recorded}, its last execution is ${last}`);
      }
      if (executions.length > workload.executionsMax * lives) {
        const most = `${workload.executionsMax} in each of ${lives} lives of the agent`;
        broken.push(`task "${entry.name}" had ${executions.length} executions, at most ${most}`);
      }
      if (entry.error === "interrupted" && lives <= INTERRUPTIONS_MIN) {
        broken.push(`task "${entry.name}" was given up after ${lives} lives of the agent`);
      }
    }
  }
  return broken;
}

/** Starts that an agent must have broken off before it gives a task up (promise P5). */
const INTERRUPTIONS_MIN = 3;

/** Rules that a job breaks that has come to its end. */
export function brokenEnd(job: JsonObject, workload: Workload, asked: Asked): string[] {
  if (!isFinal(job)) return [`it is "${job.execution}" and never comes to its end`];
  const interrupted = PHASES.some((phase) =>
    resultsOf(job, phase).some(({ error }) => error === "interrupted")
  );
  if (interrupted) return [];
  if (job.execution === "canceled" && asked.cancel !== "no") return brokenUndo(job);
  const failedResume = asked.resume !== "no" && asked.resumed?.error !== "";
  if (failedResume) {
    return job.execution === "failure" ? [] : [`resumed with an error, it is "${job.execution}"`];
  }
  if (job.execution !== workload.end) {
    return [`it is "${job.execution}", expected "${workload.end}"`];
  }
  return PHASES.flatMap((phase) => {
    const [found, wanted] = [resultsOf(job, phase).length, workload.results[phase]];
    return found === wanted ? [] : [`${phase}_results has ${found} entries, expected ${wanted}`];
  });
}

/** A canceled job that had begun has run all of its oncancel chain; one that had not, none. */
function brokenUndo(job: JsonObject): string[] {
  const [found, tasks] = [resultsOf(job, "oncancel").length, tasksOf(job, "oncancel").length];
  const wanted = job.started_at === undefined ? 0 : tasks;
  return found === wanted ? [] : [`oncancel_results has ${found} entries, expected ${wanted}`];
}

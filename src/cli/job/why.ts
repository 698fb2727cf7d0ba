// `zonewright job why`: the failed task, each of its attempts, the last lines of its log, and what to type
// next. For a job that has not failed: what it is doing or waiting for.

import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { numberCell, numberIn, objectsAt, readObject, textCell, textIn } from "../client/answer.ts";
import { shellQuoted } from "../client/api_call.ts";
import { jobNamed } from "../command/named.ts";
import type { Command, Invocation } from "../command/command.ts";
import { ageText, durationText, timeOfDay } from "../output/table.ts";
import { failedStep, type JobAnswer, readJob, secretsIn, type Step } from "../client/job.ts";
import { doingText } from "./list.ts";

/** Lines of a log to read, and how many of them to show. */
const LINES_READ = 200;
const LINES_SHOWN = 10;

/** A command line without the program's name, and what it does. */
type Next = readonly [command: string, does: string];

/** How a job ended, or what it is doing. */
export interface JobWhy {
  /** The summary with the failed attempts, as the agent sent it. */
  readonly summary: JsonObject;
  /** Names of fields that its workflow declares secret. */
  readonly secrets: ReadonlySet<string>;
  /** The same job with its steps. */
  readonly job: JobAnswer;
  /** Commands to type next. */
  readonly hints: readonly Next[];
}

/** Reads the summary of a job. @param sent the job itself @throws {AgentError} `not_found` */
export async function readWhy(
  { client }: Invocation,
  uuid: string,
  sent: unknown,
): Promise<JobWhy> {
  return whyOf(readObject(await client.get(`/agent/v1/jobs/${uuid}`), "the job"), sent);
}

function whyOf(summary: JsonObject, sent: unknown): JobWhy {
  const secrets = secretsIn(summary);
  const job = readJob(sent, secrets);
  return { summary, secrets, job, hints: hintsOf(summary, job) };
}

/** Task and whole error of a failed job, and what failed while it was undone; nothing for other jobs. */
export function failurePairs({ summary, job }: JobWhy): readonly (readonly [string, string])[] {
  const task = isJsonObject(summary.task) ? textIn(summary.task, "name") : undefined;
  const error = textIn(summary, "error");
  if (error === undefined) return [];
  const step = failedStep(job);
  return [
    ...(task === undefined ? [] : [["task", task] as const]),
    ["error", (step?.name === task ? step?.error : undefined) ?? error],
    ...failedLater(job).map(({ name, error }) => ["also failed", `${name}: ${error}`] as const),
  ];
}

/** Steps that failed after the one that failed the job. */
function failedLater(job: JobAnswer): readonly Step[] {
  return job.steps.filter(({ state }) => state === "failed").slice(1);
}

function hintsOf(summary: JsonObject, job: JobAnswer): Next[] {
  const uuid = textIn(summary, "uuid") ?? "";
  const next = textIn(summary, "next_attempt");
  switch (textIn(summary, "state")) {
    case "failed": {
      if (next !== undefined) return [[`job why ${next}`, "the job that repeats it"]];
      const task = isJsonObject(summary.task) ? summary.task : {};
      const index = numberIn(task, "index") ?? 0;
      const again: Next = [`job retry ${uuid} --follow`, "creates it again and watches it"];
      if (failedLater(job).some(({ error }) => error?.startsWith("undo_failed:"))) {
        return [["machine leftovers", "shows what is left, and when it is tried again"], again];
      }
      // Its onerror chain may have undone what the earlier tasks made.
      const undone = objectsAt(job.raw, "onerror_results").length > 0;
      if (index === 0 || undone || textIn(task, "phase") !== "chain") return [again];
      const from: Next = [`job retry ${uuid} --from ${index} --follow`, "goes on at this task"];
      return [from, again];
    }
    case "canceled":
      return [[`job retry ${uuid}`, "creates it again"]];
    case "waiting":
      return [[`job resume ${uuid} --result OK`, "goes on"], [`job cancel ${uuid}`, "ends it"]];
    case "queued":
      return [...hostHints(summary, ...queueHints(summary)), [`job cancel ${uuid}`, "ends it"]];
    case "running":
      return [...hostHints(summary), [`job tail ${uuid}`, "watches it"], [
        `job cancel ${uuid}`,
        "ends it",
      ]];
    default:
      return [];
  }
}

function queueHints(summary: JsonObject): readonly Next[] {
  return textIn(summary, "reason") === "waiting_for_slot"
    ? [
      ["job list --state running", "shows the jobs in the slots; config set slots N adds some"],
      ["status", "warns when no guest starts, for which a job waits too"],
    ]
    : [];
}

/** What to do about the host of a job that takes none now. @param otherwise for one that does */
function hostHints(summary: JsonObject, ...otherwise: readonly Next[]): readonly Next[] {
  const host = shellQuoted(textIn(summary, "host") ?? "");
  switch (textIn(summary, "host_state")) {
    case "cordoned":
      return [[`host uncordon ${host}`, "lets it take jobs again"]];
    case "away":
      return [[`host show ${host}`, "shows when it was last heard from"]];
    default:
      return otherwise;
  }
}

/** `zonewright job why JOB`: reads the job, its log and its host, and prints commands that would help. */
export const WHY: Command = {
  summary: "explain why a job failed or what it is waiting for, and what to type next",
  operands: "JOB",
  examples: [["job why 6c1e8f0a", "failed task, attempts, the last lines of its log"]],
  flags: [],
  shared: "agent",
  async run(call) {
    const { client, printer } = call;
    const { uuid } = await jobNamed(call, call.args.operand);
    const sent = await client.send({ method: "GET", path: `/agent/v1/jobs/${uuid}` });
    const job = await client.get(`/jobs/${uuid}`);
    const why = whyOf(readObject(sent.body, "the job"), job);
    const path = `/agent/v1/jobs/${uuid}/log?last=${LINES_READ}`;
    const lines = linesOf(why, objectsAt(readObject(await client.get(path), "the log"), "lines"));
    if (printer.json) {
      const hints = why.hints.map(([command, does]) => ({
        command: `zonewright ${command}`,
        does,
      }));
      const errors = new Map(failurePairs(why));
      const whole = errors.has("error") ? { error: errors.get("error") ?? null } : {};
      printer.document({ ...why.summary, ...whole, lines, next_commands: hints });
    } else showWhy(call, why, lines);
  },
};

/** The last lines of the failed task, or of the job if the task wrote none. */
function linesOf({ summary }: JobWhy, lines: readonly JsonObject[]): readonly JsonObject[] {
  const task = isJsonObject(summary.task) ? textIn(summary.task, "name") : undefined;
  const said = lines.filter((line) => textIn(line, "message") !== undefined && !isAttempt(line));
  const own = said.filter((line) => textIn(line, "task") === task);
  return (own.length > 0 ? own : said).slice(-LINES_SHOWN);
}

/** Whether a line is about an attempt; those have a table of their own. */
function isAttempt({ fields }: JsonObject): boolean {
  return isJsonObject(fields) && Object.hasOwn(fields, "wait_seconds");
}

function showWhy(
  { printer, terminal }: Invocation,
  why: JobWhy,
  lines: readonly JsonObject[],
): void {
  const { summary } = why;
  const nowMs = terminal.nowMs();
  const failed = failurePairs(why);
  const duration = numberIn(summary, "duration");
  printer.pairs([
    ["job", textIn(summary, "uuid") ?? ""],
    ["workflow", textIn(summary, "name") ?? "-"],
    ["state", textIn(summary, "state") ?? "-"],
    ...(failed.length > 0 ? failed : [["task", doingText(summary, nowMs)] as const]),
    ["created", `${ageText(textIn(summary, "created_at"), nowMs)} ago`],
    ...(duration === undefined ? [] : [["duration", durationText(duration)] as const]),
  ]);
  const attempts = objectsAt(summary, "attempts");
  // The errors of single attempts are above, in full.
  if (attempts.length > why.job.steps.filter(({ state }) => state === "failed").length) {
    printer.data("");
    printer.table([
      { head: "TASK", cell: textCell("task") },
      {
        head: "ATTEMPT",
        right: true,
        cell: (attempt) =>
          numberCell("attempt")(attempt) + (attempt.fallback === true ? " fallback" : ""),
      },
      { head: "TIME", right: true, cell: tookText },
      { head: "ERROR", flexible: true, cell: textCell("message") },
    ], attempts);
  }
  if (lines.length > 0) {
    printer.data("");
    for (const line of lines) {
      const { level } = line;
      const word = level === "info" || typeof level !== "string" ? "" : ` ${level}:`;
      printer.data(`${timeOfDay(textIn(line, "time"))}${word} ${textIn(line, "message")}`);
    }
  }
  if (why.hints.length > 0) printer.data("");
  for (const [command, does] of why.hints) printer.data(`next: zonewright ${command}  ${does}`);
}

function tookText(attempt: JsonObject): string {
  const from = Date.parse(textIn(attempt, "started_at") ?? "");
  const to = Date.parse(textIn(attempt, "finished_at") ?? "");
  return Number.isNaN(to - from) ? "-" : durationText((to - from) / 1000);
}

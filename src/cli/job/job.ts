// `zonewright job`: showing jobs, what they report and how many there are, and waiting for them. Running and changing
// them are in files of their own.

import { numberIn, readObject, readObjects, textIn } from "../client/answer.ts";
import type { Command, CommandEnd, Invocation, Noun } from "../command/command.ts";
import { absentHost, elapsedSeconds, type JobAnswer, readJob, readSecrets } from "../client/job.ts";
import { jobNamed, jobPath } from "../command/named.ts";
import { CANCEL, RESUME, RETRY } from "./change.ts";
import { LIST } from "./list.ts";
import { RUN } from "./run.ts";
import { failurePairs, type JobWhy, readWhy, WHY } from "./why.ts";
import { ageText, aheadText, durationText, type ItemColumn } from "../output/table.ts";
import { EXECUTIONS } from "../../domain/job/state.ts";
import { NO_EXTRA_FIELDS } from "../../domain/job/wire.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { maskedJson } from "../../domain/masking.ts";
import { follow, TIMEOUT_FLAG } from "../follow/follow.ts";
import { openJsonView, openPlainView } from "../follow/views.ts";
import { STATS_WINDOWS } from "../../domain/job/job.ts";

/** Entries per request; a job may have a hundred thousand. */
const ENTRIES_MAX = 1000;

const INFO: Command = {
  summary: "print the info of a job, secrets masked, one JSON object a line",
  operands: "JOB",
  examples: [['job info "$JOB"', "everything it reported about its progress"]],
  flags: [],
  shared: "agent",
  async run(call) {
    const { client, printer } = call;
    const all: JsonObject[] = [];
    const { uuid } = await jobNamed(call, call.args.operand);
    const curl = call.args.has("curl");
    const secrets = curl ? undefined : await readSecrets(client, uuid);
    let after = 0;
    let count = 0;
    do {
      const query = new URLSearchParams({ after: String(after), limit: String(ENTRIES_MAX) });
      const path = `/jobs/${uuid}/info${curl ? "" : `?${query}`}`;
      const sent = await client.send({ method: "GET", path });
      const entries = readObjects(sent.body, "the info")
        .map((entry) => maskedJson(entry, secrets) as JsonObject);
      if (printer.json) all.push(...entries);
      else for (const entry of entries) printer.data(JSON.stringify(entry));
      count = entries.length;
      after += count;
    } while (count === ENTRIES_MAX);
    if (printer.json) printer.document(all);
  },
};

/** The windows of document 2 do not overlap: a job counts in the first that fits. */
const WINDOW_WORDS: Readonly<Record<typeof STATS_WINDOWS[number], string>> = {
  current: "last hour",
  past_hour: "1 to 2 h ago",
  past_24h: "2 to 24 h ago",
  all_time: "earlier",
};

const STATS: Command = {
  summary: "count jobs by state and age",
  examples: [["job stats", "each job is counted in one row"]],
  flags: [],
  shared: "agent",
  async run({ client, printer }) {
    const sent = await client.send({ method: "GET", path: "/stats" });
    const stats = readObject(sent.body, "the stats");
    if (printer.json) return printer.document(stats);
    printer.table([
      { head: "CREATED", cell: (window) => WINDOW_WORDS[window] },
      ...EXECUTIONS.map((name): ItemColumn<typeof STATS_WINDOWS[number]> => ({
        head: name.toUpperCase(),
        right: true,
        cell: (window) => {
          const counters = stats[window];
          return String(isJsonObject(counters) ? numberIn(counters, name) ?? 0 : 0);
        },
      })),
    ], STATS_WINDOWS.toReversed());
    printer.note("each job is counted in one row");
  },
};

const WAIT: Command = {
  summary: "wait until a job has ended; the exit code says how",
  operands: "JOB",
  examples: [[
    'job wait "$JOB" --timeout 10m || echo "exit $?"',
    "5: it failed, 7: it was canceled, 124: timeout",
  ]],
  flags: [TIMEOUT_FLAG],
  shared: "agent",
  async run(call) {
    const path = await jobPath(call);
    const sent = await call.client.send({ method: "GET", path });
    const { uuid } = readJob(sent.body);
    const { code, job } = await follow(call, uuid);
    if (job !== undefined) call.printer.result(job.raw, job.execution);
    return code;
  },
};

/** The note on what `--json` prints while following a job. */
const STREAM_NOTE =
  "With --json each line is an object with its kind: log, a line of the log, with sequence, time, task,\n" +
  "attempt, level and message or progress; task, a task that has ended; job, a new state; note, about\n" +
  "the watching. The last one is of kind end: its result is the job, of --follow what --wait prints. An\n" +
  "error is one object on standard error.";

const TAIL: Command = {
  summary: "follow a job step by step until it has ended",
  operands: "JOB",
  examples: [['job tail "$JOB"', "steps, messages, progress and calls; ends with the job"]],
  flags: [TIMEOUT_FLAG],
  notes: [STREAM_NOTE],
  shared: "agent",
  streams: true,
  async run(call) {
    const { uuid } = await jobNamed(call, call.args.operand);
    // Fails where there is no agent or no such job; what follows would wait for it.
    await call.client.send({ method: "GET", path: `/agent/v1/jobs/${uuid}/log` });
    const { printer } = call;
    // Here the lines of the job are the data.
    const view = printer.json
      ? openJsonView(uuid, printer.line)
      : openPlainView(printer.data, { calls: true, times: true, note: printer.note });
    const { code, job } = await follow(call, uuid, view);
    if (job !== undefined && printer.json) printer.document(job.raw);
    return code;
  },
};

const GET: Command = {
  summary: "show one job with its steps, their results, and why it failed",
  operands: "JOB",
  examples: [
    ["job get 6c1e8f0a", "state, steps, results and params; why it is not running yet"],
    ["job get 6c1e8f0a --full", "the whole document: task sources, secrets for admins"],
  ],
  flags: [{ name: "full", help: "the whole document, with nothing masked, as JSON" }],
  shared: "agent",
  async run(call): Promise<CommandEnd> {
    const { args, client, printer } = call;
    const { uuid } = await jobNamed(call, args.operand);
    const sent = await client.send({ method: "GET", path: `/jobs/${uuid}` });
    if (args.has("full")) {
      return printer.document(sent.body);
    }
    const staleAge = sent.headers.get("x-stale") === null ? undefined : sent.headers.get("age");
    const why = staleAge === undefined
      ? await readWhy(call, uuid, sent.body)
      : unreadWhy(sent.body);
    const { job } = why;
    if (staleAge !== undefined) {
      const age = durationText(Number(staleAge));
      printer.note(`The database is away: this is the job of ${age} ago, its values hidden`);
    }
    if (printer.json) printer.document(job.raw);
    else showJob(call, why);
  },
};

/** Which values are secret is known to the database alone: without it all are, besides the agent's own fields. */
function unreadWhy(body: unknown): JobWhy {
  const job = readObject(body, "the job");
  const params = isJsonObject(job.params) ? Object.keys(job.params) : [];
  const set = Object.keys(job).filter((name) => !NO_EXTRA_FIELDS.has(name));
  const secrets = new Set([...params, ...set, "result"]);
  return { summary: {}, secrets, job: readJob(body, secrets), hints: [] };
}

/** Prints a job for people; JSON is printed elsewhere. */
function showJob({ printer, terminal }: Invocation, why: JobWhy): void {
  const { job } = why;
  const nowMs = terminal.nowMs();
  const word = (key: string): [string, string][] => {
    const text = textIn(job.raw, key);
    return text === undefined ? [] : [[key, text]];
  };
  const instant = (key: string): [string, string][] => {
    const text = textIn(job.raw, key);
    return text === undefined ? [] : [[key, `${text} (${ageText(text, nowMs)} ago)`]];
  };
  printer.pairs([
    ["job", job.uuid],
    ["workflow", `${job.name} (${textIn(job.raw, "workflow_uuid") ?? "-"})`],
    ["state", job.execution],
    ...hostPairs(job),
    ...waitPairs(job, nowMs),
    ...failurePairs(why),
    ...word("target"),
    ...word("locks"),
    ...word("callback_url"),
    ...word("ordered_by"),
    ["params", JSON.stringify(job.raw.params ?? {})],
    ...attemptPairs(job),
    ...instant("created_at"),
    ...instant("started_at"),
    ...instant("finished_at"),
    ...elapsedPairs(job),
  ]);
  if (job.steps.length === 0) return;
  printer.data("");
  printer.table([
    { head: "STEP", flexible: true, cell: ({ name }) => name },
    { head: "STATE", cell: ({ state }) => state },
    {
      head: "TIME",
      right: true,
      cell: ({ seconds }) => seconds === undefined ? "-" : durationText(seconds),
    },
    { head: "RESULT OR ERROR", flexible: true, cell: ({ error, result }) => error ?? result ?? "" },
  ], job.steps);
  if (why.hints.length > 0) printer.data("");
  for (const [line, does] of why.hints) printer.data(`next: zonewright ${line}  ${does}`);
}

type Pairs = readonly (readonly [string, string])[];

/** The host of a job, and whether it is there. */
function hostPairs({ raw }: JobAnswer): Pairs {
  const host = textIn(raw, "host");
  if (host === undefined) return [];
  const unconfirmed = raw.stop_confirmed === false ? "; it has not confirmed the stop" : "";
  return [["host", `${absentHost(raw) ?? host}${unconfirmed}`]];
}

/** Why a job is not running now, and when it continues. */
function waitPairs({ reason, next_run_at, raw }: JobAnswer, nowMs: number): Pairs {
  const host = reason === "waiting_for_slot" ? absentHost(raw) : undefined;
  const known = host !== undefined
    ? `waiting for ${host}`
    : reason === undefined
    ? undefined
    : REASONS[reason] ?? reason;
  return [
    ...(known === undefined ? [] : [["reason", known] as const]),
    ...(next_run_at === undefined
      ? []
      : [["next_run_at", `${next_run_at} (in ${aheadText(next_run_at, nowMs)})`] as const]),
  ];
}

/** The agent's reasons, for people; an unknown one is shown as it is. */
const REASONS: Readonly<Record<string, string>> = {
  scheduled: "scheduled for later",
  waiting_for_slot: "waiting for a slot",
  waiting_for_resume: "waiting for zonewright job resume",
};

/** The attempts before and after this job. */
function attemptPairs({ raw }: JobAnswer): Pairs {
  const attempts = numberIn(raw, "num_attempts");
  const before = textIn(raw, "prev_attempt");
  const after = textIn(raw, "next_attempt");
  const params = textIn(raw, "params_from");
  const refused = textIn(raw, "next_attempt_refused");
  const many = attempts === undefined ? "" : ` (${attempts} before this one)`;
  return [
    ...(before === undefined ? [] : [["retry of", before + many] as const]),
    ...(params === undefined
      ? []
      : [["params from", `${params}, as its tasks left them`] as const]),
    ...(after === undefined ? [] : [["retried as", after] as const]),
    ...(refused === undefined ? [] : [["not retried", refused] as const]),
  ];
}

function elapsedPairs(job: JobAnswer): Pairs {
  const seconds = elapsedSeconds(job);
  return seconds === undefined ? [] : [["elapsed", durationText(seconds)]];
}

/** The commands about jobs. @see document 2 */
export const JOB: Noun = {
  kind: "verbs",
  summary: "run workflows and manage their jobs",
  verbs: {
    run: RUN,
    list: LIST,
    get: GET,
    why: WHY,
    wait: WAIT,
    tail: TAIL,
    cancel: CANCEL,
    retry: RETRY,
    resume: RESUME,
    info: INFO,
    stats: STATS,
  },
};

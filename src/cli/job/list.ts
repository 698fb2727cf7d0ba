// `zonewright job list`: summaries of jobs as a table with selectable columns.

import { nearest } from "../../domain/near_word.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { isPassing, numberIn, objectsAt, readObject, textIn } from "../client/answer.ts";
import { type Arguments, cannot } from "../command/arguments.ts";
import {
  type Command,
  type CommandEnd,
  EXIT,
  type ExitCode,
  type Invocation,
} from "../command/command.ts";
import { followChanges } from "../follow/job_changes.ts";
import { pause } from "../../runtime/wait.ts";
import { ageText, aheadText, durationText, type ItemColumn, timeOfDay } from "../output/table.ts";
import { canMove, stateStyle } from "../output/terminal.ts";
import { machineNamed, shortUuids } from "../command/named.ts";
import { absentHost } from "../client/job.ts";
import { FILTER_FLAGS, filterOf, limitOf, noteUnknownWorkflow, summaryQuery } from "./selection.ts";

const LIST_LIMIT = 100;
/** Jobs per request; the agent's limit. */
const PAGE_MAX = 200;
/** Requests for one list: a search text that is rare among a million jobs takes about fifty. */
const PAGES_MAX = 100;

interface JobOfRow {
  readonly job: JsonObject;
  readonly uuid: string;
  readonly nowMs: number;
}

function text(key: string): (row: JobOfRow) => string {
  return ({ job }) => textIn(job, key) ?? "-";
}

/** Its alias, or its uuid, as the target of its jobs has it. */
function machineText({ job: { machine } }: JobOfRow): string {
  if (!isJsonObject(machine)) return "-";
  return textIn(machine, "alias") ?? textIn(machine, "uuid") ?? "-";
}

const COLUMNS: Readonly<Record<string, ItemColumn<JobOfRow>>> = {
  uuid: { head: "UUID", cell: ({ uuid }) => uuid },
  state: { head: "STATE", styleOf: stateStyle, cell: text("state") },
  name: { head: "NAME", flexible: true, cell: text("name") },
  task: { head: "TASK OR ERROR", flexible: true, cell: ({ job, nowMs }) => doingText(job, nowMs) },
  duration: {
    head: "DURATION",
    right: true,
    cell: ({ job }) => {
      const seconds = numberIn(job, "duration");
      return seconds === undefined ? "-" : durationText(seconds);
    },
  },
  age: {
    head: "AGE",
    right: true,
    cell: ({ job, nowMs }) => ageText(textIn(job, "created_at"), nowMs),
  },
  target: { head: "TARGET", flexible: true, cell: text("target") },
  machine: { head: "MACHINE", flexible: true, cell: machineText },
  error: { head: "ERROR", flexible: true, cell: text("error") },
  host: { head: "HOST", flexible: true, cell: text("host") },
  created: { head: "CREATED", cell: text("created_at") },
  started: { head: "STARTED", cell: text("started_at") },
  ended: { head: "ENDED", cell: text("finished_at") },
  workflow: { head: "WORKFLOW", cell: text("workflow_uuid") },
};
const COLUMNS_SHOWN = ["uuid", "state", "name", "task", "duration", "age"];

/** `zonewright job list`: one page of summaries; `--watch` follows the events of the agent. */
export const LIST: Command = {
  summary: "list jobs, newest first",
  examples: [
    ["job list --failed --since today", "what failed today, and why"],
    ["job list --execution running,waiting", "what is running now, and on which step"],
    ['job list --search "no space" --since 7d', "with this text in name, target, params or error"],
    ["job list --failed --since 1d --json", "failures of the last day, for scripts"],
    ["job list --state running,waiting --watch", "the same, as it changes"],
    ["job list --machine web-1 --limit 5", "the last five about one machine"],
  ],
  flags: [
    ...FILTER_FLAGS,
    {
      name: "search",
      placeholder: "TEXT",
      help: "only jobs with this text in name, target, params or error",
    },
    {
      name: "machine",
      placeholder: "MACHINE",
      help: "only jobs that made this machine or acted on it: alias or uuid",
    },
    {
      name: "columns",
      placeholder: "NAME,...",
      help: `of ${Object.keys(COLUMNS).join(", ")} [${COLUMNS_SHOWN.join(",")}]`,
    },
    { name: "limit", placeholder: "N", help: `at most this many [${LIST_LIMIT}]` },
    { name: "watch", help: "show every change until Ctrl-C; with --json one job a line" },
  ],
  notes: [
    "--execution takes several states separated by commas. Uuids are shortened; every command\n" +
    "takes the beginning of one, at least 4 characters. With --json they are whole.",
  ],
  shared: "agent",
  async run(call): Promise<CommandEnd> {
    const { args, printer, terminal } = call;
    const columns = columnsOf(args);
    const filter = await filterOf(call);
    const limit = limitOf(args) ?? LIST_LIMIT;
    const machine = args.text("machine");
    const of = machine === undefined ? undefined : (await machineNamed(call, machine)).uuid;
    const read = () => {
      const query = summaryQuery(filter);
      if (of !== undefined) query.set("machine", of);
      return readSummaries(call, query, limit);
    };
    if (args.has("watch") && !args.has("curl")) return await watchList(call, columns, read);
    const { jobs, more } = await read();
    if (printer.json) printer.document(jobs);
    else showTable(call, columns, jobs, terminal.nowMs());
    if (more === "shown") printer.note("older jobs are not shown; see --limit");
    if (more === "looked") {
      printer.note("older jobs were not searched: narrow the search with --since");
    }
    if (jobs.length > 0 || more !== "none" || await noteUnknownWorkflow(call, filter)) return;
    if (printer.json) return;
    const filtered = Object.keys(filter).length > 0 || of !== undefined || args.given.has("search");
    for (const line of filtered ? NONE_MATCHES : NONE_YET) printer.note(line);
  },
};

/** @throws {AgentError} `invalid_argument` for an unknown column */
function columnsOf(args: Arguments): readonly ItemColumn<JobOfRow>[] {
  const names = args.text("columns")?.split(",") ?? COLUMNS_SHOWN;
  return names.map((name) => {
    const column = Object.hasOwn(COLUMNS, name) ? COLUMNS[name] : undefined;
    if (column !== undefined) return column;
    const known = Object.keys(COLUMNS);
    throw cannot(
      `show the column ${JSON.stringify(name)}, expected some of ${known.join(",")}` +
        nearest(name, known),
    );
  });
}

const NONE_MATCHES = ["no job matches", "hint: zonewright job list  shows the newest of all"];
const NONE_YET = [
  "there are no jobs yet",
  "hint: zonewright workflow list --all  shows what can be run",
];

interface FoundJobs {
  readonly jobs: readonly JsonObject[];
  /** Why the list is incomplete: the limit of shown jobs, or of examined jobs. */
  readonly more: "none" | "shown" | "looked";
}

/** Reads pages until there are enough. */
async function readSummaries(
  { args, client }: Invocation,
  query: URLSearchParams,
  limit: number,
): Promise<FoundJobs> {
  const search = args.text("search");
  if (search !== undefined) query.set("search", search);
  const jobs: JsonObject[] = [];
  for (let pages = 0; pages < PAGES_MAX; pages++) {
    query.set("limit", String(Math.min(limit - jobs.length, PAGE_MAX)));
    const sent = await client.send({ method: "GET", path: `/agent/v1/jobs?${query}` });
    const page = readObject(sent.body, "the jobs");
    jobs.push(...objectsAt(page, "jobs"));
    const next = textIn(page, "next");
    if (next === undefined) return { jobs, more: "none" };
    if (jobs.length >= limit) return { jobs, more: "shown" };
    query.set("cursor", next);
  }
  return { jobs, more: "looked" };
}

function showTable(
  { printer }: Invocation,
  columns: readonly ItemColumn<JobOfRow>[],
  jobs: readonly JsonObject[],
  nowMs: number,
): void {
  const uuids = shortUuids(jobs.map((job) => textIn(job, "uuid") ?? ""));
  printer.table(
    columns,
    jobs.map((job, at) => ({ job, uuid: uuids[at] ?? "", nowMs })),
  );
}

/** Milliseconds to gather changes before the list is read again. */
const GATHER_MS = 1000;
/** Milliseconds after which the list is read again even without a change. */
const READ_AGAIN_MS = 60_000;
const CLEAR_SCREEN = "\x1b[H\x1b[2J";

/** Shows the list as it changes: all of it on a terminal, elsewhere one line per change. */
async function watchList(
  call: Invocation,
  columns: readonly ItemColumn<JobOfRow>[],
  read: () => Promise<FoundJobs>,
): Promise<ExitCode> {
  const { client, printer, terminal } = call;
  const show = changeView(call, columns);
  // If the agent is not there at first, do not wait for it.
  show((await read()).jobs);
  const stop = new AbortController();
  const { signal } = stop;
  const takeBack = terminal.onInterrupt(() => stop.abort());
  const changes = followChanges(client, { kind: "job" }, {
    signal,
    nowMs: terminal.nowMs,
    note: printer.note,
  });
  try {
    // Ends with Ctrl-C, or when the agent stays away.
    for (;;) {
      await changes.next(READ_AGAIN_MS);
      if (signal.aborted) return EXIT.interrupted;
      const jobs = await readOrAgain(read, changes);
      if (jobs !== undefined) show(jobs);
      await pause(GATHER_MS, signal);
    }
  } finally {
    takeBack();
    stop.abort();
    await changes.ended;
  }
}

/** The function that shows the list after each read. */
function changeView(
  call: Invocation,
  columns: readonly ItemColumn<JobOfRow>[],
): (jobs: readonly JsonObject[]) => void {
  const { printer, terminal } = call;
  if (canMove(terminal) && terminal.outIsTerminal && !printer.json) {
    return (jobs) => {
      terminal.out(CLEAR_SCREEN);
      showTable(call, columns, jobs, terminal.nowMs());
    };
  }
  let shown: ReadonlyMap<string, string> = new Map();
  return (jobs) => {
    const now = new Map(jobs.map((job) => [textIn(job, "uuid") ?? "", changeKey(job)]));
    const changed = jobs.filter((job) => {
      const uuid = textIn(job, "uuid") ?? "";
      return shown.get(uuid) !== now.get(uuid);
    });
    // Oldest first, as a log.
    for (const job of changed.toReversed()) showChange(call, job);
    shown = now;
  };
}

/** @returns undefined while the agent is away; the reader of its events handles that */
async function readOrAgain(
  read: () => Promise<FoundJobs>,
  changes: { again(): void },
): Promise<readonly JsonObject[] | undefined> {
  try {
    return (await read()).jobs;
  } catch (error) {
    if (!isPassing(error)) throw error;
    changes.again();
    return undefined;
  }
}

/** A job gets a new line when this changes; its duration does not count. */
function changeKey({ state, reason, task, progress, error }: JsonObject): string {
  return JSON.stringify([state, reason, task, progress, error]);
}

/** `18:30:02 6c1e8f0a running hello copy 40 %`; with --json, the job on one line. */
function showChange({ printer, terminal }: Invocation, job: JsonObject): void {
  if (printer.json) {
    printer.line(job);
    return;
  }
  const nowMs = terminal.nowMs();
  const [uuid = ""] = shortUuids([textIn(job, "uuid") ?? ""]);
  const words = ["state", "name"].map((key) => textIn(job, key) ?? "-");
  const at = timeOfDay(new Date(nowMs).toISOString());
  printer.data([at, uuid, ...words, doingText(job, nowMs)].join(" "));
}

/** What a job does, waits for or failed with, in a few words. */
export function doingText(job: JsonObject, nowMs: number): string {
  const task = isJsonObject(job.task) ? job.task : undefined;
  const name = task === undefined ? undefined : textIn(task, "name");
  const error = textIn(job, "error");
  if (error !== undefined) return name === undefined ? error : `${name}: ${error}`;
  const waits = waitText(job, nowMs);
  if (name === undefined) return waits ?? "-";
  const attempt = task === undefined ? undefined : numberIn(task, "attempt");
  const words = [name, percentText(job.progress)].filter((word) => word !== undefined).join(" ");
  const again = attempt === undefined || attempt < 2 ? undefined : `attempt ${attempt}`;
  return [words, again, waits].filter((part) => part !== undefined).join(", ");
}

function percentText(progress: unknown): string | undefined {
  if (!isJsonObject(progress)) return undefined;
  const done = numberIn(progress, "done");
  const total = numberIn(progress, "total");
  if (done === undefined || total === undefined || total <= 0) return undefined;
  return `${Math.floor((100 * done) / total)} %`;
}

/** Why a job is not running now; an unknown reason is shown as it is. */
function waitText(job: JsonObject, nowMs: number): string | undefined {
  const reason = textIn(job, "reason");
  const next = textIn(job, "next_run_at") ??
    (isJsonObject(job.task) ? textIn(job.task, "next_retry_at") : undefined);
  switch (reason) {
    case "scheduled":
      return next === undefined ? "is scheduled" : `starts in ${aheadText(next, nowMs)}`;
    case "waiting_for_retry":
      return next === undefined ? "waits" : `again in ${aheadText(next, nowMs)}`;
    case "waiting_for_slot":
      return `waits for ${absentHost(job) ?? "a slot"}`;
    case "waiting_for_resume":
      return "waits for job resume";
    case "stopping":
      return textIn(job, "host_state") === "away" ? "stops when its host returns" : "is stopping";
    case "undoing":
      return "is being undone";
    default:
      return reason ?? runsAway(job);
  }
}

/** Nobody knows what a job does whose host is away. */
function runsAway(job: JsonObject): string | undefined {
  const away = textIn(job, "state") === "running" && textIn(job, "host_state") === "away";
  return away ? `on ${absentHost(job)}` : undefined;
}

// `zonewright image sync`: compares the mirror with its upstream, or shows what that would change. Also shows the
// state of the index: its upstream, its last sync, and the problems of that.

import { AgentError } from "../../domain/error.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { pause } from "../../runtime/wait.ts";
import type { ApiCall } from "../client/api_call.ts";
import { numberIn, objectsAt, readObject, textIn } from "../client/answer.ts";
import type { Client, Sent } from "../client/client.ts";
import { usageError } from "../command/arguments.ts";
import {
  type Command,
  type CommandEnd,
  EXIT,
  type ExitCode,
  type Invocation,
} from "../command/command.ts";
import { timeoutMsOf } from "../follow/follow.ts";
import { ageText, cut, sizeOrDash } from "../output/table.ts";
import {
  bar,
  canMove,
  CLEAR_LINE,
  COLUMNS_DEFAULT,
  printable,
  type Terminal,
} from "../output/terminal.ts";

const SYNC_DEADLINE_MS = 3_600_000;
const POLL_MS = 200;

/** The agent's messages about an empty index, and what to do about each. */
const EMPTY = {
  unnamed: {
    why: "no upstream is configured",
    hint: "zonewright config set index URL  names its upstream: an address, or a folder",
  },
  unsynced: {
    why: "the index has not been synced yet",
    hint: "zonewright image sync --wait  fetches the index",
  },
} as const;

/**
 * If nothing was found because the agent has no index, says what to do.
 * @returns whether that is so
 * @throws {AgentError} when the agent does not show its index
 */
export async function noteEmptyIndex({ client, printer }: Invocation): Promise<boolean> {
  const index = readObject(await client.get("/agent/v1/index"), "the index");
  if (numberIn(index, "documents") !== 0) return false;
  const { why, hint } = EMPTY[textIn(index, "upstream") === undefined ? "unnamed" : "unsynced"];
  printer.note(why);
  printer.note(`hint: ${hint}`);
  return true;
}

/** `zonewright image sync`: without `--wait`, ends when the agent has accepted the request. */
export const SYNC: Command = {
  summary: "compare the mirror with its upstream now",
  examples: [
    ["image sync --wait", "and show what changed"],
    ["image sync --dry-run", "what would change; nothing is written"],
  ],
  flags: [
    { name: "wait", help: "wait until it is done" },
    { name: "dry-run", help: "read the upstream and only show what would change" },
    { name: "accept-changed", help: "also accept changed digests and older trees" },
    { name: "timeout", placeholder: "TIME", help: "give up waiting after 90s, 10m, 2h" },
  ],
  shared: "agent",
  async run(call): Promise<CommandEnd> {
    const { args, client, printer } = call;
    const dryRun = args.has("dry-run");
    const wait = args.has("wait") || dryRun;
    if (args.has("timeout") && !wait) {
      throw usageError("--timeout limits --wait, expected --wait with it");
    }
    const sync: ApiCall = {
      method: "POST",
      path: "/agent/v1/index/sync",
      body: {
        ...(dryRun ? { dry_run: true } : wait ? { wait: true } : {}),
        ...(args.has("accept-changed") ? { accept_changed: true } : {}),
      },
      ...(wait ? { deadlineMs: timeoutMsOf(call) ?? SYNC_DEADLINE_MS } : {}),
    };
    const sent = wait && !args.has("curl") ? await watched(call, sync) : await client.send(sync);
    const answer = readObject(sent.body, "the sync");
    if (dryRun) return previewed(call, answer);
    if (wait) return synced(call, answer);
    if (printer.json) printer.document(answer);
    else printer.note("syncing");
    printer.next("image status", "see how it went");
  },
};

/** Shows the progress of a sync until its call is answered. */
async function watched({ client, terminal }: Invocation, sync: ApiCall): Promise<Sent> {
  const view = openSyncView(terminal);
  const answered = new AbortController();
  const polling = poll(client, view, answered.signal);
  try {
    return await client.send(sync);
  } finally {
    answered.abort();
    await polling;
    view.close();
  }
}

async function poll(client: Client, view: SyncView, signal: AbortSignal): Promise<void> {
  for (;;) {
    await pause(POLL_MS, signal);
    if (signal.aborted) return;
    try {
      const index = await client.get("/agent/v1/index", signal);
      if (isJsonObject(index) && isJsonObject(index.progress)) view.update(index.progress);
    } catch (error) {
      // The answer to the sync itself reports what is wrong.
      if (!(error instanceof AgentError)) throw error;
    }
  }
}

/** A sync that read nothing is a failure. Refused documents are listed. */
function synced(call: Invocation, sync: JsonObject): ExitCode {
  const { printer, terminal } = call;
  printer.result(sync, syncText(sync, terminal.nowMs()));
  return ended(call, sync);
}

/** Lines such as `+ v1/index.json  4 KiB`, then the totals. */
function previewed(call: Invocation, preview: JsonObject): ExitCode {
  const { printer } = call;
  if (printer.json) {
    printer.document(preview);
    return ended(call, preview);
  }
  const changes = objectsAt(preview, "changes");
  for (const one of changes) {
    const size = sizeOrDash(numberIn(one, "bytes"));
    printer.data(`${textIn(one, "change") ?? "?"} ${textIn(one, "document") ?? "-"}  ${size}`);
  }
  const count = (name: string) => numberIn(preview, name) ?? 0;
  const more = count("added") + count("changed") + count("removed") - changes.length;
  if (more > 0) printer.data(`... and ${more} more`);
  const put = sizeOrDash(numberIn(preview, "bytes_put"));
  const removed = sizeOrDash(numberIn(preview, "bytes_removed"));
  printer.data(
    `${textIn(preview, "outcome") ?? "-"}: ${count("added")} to add, ${
      count("changed")
    } to change, ` +
      `${count("removed")} to remove, ${count("unchanged")} unchanged; ` +
      `${put} to write, ${removed} to free`,
  );
  return ended(call, preview);
}

function ended({ printer }: Invocation, sync: JsonObject): ExitCode {
  for (const line of problemLines(sync)) printer.note(`zonewright: ${line}`);
  return textIn(sync, "outcome") === "failed" ? EXIT.failure : EXIT.ok;
}

const QUARTERS = 4;

/** The phases, as people read them. */
const PHASES: Readonly<Record<string, string>> = {
  list: "reading the list",
  documents: "reading documents",
  store: "storing",
};

/** Shows a sync while it runs. */
interface SyncView {
  /** `phase`, `documents`, `total` and `bytes`, as the agent answers them. */
  update(progress: JsonObject): void;
  /** Clears what it has drawn. */
  close(): void;
}

/**
 * Opens the view that suits the terminal: one moving line, or elsewhere a line per phase and per
 * quarter of the documents.
 */
function openSyncView(terminal: Terminal): SyncView {
  return canMove(terminal) ? movingView(terminal) : plainView(terminal);
}

function movingView(terminal: Terminal): SyncView {
  return {
    update(progress) {
      const { done, total } = countsOf(progress);
      const width = (terminal.columns() ?? COLUMNS_DEFAULT) - 1;
      const line = `${bar(total === 0 ? 0 : done / total)}  ${textOf(progress)}`;
      terminal.err(CLEAR_LINE + cut(printable(line), width));
    },
    close: () => terminal.err(CLEAR_LINE),
  };
}

function plainView(terminal: Terminal): SyncView {
  let shown = "";
  return {
    update(progress) {
      const { done, total } = countsOf(progress);
      const quarter = total === 0 ? 0 : Math.floor((QUARTERS * done) / total);
      const key = `${textIn(progress, "phase")} ${quarter}`;
      if (key === shown) return;
      shown = key;
      terminal.err(`${printable(textOf(progress))}\n`);
    },
    close: () => {},
  };
}

function countsOf(progress: JsonObject): { done: number; total: number } {
  return { done: numberIn(progress, "documents") ?? 0, total: numberIn(progress, "total") ?? 0 };
}

/** `reading documents  412 of 1034  12 MiB`. */
function textOf(progress: JsonObject): string {
  const { done, total } = countsOf(progress);
  const phase = textIn(progress, "phase") ?? "syncing";
  return [PHASES[phase] ?? phase, `${done} of ${total}`, sizeOrDash(numberIn(progress, "bytes"))]
    .join("  ");
}

type Pair = readonly [name: string, value: string];

/** The state of the index as names and values. */
export function indexPairs(index: JsonObject, nowMs: number): Pair[] {
  const upstream = textIn(index, "upstream");
  const sync = isJsonObject(index.last_sync) ? index.last_sync : undefined;
  return [
    ["index", upstream ?? "no upstream"],
    ["documents", String(numberIn(index, "documents") ?? 0)],
    ["age", ageText(textIn(index, "compared_at"), nowMs)],
    ["last sync", sync === undefined ? "never" : syncText(sync, nowMs)],
    ...(index.syncing === true ? [["syncing", progressText(index)] as const] : []),
  ];
}

/** `complete, 3 h ago: 2 added, 1 changed, 0 removed, 61 unchanged`. */
function syncText(sync: JsonObject, nowMs: number): string {
  const counts = ["added", "changed", "removed", "unchanged"].map((name) =>
    `${numberIn(sync, name) ?? 0} ${name}`
  );
  const age = ageText(textIn(sync, "finished_at"), nowMs);
  return `${textIn(sync, "outcome") ?? "-"}, ${age} ago: ${counts.join(", ")}`;
}

/** `documents, 412 of 1034`, or `now` while there is no progress yet. */
function progressText({ progress }: JsonObject): string {
  if (!isJsonObject(progress)) return "now";
  const documents = `${numberIn(progress, "documents") ?? 0} of ${
    numberIn(progress, "total") ?? 0
  }`;
  return `${textIn(progress, "phase") ?? "now"}, ${documents}`;
}

/** One line for each document that was refused or not reached. */
export function problemLines(sync: JsonObject): string[] {
  return objectsAt(sync, "problems").map(problemLine);
}

/** `v1/distros/a/index.json $.id: must be "a" as in its path, found b; the previous one stays`. */
function problemLine(problem: JsonObject): string {
  const place = ["document", "json_path"].flatMap((name) => textIn(problem, name) ?? []).join(" ");
  const reason = textIn(problem, "reason") ?? textIn(problem, "message") ?? "";
  const line = `${place === "" ? "-" : place}: ${reason}`;
  if (typeof problem.kept !== "boolean") return line;
  return `${line}; ${problem.kept ? "the previous one stays" : "there was no previous one"}`;
}

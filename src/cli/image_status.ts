// What is known of the index: its upstream, its last sync, and what was wrong with it.

import { isJsonObject, type JsonObject } from "../domain/json.ts";
import { numberIn, objectsIn, textIn } from "./kit/answer.ts";
import { ageText } from "./kit/table.ts";
import { printable } from "./kit/terminal.ts";

type Pair = readonly [name: string, value: string];

/** The state of the index as names and values. */
export function indexPairs(index: JsonObject, nowMs: number): Pair[] {
  const upstream = textIn(index, "upstream");
  const sync = isJsonObject(index.last_sync) ? index.last_sync : undefined;
  return [
    ["index", upstream === undefined ? "no upstream" : printable(upstream)],
    ["documents", String(numberIn(index, "documents") ?? 0)],
    ["age", ageText(textIn(index, "compared_at"), nowMs)],
    ["last sync", sync === undefined ? "never" : syncText(sync, nowMs)],
    ...(index.syncing === true ? [["syncing", progressText(index)] as const] : []),
  ];
}

/** `complete, 3 h ago: 2 added, 1 changed, 0 removed, 61 unchanged`. */
export function syncText(sync: JsonObject, nowMs: number): string {
  const counts = ["added", "changed", "removed", "unchanged"].map((name) =>
    `${numberIn(sync, name) ?? 0} ${name}`
  );
  const age = ageText(textIn(sync, "finished_at"), nowMs);
  return `${textIn(sync, "outcome") ?? "-"}, ${age} ago: ${counts.join(", ")}`;
}

/** `documents, 412 of 1034`; `now` while nothing more is known. */
function progressText({ progress }: JsonObject): string {
  if (!isJsonObject(progress)) return "now";
  const documents = `${numberIn(progress, "documents") ?? 0} of ${
    numberIn(progress, "total") ?? 0
  }`;
  return printable(`${textIn(progress, "phase") ?? "now"}, ${documents}`);
}

/** One line for each document that was refused or not reached. */
export function problemLines(sync: JsonObject): string[] {
  return objectsIn(sync, "problems").map((problem) => printable(problemLine(problem)));
}

/** `v1/distros/a/index.json $.id: must be "a" as in its path, found b; the last good one stays`. */
function problemLine(problem: JsonObject): string {
  const place = ["document", "json_path"].flatMap((name) => textIn(problem, name) ?? []).join(" ");
  const reason = textIn(problem, "reason") ?? textIn(problem, "message") ?? "";
  const line = `${place === "" ? "-" : place}: ${reason}`;
  if (typeof problem.kept !== "boolean") return line;
  return `${line}; ${problem.kept ? "the last good one stays" : "there was none before"}`;
}

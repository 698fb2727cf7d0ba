// What is known of the index: its upstream, its last sync, and what was wrong with it.

import { isJsonObject, type JsonObject } from "../domain/json.ts";
import { numberIn, objectsIn, textIn } from "./answer.ts";
import { ageText } from "./table.ts";
import { printable } from "./terminal.ts";

type Pair = readonly [name: string, value: string];

/** The state of the index as names and values. */
export function indexPairs(index: JsonObject, nowMs: number): Pair[] {
  const upstream = textIn(index, "upstream");
  const sync = isJsonObject(index.last_sync) ? index.last_sync : undefined;
  return [
    ["index", upstream === undefined ? "no upstream" : printable(upstream)],
    ["documents", String(numberIn(index, "documents") ?? 0)],
    ["last sync", sync === undefined ? "never" : syncText(sync, nowMs)],
    ...(index.syncing === true ? [["syncing", "now"] as const] : []),
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

/** One line for each document that was refused or not reached. */
export function problemLines(sync: JsonObject): string[] {
  return objectsIn(sync, "problems").map((problem) =>
    printable(`${textIn(problem, "document") ?? "-"}: ${textIn(problem, "message") ?? ""}`)
  );
}

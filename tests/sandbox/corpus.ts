// The bodies that try to get out: each a file of escapes/ whose second line says how it must end:
// `success` with the JSON of its result or a pattern of it, `failure` with a pattern of its error, or
// `timeout`. Where it ends in another way in a frozen realm, which refuses to be changed, or on Node,
// the next line says how.

import { assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import type { TaskOutcome } from "../../src/sandbox/run_task.ts";
import type { Perform } from "../../src/sandbox/task_calls.ts";
import type { Program } from "../support/agent_process.ts";
import { echo } from "./bodies.ts";

const FOLDER = fromFileUrl(new URL("escapes", import.meta.url));
/** For the bodies that must run into their timeout. */
export const LOOP_MS = 300;

/** A body, and how it must end where every layer is closed. */
export interface Escape {
  readonly name: string;
  readonly source: string;
  /** The word and what belongs to it. */
  readonly ends: { readonly kind: string; readonly detail: string };
}

/** Both kinds of realms: each task has one of its own, or all of a guest share a frozen one. */
export const REALMS = ["fresh", "frozen"] as const;
export type RealmKind = typeof REALMS[number];

export async function readEscapes(
  realm: RealmKind,
  program?: Program["name"],
): Promise<Escape[]> {
  const escapes: Escape[] = [];
  for await (const { name } of Deno.readDir(FOLDER)) {
    const text = await Deno.readTextFile(join(FOLDER, name));
    const frozen = realm === "frozen" ? /^\/\/ frozen: (\w+) ?(.*)$/m.exec(text) : null;
    const node = program === "node" ? /^\/\/ node: (\w+) ?(.*)$/m.exec(text) : null;
    const [, kind = "", detail = ""] = node ?? frozen ?? /^\/\/ ends: (\w+) ?(.*)$/m.exec(text) ??
      [];
    // The formatter ends a statement where a source is an expression.
    escapes.push({ name, source: text.trimEnd().replace(/;$/, ""), ends: { kind, detail } });
  }
  return escapes.sort((a, b) => a.name < b.name ? -1 : 1);
}

/** Refuses what is deleted, never answers vnc.wait, and echoes the rest. */
export const perform: Perform = (name, args, signal) => {
  if (name === "vmadm.delete") return Promise.reject(new Error("refused"));
  if (name !== "vnc.wait") return echo(name, args, signal);
  return new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
};

export function assertEnd(outcome: TaskOutcome, { kind, detail }: Escape["ends"]): void {
  assertEquals(outcome.kind, kind, JSON.stringify(outcome));
  if (outcome.kind === "success") {
    if (detail.startsWith("/")) assertMatch(JSON.stringify(outcome.result), patternOf(detail));
    else assertEquals(outcome.result, JSON.parse(detail));
  }
  if (outcome.kind === "signal") {
    const { word, result } = outcome;
    assertEquals({ word, result }, JSON.parse(detail));
  }
  if (outcome.kind === "failure") assertMatch(errorText(outcome), patternOf(detail));
}

function patternOf(detail: string): RegExp {
  return new RegExp(detail.slice(1, -1));
}

/** The words of a failure. */
export function errorText({ error }: TaskOutcome & { kind: "failure" }): string {
  return typeof error === "string" ? error : Object.values(error ?? {}).slice(0, 2).join(": ");
}

// The mark in a state folder whose jobs were moved into a database that hosts share: from the first step of a move
// on, no agent starts on the wrong one by mistake.

import { join } from "@std/path";
import { AgentError } from "../domain/error.ts";
import { readOwnFile, replaceOwnFile } from "./own_file.ts";

const NAME = "store.moved";

/** Where the jobs are. */
export interface MoveMark {
  /** `moving`: some are there; `moved`: all are; `returning`: some may be there no more. */
  readonly word: "moving" | "moved" | "returning";
  /** The address of the shared database. */
  readonly url: string;
  /** The uuid by which the jobs are bound there: a copy of the folder has another one, and none of them. */
  readonly host: string;
}

/** Writes the mark. @throws {AgentError} as replaceOwnFile() */
export async function writeMoveMark(
  stateDir: string,
  { word, url, host }: MoveMark,
): Promise<void> {
  await replaceOwnFile(join(stateDir, NAME), `${word}\n${url}\n${host}\n`);
}

/** Removes the mark: the jobs are in the state folder alone. */
export async function removeMoveMark(stateDir: string): Promise<void> {
  await Deno.remove(join(stateDir, NAME));
}

/**
 * Reads the mark; undefined where no job was moved.
 * @throws {AgentError} `conflict` for a file that is none, and as readOwnFile()
 */
export async function readMoveMark(stateDir: string): Promise<MoveMark | undefined> {
  const text = (await readOwnFile(join(stateDir, NAME)))?.text;
  if (text === undefined) return undefined;
  const [word, url = "", host = ""] = text.split("\n");
  if (word === "moving" || word === "moved" || word === "returning") return { word, url, host };
  throw new AgentError("conflict", `Cannot read ${NAME} of ${stateDir}: it is no mark of a move`);
}

/**
 * Refuses to start an agent whose jobs are elsewhere.
 * @param host its uuid
 * @param shared the address of its shared database, if it has one
 * @throws {AgentError} `conflict`
 */
export async function requireJobsHere(
  stateDir: string,
  host: string,
  shared: string | undefined,
): Promise<void> {
  const mark = await readMoveMark(stateDir);
  if (mark === undefined) return;
  requireMoved(mark, host);
  if (mark.word === "moved" && shared === mark.url) return;
  const why = {
    moving: "a move of the jobs was cut off: go on with `zonewright db move`, or add --back",
    moved:
      `the jobs were moved to ${mark.url}: set store, or move them with \`zonewright db move --back\`; ` +
      "if the database has another address now, say so with `zonewright db move`",
    returning:
      "a move of the jobs was cut off: go on with `zonewright db move --back`, or without --back",
  }[mark.word];
  throw new AgentError("conflict", `Cannot use the store: ${why}`);
}

/** @throws {AgentError} `conflict` when the jobs were moved for another host, in whose folder's copy this one is */
export function requireMoved(mark: MoveMark, host: string): void {
  if (mark.host === host) return;
  const message =
    `Cannot use the store: this folder is a copy, whose jobs were moved to ${mark.url} for ` +
    `host ${mark.host}, and this is host ${host}: expected an empty state folder`;
  throw new AgentError("conflict", message);
}

// The mark in a state folder whose jobs were moved into a shared database: from the first step of a move, no agent
// starts with the wrong one by mistake.

import { join } from "@std/path";
import { AgentError } from "../domain/error.ts";
import { readOwnFile, replaceOwnFile } from "./own_file.ts";

const NAME = "store.moved";

/** Where the jobs are. */
export interface TransferMark {
  /** `moving`: some jobs are there; `moved`: all are; `returning`: some may no longer be. */
  readonly word: "moving" | "moved" | "returning";
  /** The address of the shared database. */
  readonly url: string;
  /** Uuid of the host that the jobs there are bound to. A copy of the folder has another uuid, and none of the jobs. */
  readonly host: string;
}

/** Writes the mark. @throws {AgentError} as replaceOwnFile() */
export async function writeTransferMark(
  stateDir: string,
  { word, url, host }: TransferMark,
): Promise<void> {
  await replaceOwnFile(join(stateDir, NAME), `${word}\n${url}\n${host}\n`);
}

/** Removes the mark: all jobs are in the state folder. */
export async function removeTransferMark(stateDir: string): Promise<void> {
  await Deno.remove(join(stateDir, NAME));
}

/**
 * Reads the mark; undefined when no job was moved.
 * @throws {AgentError} `conflict` for an unreadable one, and as readOwnFile()
 */
export async function readTransferMark(stateDir: string): Promise<TransferMark | undefined> {
  const text = (await readOwnFile(join(stateDir, NAME)))?.text;
  if (text === undefined) return undefined;
  const [word, url = "", host = ""] = text.split("\n");
  if (word === "moving" || word === "moved" || word === "returning") return { word, url, host };
  const found = JSON.stringify(word?.slice(0, 80));
  const message = `Cannot read ${NAME} of ${stateDir}: its first line is ${found}, expected ` +
    "moving, moved or returning";
  throw new AgentError("conflict", message);
}

/**
 * Refuses to start an agent without its jobs.
 * @param host its uuid
 * @param shared the address of its shared database, if it has one
 * @throws {AgentError} `conflict`
 */
export async function requireJobsHere(
  stateDir: string,
  host: string,
  shared: string | undefined,
): Promise<void> {
  const mark = await readTransferMark(stateDir);
  if (mark === undefined) return;
  requireMoved(mark, host);
  if (mark.word === "moved" && shared === mark.url) return;
  const why = {
    moving:
      "a move of the jobs was interrupted: continue with `zonewright db move`, or undo it with --back",
    moved:
      `the jobs were moved to ${mark.url}: set store, or move them with \`zonewright db move --back\`; ` +
      "if the database has another address now, say so with `zonewright db move`",
    returning:
      "a move of the jobs was interrupted: continue with `zonewright db move --back`, or undo it without --back",
  }[mark.word];
  throw new AgentError("conflict", `Cannot use the store: ${why}`);
}

/** Refuses a copy of a folder. @throws {AgentError} `conflict` when the jobs were moved for another host */
export function requireMoved(mark: TransferMark, host: string): void {
  if (mark.host === host) return;
  const message =
    `Cannot use the store: this folder is a copy, whose jobs were moved to ${mark.url} for ` +
    `host ${mark.host}, and this is host ${host}, expected an empty state folder`;
  throw new AgentError("conflict", message);
}

// The state folder: who may read it, that one agent at a time works in it, whether its jobs were moved, and the key of
// its host.

import { Database } from "@db/sqlite";
import { join } from "@std/path";
import { AgentError, messageOf } from "../domain/error.ts";
import { type Incarnation, isUuid, type NewUuid, type RunnerId } from "../domain/id.ts";
import { KEY_ALGORITHM } from "../domain/peer.ts";
import type { RunnerLife } from "../store/job_store.ts";
import {
  copyDatabase,
  type DatabaseReport,
  inspectDatabase,
} from "../store/sqlite/database_file.ts";
import {
  asOwnerOf,
  examineOwnFolder,
  readOwnFile,
  replaceOwnFile,
  stateFolderError,
} from "./own_file.ts";
import { TOKENS_NAME } from "./token_file.ts";

// Backing up and looking over the database of a state folder, for `zonewright db`, whether its agent
// runs or not. The way back is database_restore.ts.

export { SCHEMA_VERSION } from "../store/sqlite/migrations.ts";

/** The database's name in a state folder. */
export const DATABASE_NAME = "zonewright.db";

/**
 * Copies the database of a state folder while its agent runs.
 * @throws {AgentError} as copyDatabase() and examineOwnFolder()
 */
export async function backupState(stateDir: string, to: string): Promise<DatabaseReport> {
  const reading = asOwnerOf(stateDir);
  await reading(() => void examineOwnFolder(stateDir));
  return await copyDatabase(join(stateDir, DATABASE_NAME), to, { reading });
}

/**
 * Looks the database of a state folder over.
 * @throws {AgentError} as inspectDatabase() and examineOwnFolder()
 */
export async function inspectState(stateDir: string): Promise<DatabaseReport> {
  return await asOwnerOf(stateDir)(async () => {
    examineOwnFolder(stateDir);
    return await inspectDatabase(join(stateDir, DATABASE_NAME));
  });
}

/** Looks any database over, such as a backup. @throws {AgentError} as inspectDatabase() */
export const inspectFile: (path: string) => Promise<DatabaseReport> = inspectDatabase;

/** Nothing the agent makes is open to other users. */
const UMASK = 0o077;
const FOLDER_MODE = 0o700;
const LOCK_NAME = "agent.lock";
const PID_NAME = "agent.pid";
/** What nobody but an agent, or a command that prepares one, puts into a folder. */
const OWN_NAMES: readonly string[] = [DATABASE_NAME, LOCK_NAME, TOKENS_NAME];

/** A state folder that this process holds. */
export interface StateDir {
  readonly path: string;
  /** The runner that works here: its id is the same in every life of it. */
  readonly runner: {
    readonly life: RunnerLife;
    /** Lives before this one: the lock of the folder proves that they have ended. */
    readonly earlier: readonly Incarnation[];
  };
  /** Lets another agent have it. */
  release(): void;
}

/**
 * Makes the folder when it is missing, closes it to others, and takes its lock. The lock ends with
 * the process, however it ends.
 * @param uid the user whose folder it must be; that of the process unless given
 * @throws {AgentError} `conflict` when another agent holds it, or others use it for something else;
 *   `forbidden` for the folder of another user, and as examineOwnFolder(); either when the folder cannot
 *   be made, read or written
 */
export async function takeStateDir(
  path: string,
  newUuid: NewUuid,
  uid: number | null = Deno.uid(),
): Promise<StateDir> {
  try {
    return await takeFolder(path, newUuid, uid);
  } catch (error) {
    throw stateFolderError(path, error);
  }
}

async function takeFolder(path: string, newUuid: NewUuid, uid: number | null): Promise<StateDir> {
  Deno.umask(UMASK);
  await Deno.mkdir(path, { recursive: true, mode: FOLDER_MODE });
  const { mode } = await Deno.stat(path);
  if (((mode ?? 0) & UMASK) !== 0) await closeToOthers(path);
  const owner = examineOwnFolder(path);
  if (owner.uid !== uid) {
    const message =
      `Cannot use ${path} as the state folder: it belongs to user ${owner.uid}, and ` +
      `this process runs as ${uid}`;
    throw new AgentError("forbidden", message);
  }
  const lock = await takeLock(path);
  const [runner] = await Promise.all([
    runnerOf(path, newUuid),
    replaceOwnFile(join(path, PID_NAME), `${Deno.pid}\n`),
  ]);
  return { path, runner, release: () => lock.close() };
}

/** A mistake in the configuration must not close a shared folder, such as /tmp, to its other users. */
async function closeToOthers(path: string): Promise<void> {
  if (!await mayBeStateDir(path)) {
    const message =
      `Cannot use ${path} as the state folder: it holds other things, and is open to ` +
      "others: expected a folder of the agent's own";
    throw new AgentError("conflict", message);
  }
  await Deno.chmod(path, FOLDER_MODE);
}

/** Whether a folder is empty, or an agent was in it or is to be. */
export async function mayBeStateDir(path: string): Promise<boolean> {
  let empty = true;
  for await (const { name } of Deno.readDir(path)) {
    if (OWN_NAMES.includes(name)) return true;
    empty = false;
  }
  return empty;
}

/** Lives of a runner that are remembered: more starts within a lease are no ordinary restarts. */
const LIVES_MAX = 64;

/**
 * A runner that comes back under its name finds the jobs that it held. The file names the folder, too: in a
 * copy of it, where the lock proves nothing about the agent of the original, works another runner.
 */
async function runnerOf(path: string, newUuid: NewUuid): Promise<StateDir["runner"]> {
  const file = join(path, "runner_id");
  // Not the device: some systems number theirs again at each boot. A copy on another machine may have the inode.
  const { ino } = await Deno.stat(path);
  const here = `${ino} on ${Deno.hostname()}`;
  const [id, folder, ...lives] = (await readOwnFile(file))?.text.trim().split("\n") ?? [];
  const known = isUuid(id) && folder === here;
  const runner_id = known ? id as RunnerId : newUuid<RunnerId>();
  const earlier = known ? lives.filter(isUuid).map((life) => life as Incarnation) : [];
  const incarnation = newUuid<Incarnation>();
  const kept = [incarnation, ...earlier].slice(0, LIVES_MAX);
  // Renamed into place: a name that was half written would be another runner's.
  await replaceOwnFile(file, `${[runner_id, here, ...kept].join("\n")}\n`);
  return { life: { runner_id, incarnation }, earlier };
}

/**
 * SQLite's own exclusive lock on an empty database: it is refused at once where the platform's file
 * lock can only be waited for.
 */
async function takeLock(path: string): Promise<Database> {
  const lock = new Database(join(path, LOCK_NAME));
  try {
    lock.exec("PRAGMA busy_timeout = 0; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
    return lock;
  } catch (error) {
    lock.close();
    if (!messageOf(error).includes("locked")) throw error;
    // The holder may be writing it: that it holds the folder is known without it.
    const holder = (await readOwnFile(join(path, PID_NAME)).catch(() => undefined))?.text ?? "";
    const who = /^\d+\n$/.test(holder) ? `process ${holder.trim()}` : "another agent";
    throw new AgentError("conflict", `Cannot use the state folder ${path}: ${who} is using it`);
  }
}

// The mark in a state folder whose jobs were moved into a database that hosts share: from the first step of a move
// on, no agent starts on the wrong one by mistake.

const NAME = "store.moved";

/** Where the jobs are. */
export interface TransferMark {
  /** `moving`: some are there; `moved`: all are; `returning`: some may be there no more. */
  readonly word: "moving" | "moved" | "returning";
  /** The address of the shared database. */
  readonly url: string;
  /** The uuid by which the jobs are bound there: a copy of the folder has another one, and none of them. */
  readonly host: string;
}

/** Writes the mark. @throws {AgentError} as replaceOwnFile() */
export async function writeTransferMark(
  stateDir: string,
  { word, url, host }: TransferMark,
): Promise<void> {
  await replaceOwnFile(join(stateDir, NAME), `${word}\n${url}\n${host}\n`);
}

/** Removes the mark: the jobs are in the state folder alone. */
export async function removeTransferMark(stateDir: string): Promise<void> {
  await Deno.remove(join(stateDir, NAME));
}

/**
 * Reads the mark; undefined where no job was moved.
 * @throws {AgentError} `conflict` for a file that is none, and as readOwnFile()
 */
export async function readTransferMark(stateDir: string): Promise<TransferMark | undefined> {
  const text = (await readOwnFile(join(stateDir, NAME)))?.text;
  if (text === undefined) return undefined;
  const [word, url = "", host = ""] = text.split("\n");
  if (word === "moving" || word === "moved" || word === "returning") return { word, url, host };
  throw new AgentError("conflict", `Cannot read ${NAME} of ${stateDir}: it does not record a move`);
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

/** @throws {AgentError} `conflict` when the jobs were moved for another host, in whose folder's copy this one is */
export function requireMoved(mark: TransferMark, host: string): void {
  if (mark.host === host) return;
  const message =
    `Cannot use the store: this folder is a copy, whose jobs were moved to ${mark.url} for ` +
    `host ${mark.host}, and this is host ${host}: expected an empty state folder`;
  throw new AgentError("conflict", message);
}

// The key of a host, with which its agent signs calls of other agents. The private part is made at the first start and
// stays in the state folder; the public part is in the row of the host.

/** The name of the file in the state folder. */
const HOST_KEY_NAME = "host.key";
/** Rights of group and others. */
const OTHERS = 0o077;

/** With what the agent of a host signs, and how others know it. */
export interface HostKey {
  readonly privateKey: CryptoKey;
  /** Its 32 bytes as base64url. */
  readonly publicKey: string;
}

/**
 * The key of the host of a state folder; a new one in a folder that has none.
 * @throws {AgentError} `forbidden` for a file that others may read; `invalid_argument` for one that holds something
 *   else; as replaceOwnFile()
 */
export async function openHostKey(stateDir: string): Promise<HostKey> {
  const path = join(stateDir, HOST_KEY_NAME);
  const found = await readOwnFile(path);
  if (found === undefined) {
    const text = await newKeyText();
    await replaceOwnFile(path, `${text}\n`);
    return await keyOf(text);
  }
  if ((found.mode & OTHERS) !== 0) {
    const shown = (found.mode & 0o777).toString(8).padStart(4, "0");
    const message = `Cannot use ${path}: its mode is ${shown}: expected 0600`;
    throw new AgentError("forbidden", message);
  }
  try {
    return await keyOf(found.text);
  } catch (cause) {
    const message =
      `Cannot use ${path}: it holds no key: once it is removed, the next start makes ` +
      "another, which other agents learn from the database";
    throw new AgentError("invalid_argument", message, { cause });
  }
}

/** A new key as the text of its file: the private and the public part, as JSON Web Keys write them. */
async function newKeyText(): Promise<string> {
  // Of a signing algorithm it is a pair.
  const { privateKey } = await crypto.subtle.generateKey(KEY_ALGORITHM, true, [
    "sign",
    "verify",
  ]) as CryptoKeyPair;
  const { d = "", x = "" } = await crypto.subtle.exportKey("jwk", privateKey);
  return `${d}.${x}`;
}

async function keyOf(text: string): Promise<HostKey> {
  const [d = "", x = ""] = text.trim().split(".");
  const key = { kty: "OKP", crv: KEY_ALGORITHM, d, x };
  const privateKey = await crypto.subtle.importKey("jwk", key, KEY_ALGORITHM, false, ["sign"]);
  return { privateKey, publicKey: x };
}

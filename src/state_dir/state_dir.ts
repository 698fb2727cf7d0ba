// The state folder: who may read it, the lock that admits one agent at a time, the mark of moved jobs, and the key of
// the host.

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

// Backup and inspection of the database in a state folder, for `zonewright db`, whether its agent runs or not.
// database_restore.ts restores one.

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

/** Inspects the database of a state folder. @throws {AgentError} as inspectDatabase() and examineOwnFolder() */
export async function inspectState(stateDir: string): Promise<DatabaseReport> {
  return await asOwnerOf(stateDir)(async () => {
    examineOwnFolder(stateDir);
    return await inspectDatabase(join(stateDir, DATABASE_NAME));
  });
}

/**
 * Inspects any database file that a caller names, such as a backup.
 * @throws {AgentError} as inspectDatabase(), but `invalid_argument` for a file that is no database of this program;
 *   one that is damaged or locked stays a `conflict`, because the right file was named
 */
export async function inspectFile(path: string): Promise<DatabaseReport> {
  return await inspectDatabase(path).catch((cause) => {
    const another = cause instanceof AgentError && cause.code === "conflict" && !isFailed(cause);
    throw another ? new AgentError("invalid_argument", cause.message, { cause }) : cause;
  });
}

/** SQLite's code for a file of another kind. @see sqlite.org/rescode.html */
const SQLITE_NOTADB = 26;

/** Whether SQLite could not read a file that may well be a database. */
function isFailed({ cause }: AgentError): boolean {
  return cause instanceof Error && "errcode" in cause && cause.errcode !== SQLITE_NOTADB;
}

/** Nothing the agent makes is open to other users. */
const UMASK = 0o077;
const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;
const LOCK_NAME = "agent.lock";
const PID_NAME = "agent.pid";
/** Files that only an agent, or a command that prepares one, puts into a folder. */
const OWN_NAMES: readonly string[] = [DATABASE_NAME, LOCK_NAME, TOKENS_NAME];

/** A state folder that this process has locked. */
export interface StateDir {
  readonly path: string;
  /** The runner of this folder: its id stays the same in every life. */
  readonly runner: {
    readonly life: RunnerLife;
    /** Lives before this one; the lock proves that they have ended. */
    readonly earlier: readonly Incarnation[];
  };
  /** Releases the lock. */
  release(): void;
}

/**
 * Creates the folder when it is missing, closes it to others, and locks it. The lock ends with the process, however
 * that ends.
 * @param uid the user who must own it; that of the process unless given
 * @throws {AgentError} `conflict` when another agent has locked it, or others use it for something else; `forbidden`
 *   for the folder of another user, and as examineOwnFolder(); either when it cannot be created, read or written
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
    throw new AgentError("forbidden", message, { about: { kind: "state_dir" } });
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
    throw new AgentError("conflict", message, { about: { kind: "state_dir" } });
  }
  await Deno.chmod(path, FOLDER_MODE);
}

/** Whether a folder is empty, or has been or will be an agent's. */
export async function mayBeStateDir(path: string): Promise<boolean> {
  let empty = true;
  for await (const { name } of Deno.readDir(path)) {
    if (OWN_NAMES.includes(name)) return true;
    empty = false;
  }
  return empty;
}

/** Lives of a runner to remember: more starts than this within a lease are not normal. */
const LIVES_MAX = 64;

/**
 * The runner of the folder, so that it finds the jobs it held. The file also identifies the folder: in a copy, where
 * the lock proves nothing about the original's agent, another runner works.
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
  // Renamed into place: an incomplete name would be another runner.
  await replaceOwnFile(file, `${[runner_id, here, ...kept].join("\n")}\n`);
  return { life: { runner_id, incarnation }, earlier };
}

/**
 * SQLite's exclusive lock on an empty database: it fails at once, while the platform's file lock can only be waited
 * for.
 */
async function takeLock(path: string): Promise<Database> {
  const file = join(path, LOCK_NAME);
  // SQLite would not say why it could not make it.
  (await Deno.open(file, { write: true, create: true, mode: FILE_MODE })).close();
  const lock = new Database(file);
  try {
    lock.exec("PRAGMA busy_timeout = 0; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
    return lock;
  } catch (error) {
    lock.close();
    if (!messageOf(error).includes("locked")) throw error;
    // The holder may be writing it; the lock proves enough without it.
    const holder = (await readOwnFile(join(path, PID_NAME)).catch(() => undefined))?.text ?? "";
    const who = /^\d+\n$/.test(holder) ? `process ${holder.trim()}` : "another agent";
    const message =
      `Cannot use the state folder ${path}: ${who} is using it, expected a folder for each agent`;
    throw new AgentError("conflict", message, { about: { kind: "agent", name: holder.trim() } });
  }
}

// The mark in a state folder whose jobs were moved into a shared database: from the first step of a move, no agent
// starts with the wrong one by mistake.

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
  throw new AgentError("conflict", `Cannot read ${NAME} of ${stateDir}: it does not record a move`);
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
    `host ${mark.host}, and this is host ${host}: expected an empty state folder`;
  throw new AgentError("conflict", message);
}

// The key of a host, with which its agent signs calls to other agents. The private part is created at the first start
// and stays in the state folder; the public part is in the host's row.

/** The name of the file in the state folder. */
const HOST_KEY_NAME = "host.key";
/** Rights of group and others. */
const OTHERS = 0o077;

/** The two parts of the key. */
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
  const imported = (extractable: boolean) =>
    crypto.subtle.importKey("jwk", key, KEY_ALGORITHM, extractable, ["sign"]);
  // The import does not compare the public part with the private one; other agents would refuse every call.
  const { x: derived } = await crypto.subtle.exportKey("jwk", await imported(true));
  if (derived !== x) throw new TypeError("The public part is not that of the private one");
  return { privateKey: await imported(false), publicKey: x };
}

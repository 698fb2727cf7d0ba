// The state folder: who may read it, the lock that admits one agent at a time, and the backup and inspection of its
// database, whether its agent runs or not. database_restore.ts restores one.

import { Database } from "@db/sqlite";
import { join } from "@std/path";
import { AgentError, messageOf } from "../domain/error.ts";
import { type Incarnation, isUuid, type NewUuid, type RunnerId } from "../domain/id.ts";
import { OTHERS, OWNER_ONLY_MODE } from "../runtime/regular_file.ts";
import type { RunnerLife } from "../store/run_store.ts";
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

export { SCHEMA_VERSION } from "../store/sqlite/migrations.ts";

/** The database's name in a state folder. */
export const DATABASE_NAME = "zonewright.db";

const FOLDER_MODE = 0o700;
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
  // Nothing the agent makes is open to other users.
  Deno.umask(OTHERS);
  await Deno.mkdir(path, { recursive: true, mode: FOLDER_MODE });
  const { mode } = await Deno.stat(path);
  if (((mode ?? 0) & OTHERS) !== 0) await closeToOthers(path);
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
      "others, expected a folder of the agent's own";
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

async function takeLock(path: string): Promise<Database> {
  const lock = await lockFile(join(path, LOCK_NAME));
  if (lock !== undefined) return lock;
  // The holder may be writing it; the lock proves enough without it.
  const holder = (await readOwnFile(join(path, PID_NAME)).catch(() => undefined))?.text ?? "";
  const who = /^\d+\n$/.test(holder) ? `process ${holder.trim()}` : "another agent";
  const message =
    `Cannot use the state folder ${path}: ${who} is using it, expected a folder for each agent`;
  throw new AgentError("conflict", message, { about: { kind: "agent", name: holder.trim() } });
}

/**
 * SQLite's exclusive lock on an empty database: it fails at once, while the platform's file lock can only be waited
 * for. It ends with the process, however that ends.
 * @returns undefined when another process has it
 * @throws {Error} of the system, when the file cannot be made
 */
export async function lockFile(path: string): Promise<Database | undefined> {
  // SQLite would not say why it could not make it.
  (await Deno.open(path, { write: true, create: true, mode: OWNER_ONLY_MODE })).close();
  const lock = new Database(path);
  try {
    lock.exec("PRAGMA busy_timeout = 0; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
    return lock;
  } catch (error) {
    lock.close();
    if (!messageOf(error).includes("locked")) throw error;
    return undefined;
  }
}

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
 * @throws {AgentError} as inspectDatabase(), but `invalid_argument` for a file that is not a database of this program;
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

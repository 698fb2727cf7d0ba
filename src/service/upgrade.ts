// Replaces the installed binary with a newer one:
//
//   verify -> try -> keep the old one -> stop -> copy the database -> note -> replace -> start -> remove the note
//
// The copy is verified and tried before anything is stopped, and the database is copied while nothing writes to it. When
// the new agent is not ready within a minute, the old binary and the copy come back, and the service starts with them.
// As long as the note is there, no later upgrade takes the new binary, or a database that it has migrated, for the old.

import { join } from "@std/path";
import { AgentError, messageOf } from "../domain/error.ts";
import type { Now } from "../domain/instant.ts";
import { isJsonObject } from "../domain/json.ts";
import { OWNER_ONLY_MODE } from "../runtime/regular_file.ts";
import { describeResult } from "../host/program_output.ts";
import { restoreState } from "../state_dir/database_restore.ts";
import { backupState, DATABASE_NAME } from "../state_dir/state_dir.ts";
import { versionInHead } from "../store/sqlite/older_copy.ts";
import { allowed } from "./installation.ts";
import {
  exists,
  hasOwnDefinition,
  PREVIOUS,
  PROGRAM_MODE,
  putInPlace,
  removeFile,
  replaceFile,
  UNDER_WAY,
  VERIFIED,
} from "./installed_files.ts";
import {
  aloneWithFiles,
  askKnown,
  pauseCommands,
  resumeService,
  type Run,
  runAll,
  SERVICE_MANAGERS,
  SERVICE_NAME,
  SERVICE_PATHS,
  type ServiceManager,
} from "./manager.ts";

/** What is to be installed. */
export interface UpgradeRequest {
  /** Absolute path of the new binary. */
  readonly file: string;
  /** SHA-256 as 64 lower-case hexadecimal digits; null when the caller gives none. */
  readonly sha256: string | null;
  readonly manager: ServiceManager;
  /** The state folder of the service. */
  readonly stateDir: string;
  /** Tests put all files below this folder. */
  readonly root?: string;
}

/** What an upgrade runs and waits for; tests pass their own. */
export interface UpgradeTools {
  /** Runs programs of the service manager, and the new binary for its version. */
  readonly run: Run;
  /** What runs the binary, with its options, if it does not run by itself. */
  readonly runtime?: readonly string[];
  readonly now: Now;
  /** Whether the agent is ready before anything is done. */
  readonly wasReady: boolean;
  /** Waits until the new agent is ready. @throws {AgentError} when that takes too long */
  readonly ready: () => Promise<void>;
  /** Takes a line about waiting for another command. */
  readonly note?: (line: string) => void;
}

interface UpgradeReport {
  /** The version that the new binary reports. */
  readonly version: string;
  readonly sha256: string;
  /** Path of the previous binary. */
  readonly previous: string;
  /** The copy of the database; null when there was none. */
  readonly database: string | null;
  readonly ran: readonly string[];
}

const VERSION_MS = 30_000;
const KEPT_DATABASE = ".before-upgrade-";

/**
 * The service manager for which `zonewright install` installed an agent here.
 * @throws {AgentError} `conflict` when there is no agent, or only somebody else's
 */
export async function installedManager(root = "/"): Promise<ServiceManager> {
  for (const manager of SERVICE_MANAGERS) {
    const { binary, definition } = SERVICE_PATHS[manager];
    if (!await hasOwnDefinition(join(root, definition))) continue;
    if (await exists(join(root, binary))) return manager;
  }
  const message = "Cannot upgrade: no installed agent was found, expected one that zonewright " +
    "install has put here";
  throw new AgentError("conflict", message);
}

/**
 * Upgrades the installed agent; one command at a time, or one would install what another has not yet verified.
 * @throws {AgentError} `digest_mismatch` before anything was changed; `conflict` for a file that is not zonewright for
 *   this system; `host` when the new agent was not ready and the old one runs again
 */
export async function upgradeService(
  request: UpgradeRequest,
  tools: UpgradeTools,
): Promise<UpgradeReport> {
  return await aloneWithFiles(request, () => upgrade(request, tools), tools.note);
}

async function upgrade(request: UpgradeRequest, tools: UpgradeTools): Promise<UpgradeReport> {
  const { manager, root = "/", stateDir } = request;
  const binary = join(root, SERVICE_PATHS[manager].binary);
  const verified = `${binary}${VERIFIED}`;
  try {
    const sha256 = await allowed(binary, () => copyVerified(request, verified));
    const version = await versionOf(verified, request.file, tools);
    const previous = `${binary}${PREVIOUS}`;
    const cutOff = await cutOffBefore(binary, previous, tools);
    const isSame = cutOff === undefined && await sha256Of(binary) === sha256;
    if (cutOff === undefined && !(isSame && await exists(previous))) {
      await putInPlace(previous, PROGRAM_MODE, async () => (await Deno.open(binary)).readable);
    }
    const stoppable = await requireOwn(manager, tools.run);
    const ran: string[] = [];
    let database: string | null;
    let older: string | null;
    try {
      if (stoppable) ran.push(...await runAll(tools.run, pauseCommands(manager)));
      database = await keepDatabase(stateDir, tools.now);
      older = await unmigrated(database, cutOff?.database ?? null);
      if (isSame) await Deno.rename(verified, binary);
      else await writeNote(binary, { binary: sha256, database: older });
    } catch (error) {
      // A stop that was interrupted may still take place.
      await resumeService(tools.run, manager);
      throw error;
    }
    try {
      if (!isSame) await Deno.rename(verified, binary);
      ran.push(...await resumeService(tools.run, manager));
      await tools.ready();
    } catch (error) {
      if (isSame) throw notReady(request.file, error);
      throw await rolledBack(
        { manager, binary, previous, database: older, stateDir },
        tools,
        error,
      );
    }
    await removeFile(`${binary}${UNDER_WAY}`);
    return { version, sha256, previous, database, ran };
  } finally {
    await removeFile(verified);
  }
}

/** Copies the file and verifies the copy, so that what runs is what was verified. @returns its SHA-256 */
async function copyVerified(
  { file, sha256 }: Pick<UpgradeRequest, "file" | "sha256">,
  to: string,
): Promise<string> {
  const { createHash } = await import("node:crypto");
  const hash = createHash("sha256");
  const counted = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(part, controller) {
      hash.update(part);
      controller.enqueue(part);
    },
  });
  await putInPlace(
    to,
    PROGRAM_MODE,
    async () => (await Deno.open(file)).readable.pipeThrough(counted),
  );
  const found = hash.digest("hex");
  if (sha256 === null || found === sha256) return found;
  const message = `Cannot upgrade to ${file}: its sha256 is ${found}, expected ${sha256}`;
  throw new AgentError("digest_mismatch", message);
}

async function sha256Of(path: string): Promise<string> {
  const { createHash } = await import("node:crypto");
  const hash = createHash("sha256");
  for await (const part of (await Deno.open(path)).readable) hash.update(part);
  return hash.digest("hex");
}

/** The version that a binary reports. @throws {AgentError} `conflict` */
async function versionOf(
  verified: string,
  file: string,
  { run, runtime = [] }: Pick<UpgradeTools, "run" | "runtime">,
): Promise<string> {
  let why: string;
  try {
    const [program = verified, ...args] = [...runtime, verified, "version", "--json"];
    const result = await run(program, args, { deadlineMs: VERSION_MS });
    const said: unknown = result.code === 0 ? JSON.parse(result.stdout) : undefined;
    if (typeof said === "object" && said !== null && "version" in said) return String(said.version);
    why = `it ${describeResult(result)}`;
  } catch (error) {
    why = messageOf(error);
  }
  const message = `Cannot upgrade to ${file}: ${why}, expected a zonewright of this system`;
  throw new AgentError("conflict", message);
}

/** @returns whether there is a service to stop @throws {AgentError} `conflict` for somebody else's */
async function requireOwn(manager: ServiceManager, run: Run): Promise<boolean> {
  const known = await askKnown(run, manager);
  if (known.kind === "foreign") {
    const message = `Cannot upgrade ${SERVICE_NAME[manager]}: it comes from ${known.definition}, ` +
      "expected a service that zonewright install wrote";
    throw new AgentError("conflict", message);
  }
  return known.kind === "service" && known.running;
}

/** Copies the database of a stopped service. @returns the path of the copy; null without a database */
async function keepDatabase(stateDir: string, now: Now): Promise<string | null> {
  const path = join(stateDir, DATABASE_NAME);
  if (!await exists(path)) return null;
  const kept = `${path}${KEPT_DATABASE}${now().replaceAll(/[:.]/g, "-")}`;
  await backupState(stateDir, kept);
  return kept;
}

/** The error of a binary that was installed already, behind which there is none to go back to. */
function notReady(file: string, cause: unknown): AgentError {
  const message =
    `Cannot upgrade to ${file}: it was installed already, and its agent is not ready: ` +
    messageOf(cause);
  return new AgentError("host", message, { cause });
}

/** What an upgrade that has not ended has changed, or is about to. */
interface UpgradeNote {
  /** SHA-256 of the new binary. */
  readonly binary: string;
  /** The copy of the database that the old binary can use. */
  readonly database: string | null;
}

async function writeNote(binary: string, note: UpgradeNote): Promise<void> {
  await replaceFile(`${binary}${UNDER_WAY}`, `${JSON.stringify(note)}\n`, OWNER_ONLY_MODE);
}

/**
 * The note of an upgrade that was cut off; undefined when somebody has put another binary in place since. When the new
 * one is ready, only the end of the command was lost: the note is removed, as what was done since would be missing in
 * the copy of the database.
 */
async function cutOffBefore(
  binary: string,
  previous: string,
  { wasReady }: Pick<UpgradeTools, "wasReady">,
): Promise<UpgradeNote | undefined> {
  const path = `${binary}${UNDER_WAY}`;
  if (!await exists(path) || !await exists(previous)) return undefined;
  const note: unknown = JSON.parse(await Deno.readTextFile(path));
  if (!isJsonObject(note) || typeof note.binary !== "string") return undefined;
  const found = await sha256Of(binary);
  if (found === note.binary) {
    if (wasReady) return void await removeFile(path);
  } else if (found !== await sha256Of(previous)) return undefined;
  return {
    binary: note.binary,
    database: typeof note.database === "string" ? note.database : null,
  };
}

/**
 * The copy of the database that a binary from before can use.
 * @param copy made now
 * @param earlier made before an upgrade that was cut off, whose binary may have migrated the database
 */
export async function unmigrated(
  copy: string | null,
  earlier: string | null,
): Promise<string | null> {
  if (copy === null || earlier === null || !await exists(earlier)) return copy;
  return await versionInHead(copy) === await versionInHead(earlier) ? copy : earlier;
}

/** Restores binary and database and starts the service. @returns an error that says so */
async function rolledBack(
  { manager, binary, previous, database, stateDir }: {
    readonly manager: ServiceManager;
    readonly binary: string;
    readonly previous: string;
    readonly database: string | null;
    readonly stateDir: string;
  },
  { run, now, ready }: UpgradeTools,
  cause: unknown,
): Promise<AgentError> {
  const why = messageOf(cause);
  try {
    await runAll(run, pauseCommands(manager));
    await putInPlace(binary, PROGRAM_MODE, async () => (await Deno.open(previous)).readable);
    if (database !== null) await restoreState(database, stateDir, { now });
    await resumeService(run, manager);
    await ready();
    await removeFile(`${binary}${UNDER_WAY}`);
  } catch (error) {
    const kept = database === null ? "" : ` and the database ${database}`;
    const message = `Cannot upgrade: ${why}; and cannot go back: ${messageOf(error)}, expected ` +
      `the binary ${previous}${kept} in their places`;
    return new AgentError("host", message, { cause: error });
  }
  const message = `Cannot upgrade: the new agent was not ready: ${why}: the one from before runs ` +
    "again, with its database";
  return new AgentError("host", message, { cause });
}

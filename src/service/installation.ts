// Installs the agent as a service, and uninstalls it. A plan lists the files to write and the commands to run; both
// service managers carry it out in the same way. Configuration and state folder are never overwritten or removed, and
// a service definition from somewhere else is left alone.

import { dirname, join, relative } from "@std/path";
import { fileInfo } from "../runtime/regular_file.ts";
import { commentedSettings } from "../config/toml.ts";
import { AgentError, systemCode, systemReason } from "../domain/error.ts";
import {
  aloneWithFiles,
  askKnown,
  forgetCommands,
  knownUserCommands,
  ownCommands,
  type Run,
  runAll,
  SERVICE_NAME,
  SERVICE_PATHS,
  type ServiceManager,
  type ServicePaths,
  startCommands,
  stopCommands,
} from "./manager.ts";
import { smfManifest, systemdUnit } from "./units.ts";

/** The flags of an installation, read and checked. */
interface InstallRequest {
  readonly manager: ServiceManager;
  /** systemd only: the user to run as instead of root. It must exist. */
  readonly user?: string;
  /** All files are written below this folder. */
  readonly root?: string;
  /** Whether to start it now, and at every boot. */
  readonly start: boolean;
  /** SMF only: the runtime with its options, for a program that is not a binary. */
  readonly runtime?: readonly string[];
}

interface InstallTools {
  /** The file that holds this program. */
  readonly program: string;
  /** Runs commands of the service manager; without it none is run, as for images and packages. */
  readonly run?: Run;
  /** Takes a line about waiting for another command. */
  readonly note?: (line: string) => void;
}

/** What was done: one line each. */
interface InstallReport {
  readonly written: readonly string[];
  /** Existing files that were left as they are. */
  readonly kept: readonly string[];
  readonly ran: readonly string[];
}

/** What was removed, and what holds data and stays. */
interface RemovalReport {
  readonly removed: readonly string[];
  readonly kept: readonly string[];
  readonly ran: readonly string[];
  /** Whether the service manager knew the service; null when it was not asked. */
  readonly known: boolean | null;
}

const DEFINITION_MODE = 0o644;
/** The configuration may later contain names of secret files. */
export const CONFIG_MODE = 0o640;
const STATE_MODE = 0o700;

/** The service definition. */
export function definitionText(
  { manager, user, start, runtime = [] }: Omit<InstallRequest, "root">,
): string {
  const paths = SERVICE_PATHS[manager];
  if (manager === "smf") return smfManifest(paths, { enabled: start, runtime });
  return systemdUnit({ paths, ...(user === undefined ? {} : { user }) });
}

/**
 * Installs the agent: the binary, a configuration if there is none, the definition and the state folder; then starts
 * it. Safe to repeat, and the way to put a newer binary in place.
 * @throws {AgentError} `conflict` when a file cannot be written, the definition is somebody else's, or a link leads
 *   out of the root; `forbidden` without the rights; `storage_full`; `host` when the service manager refuses, or does
 *   not know the user
 */
export async function installService(
  request: InstallRequest,
  tools: InstallTools,
): Promise<InstallReport> {
  return await aloneWithFiles(request, () => install(request, tools), tools.note);
}

async function install(
  request: InstallRequest,
  { program, run }: InstallTools,
): Promise<InstallReport> {
  const { manager, user, root } = request;
  const paths = SERVICE_PATHS[manager];
  const at = (path: string) => root === undefined ? path : join(root, path);
  const written: string[] = [];
  const kept: string[] = [];
  if (user !== undefined && run !== undefined) await runAll(run, knownUserCommands(user));
  await allowed(at(paths.binary), async () => {
    await allBelow(root, paths);
    await hasOwnDefinition(at(paths.definition));
    await copyProgram(program, at(paths.binary))
      ? written.push(paths.binary)
      : kept.push(paths.binary);
    await makeFolder(at(paths.stateDir), STATE_MODE);
    const isNew = await writeNew(at(paths.config), defaultConfig(manager, paths), CONFIG_MODE);
    (isNew ? written : kept).push(paths.config);
    await replaceFile(at(paths.definition), definitionText(request), DEFINITION_MODE);
    written.push(paths.definition);
  });
  if (run === undefined) return { written, kept, ran: [] };
  const owned = user === undefined ? [] : await runAll(run, ownCommands(user, paths));
  const ran = await runAll(run, startCommands(manager, request.start));
  return { written, kept, ran: [...owned, ...ran] };
}

/**
 * Stops the agent and removes binary and definition, and leftovers of an interrupted installation. Configuration and
 * state stay. Safe to repeat, also after half an installation: a service that the service manager does not know needs
 * no stop.
 * @throws {AgentError} as installService()
 */
export async function uninstallService(
  request: Pick<InstallRequest, "manager" | "root">,
  tools: Omit<InstallTools, "program">,
): Promise<RemovalReport> {
  return await aloneWithFiles(request, () => uninstall(request, tools), tools.note);
}

async function uninstall(
  { manager, root }: Pick<InstallRequest, "manager" | "root">,
  { run }: Pick<InstallTools, "run">,
): Promise<RemovalReport> {
  const paths = SERVICE_PATHS[manager];
  const at = (path: string) => root === undefined ? path : join(root, path);
  const { hasDefinition, isThere } = await allowed(at(paths.definition), async () => {
    await allBelow(root, paths);
    const hasDefinition = await hasOwnDefinition(at(paths.definition));
    return { hasDefinition, isThere: hasDefinition || await exists(at(paths.binary)) };
  });
  const { known, stopped } = run === undefined || !isThere
    ? { known: null, stopped: [] }
    : await stopKnown(run, manager, hasDefinition);
  const removed: string[] = [];
  await allowed(at(paths.binary), async () => {
    const whole = [paths.definition, paths.binary];
    const unfinished = [...whole, paths.config].map((path) => `${path}${UNFINISHED}`);
    const ofUpgrades = [PREVIOUS, VERIFIED, UNDER_WAY].map((end) => `${paths.binary}${end}`);
    for (const path of [...whole, ...unfinished, ...ofUpgrades]) {
      if (await removeFile(at(path))) removed.push(path);
    }
  });
  const after = run === undefined || !hasDefinition
    ? []
    : await runAll(run, forgetCommands(manager));
  const kept = [];
  for (const path of [paths.config, paths.stateDir]) if (await exists(at(path))) kept.push(path);
  return { removed, kept, ran: [...stopped, ...after], known };
}

async function stopKnown(
  run: Run,
  manager: ServiceManager,
  hasDefinition: boolean,
): Promise<{ known: boolean; stopped: readonly string[] }> {
  const known = await askKnown(run, manager);
  switch (known.kind) {
    case "nothing":
      return { known: false, stopped: [] };
    case "foreign": {
      const message = `Cannot uninstall ${SERVICE_NAME[manager]}: it comes from ` +
        `${known.definition}, which zonewright install did not write`;
      throw new AgentError("conflict", message);
    }
    case "service": {
      const commands = stopCommands(manager, { running: known.running, hasDefinition });
      return { known: true, stopped: await runAll(run, commands) };
    }
  }
}

/** Checks, before anything is changed, that all files of an installation are below a root. */
async function allBelow(root: string | undefined, paths: ServicePaths): Promise<void> {
  if (root === undefined) return;
  const { binary, config, definition, stateDir } = paths;
  for (const path of [binary, config, definition, stateDir]) {
    await staysBelow(root, join(root, path));
  }
}

/**
 * Explains a missing right: usually `sudo` is missing.
 * @throws {AgentError} `forbidden`, `storage_full` or `conflict`, with the error of the work as its cause
 */
export async function allowed<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof AgentError) throw error;
    const found = systemCode(error);
    const code = found === "forbidden" || found === "storage_full" ? found : "conflict";
    const message = `Cannot change ${path} or the files beside it: ${systemReason(error)}` +
      (code === "forbidden" ? ": run as root" : "");
    throw new AgentError(code, message, { cause: error });
  }
}

// The configuration file of a new installation: what differs from the defaults, and every other setting
// with its default and its meaning.

/** The text of `zonewright.toml`; an existing file is never replaced by it. */
export function defaultConfig(manager: ServiceManager, { socket, stateDir }: ServicePaths): string {
  const host = manager === "smf"
    ? '# host = "local"               # this global zone'
    : `# host = "ssh://root@smartos"    # the global zone that this agent manages; see docs/ssh.md
# ssh_identity = "/etc/zonewright/id_ed25519"         # the unit hides the home folders of users
# ssh_known_hosts = "/etc/zonewright/known_hosts"`;
  const text = `# zonewright: the settings of this agent. A line that begins with # shows a default.
# After a change: zonewright config check, and reload or restart the service.

state_dir = ${JSON.stringify(stateDir)}
socket = ${JSON.stringify(socket)}
listen = "127.0.0.1:8780"
${host}
# index = "https://images.example.org"
# media_dir = ["/zones/iso"]
`;
  const named = Array.from(text.matchAll(/^(?:# )?(\w+) = /gm), ([, key = ""]) => key);
  return `${text}\n${commentedSettings(named)}`;
}

// Writes the files of an installed agent. Each is renamed into place, so that none is ever incomplete, and is
// marked, so that files of others are recognized.

const PROGRAM_MODE = 0o755;
/** Mode of folders that hold no secrets. */
const FOLDER_MODE = 0o755;
/** Marks our definition, unlike one of a package or an administrator. */
const MARK = "Written by zonewright install";
/** A definition is short; only so many bytes of a file are searched for the mark. */
const MARK_BYTES = 4096;

/** Suffix of a file until it is complete. */
const UNFINISHED = ".new";
/** Suffix of the binary before an upgrade. */
export const PREVIOUS = ".previous";
/** Suffix of the new binary until it is in place. Not after a dot: Node would take that for a file type. */
export const VERIFIED = "-upgrade";
/** Suffix of the note about an upgrade that has not ended. */
export const UNDER_WAY = ".upgrading";

/** Copies a binary into place. @returns whether a different one, or none, was there */
async function copyProgram(from: string, to: string): Promise<boolean> {
  if (await Deno.realPath(from) === await Deno.realPath(to).catch(() => undefined)) return false;
  // A running program cannot be written to, but its name can be reused.
  await putInPlace(to, PROGRAM_MODE, async () => (await Deno.open(from)).readable);
  return true;
}

/**
 * Creates a folder with this mode, and missing ones above it, whatever the caller's umask. An existing folder keeps
 * its mode.
 * @throws {AgentError} `conflict` when something else has the name
 */
async function makeFolder(path: string, mode: number): Promise<void> {
  if (await exists(path)) {
    // A link to a folder counts as one.
    if (await Deno.stat(path).then(({ isDirectory }) => isDirectory, () => false)) return;
    throw new AgentError("conflict", `Cannot use ${path}: it is not a folder`);
  }
  await makeFolder(dirname(path), FOLDER_MODE);
  await Deno.mkdir(path, { mode });
  await Deno.chmod(path, mode);
}

/** Writes a file unless it exists. @returns whether it was written */
async function writeNew(path: string, text: string, mode: number): Promise<boolean> {
  if (await exists(path)) return false;
  await replaceFile(path, text, mode);
  return true;
}

/** Writes or replaces a file. @param owner of the file; by default this process */
export async function replaceFile(
  path: string,
  text: string,
  mode: number,
  owner?: FileOwner,
): Promise<void> {
  await putInPlace(path, mode, () => Promise.resolve(new Blob([text]).stream()), owner);
}

/** User and group of a file. */
interface FileOwner {
  readonly uid: number | null;
  readonly gid: number | null;
}

/**
 * Writes a new file, syncs it and renames it into place. Whatever has the temporary name is removed, never written
 * to: it may be a link.
 * @throws {Error} of the system; the new file is removed then
 */
export async function putInPlace(
  path: string,
  mode: number,
  open: () => Promise<ReadableStream<Uint8Array<ArrayBuffer>>>,
  owner?: FileOwner,
): Promise<void> {
  await makeFolder(dirname(path), FOLDER_MODE);
  const unfinished = `${path}${UNFINISHED}`;
  await removeFile(unfinished);
  const fresh = await Deno.open(unfinished, { write: true, createNew: true, mode });
  try {
    try {
      for await (const part of await open()) {
        for (let at = 0; at < part.length;) at += await fresh.write(part.subarray(at));
      }
      await fresh.sync();
    } finally {
      fresh.close();
    }
    // Before the mode: changing the owner clears bits of it.
    if (owner !== undefined) await Deno.chown(unfinished, owner.uid, owner.gid);
    await Deno.chmod(unfinished, mode);
    await Deno.rename(unfinished, path);
  } catch (error) {
    await removeFile(unfinished);
    throw error;
  }
}

/**
 * Checks that a file is, or would be, below a root: a link in an image that is right for the image may lead to this
 * machine's own files here.
 * @throws {AgentError} `conflict` when it leads out
 */
async function staysBelow(root: string, path: string): Promise<void> {
  let folder = dirname(path);
  while (!await exists(folder)) folder = dirname(folder);
  const real = await Deno.realPath(folder);
  let base = root;
  while (!await exists(base)) base = dirname(base);
  const way = relative(await Deno.realPath(base), real);
  if (way !== ".." && !way.startsWith("../")) return;
  throw new AgentError(
    "conflict",
    `Cannot touch ${path}: ${folder} leads out of ${root}, to ${real}`,
  );
}

/**
 * Removes a file.
 * @returns whether there was one
 * @throws {Error} for a folder, and for what the system refused
 */
export async function removeFile(path: string): Promise<boolean> {
  try {
    if ((await Deno.lstat(path)).isDirectory) throw new Error(`${path} is a folder`);
    await Deno.remove(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Whether anything has this name, even a link that leads nowhere. @throws {Error} when the system refuses to look */
export async function exists(path: string): Promise<boolean> {
  return await fileInfo(path) !== undefined;
}

/**
 * Whether our definition is installed. A masked unit, a link to a device, does not count.
 * @throws {AgentError} `conflict` for somebody else's definition
 */
export async function hasOwnDefinition(path: string): Promise<boolean> {
  if (!await exists(path)) return false;
  if ((await Deno.lstat(path)).isFile && (await headOf(path)).includes(MARK)) return true;
  const message = `Cannot touch ${path}: zonewright install did not write it; remove it yourself`;
  throw new AgentError("conflict", message);
}

async function headOf(path: string): Promise<string> {
  const file = await Deno.open(path);
  try {
    const bytes = new Uint8Array(MARK_BYTES);
    return new TextDecoder().decode(bytes.subarray(0, await file.read(bytes) ?? 0));
  } finally {
    file.close();
  }
}

// Installs the agent as a service, and uninstalls it. A plan lists the files to write and the commands to run; both
// service managers carry it out in the same way. Configuration and state folder are never overwritten or removed, and
// a service definition from somewhere else is left alone.

import { join } from "@std/path";
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
import {
  copyProgram,
  exists,
  hasOwnDefinition,
  makeFolder,
  PREVIOUS,
  removeFile,
  replaceFile,
  staysBelow,
  UNDER_WAY,
  UNFINISHED,
  VERIFIED,
  writeNew,
} from "./installed_files.ts";

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

/**
 * The text of a new `zonewright.toml`: what differs from the defaults, and every other setting with
 * its default and its meaning. An existing file is never replaced by it.
 */
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

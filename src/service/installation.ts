// Installing the agent as a service, and taking it away again. A plan says what will be there and
// what will be run; carrying it out is the same for both service managers. What holds data (the
// configuration, the state folder) is never overwritten and never removed, and a definition that
// somebody else has made is left alone.

import { join } from "@std/path";
import { AgentError, messageOf } from "../domain/error.ts";
import { defaultConfig } from "./default_config.ts";
import {
  copyProgram,
  exists,
  hasOwnDefinition,
  makeFolder,
  removeFile,
  replaceFile,
  staysBelow,
  UNFINISHED,
  writeNew,
} from "./installed_files.ts";
import {
  askKnown,
  forgetCommands,
  knownUserCommands,
  ownCommands,
  type Run,
  runAll,
  startCommands,
  stopCommands,
} from "./manager.ts";
import { SERVICE_NAME, SERVICE_PATHS, type ServiceManager, type ServicePaths } from "./paths.ts";
import { smfManifest } from "./smf_manifest.ts";
import { systemdUnit } from "./units.ts";

/** What is asked for. */
export interface InstallRequest {
  readonly manager: ServiceManager;
  /** systemd alone: the user instead of root. It must exist. */
  readonly user?: string;
  /** Everything is written below this folder. */
  readonly root?: string;
  /** Also start it, and at every boot from now on. */
  readonly start: boolean;
}

/** What the installation works with. */
export interface InstallTools {
  /** This program: a single binary. */
  readonly program: string;
  /** Runs a program of the service manager; without it nothing is run, as for images and packages. */
  readonly run?: Run;
}

/** What was done: one line each. */
export interface InstallReport {
  readonly written: readonly string[];
  /** Files that were there already and stay as they are. */
  readonly kept: readonly string[];
  readonly ran: readonly string[];
}

/** What was taken away, and what holds data and stays. */
export interface RemovalReport {
  readonly removed: readonly string[];
  readonly kept: readonly string[];
  readonly ran: readonly string[];
  /** Whether the service manager knew the service; null where it was not asked. */
  readonly known: boolean | null;
}

const DEFINITION_MODE = 0o644;
/** The configuration may come to hold names of secrets. */
const CONFIG_MODE = 0o640;
const STATE_MODE = 0o700;

/** What the service manager will read. */
export function definitionText(
  { manager, user, start }: Pick<InstallRequest, "manager" | "user" | "start">,
): string {
  const paths = SERVICE_PATHS[manager];
  if (manager === "smf") return smfManifest(paths, { enabled: start });
  return systemdUnit({ paths, ...(user === undefined ? {} : { user }) });
}

/**
 * Installs the agent: the binary, its configuration when there is none, the definition, the state
 * folder; then starts it. It is safe to repeat, and is how a newer binary takes the place of an older.
 * @throws {AgentError} `conflict` when a file cannot be written, when a definition is there that is not
 *   ours, or when a link leads out of the root; `forbidden` without the rights; `storage_full`; `host` when
 *   the service manager refuses, or does not know the user
 */
export async function installService(
  request: InstallRequest,
  { program, run }: InstallTools,
): Promise<InstallReport> {
  const { manager, user, root } = request;
  const paths = SERVICE_PATHS[manager];
  const at = (path: string) => root === undefined ? path : join(root, path);
  const written: string[] = [];
  const kept: string[] = [];
  if (user !== undefined && run !== undefined) await runAll(run, knownUserCommands(user));
  await allowed(paths.binary, async () => {
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
 * Stops the agent and removes binary and definition, and what an installation that was cut off has left
 * of them. Configuration and state stay. It is safe to repeat, and to call after half an installation:
 * a service of which the service manager knows nothing has nothing to be stopped.
 * @throws {AgentError} as installService()
 */
export async function uninstallService(
  { manager, root }: Pick<InstallRequest, "manager" | "root">,
  { run }: Pick<InstallTools, "run">,
): Promise<RemovalReport> {
  const paths = SERVICE_PATHS[manager];
  const at = (path: string) => root === undefined ? path : join(root, path);
  const { hasDefinition, isThere } = await allowed(paths.definition, async () => {
    await allBelow(root, paths);
    const hasDefinition = await hasOwnDefinition(at(paths.definition));
    return { hasDefinition, isThere: hasDefinition || await exists(at(paths.binary)) };
  });
  const { known, stopped } = run === undefined || !isThere
    ? { known: null, stopped: [] }
    : await stopKnown(run, manager, hasDefinition);
  const removed: string[] = [];
  await allowed(paths.binary, async () => {
    const whole = [paths.definition, paths.binary];
    const unfinished = [...whole, paths.config].map((path) => `${path}${UNFINISHED}`);
    for (const path of [...whole, ...unfinished]) {
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
        `${known.definition}, which was not written by zonewright install`;
      throw new AgentError("conflict", message);
    }
    case "service": {
      const commands = stopCommands(manager, { running: known.running, hasDefinition });
      return { known: true, stopped: await runAll(run, commands) };
    }
  }
}

/** Asserts, before anything is touched, that all of an installation below a root is there. */
async function allBelow(root: string | undefined, paths: ServicePaths): Promise<void> {
  if (root === undefined) return;
  const { binary, config, definition, stateDir } = paths;
  for (const path of [binary, config, definition, stateDir]) {
    await staysBelow(root, join(root, path));
  }
}

/** A missing right is told as what it is: nearly always the missing `sudo`. */
async function allowed<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof AgentError) throw error;
    const denied = error instanceof Deno.errors.PermissionDenied;
    const full = /no space/i.test(messageOf(error));
    const code = denied ? "forbidden" : full ? "storage_full" : "conflict";
    const message = `Cannot change ${path} and its companions: ${messageOf(error)}` +
      (denied ? ": expected root" : "");
    throw new AgentError(code, message, { cause: error });
  }
}

// Installing the agent as a service, and taking it away again. A plan says what will be there and
// what will be run; carrying it out is the same for both service managers. What holds data (the
// configuration, the state folder) is never overwritten and never removed.

import { dirname, join } from "@std/path";
import { AgentError, messageOf } from "../domain/error.ts";
import type { CommandOptions, CommandResult } from "../host/command.ts";
import { defaultConfig } from "./default_config.ts";
import {
  SERVICE_NAME,
  SERVICE_PATHS,
  type ServiceManager,
  type ServicePaths,
} from "./service_paths.ts";
import { smfManifest } from "./smf_manifest.ts";
import { systemdUnit } from "./systemd_unit.ts";

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

/** Runs a program, as host/command.ts does. */
export type Run = (
  program: string,
  args: readonly string[],
  options: CommandOptions,
) => Promise<CommandResult>;

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
}

const RUN_MS = 90_000;
const PROGRAM_MODE = 0o755;
const DEFINITION_MODE = 0o644;
/** The configuration may come to hold names of secrets. */
const CONFIG_MODE = 0o640;
const STATE_MODE = 0o700;

const CHOWN = "/usr/bin/chown";
const SYSTEMCTL = "/usr/bin/systemctl";
const SVCCFG = "/usr/sbin/svccfg";
const SVCADM = "/usr/sbin/svcadm";

/** What the service manager will read. */
export function definitionText(
  { manager, user }: Pick<InstallRequest, "manager" | "user">,
): string {
  const paths = SERVICE_PATHS[manager];
  if (manager === "smf") return smfManifest(paths);
  return systemdUnit({ paths, ...(user === undefined ? {} : { user }) });
}

/**
 * Installs the agent: the binary, its configuration when there is none, the definition, the state
 * folder; then starts it. It is safe to repeat, and is how a newer binary takes the place of an older.
 * @throws {AgentError} `conflict` from source, since a service needs the single binary, or when a file
 *   cannot be written; `forbidden` without the rights; `host` when the service manager refuses
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
  await allowed(paths.binary, async () => {
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
 * Stops the agent and removes binary and definition. Configuration and state stay.
 * @throws {AgentError} as installService()
 */
export async function uninstallService(
  { manager, root }: Pick<InstallRequest, "manager" | "root">,
  { run }: Pick<InstallTools, "run">,
): Promise<RemovalReport> {
  const paths = SERVICE_PATHS[manager];
  const at = (path: string) => root === undefined ? path : join(root, path);
  const isThere = await exists(at(paths.definition));
  const stopped = run !== undefined && isThere ? await runAll(run, stopCommands(manager)) : [];
  const removed: string[] = [];
  await allowed(paths.binary, async () => {
    for (const path of [paths.definition, paths.binary]) {
      if (!await exists(at(path))) continue;
      await Deno.remove(at(path));
      removed.push(path);
    }
  });
  const forget = run !== undefined && isThere && manager === "systemd";
  const after = forget ? await runAll(run, [[SYSTEMCTL, "daemon-reload"]]) : [];
  const kept = [];
  for (const path of [paths.config, paths.stateDir]) if (await exists(at(path))) kept.push(path);
  return { removed, kept, ran: [...stopped, ...after] };
}

/** The state becomes the user's; the configuration stays root's, and the user's group may read it. */
function ownCommands(user: string, { stateDir, config }: ServicePaths): string[][] {
  return [[CHOWN, `${user}:`, stateDir], [CHOWN, `:${user}`, config]];
}

function startCommands(manager: ServiceManager, start: boolean): string[][] {
  const { definition } = SERVICE_PATHS[manager];
  const name = SERVICE_NAME[manager];
  if (manager === "smf") {
    return [
      [SVCCFG, "validate", definition],
      [SVCCFG, "import", definition],
      // Enabling what runs already would leave it the older binary.
      ...(start
        ? [[SVCADM, "disable", "-s", name], [SVCADM, "enable", "-s", name]]
        : [[SVCADM, "disable", name]]),
    ];
  }
  return [
    [SYSTEMCTL, "daemon-reload"],
    // A restart also brings a newer binary in.
    ...(start ? [[SYSTEMCTL, "enable", name], [SYSTEMCTL, "restart", name]] : []),
  ];
}

function stopCommands(manager: ServiceManager): string[][] {
  const name = SERVICE_NAME[manager];
  if (manager === "smf") {
    return [[SVCADM, "disable", "-s", name], [SVCCFG, "delete", "svc:/application/zonewright"]];
  }
  return [[SYSTEMCTL, "disable", "--now", name]];
}

async function runAll(run: Run, commands: readonly string[][]): Promise<string[]> {
  const ran: string[] = [];
  for (const [program = "", ...args] of commands) {
    const line = [program, ...args].join(" ");
    const { code, stdout, stderr } = await run(program, args, { deadlineMs: RUN_MS });
    if (code !== 0) {
      const words = (stderr.trim() || stdout.trim()).split("\n").at(-1) ?? "";
      throw new AgentError("host", `Cannot finish: ${line} ended with code ${code}: ${words}`);
    }
    ran.push(line);
  }
  return ran;
}

/** A missing right is told as what it is: nearly always the missing `sudo`. */
async function allowed(path: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (error instanceof AgentError) throw error;
    const denied = error instanceof Deno.errors.PermissionDenied;
    const message = `Cannot write ${path} and its companions: ${messageOf(error)}` +
      (denied ? ": expected root" : "");
    throw new AgentError(denied ? "forbidden" : "conflict", message, { cause: error });
  }
}

/** @returns whether another binary was there, or none */
async function copyProgram(from: string, to: string): Promise<boolean> {
  if (await Deno.realPath(from) === await Deno.realPath(to).catch(() => undefined)) return false;
  await makeFolder(dirname(to), PROGRAM_MODE);
  // A program that runs cannot be written to, but its name can be given to another.
  const fresh = `${to}.new`;
  await Deno.copyFile(from, fresh);
  await Deno.chmod(fresh, PROGRAM_MODE);
  await Deno.rename(fresh, to);
  return true;
}

async function makeFolder(path: string, mode: number): Promise<void> {
  if (await exists(path)) return;
  await Deno.mkdir(dirname(path), { recursive: true });
  await Deno.mkdir(path, { mode });
}

async function writeNew(path: string, text: string, mode: number): Promise<boolean> {
  if (await exists(path)) return false;
  await replaceFile(path, text, mode);
  return true;
}

async function replaceFile(path: string, text: string, mode: number): Promise<void> {
  await Deno.mkdir(dirname(path), { recursive: true });
  const fresh = `${path}.new`;
  await Deno.writeTextFile(fresh, text);
  await Deno.chmod(fresh, mode);
  await Deno.rename(fresh, path);
}

async function exists(path: string): Promise<boolean> {
  try {
    await Deno.lstat(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

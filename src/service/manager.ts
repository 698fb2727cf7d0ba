// systemd and SMF: the paths of an installed agent, and the commands that start, stop and query its service.

import { dirname, join } from "@std/path";
import { AgentError } from "../domain/error.ts";
import type { CommandOptions, CommandResult } from "../host/program.ts";
import { describeResult } from "../host/program_output.ts";
import { aloneIn } from "../runtime/folder_lock.ts";

/** The service managers that an agent can be installed for. */
export const SERVICE_MANAGERS = ["systemd", "smf"] as const;
/** The manager that runs the agent: systemd on Linux, SMF on SmartOS. */
export type ServiceManager = typeof SERVICE_MANAGERS[number];

/** Absolute paths of an installed agent. */
export interface ServicePaths {
  readonly binary: string;
  readonly config: string;
  /** What the service manager reads. */
  readonly definition: string;
  /** The folder of the database, the cache and the lock. */
  readonly stateDir: string;
  readonly socket: string;
}

/**
 * Follows hier(7) on Linux. On SmartOS these paths survive a reboot of the global zone, which recreates `/etc` and
 * `/usr` and imports `/opt/custom/smf`.
 * @see smartos: "Persistent services", hier(7)
 */
export const SERVICE_PATHS: Readonly<Record<ServiceManager, ServicePaths>> = {
  systemd: {
    binary: "/usr/local/bin/zonewright",
    config: "/etc/zonewright/zonewright.toml",
    definition: "/etc/systemd/system/zonewright.service",
    stateDir: "/var/lib/zonewright",
    socket: "/run/zonewright/zonewright.sock",
  },
  smf: {
    binary: "/opt/custom/bin/zonewright",
    config: "/opt/custom/etc/zonewright/zonewright.toml",
    definition: "/opt/custom/smf/zonewright.xml",
    stateDir: "/opt/custom/zonewright",
    socket: "/var/run/zonewright.sock",
  },
};

/** The service's name for `systemctl` and `svcadm`. */
export const SERVICE_NAME: Readonly<Record<ServiceManager, string>> = {
  systemd: "zonewright.service",
  smf: "svc:/application/zonewright:default",
};

/** The command that shows the state of the service and the end of its log, or why it is in maintenance. */
const SHOWN_BY: Readonly<Record<ServiceManager, string>> = {
  systemd: "systemctl status zonewright",
  smf: "svcs -xv zonewright",
};

/**
 * That command for the service of this machine; undefined if none was installed.
 * @param isFile whether a path is a file
 */
export function serviceCommand(isFile = fileIsThere): string | undefined {
  const manager = SERVICE_MANAGERS.find((name) => isFile(SERVICE_PATHS[name].definition));
  return manager === undefined ? undefined : SHOWN_BY[manager];
}

function fileIsThere(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    // Not there, or hidden: either way its service is not for this caller to manage.
    return false;
  }
}

/** Runs a program, as host/program.ts does. */
export type Run = (
  program: string,
  args: readonly string[],
  options: CommandOptions,
) => Promise<CommandResult>;

/** What a service manager knows of the service. */
type Known =
  | { readonly kind: "nothing" }
  /** `running`: there may be a process to stop. */
  | { readonly kind: "service"; readonly running: boolean }
  /** A service of this name is defined by a file that is not ours. */
  | { readonly kind: "foreign"; readonly definition: string };

/** Milliseconds for one command: the service manager waits for the agent, which stops within a minute. */
const RUN_MS = 90_000;

const ID = "/usr/bin/id";
const GETENT = "/usr/bin/getent";
const CHOWN = "/usr/bin/chown";
const SYSTEMCTL = "/usr/bin/systemctl";
/** Imports and deletes SMF services. @see svccfg(8) on illumos */
export const SVCCFG = "/usr/sbin/svccfg";
const SVCADM = "/usr/sbin/svcadm";
const SVCS = "/usr/bin/svcs";

/** The service without its instance; SMF deletes it by this name. */
const SMF_SERVICE = "svc:/application/zonewright";
/** What svcs(1) says of a service that was never imported. */
const NO_INSTANCE = /doesn't match any instances/;

/** Commands that fail unless a user and its group exist, run before anything is replaced. */
export function knownUserCommands(user: string): string[][] {
  return [[ID, "-u", user], [GETENT, "group", user]];
}

/**
 * Lets the user's group read the configuration, which stays root's. systemd hands the state folder to the user at the
 * start, but nothing in a folder that is already the user's.
 * @see systemd.exec(5): StateDirectory
 */
export function ownCommands(user: string, { config }: ServicePaths): string[][] {
  return [[CHOWN, `:${user}`, config]];
}

/**
 * Changes the files of an installed agent, one command at a time.
 * @param root they are below it
 * @param note takes a line about waiting for another command
 * @throws {AgentError} `conflict` when another command has them for long; any error of `run`
 */
export async function aloneWithFiles<T>(
  { manager, root = "/" }: { readonly manager: ServiceManager; readonly root?: string },
  run: () => Promise<T>,
  note?: (line: string) => void,
): Promise<T> {
  return await aloneIn(dirname(join(root, SERVICE_PATHS[manager].binary)), run, { note });
}

/** Makes the service known to its manager, and starts it now and at every boot, or neither. */
export function startCommands(manager: ServiceManager, start: boolean): string[][] {
  const { definition } = SERVICE_PATHS[manager];
  const name = SERVICE_NAME[manager];
  if (manager === "smf") {
    return [
      [SVCCFG, "validate", definition],
      [SVCCFG, "import", definition],
      // Enabling a running service would leave the older binary running.
      ...(start
        ? [[SVCADM, "disable", "-s", name], [SVCADM, "enable", "-s", name]]
        : [[SVCADM, "disable", name]]),
    ];
  }
  return [
    [SYSTEMCTL, "daemon-reload"],
    // A restart also loads a newer binary.
    ...(start ? [[SYSTEMCTL, "enable", name], [SYSTEMCTL, "restart", name]] : []),
  ];
}

/**
 * Stops a known service and disables it.
 * @param hasDefinition without its file, systemd cannot disable it, only stop it
 */
export function stopCommands(
  manager: ServiceManager,
  { running, hasDefinition }: { readonly running: boolean; readonly hasDefinition: boolean },
): string[][] {
  const name = SERVICE_NAME[manager];
  if (manager === "smf") return [[SVCADM, "disable", "-s", name], [SVCCFG, "delete", SMF_SERVICE]];
  if (hasDefinition) return [[SYSTEMCTL, "disable", "--now", name]];
  return running ? [[SYSTEMCTL, "stop", name]] : [];
}

/** Stops a service that will be started again with the same definition. */
export function pauseCommands(manager: ServiceManager): string[][] {
  const name = SERVICE_NAME[manager];
  return manager === "smf" ? [[SVCADM, "disable", "-s", name]] : [[SYSTEMCTL, "stop", name]];
}

/**
 * Starts it again, even after too many failures.
 * @returns the commands that were run
 * @throws {AgentError} `host`
 */
export async function resumeService(run: Run, manager: ServiceManager): Promise<string[]> {
  const name = SERVICE_NAME[manager];
  if (manager === "smf") return await runAll(run, [[SVCADM, "enable", "-s", name]]);
  // Its result does not matter: a unit that is not loaded has no failures.
  await runOne(run, [SYSTEMCTL, "reset-failed", name]);
  return await runAll(run, [[SYSTEMCTL, "restart", name]]);
}

/** Makes the service manager notice that the definition was removed. */
export function forgetCommands(manager: ServiceManager): string[][] {
  return manager === "systemd" ? [[SYSTEMCTL, "daemon-reload"]] : [];
}

/**
 * Asks what the service manager knows of the service.
 * @throws {AgentError} `host` when it does not answer
 */
export async function askKnown(run: Run, manager: ServiceManager): Promise<Known> {
  return manager === "smf" ? await askSmf(run) : await askSystemd(run);
}

async function askSmf(run: Run): Promise<Known> {
  const command = [SVCS, "-H", "-o", "state", SERVICE_NAME.smf];
  const result = await runOne(run, command);
  if (result.code === 0) {
    return { kind: "service", running: result.stdout.trim() !== "disabled" };
  }
  if (NO_INSTANCE.test(result.stderr)) return { kind: "nothing" };
  throw refused(command, result);
}

async function askSystemd(run: Run): Promise<Known> {
  const name = SERVICE_NAME.systemd;
  const properties = "--property=LoadState,ActiveState,FragmentPath";
  const command = [SYSTEMCTL, "show", properties, name];
  const result = await runOne(run, command);
  if (result.code !== 0) throw refused(command, result);
  const value = (property: string) =>
    new RegExp(`^${property}=(.*)$`, "m").exec(result.stdout)?.[1] ?? "";
  const definition = value("FragmentPath");
  if (definition !== "" && definition !== SERVICE_PATHS.systemd.definition) {
    return { kind: "foreign", definition };
  }
  const running = !["inactive", "failed", ""].includes(value("ActiveState"));
  const known = running || value("LoadState") === "loaded";
  return known ? { kind: "service", running } : { kind: "nothing" };
}

/**
 * Runs commands one after another.
 * @returns each as a line of text
 * @throws {AgentError} `host` at the first that fails
 */
export async function runAll(run: Run, commands: readonly string[][]): Promise<string[]> {
  const ran: string[] = [];
  for (const command of commands) {
    const result = await runOne(run, command);
    if (result.code !== 0) throw refused(command, result);
    ran.push(command.join(" "));
  }
  return ran;
}

async function runOne(
  run: Run,
  [program = "", ...args]: readonly string[],
): Promise<CommandResult> {
  return await run(program, args, { deadlineMs: RUN_MS });
}

function refused(command: readonly string[], result: CommandResult): AgentError {
  const shown = JSON.stringify(command.join(" "));
  return new AgentError(
    "host",
    `Cannot run ${shown}: it ${describeResult(result)}, expected exit code 0`,
  );
}

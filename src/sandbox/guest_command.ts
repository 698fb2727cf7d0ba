// Starts guests through small programs that restrict a process, where the host has them: util-linux
// and coreutils on Linux, ppriv on illumos. Each has one fixed path; missing ones are logged.

import { absent } from "../runtime/regular_file.ts";
import { AgentError } from "../domain/error.ts";
import type { OrphanKiller } from "./orphaned_guests.ts";
import type { SelfCommand } from "../runtime/executable.ts";
import { FRESH_REALM_WORD, type TaskLimits } from "../wall/task_limits.ts";

/** Heap of a guest that runs from source, MiB. */
const SOURCE_HEAP_MIB = 128;
/**
 * Heap of the compiled binary, MiB. The flag is built in for all modes, so it limits the agent too. With the 60 MiB of
 * the process itself, that is below 400 MiB. The budgets of requests and jobs are far lower; at this limit V8 aborts
 * the process.
 */
export const AGENT_HEAP_MIB = 320;
/** Memory of a guest or a decoder, MiB: its heap and its buffers together. */
export const WALLED_MEMORY_MIB = 256;
/** Data segment of a fresh Deno process, bytes: V8 reserves address space for code. */
const RESERVED_DATA_BYTES = 560_000_000;
/**
 * Address space of a guest or decoder that Node runs on illumos, KiB. Node 26 starts with 1,400,000 on Linux, and a
 * task needs more. Deno reserves more than any limit could allow.
 */
export const ADDRESS_KIB_MAX = 2_000_000;
/** Files that a guest may have open. */
export const FILES_MAX = 64;
const NICE = 10;
/**
 * Kernel tasks (threads) per guest: the binary uses 4 on two processors, a run from source 36. The
 * kernel counts per user, so the limit covers all guests together.
 */
const TASKS_PER_GUEST = 64;
/**
 * Spare guests without a workflow, in addition to those in slots, so that the first task of a workflow, and the task
 * after a killed one, need not wait for a process to start.
 */
export const SPARES = 1;
/**
 * Warm guests that wait for further tasks of their workflows, in addition to slots and spares. This many more workflows
 * than slots may alternate before processes are started for them. Each guest costs about 20 MB, and is ended after a
 * quiet time.
 */
export const WARM_BESIDE_SLOTS = 4;
/** Killed guests that have not ended yet, in addition. */
const DYING_GUESTS = 4;

/**
 * Decoders that may run at the same time: one per processor, one for the hashes of downloads, which last as long as the
 * downloads, and a spare.
 */
export function decodersMax(): number {
  return navigator.hardwareConcurrency + 2;
}

/**
 * The basic privileges of illumos without those to start processes or programs, link to files of others, use the
 * network, see other processes, and signal processes of other sessions; each guest has a session of its own.
 * @see privileges(7) on illumos
 */
const ILLUMOS_TAKEN = [
  "file_link_any",
  "net_access",
  "proc_exec",
  "proc_fork",
  "proc_info",
  "proc_session",
] as const;
/**
 * Privileges that are dropped only once the process is ready: before, it connects to the agent's socket and loads its
 * program, and no manual page promises that this works without the privilege to write.
 */
const ILLUMOS_TAKEN_LATER = ["file_write"] as const;
/** The privileges that no guest or decoder has while it works on illumos. */
export const ILLUMOS_LACKING = [...ILLUMOS_TAKEN, ...ILLUMOS_TAKEN_LATER];
const ILLUMOS_PRIVILEGES = ["basic", ...ILLUMOS_TAKEN.map((name) => `!${name}`)].join(",");

/**
 * V8 flags of every guest. Code generation from strings is off. The young generation stays small, in MiB, because a
 * larger one only takes memory.
 */
export const GUEST_V8_FLAGS = "--disallow-code-generation-from-strings,--max-semi-space-size=4";

/**
 * What glibc reads when a walled process of the binary starts: one arena for all threads, and what is free at its end goes
 * back to the system. A guest at work has 3 MiB less of its own.
 */
const MALLOC_SETTINGS = { MALLOC_ARENA_MAX: "1", MALLOC_TRIM_THRESHOLD_: "131072" };

/**
 * Options of `deno run` for each mode from source; the compiled binary has them built in.
 * `--cached-only` limits a decoder to installed packages.
 */
const DENO_OPTIONS = {
  guest: ["--no-npm", ...denoOptions(SOURCE_HEAP_MIB)],
  decoder: denoOptions(WALLED_MEMORY_MIB),
} as const;

function denoOptions(heapMib: number): string[] {
  return [
    `--v8-flags=--max-old-space-size=${heapMib},${GUEST_V8_FLAGS}`,
    "--no-remote",
    "--no-code-cache",
  ];
}

/** The system that the agent runs on. */
export type HostSystem = typeof Deno.build.os;

/** The tools of this system, and the names of those missing. */
export type FindTools = typeof findGuestTools;

/** Absolute paths of the programs that start guests, and of the one that reads their memory use. */
interface GuestTools {
  /** Linux: a separate, empty network. */
  readonly unshare?: string;
  readonly setpriv?: string;
  readonly prlimit?: string;
  readonly nice?: string;
  readonly cat?: string;
  /** illumos: a process without the basic privileges. */
  readonly ppriv?: string;
  /** illumos: its `ulimit` sets limits, as prlimit does on Linux. */
  readonly sh?: string;
  /** illumos: reads memory use, as cat does on Linux. */
  readonly ps?: string;
}

type ToolName = keyof GuestTools;

const LINUX: readonly ToolName[] = ["unshare", "setpriv", "prlimit", "nice", "cat"];
const ILLUMOS: readonly ToolName[] = ["ppriv", "nice", "sh", "ps"];

/** What guests and decoders lack when a tool is missing or unusable. */
const WITHOUT: Readonly<Record<ToolName, string>> = {
  unshare: "a network, IPC and host name of their own",
  setpriv: "a bar to new privileges, and dropped capabilities",
  prlimit: "limits of memory, open files and core files",
  nice: "a lower priority",
  cat: "a watch over the memory that they take",
  ppriv: "fewer privileges than every process has",
  sh: "limits of memory, open files and core files",
  ps: "a watch over the memory that they take",
};

/** Describes the walls that guests and decoders lack because of missing tools. */
export function withoutWords(missing: readonly ToolName[]): string {
  return missing.map((name) => `${WITHOUT[name]} (${name})`).join("; ");
}

/** Separates a guest from the host's networks, System V IPC and host name. */
const UNSHARED = ["--net", "--ipc", "--uts"] as const;

/** The user and group that guests run as. */
export interface GuestUser {
  readonly uid: number;
  readonly gid: number;
  /** Whether nothing else runs as this user, so that its processes can be counted. */
  readonly alone?: boolean;
}

/** Arguments for Deno.Command, besides the streams. */
export interface WalledCommand {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly uid?: number;
  readonly gid?: number;
  /** Whether it starts in a session of its own. */
  readonly ownSession?: boolean;
  /** Ends the process when the agent is gone. */
  readonly orphanKiller?: OrphanKiller | undefined;
  /** Command that takes away what the process needed only to start; the process id is appended. */
  readonly takesRest?: readonly string[];
  /** Memory limit, MiB. */
  readonly memoryMib: number;
  /**
   * Limit of its data segment on Linux, bytes. A task that fills it slowly may first reach the limit of
   * memory_watch.ts.
   */
  readonly dataBytesMax: number;
  /** Limit of its address space on illumos, KiB; undefined where its runtime reserves more than any limit allows. */
  readonly addressKibMax?: number;
  /** Checks that the runtime cannot pass; see WalledSelf. */
  readonly cannotRefuse: readonly string[];
}

/** How to start a guest. */
export interface GuestCommand extends WalledCommand {
  /** Limits of its tasks: the last argument. */
  readonly limits: TaskLimits;
}

/** What the command line of a guest depends on, besides the program. */
export interface GuestPlace {
  readonly tools: GuestTools;
  /** Whether the agent is root: only then can guests run as another user. */
  readonly root: boolean;
  readonly slots: number;
  readonly user?: GuestUser;
  /** The setting `fresh_realm`: each task gets a realm of its own. */
  readonly freshRealm?: boolean;
}

/**
 * The command line of a guest; the caller appends the socket's path and the limits.
 * @throws {AgentError} `invalid_argument` when `user` is given but the agent is not root
 */
export function guestCommand(
  self: SelfCommand,
  place: GuestPlace,
  limits: TaskLimits,
): GuestCommand {
  const command = walledCommand("guest", self, place);
  const words = place.freshRealm === true ? [FRESH_REALM_WORD] : [];
  return { ...command, args: [...command.args, ...words], limits };
}

/**
 * The command line of a decoder: the walls of a guest, and only its pipes to the agent.
 * @throws {AgentError} as guestCommand()
 */
export function decoderCommand(self: SelfCommand, place: GuestPlace): WalledCommand {
  return walledCommand("decoder", self, place);
}

/**
 * @see unshare(1), setpriv(1), prlimit(1), prctl(2) PR_SET_NO_NEW_PRIVS and PR_SET_PDEATHSIG;
 * ppriv(1) and ulimit in sh(1) on illumos
 */
function walledCommand(
  face: "guest" | "decoder",
  self: SelfCommand,
  place: GuestPlace,
): WalledCommand {
  const { tools, root, user } = place;
  if (user !== undefined && !root) {
    throw new AgentError(
      "invalid_argument",
      `Cannot run guests as user ${user.uid}: the agent is not root, expected to run as root`,
    );
  }
  const [program = "", ...args] = [
    ...(tools.sh === undefined ? [] : [tools.sh, "-c", ulimits(self), "sh"]),
    ...(tools.nice === undefined ? [] : [tools.nice, "-n", `${NICE}`]),
    ...(tools.unshare === undefined ? [] : [tools.unshare, ...UNSHARED]),
    ...(tools.setpriv === undefined ? [] : [tools.setpriv, ...privileges(root, user)]),
    ...(tools.prlimit === undefined ? [] : [tools.prlimit, ...limits(self, place)]),
    // Both sets take effect when the guest begins: ppriv itself may still exec.
    ...(tools.ppriv === undefined ? [] : [tools.ppriv, "-e", "-s", `IL=${ILLUMOS_PRIVILEGES}`]),
    self.program,
    ...(self.walled?.[face] ??
      (self.compiled ? self.args : withDenoOptions(self.args, DENO_OPTIONS[face]))),
    face,
  ];
  // setpriv drops the capabilities before it changes the user; without setpriv Deno changes it.
  const changedByDeno = tools.setpriv === undefined && user !== undefined
    ? { uid: user.uid, gid: user.gid }
    : {};
  return {
    program,
    args,
    env: self.compiled && self.walled === undefined ? MALLOC_SETTINGS : self.env,
    ...changedByDeno,
    ...(tools.ppriv === undefined ? {} : {
      ownSession: true,
      takesRest: [tools.ppriv, "-s", ILLUMOS_TAKEN_LATER.map((name) => `A-${name}`).join(",")],
    }),
    memoryMib: memoryMib(face, self, tools),
    dataBytesMax: dataBytesMax(self),
    ...(tools.sh === undefined || self.walled === undefined
      ? {}
      : { addressKibMax: ADDRESS_KIB_MAX }),
    cannotRefuse: self.walled?.cannotRefuse ?? [],
  };
}

/** Memory limit of a walled process, MiB: V8's where the system sets none. */
function memoryMib(
  face: "guest" | "decoder",
  { compiled }: SelfCommand,
  { prlimit }: GuestTools,
): number {
  if (!compiled) return face === "guest" ? SOURCE_HEAP_MIB : WALLED_MEMORY_MIB;
  return prlimit === undefined ? AGENT_HEAP_MIB : WALLED_MEMORY_MIB;
}

function dataBytesMax({ walled }: SelfCommand): number {
  return (walled?.reservedDataBytes ?? RESERVED_DATA_BYTES) + WALLED_MEMORY_MIB * 1024 * 1024;
}

function limits(self: SelfCommand, { slots, user }: GuestPlace): string[] {
  const guests = slots + SPARES + WARM_BESIDE_SLOTS + DYING_GUESTS;
  const tasks = (guests + decodersMax()) * TASKS_PER_GUEST;
  return [
    `--data=${dataBytesMax(self)}`,
    `--nofile=${FILES_MAX}`,
    "--core=0",
    // With a shared user, the limit would count other processes too, and could keep guests from starting.
    ...(user?.alone === true ? [`--nproc=${tasks}`] : []),
    // From source Deno writes its own caches while it starts, and SIGXFSZ would end it.
    ...(self.compiled ? ["--fsize=0"] : []),
  ];
}

/** What a shell runs before it becomes the program in its arguments. @see ulimit in sh(1) on illumos */
function ulimits({ walled }: SelfCommand): string {
  const limits = [`-n ${FILES_MAX}`, "-c 0"];
  if (walled !== undefined) limits.push(`-v ${ADDRESS_KIB_MAX}`);
  return [...limits.map((one) => `ulimit ${one}`), 'exec "$@"'].join(" && ");
}

function privileges(root: boolean, user: GuestUser | undefined): string[] {
  return [
    "--no-new-privs",
    "--pdeathsig=KILL",
    ...(root ? ["--clear-groups", "--bounding-set=-all", "--inh-caps=-all"] : []),
    ...(user === undefined ? [] : [`--reuid=${user.uid}`, `--regid=${user.gid}`]),
  ];
}

/** Inserts options between Deno's subcommand and its script. */
function withDenoOptions(args: readonly string[], options: readonly string[]): string[] {
  const [subcommand = "run", ...rest] = args;
  return [subcommand, ...options, ...rest];
}

/** The tools of a system; none for untested systems. */
function toolNames(os: HostSystem): readonly ToolName[] {
  if (os === "linux") return LINUX;
  return os === "illumos" || os === "solaris" ? ILLUMOS : [];
}

/**
 * Looks for the tools of this system. unshare counts only if it is permitted: it needs root, and privileges that root
 * lacks in most containers.
 * @returns the tools, and the names of those missing
 */
export async function findGuestTools(
  { os, root }: { os: HostSystem; root: boolean } = { os: Deno.build.os, root: Deno.uid() === 0 },
): Promise<{ tools: GuestTools; missing: ToolName[] }> {
  const tools: { -readonly [Name in ToolName]?: string } = {};
  const missing: ToolName[] = [];
  for (const name of toolNames(os)) {
    const path = `/usr/bin/${name}`;
    const found = name === "unshare" ? root && await mayUnshare(path) : await isFile(path);
    if (found) tools[name] = path;
    else missing.push(name);
  }
  return { tools, missing };
}

async function mayUnshare(path: string): Promise<boolean> {
  if (!await isFile(path)) return false;
  const { success } = await new Deno.Command(path, {
    args: [...UNSHARED, path, "--version"],
    clearEnv: true,
    cwd: "/",
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).output();
  return success;
}

async function isFile(path: string): Promise<boolean> {
  return (await Deno.stat(path).catch(absent))?.isFile === true;
}

// How a guest is started: through the small programs that take away from a process what it does not
// need, where the host has them. Linux has them in util-linux and coreutils, illumos has ppriv. Each
// has one place; what is missing is named in the log.

import { AgentError } from "../domain/error.ts";
import type { SelfCommand } from "../program/executable.ts";
import type { TaskLimits } from "./task_limits.ts";

/** Heap of a guest that runs from source, MiB. */
const SOURCE_HEAP_MIB = 128;
/**
 * Heap of the compiled binary, MiB: the flag is built in, for all its faces, so it is the agent's
 * number. Together with the 60 MiB of the process it stays below 400 MiB. The memory budget of
 * requests and jobs ends far below it: this is the last line, where V8 gives up.
 */
export const AGENT_HEAP_MIB = 320;
/** Memory of a guest or a decoder, MiB: its heap and its buffers together. */
export const WALLED_MEMORY_MIB = 256;
/** Bytes of the data segment of a process that has nothing yet: V8 reserves room for code. */
const RESERVED_DATA_BYTES = 560_000_000;
/**
 * Data segment of a guest or a decoder, bytes. A task that fills it slower than within a few looks
 * may meet the limit of memory_watch.ts first.
 */
export const DATA_BYTES_MAX = RESERVED_DATA_BYTES + WALLED_MEMORY_MIB * 1024 * 1024;
/** Files that a guest may have open at the same time. */
export const FILES_MAX = 64;
const NICE = 10;
/**
 * Tasks of the kernel for one guest, its threads included: as a binary it has 4 on two processors,
 * from source 36. The kernel counts all that belongs to a user, so the limit is that of all guests
 * together.
 */
const TASKS_PER_GUEST = 64;
/**
 * Guests beside those in the slots that belong to nobody, so that the first task of a workflow, and
 * the one that follows a killed task, need not wait for a process to start.
 */
export const SPARES = 1;
/**
 * Guests beside those in the slots and the spares that wait for further tasks of their workflows. So
 * many workflows more than there are slots may take turns before processes are started for them;
 * each costs about 20 MB, and when nothing has run for a while they are given up.
 */
export const WARM_BESIDE_SLOTS = 4;
/** Killed guests that are not yet gone, beyond those. */
const DYING_GUESTS = 4;

/**
 * Decoders at the same time: as many as processors, one that hashes what is downloaded and may last as
 * long as that does, and one that waits for the next piece of work.
 */
export function decodersMax(): number {
  return navigator.hardwareConcurrency + 2;
}

/**
 * What a guest keeps of the privileges that every process of illumos has: not to start processes or
 * programs, not to link to files of others, to reach a network, or to see or signal others.
 * @see privileges(7) on illumos
 */
const ILLUMOS_PRIVILEGES = [
  "basic",
  "!file_link_any",
  "!net_access",
  "!proc_exec",
  "!proc_fork",
  "!proc_info",
  "!proc_session",
].join(",");

/**
 * Flags of V8 for every guest. No code comes from strings. The collector, which would begin whenever
 * a small heap has grown by half, lets it grow to three times its size: a realm per task is much
 * garbage, and collecting it was a third of the cost of a task.
 */
export const GUEST_V8_FLAGS = "--disallow-code-generation-from-strings,--heap-growing-percent=200";

/**
 * Options of `deno run` for each face from source; the compiled binary has them built in. A decoder
 * loads packages that were installed, which `--cached-only` keeps it to.
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

/**
 * The programs through which guests are started, and the one that reads what memory they take, by
 * absolute path.
 */
export interface GuestTools {
  /** Linux: a network of its own, in which there is nothing. */
  readonly unshare?: string;
  readonly setpriv?: string;
  readonly prlimit?: string;
  readonly nice?: string;
  readonly cat?: string;
  /** illumos: a process without the privileges that every process has. */
  readonly ppriv?: string;
}

type ToolName = keyof GuestTools;

const LINUX: readonly ToolName[] = ["unshare", "setpriv", "prlimit", "nice", "cat"];
const ILLUMOS: readonly ToolName[] = ["ppriv", "nice"];

/** What a guest and a decoder are without where a tool is missing, or may not be used. */
const WITHOUT: Readonly<Record<ToolName, string>> = {
  unshare: "a network, IPC and host name of their own",
  setpriv: "a bar to new privileges, and dropped capabilities",
  prlimit: "limits of memory, open files and core files",
  nice: "a lower priority",
  cat: "a watch over the memory that they take",
  ppriv: "fewer privileges than every process has",
};

/** What these tools would have given to guests and decoders, in words. */
export function withoutWords(missing: readonly ToolName[]): string {
  return missing.map((name) => `${WITHOUT[name]} (${name})`).join("; ");
}

/** What unshare(1) takes from a guest: the networks of the host, its System V IPC, its name. */
const UNSHARED = ["--net", "--ipc", "--uts"] as const;

/** The user and group that guests run as. */
export interface GuestUser {
  readonly uid: number;
  readonly gid: number;
  /** Nothing else runs as this user, so that its processes may be counted. */
  readonly alone?: boolean;
}

/** What to hand to Deno.Command, besides the streams. */
export interface WalledCommand {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly uid?: number;
  readonly gid?: number;
  /** What it may take, MiB. */
  readonly memoryMib: number;
}

/** The same for a guest. */
export interface GuestCommand extends WalledCommand {
  /** The limits of its tasks: the last word of the command line. */
  readonly limits: TaskLimits;
}

/** What the command line of a guest depends on besides the program. */
export interface GuestPlace {
  readonly tools: GuestTools;
  /** Whether the agent may give up its user id: only then can guests run as another user. */
  readonly root: boolean;
  /** Executions at the same time. */
  readonly slots: number;
  readonly user?: GuestUser;
}

/**
 * The command line of a guest, to which the path of its socket and its limits are added.
 * @throws {AgentError} `invalid_argument` when `user` is given but the agent is not root
 */
export function guestCommand(
  self: SelfCommand,
  place: GuestPlace,
  limits: TaskLimits,
): GuestCommand {
  return { ...walledCommand("guest", self, place), limits };
}

/**
 * The command line of a decoder: the walls of a guest, and no way to the agent but its pipes.
 * @throws {AgentError} as guestCommand()
 */
export function decoderCommand(self: SelfCommand, place: GuestPlace): WalledCommand {
  return walledCommand("decoder", self, place);
}

/**
 * @see unshare(1), setpriv(1), prlimit(1), prctl(2) PR_SET_NO_NEW_PRIVS and PR_SET_PDEATHSIG;
 * ppriv(1) on illumos
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
      `Cannot run guests as user ${user.uid}: the agent is not root`,
    );
  }
  const [program = "", ...args] = [
    ...(tools.nice === undefined ? [] : [tools.nice, "-n", `${NICE}`]),
    ...(tools.unshare === undefined ? [] : [tools.unshare, ...UNSHARED]),
    ...(tools.setpriv === undefined ? [] : [tools.setpriv, ...privileges(root, user)]),
    ...(tools.prlimit === undefined ? [] : [tools.prlimit, ...limits(self, place)]),
    // Both sets take effect when the guest begins: ppriv itself may still exec.
    ...(tools.ppriv === undefined ? [] : [tools.ppriv, "-e", "-s", `IL=${ILLUMOS_PRIVILEGES}`]),
    self.program,
    ...(self.compiled ? self.args : withDenoOptions(self.args, DENO_OPTIONS[face])),
    face,
  ];
  // setpriv changes the user after it has taken the capabilities; without it Deno changes it.
  const changedByDeno = tools.setpriv === undefined && user !== undefined
    ? { uid: user.uid, gid: user.gid }
    : {};
  return {
    program,
    args,
    env: self.env,
    ...changedByDeno,
    memoryMib: memoryMib(face, self, tools),
  };
}

/** What a process behind the walls may take, MiB: where the system sets no limit, V8's counts. */
function memoryMib(
  face: "guest" | "decoder",
  { compiled }: SelfCommand,
  { prlimit }: GuestTools,
): number {
  if (!compiled) return face === "guest" ? SOURCE_HEAP_MIB : WALLED_MEMORY_MIB;
  return prlimit === undefined ? AGENT_HEAP_MIB : WALLED_MEMORY_MIB;
}

function limits(self: SelfCommand, { slots, user }: GuestPlace): string[] {
  const guests = slots + SPARES + WARM_BESIDE_SLOTS + DYING_GUESTS;
  const tasks = (guests + decodersMax()) * TASKS_PER_GUEST;
  return [
    `--data=${DATA_BYTES_MAX}`,
    `--nofile=${FILES_MAX}`,
    "--core=0",
    // Of a shared user, strangers' processes would count too, and keep guests from starting.
    ...(user?.alone === true ? [`--nproc=${tasks}`] : []),
    // From source Deno writes its own caches while it starts, and SIGXFSZ would end it.
    ...(self.compiled ? ["--fsize=0"] : []),
  ];
}

function privileges(root: boolean, user: GuestUser | undefined): string[] {
  return [
    "--no-new-privs",
    "--pdeathsig=KILL",
    ...(root ? ["--clear-groups", "--bounding-set=-all", "--inh-caps=-all"] : []),
    ...(user === undefined ? [] : [`--reuid=${user.uid}`, `--regid=${user.gid}`]),
  ];
}

/** The options stand behind the subcommand of Deno, before its script. */
function withDenoOptions(args: readonly string[], options: readonly string[]): string[] {
  const [subcommand = "run", ...rest] = args;
  return [subcommand, ...options, ...rest];
}

/** The tools of a system; none where nobody has tried. */
function toolNames(os: HostSystem): readonly ToolName[] {
  if (os === "linux") return LINUX;
  return os === "illumos" || os === "solaris" ? ILLUMOS : [];
}

/**
 * Looks for the tools of this system. unshare is only found when it may be used: it wants root, and
 * more than the root of most containers has.
 * @returns the tools and the names of those missing
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
  try {
    return (await Deno.stat(path)).isFile;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

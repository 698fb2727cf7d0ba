// How a guest is started: through the small programs that take away from a process what it does not
// need, where the host has them. Linux has them in util-linux and coreutils, illumos has ppriv. Each
// has one place; what is missing is named in the log.

import { AgentError } from "../domain/error.ts";
import type { SelfCommand } from "../executable.ts";
import { DEFAULT_TASK_LIMITS, type TaskLimits } from "./task_limits.ts";

/** Heap of a guest that runs from source, MiB. */
const SOURCE_HEAP_MIB = 128;
/** Heap of the compiled binary, MiB, agent and guests alike: the flag is built in. */
export const COMPILED_HEAP_MIB = 256;
/**
 * Data segment of a guest, bytes: what V8 reserves for code, about 547 MB, and room for the heap and
 * the buffers beside it. A task that fills it slower than within a few looks meets the limit of
 * memory_watch.ts first, which is lower and has plainer words.
 */
export const DATA_BYTES_MAX = 950_000_000;
/** Files that a guest may have open at the same time. */
export const FILES_MAX = 64;
const NICE = 10;
/**
 * Tasks of the kernel for one guest, its threads included: as a binary it has 4 on two processors,
 * from source 36. The kernel counts all that belongs to a user, so the limit is that of all guests
 * together.
 */
const TASKS_PER_GUEST = 64;
/** Guests beside those in the slots: the spare, and killed ones that are not yet gone. */
const GUESTS_BESIDE_SLOTS = 3;

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

/** Options of `deno run` for a guest from source; the compiled binary has them built in. */
const DENO_OPTIONS = [
  `--v8-flags=--max-old-space-size=${SOURCE_HEAP_MIB},${GUEST_V8_FLAGS}`,
  "--no-npm",
  "--no-remote",
  "--no-code-cache",
];

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
export interface GuestCommand {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly uid?: number;
  readonly gid?: number;
  /** What its heap may take, MiB. */
  readonly heapMib: number;
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
  /** DEFAULT_TASK_LIMITS unless given. */
  readonly limits?: TaskLimits;
}

/**
 * The command line of a guest, to which the path of its socket and its limits are added.
 * @throws {AgentError} `invalid_argument` when `user` is wanted but the agent is not root
 * @see unshare(1), setpriv(1), prlimit(1), prctl(2) PR_SET_NO_NEW_PRIVS and PR_SET_PDEATHSIG;
 * ppriv(1) on illumos
 */
export function guestCommand(self: SelfCommand, place: GuestPlace): GuestCommand {
  const { tools, root, user, limits: taskLimits = DEFAULT_TASK_LIMITS } = place;
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
    // Both sets become what they are told when the guest begins: ppriv itself may still exec.
    ...(tools.ppriv === undefined ? [] : [tools.ppriv, "-e", "-s", `IL=${ILLUMOS_PRIVILEGES}`]),
    self.program,
    ...(self.compiled ? self.args : withDenoOptions(self.args)),
    "guest",
  ];
  // setpriv changes the user after it has taken the capabilities; without it Deno changes it.
  const changedByDeno = tools.setpriv === undefined && user !== undefined
    ? { uid: user.uid, gid: user.gid }
    : {};
  const heapMib = guestHeapMib(self);
  return { program, args, env: self.env, ...changedByDeno, heapMib, limits: taskLimits };
}

/** What the heap of a guest may take, MiB: the compiled binary has one limit for all its faces. */
export function guestHeapMib(self: Pick<SelfCommand, "compiled">): number {
  return self.compiled ? COMPILED_HEAP_MIB : SOURCE_HEAP_MIB;
}

function limits(self: SelfCommand, { slots, user }: GuestPlace): string[] {
  const tasks = (slots + GUESTS_BESIDE_SLOTS) * TASKS_PER_GUEST;
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
function withDenoOptions(args: readonly string[]): string[] {
  const [subcommand = "run", ...rest] = args;
  return [subcommand, ...DENO_OPTIONS, ...rest];
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
): Promise<{ tools: GuestTools; missing: string[] }> {
  const tools: { -readonly [Name in ToolName]?: string } = {};
  const missing: string[] = [];
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

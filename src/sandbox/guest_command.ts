// How a guest is started: through the small programs that take away from a process what it does not
// need, where the host has them. Linux has them in util-linux and coreutils.

import { AgentError } from "../domain/error.ts";
import type { SelfCommand } from "../executable.ts";

/** Heap of a guest that runs from source, MiB. */
const SOURCE_HEAP_MIB = 128;
/** Heap of the compiled binary, MiB, agent and guests alike: the flag is built in. */
export const COMPILED_HEAP_MIB = 256;
/**
 * Data segment of a guest, bytes: what V8 reserves for code, about 547 MB, and room for the heap and
 * the buffers beside it. A task that fills it slower than within a few looks meets the limit of
 * memory_watch.ts first, which is lower and has plainer words.
 */
const DATA_BYTES_MAX = 950_000_000;
const FILES_MAX = 64;
const NICE = 10;

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

/**
 * The programs of the host through which guests are started, and the one that reads what memory
 * they take, by absolute path.
 */
export interface GuestTools {
  readonly setpriv?: string;
  readonly prlimit?: string;
  readonly nice?: string;
  readonly cat?: string;
}

/** The user and group that guests run as. */
export interface GuestUser {
  readonly uid: number;
  readonly gid: number;
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
}

const TOOL_NAMES = ["setpriv", "prlimit", "nice", "cat"] as const;

/** Looks for the tools, in one place each. @returns the tools and the names of those missing */
export async function findGuestTools(): Promise<{ tools: GuestTools; missing: string[] }> {
  const tools: { -readonly [Name in keyof GuestTools]: string } = {};
  const missing: string[] = [];
  for (const name of TOOL_NAMES) {
    const path = `/usr/bin/${name}`;
    const found = Deno.build.os === "linux" && await isFile(path);
    if (found) tools[name] = path;
    else missing.push(name);
  }
  return { tools, missing };
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await Deno.stat(path)).isFile;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/**
 * The command line of a guest, to which the path of its socket is added. `root` is whether the
 * agent may give up its user id: only then can guests run as another user.
 * @throws {AgentError} `invalid_argument` when `user` is wanted but the agent is not root
 * @see setpriv(1), prlimit(1), prctl(2) PR_SET_NO_NEW_PRIVS and PR_SET_PDEATHSIG
 */
export function guestCommand(
  self: SelfCommand,
  { tools, root, user }: { tools: GuestTools; root: boolean; user?: GuestUser },
): GuestCommand {
  if (user !== undefined && !root) {
    throw new AgentError(
      "invalid_argument",
      `Cannot run guests as user ${user.uid}: the agent is not root`,
    );
  }
  const [program = "", ...args] = [
    ...(tools.nice === undefined ? [] : [tools.nice, "-n", `${NICE}`]),
    ...(tools.setpriv === undefined ? [] : [tools.setpriv, ...privileges(root, user)]),
    ...(tools.prlimit === undefined ? [] : [tools.prlimit, ...limits(self)]),
    self.program,
    ...(self.compiled ? self.args : withDenoOptions(self.args)),
    "guest",
  ];
  // setpriv changes the user after it has taken the capabilities; without it Deno changes it.
  const changedByDeno = tools.setpriv === undefined ? user : undefined;
  const heapMib = self.compiled ? COMPILED_HEAP_MIB : SOURCE_HEAP_MIB;
  return { program, args, env: self.env, ...changedByDeno, heapMib };
}

function limits(self: SelfCommand): string[] {
  const always = [`--data=${DATA_BYTES_MAX}`, `--nofile=${FILES_MAX}`, "--core=0"];
  // From source Deno writes its own caches while it starts, and SIGXFSZ would end it.
  return self.compiled ? [...always, "--fsize=0"] : always;
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

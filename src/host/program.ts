// Starts and kills programs of the host. Each leads its own process group, so its children end with it.
// command.ts runs them to their end.
//
// To make a process group, this runtime copies the whole process first, which stops everything else for
// milliseconds at each start. A plain start does not, so setsid(1) of util-linux, where present, makes
// the group and then becomes the program.

import { AgentError } from "../domain/error.ts";

/** How a program is started. */
export interface ProgramOptions {
  /** Whether the caller writes to standard input; empty by default. */
  stdin?: unknown;
  /** Variables besides `LC_ALL` and `PATH`. The agent's environment is not passed on. */
  env?: Record<string, string>;
  /** Working directory; `/` by default. */
  cwd?: string;
}

const ENVIRONMENT = { LC_ALL: "C", PATH: "/usr/bin:/usr/sbin:/bin:/sbin:/usr/local/bin" };

const SETSID = "/usr/bin/setsid";
/** What setsid of util-linux and busybox prints when it cannot become the program. */
const NOT_BECOME = /^(?:\S*\/)?setsid: .*\bexecute\b/;

const NO_PROGRAM = "there is no such program";
const NOT_EXECUTABLE = "it is not executable";

/**
 * Starts a program that its caller talks with; runCommand() is for all others. It gets the same
 * environment and its own process group, which killGroup() ends.
 * @param program absolute path
 * @throws {AgentError} `host` when it cannot be started
 */
export function startProgram(
  program: string,
  args: readonly string[],
  options: ProgramOptions,
): Deno.ChildProcess {
  if (!program.startsWith("/")) throw notStarted(program, "expected an absolute path");
  // Linux alone starts programs without copying the process.
  if (Deno.build.os === "linux") {
    // setsid reports an error late, and in its own words.
    checkExecutable(program);
    const child = spawnBehindSetsid(program, args, options);
    if (child !== null) return child;
  }
  try {
    return spawn(program, args, options, true);
  } catch (cause) {
    throw notStarted(program, reasonOf(cause), cause);
  }
}

/** Null where there is no setsid. */
function spawnBehindSetsid(
  program: string,
  args: readonly string[],
  options: ProgramOptions,
): Deno.ChildProcess | null {
  try {
    return spawn(SETSID, [program, ...args], options, false);
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return null;
    throw notStarted(program, reasonOf(cause), cause);
  }
}

function spawn(
  program: string,
  args: readonly string[],
  options: ProgramOptions,
  detached: boolean,
): Deno.ChildProcess {
  return new Deno.Command(program, {
    args: [...args],
    env: { ...ENVIRONMENT, ...options.env },
    clearEnv: true,
    cwd: options.cwd ?? "/",
    detached,
    stdin: options.stdin === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

function checkExecutable(program: string): void {
  let info: Deno.FileInfo;
  try {
    info = Deno.statSync(program);
  } catch (cause) {
    throw notStarted(program, reasonOf(cause), cause);
  }
  const executable = info.isFile && ((info.mode ?? 0) & 0o111) !== 0;
  if (!executable) throw notStarted(program, NOT_EXECUTABLE);
}

/**
 * Returns only when the program has run: setsid may have failed to become it.
 * @throws {AgentError} `host`
 */
export function checkStarted(
  program: string,
  { code, stderr }: { code: number; stderr: string },
): void {
  if ((code === 126 || code === 127) && NOT_BECOME.test(stderr)) {
    throw notStarted(program, code === 127 ? NO_PROGRAM : NOT_EXECUTABLE);
  }
}

function reasonOf(cause: unknown): string {
  if (cause instanceof Deno.errors.NotFound) return NO_PROGRAM;
  return cause instanceof Deno.errors.PermissionDenied ? NOT_EXECUTABLE : "it could not be started";
}

function notStarted(program: string, why: string, cause?: unknown): AgentError {
  return new AgentError("host", `Cannot run ${JSON.stringify(program)}: ${why}`, { cause });
}

/** Kills a program and its process group; a process that is gone already is no error. */
export function killGroup(leader: Deno.ChildProcess): void {
  if (killed(() => Deno.kill(-leader.pid, "SIGKILL"))) return;
  // There may be no group yet: then kill the program as it is about to make one, and after it what it
  // started in that moment. By its handle, since its id may have been reused.
  if (killed(() => leader.kill("SIGKILL"))) killed(() => Deno.kill(-leader.pid, "SIGKILL"));
}

/** @returns whether the group existed */
function killed(kill: () => void): boolean {
  try {
    kill();
    return true;
  } catch (error) {
    // A TypeError: the child has been waited for.
    if (error instanceof Deno.errors.NotFound || error instanceof TypeError) return false;
    throw error;
  }
}

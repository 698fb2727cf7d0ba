// Runs host programs to their end: no shell, an absolute path, an empty environment, a deadline and
// bounded output. Each program leads its own process group, so its children die with it on a deadline,
// an abort or too much output.

import { abortedError, AgentError } from "../domain/error.ts";
import { checkAborted } from "../runtime/wait.ts";

/** How a program is run. */
export interface CommandOptions extends ProgramOptions {
  /** Standard input; empty by default. */
  stdin?: Uint8Array | string;
  /** Keeps standard input open until the program ends, for programs that watch for its closing. */
  stdinStaysOpen?: boolean;
  /** Milliseconds after which the program and its children are killed. */
  deadlineMs: number;
  signal?: AbortSignal;
  /**
   * For a program that must not be cut off: when this fires, the program continues to its end or deadline,
   * but no longer keeps this process alive, and outlives it.
   */
  released?: AbortSignal;
}

/** How a program ended and what it wrote. */
export interface CommandResult {
  /** Exit code, or 128 plus the signal's number. */
  code: number;
  /** Name of the signal that ended the program. */
  signal: string | null;
  stdout: string;
  stderr: string;
  durationMs: number;
}

/** Bytes of standard output and standard error together. */
const OUTPUT_BYTES_MAX = 4 * 1024 * 1024;

/** How long a child may keep the streams open after the program has ended, milliseconds. */
const OUTPUT_GRACE_MS = 2_000;

/** How long a killed program may take to exit, milliseconds; stuck in the kernel it may never exit. */
const KILL_WAIT_MS = 5_000;

/**
 * Runs a program to its end. Any exit code is a result.
 * @param program absolute path
 * @throws {AgentError} `timeout` after `deadlineMs`; `aborted`; `host` when
 * it cannot be started or writes more than OUTPUT_BYTES_MAX bytes
 */
export async function runCommand(
  program: string,
  args: readonly string[],
  options: CommandOptions,
): Promise<CommandResult> {
  checkAborted(`Cannot run ${JSON.stringify(program)}`, options.signal);
  const startedAt = performance.now();
  const child = startProgram(program, args, options);
  const watch = watchGroup(child, program, options);
  const streams = [
    collect(child.stdout, watch.count),
    collect(child.stderr, watch.count),
    ...(options.stdin === undefined
      ? []
      : [feed(child.stdin, options.stdin, options.stdinStaysOpen ? child.status : null)]),
  ] as const;
  const abandon = () => {
    killGroup(child);
    for (const stream of streams) stream.abandon();
  };
  const release = () => {
    child.unref();
    watch.unref();
  };
  if (options.released?.aborted) release();
  options.released?.addEventListener("abort", release, { once: true });
  let grace: ReturnType<typeof setTimeout> | undefined;
  try {
    const status = await Promise.race([child.status, watch.lost]);
    grace = setTimeout(abandon, OUTPUT_GRACE_MS);
    const [stdout, stderr] = await Promise.all(streams.map((stream) => stream.done));
    watch.check();
    checkStarted(program, { code: status.code, stderr: stderr ?? "" });
    const durationMs = performance.now() - startedAt;
    return {
      code: status.code,
      signal: status.signal,
      stdout: stdout ?? "",
      stderr: stderr ?? "",
      durationMs,
    };
  } catch (error) {
    abandon();
    throw error;
  } finally {
    clearTimeout(grace);
    options.released?.removeEventListener("abort", release);
    watch.end();
  }
}

/** Ends a program early, and keeps the error for that. */
interface ProgramWatch {
  /** Counts bytes read; false once there are too many. */
  count(bytes: number): boolean;
  /** Throws when the program was ended early. */
  check(): void;
  /** Rejects when a killed program does not exit. */
  readonly lost: Promise<never>;
  /** Lets this process end before the program's deadline. */
  unref(): void;
  end(): void;
}

function watchGroup(
  leader: Deno.ChildProcess,
  program: string,
  options: CommandOptions,
): ProgramWatch {
  const { deadlineMs, signal } = options;
  const action = `Cannot run ${JSON.stringify(program)}`;
  const { promise: lost, reject } = Promise.withResolvers<never>();
  let failure: AgentError | undefined;
  let killWait: ReturnType<typeof setTimeout> | undefined;
  const stop = (error: AgentError) => {
    if (failure !== undefined) return;
    failure = error;
    killGroup(leader);
    killWait = setTimeout(() => reject(error), KILL_WAIT_MS);
  };
  const deadline = setTimeout(() => {
    const message = `${action}: it was not done after ${deadlineMs / 1000} s and was killed`;
    stop(new AgentError("timeout", message));
  }, deadlineMs);
  const onAbort = () => signal && stop(abortedError(action, signal));
  signal?.addEventListener("abort", onAbort, { once: true });
  let read = 0;
  return {
    lost,
    count(bytes) {
      read += bytes;
      if (read <= OUTPUT_BYTES_MAX) return true;
      stop(new AgentError("host", `${action}: it wrote more than ${OUTPUT_BYTES_MAX} bytes`));
      return false;
    },
    check() {
      if (failure !== undefined) throw failure;
    },
    unref: () => Deno.unrefTimer(deadline),
    end() {
      clearTimeout(deadline);
      clearTimeout(killWait);
      signal?.removeEventListener("abort", onAbort);
    },
  };
}

/** One output stream: what it wrote, and how to stop reading. */
interface Stream {
  readonly done: Promise<string>;
  abandon(): void;
}

function collect(stream: ReadableStream<Uint8Array>, count: (bytes: number) => boolean): Stream {
  const reader = stream.getReader();
  const read = async () => {
    const decoder = new TextDecoder();
    let text = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      // Beyond the limit, the rest is dropped until the killed program is gone.
      if (count(part.value.length)) text += decoder.decode(part.value, { stream: true });
    }
    return text + decoder.decode();
  };
  return { done: read(), abandon: () => void reader.cancel().catch(() => {}) };
}

/** Writes the input, then closes the stream, at once or when the program has ended. */
function feed(
  stream: WritableStream<Uint8Array>,
  input: Uint8Array | string,
  ended: Promise<unknown> | null,
): Stream {
  const writer = stream.getWriter();
  const write = async () => {
    try {
      await writer.write(typeof input === "string" ? new TextEncoder().encode(input) : input);
      await ended;
      await writer.close();
    } catch {
      // A program may end without reading all input; its exit code shows whether that matters.
    }
    return "";
  };
  return { done: write(), abandon: () => void writer.abort().catch(() => {}) };
}

interface ProgramOptions {
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
 * Starts a program that its caller communicates with; use runCommand() for all others. It gets the same
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
  // Only on Linux are programs started without copying the process.
  if (Deno.build.os === "linux") {
    // setsid would report this later, and in its own words.
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

/**
 * To make a process group, this runtime first copies the whole process, which stops everything else for milliseconds at
 * each start. A plain start does not, so setsid(1) of util-linux makes the group and then becomes the program.
 * @returns null if there is no setsid
 */
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
 * Returns only if the program has really run: setsid may have failed to become it.
 * @throws {AgentError} `host`
 */
function checkStarted(
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

/** Kills a program and its process group; a process that is already gone is not an error. */
export function killGroup(leader: Deno.ChildProcess): void {
  if (killed(() => Deno.kill(-leader.pid, "SIGKILL"))) return;
  // There may be no group yet: kill the program before it makes one, then whatever it may have started
  // meanwhile. By its handle, since its id may have been reused.
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

// Runs host programs to their end: no shell, an absolute path, an empty environment, a deadline and
// bounded output. Each program leads its own process group, so its children die with it on a deadline,
// an abort or too much output.

import { AgentError } from "../domain/error.ts";
import { abortedError, checkAborted } from "./abort.ts";
import { checkStarted, killGroup, type ProgramOptions, startProgram } from "./program.ts";

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
   * For a program that must not be cut off: when this fires, the program goes on to its end or
   * deadline, but no longer keeps this process alive and survives its end.
   */
  released?: AbortSignal;
  /** Largest size of standard output and standard error together, bytes. */
  outputBytesMax?: number;
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

/** What programs and the system print for a full pool or an exceeded quota. */
export const NO_SPACE = /no space left|quota exceeded/i;

/** Bytes of output of one program by default. */
const OUTPUT_BYTES_MAX = 4 * 1024 * 1024;

/** How long a child may hold the streams open after the program ended. */
const OUTPUT_GRACE_MS = 2_000;

/** How long a killed program may take to exit; inside the kernel it can take forever. */
const KILL_WAIT_MS = 5_000;

/**
 * Runs a program to its end. Any exit code is a result.
 * @param program absolute path
 * @throws {AgentError} `timeout` after `deadlineMs`; `aborted`; `host` when
 * it cannot be started or writes more than `outputBytesMax`
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

/** Ends a program early, and holds the error for it. */
interface ProgramWatch {
  /** Counts bytes read; false once there are too many. */
  count(bytes: number): boolean;
  /** Throws when the program was ended early. */
  check(): void;
  /** Rejects when a killed program does not go away. */
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
  const { deadlineMs, signal, outputBytesMax = OUTPUT_BYTES_MAX } = options;
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
      if (read <= outputBytesMax) return true;
      stop(new AgentError("host", `${action}: it wrote more than ${outputBytesMax} bytes`));
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
      // Beyond the bound, the rest is dropped until the killed program is gone.
      if (count(part.value.length)) text += decoder.decode(part.value, { stream: true });
    }
    return text + decoder.decode();
  };
  return { done: read(), abandon: () => void reader.cancel().catch(() => {}) };
}

/** Writes the input, and closes the stream at once or when the program has ended. */
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
      // A program may end without reading all input; its exit code says whether that matters.
    }
    return "";
  };
  return { done: write(), abandon: () => void writer.abort().catch(() => {}) };
}

// A walled process: how it is started, what it prints, and why it ended. V8 prints the reason when it aborts.

import type { Log } from "../metrics/log.ts";
import type { WalledCommand } from "./guest_command.ts";

/** How a guest or decoder ended; `words` finish the sentence "its process ...". */
export interface ProcessEnd {
  readonly words: string;
  /** Whether it ended for lack of memory. */
  readonly outOfMemory: boolean;
}

/** A change of color, as ECMA-48 writes it. */
// deno-lint-ignore no-control-regex -- it begins with one.
const COLOR = /\x1b\[[0-9;]*m/g;

/** Starts a process with nothing but its arguments, its own environment, and three pipes. */
export function spawnWalled(
  { program, args, env, uid, gid, ownSession = false, orphanKiller }: Omit<
    WalledCommand,
    "memoryMib" | "dataBytesMax"
  >,
): Deno.ChildProcess {
  const child = new Deno.Command(program, {
    args: [...args],
    clearEnv: true,
    env: { ...env },
    cwd: "/",
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
    detached: ownSession,
    ...(uid === undefined ? {} : { uid }),
    ...(gid === undefined ? {} : { gid }),
  }).spawn();
  orphanKiller?.keep(child);
  return child;
}

/**
 * Drops what a process needed only to start.
 * @returns why that failed, to follow "its process is not closed: ", or undefined
 */
export async function takeRest(
  { takesRest = [] }: Pick<WalledCommand, "takesRest">,
  pid: number,
): Promise<string | undefined> {
  const [program, ...args] = takesRest;
  if (program === undefined) return undefined;
  const { success, stderr } = await new Deno.Command(program, {
    args: [...args, `${pid}`],
    clearEnv: true,
    cwd: "/",
    stdin: "null",
  }).output();
  if (success) return undefined;
  return `${takesRest.join(" ")} failed: ${new TextDecoder().decode(stderr).trim()}`;
}

/** Time for a new guest or decoder to report that it is ready, milliseconds. */
export const START_DEADLINE_MS = 30_000;
/** Starts that fail one after another until the work that waits for them is refused. */
export const STARTS_FAILED_MAX = 3;
/** Time for a process to be gone after its connection or its output has ended, milliseconds. */
export const EXIT_WAIT_MS = 2000;
/** Output limit of a process, bytes; a sound process writes nothing before V8 aborts. */
const OUTPUT_BYTES_MAX = 1024 * 1024;
const OUTPUT_LINES_MAX = 50;
const OUTPUT_LINE_CHARS_MAX = 500;
/** Characters kept of the end of the output, where V8 prints why it aborted. */
const TAIL_CHARS_MAX = 4000;
/** Why a process with too much output is killed. */
export const OUTPUT_WORDS = `wrote more than ${OUTPUT_BYTES_MAX} bytes to its output`;

const OUT_OF_MEMORY = /out of memory|heap limit|allocation (of \d+ bytes )?failed/i;

const ABORT_SIGNALS: readonly Deno.Signal[] = ["SIGABRT", "SIGTRAP", "SIGILL", "SIGKILL"];

/** Reads the output of one process and logs its first lines. */
export class ProcessOutput {
  readonly #log: Log;
  readonly #tooMuch: () => void;
  #bytes = 0;
  #lines = 0;
  #tail = "";

  constructor(log: Log, tooMuch: () => void) {
    this.#log = log;
    this.#tooMuch = tooMuch;
  }

  get tail(): string {
    return this.#tail;
  }

  async take(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    for await (const bytes of stream) {
      this.#bytes += bytes.length;
      if (this.#bytes > OUTPUT_BYTES_MAX) this.#tooMuch();
      // The compiled runtime colors its errors.
      const text = decoder.decode(bytes, { stream: true }).replaceAll(COLOR, "");
      this.#tail = (this.#tail + text).slice(-TAIL_CHARS_MAX);
      for (const line of text.split("\n")) {
        if (line.trim() === "" || this.#lines >= OUTPUT_LINES_MAX) continue;
        this.#lines += 1;
        this.#log.debug("process wrote", { line: line.slice(0, OUTPUT_LINE_CHARS_MAX) });
      }
    }
  }
}

/**
 * Describes the end of a process that nobody killed.
 * @param output the end of its output
 * @param memoryMib its memory limit
 */
export function exitWords(
  status: Deno.CommandStatus,
  output: string,
  memoryMib: number,
): ProcessEnd {
  const how = status.signal === null
    ? `ended with exit code ${status.code}`
    : `was ended by ${status.signal}`;
  if (OUT_OF_MEMORY.test(output)) {
    return {
      words: `ran out of memory and ${how} (the limit is ${memoryMib} MiB)`,
      outOfMemory: true,
    };
  }
  // V8 ends with these signals when it cannot report anything; the kernel sends SIGKILL.
  if (status.signal !== null && ABORT_SIGNALS.includes(status.signal)) {
    const words = `${how}, most likely for want of memory (the limit is ${memoryMib} MiB)`;
    return { words, outOfMemory: true };
  }
  const [first = ""] = output.trimStart().split("\n");
  const said = first === "" ? "" : `: ${first.slice(0, OUTPUT_LINE_CHARS_MAX)}`;
  return { words: `${how}${said}`, outOfMemory: false };
}

/** Kills a process, which may have ended already. @throws any other error of the system, such as a missing right */
export function killProcess(child: Deno.ChildProcess): void {
  try {
    child.kill("SIGKILL");
  } catch (error) {
    // Already gone: Deno reports it as one of these.
    const gone = error instanceof TypeError || error instanceof Deno.errors.NotFound;
    if (!gone) throw error;
  }
}

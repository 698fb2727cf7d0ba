// What a process behind the wall writes to its output, and the words for how it ended: V8 says there
// why it gave up.

import type { Log } from "../metrics/log.ts";

/** How a guest or a decoder ended, in words that finish the sentence "its process ...". */
export interface ProcessEnd {
  readonly words: string;
  /** It ended because of the memory it took. */
  readonly outOfMemory: boolean;
}

/** Time for a new guest or decoder to report that it is ready, milliseconds. */
export const START_DEADLINE_MS = 30_000;
/** Time for a process to be gone after its connection or its output has ended, milliseconds. */
export const EXIT_WAIT_MS = 2000;
/** Bytes that a process may write to its output; a sound one writes nothing before V8 gives up. */
const OUTPUT_BYTES_MAX = 1024 * 1024;
const OUTPUT_LINES_MAX = 50;
const OUTPUT_LINE_CHARS_MAX = 500;
/** Characters kept of the last output, in which V8 tells why it gave up. */
const TAIL_CHARS_MAX = 4000;
/** What is said of a process that writes more than that; it is to be killed. */
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

  /** The last characters that it wrote. */
  get tail(): string {
    return this.#tail;
  }

  /** Reads a stream to its end. */
  async take(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    for await (const bytes of stream) {
      this.#bytes += bytes.length;
      if (this.#bytes > OUTPUT_BYTES_MAX) this.#tooMuch();
      const text = decoder.decode(bytes, { stream: true });
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
 * The end of a process that nobody killed; `output` is the last that it wrote, `memoryMib` what its
 * heap may take.
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
  // V8 gives up with these when it cannot even say so; SIGKILL is what the kernel sends.
  if (status.signal !== null && ABORT_SIGNALS.includes(status.signal)) {
    const words = `${how}, most likely for want of memory (the limit is ${memoryMib} MiB)`;
    return { words, outOfMemory: true };
  }
  const [first = ""] = output.trimStart().split("\n");
  const said = first === "" ? "" : `: ${first.slice(0, OUTPUT_LINE_CHARS_MAX)}`;
  return { words: `${how}${said}`, outOfMemory: false };
}

/** Ends a process at once, which may be gone already. */
export function killProcess(child: Deno.ChildProcess): void {
  try {
    child.kill("SIGKILL");
  } catch (error) {
    // Gone already: Deno says so with either of these.
    const gone = error instanceof TypeError || error instanceof Deno.errors.NotFound;
    if (!gone) throw error;
  }
}

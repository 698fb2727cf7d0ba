// The agent's log goes to standard error without waiting for the reader. While a write waits in a thread of
// the runtime, lines gather up to a limit; beyond that they are lost and counted. An agent that hangs because
// nobody reads its log would be worse.

/** Most characters that wait for a slow reader. */
const WAITING_CHARS_MAX = 4 * 1024 * 1024;
/** Milliseconds between two writes: each goes through a thread of the runtime, and wakes the reader. */
const GATHER_MS = 10;
/** Milliseconds until the next attempt, when a non-blocking reader has no room. */
const FULL_PAUSE_MS = 20;

/** A log that never makes its writer wait. */
interface LogStream {
  /** Takes one line without its line break. Never waits, never throws. */
  write(line: string): void;
  /** Waits until every line is written, but at most `graceMs`. */
  flush(graceMs: number): Promise<void>;
}

/** What a stream is made of. */
interface LogStreamOptions {
  /** Writes some of the bytes, waiting as long as the reader does not take them. */
  readonly write: (bytes: Uint8Array) => Promise<number>;
  /** Called when lines were lost, as soon as there is room again. */
  readonly lost: (lines: number) => void;
  /** Most characters that wait; for tests. */
  readonly waitingCharsMax?: number;
}

/** Opens the stream; it has nothing to close. */
export function openLogStream(options: LogStreamOptions): LogStream {
  const { write, lost, waitingCharsMax = WAITING_CHARS_MAX } = options;
  const encoder = new TextEncoder();
  let waiting: string[] = [];
  let chars = 0;
  let lostLines = 0;
  let writing: Promise<void> | undefined;
  let writtenAtMs = Number.NEGATIVE_INFINITY;
  const writeAll = async () => {
    while (waiting.length > 0) {
      // The lines of one turn of the event loop are written together, and where there are many, those of more.
      const pauseMs = writtenAtMs + GATHER_MS - performance.now();
      if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
      else await new Promise((resolve) => setImmediate(resolve));
      writtenAtMs = performance.now();
      const bytes = encoder.encode(waiting.join(""));
      waiting = [];
      chars = 0;
      await writeWhole(write, bytes);
      const lines = lostLines;
      lostLines = 0;
      // Reports this by a line, which the next turn writes.
      if (lines > 0) lost(lines);
    }
    writing = undefined;
  };
  return {
    write(line) {
      // At least one line always fits.
      if (chars > 0 && chars + line.length > waitingCharsMax) {
        lostLines += 1;
        return;
      }
      waiting.push(`${line}\n`);
      chars += line.length + 1;
      writing ??= writeAll();
    },
    async flush(graceMs) {
      if (writing === undefined) return;
      const { promise: late, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, graceMs);
      await Promise.race([writing, late]);
      clearTimeout(timer);
    },
  };
}

/** Never rejects: lines are lost if the reader is gone or the disk is full. */
async function writeWhole(write: LogStreamOptions["write"], bytes: Uint8Array): Promise<void> {
  let rest = bytes;
  while (rest.length > 0) {
    try {
      rest = rest.subarray(await write(rest));
    } catch (error) {
      if (!(error instanceof Deno.errors.WouldBlock)) return;
      await new Promise((resolve) => setTimeout(resolve, FULL_PAUSE_MS));
    }
  }
}

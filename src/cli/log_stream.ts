// Where the agent's log goes: standard error, without waiting for whoever reads it. A write that waits
// in the runtime's thread waits alone; meanwhile lines gather up to a bound, and beyond it they are
// lost and counted. An agent that stops because nobody reads its log would be worse.

import { pause } from "../program/loop.ts";

/** Characters that wait for a slow reader. */
const WAITING_CHARS_MAX = 4 * 1024 * 1024;
/** A reader that does not block, and has no room: milliseconds until the next try. */
const FULL_PAUSE_MS = 20;

/** Takes lines at once. */
export interface LogStream {
  /** Takes one line without its end. Never waits, never throws. */
  write(line: string): void;
  /** Waits until every line was taken, or for so long. */
  flush(graceMs: number): Promise<void>;
}

/** What a stream is made of. */
export interface LogStreamOptions {
  /** Writes some of the bytes; waits as long as the reader makes it. */
  readonly write: (bytes: Uint8Array) => Promise<number>;
  /** Told when lines were lost, as soon as there is room again. */
  readonly lost: (lines: number) => void;
  /** Characters that wait at most. */
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
  const writeAll = async () => {
    while (waiting.length > 0) {
      const bytes = encoder.encode(waiting.join(""));
      waiting = [];
      chars = 0;
      await writeWhole(write, bytes);
      const lines = lostLines;
      lostLines = 0;
      // This is a line itself, and is written with the next turn.
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

/** Never rejects: lines whose reader is gone, or whose disk is full, are lost. */
async function writeWhole(write: LogStreamOptions["write"], bytes: Uint8Array): Promise<void> {
  let rest = bytes;
  while (rest.length > 0) {
    try {
      rest = rest.subarray(await write(rest));
    } catch (error) {
      if (!(error instanceof Deno.errors.WouldBlock)) return;
      await pause(FULL_PAUSE_MS, new AbortController().signal);
    }
  }
}

// What leaves the log: within a budget of bytes that refills with time, and to standard error without waiting for the
// reader. Left-out lines are counted: an agent that fills its disk, or hangs because nobody reads its log, would be
// worse.

import { HOUR_MS } from "../domain/instant.ts";

/** Bytes that may be written at once. */
const BURST_BYTES = 32 * 1024 * 1024;
/** Bytes refilled per hour; with the burst, the most that one hour can have. */
const HOUR_BYTES = 32 * 1024 * 1024;
/** Milliseconds from the first omitted line to the report. */
const TELL_MS = 60_000;
/** Messages counted separately; the program has few more. */
const MESSAGES_MAX = 64;
const OTHERS = "others";

/** Share of the burst that lines of a level leave to higher levels. */
const LEFT_TO_OTHERS = { debug: 0.75, info: 0.5, warn: 0.25, error: 0 } as const;

/** Omitted lines by reason. The counts only grow. */
export interface LeftOut {
  /** Lines of a busy caller, counted together in one line. */
  caller: number;
  /** The budget was used up. */
  budget: number;
  /** The reader of the log was too slow. */
  reader: number;
}

/** Numbers of lines by message, and the time they span. */
export interface LeftOutNote {
  readonly lines: number;
  readonly bytes: number;
  readonly seconds: number;
  /** `MESSAGE: LINES`, the most first. */
  readonly messages: string;
}

interface LogBudgetOptions {
  /** Writes a report, which is not budgeted. */
  readonly report: (note: LeftOutNote) => void;
  readonly leftOut: Pick<LeftOut, "budget">;
  /** A clock that never goes back. */
  readonly nowMs?: () => number;
}

/**
 * How fast the log may grow. When the budget runs low, lines that need no action stop first, so that warnings and errors
 * keep room of their own. Omitted lines are counted by message, and reported once a minute.
 */
export interface LogBudget {
  /** Whether a line may be written; it is counted either way. */
  takes(level: keyof typeof LEFT_TO_OTHERS, message: string, bytes: number): boolean;
  /** Reports what was left out since the last report, if anything was. */
  flush(): void;
}

/** Opens a budget that is not used yet. */
export function openLogBudget(options: LogBudgetOptions): LogBudget {
  const { report, leftOut, nowMs = () => performance.now() } = options;
  let left = BURST_BYTES;
  let atMs = nowMs();
  let note: { sinceMs: number; bytes: number; messages: Map<string, number> } | undefined;
  let telling: ReturnType<typeof setTimeout> | undefined;
  const flush = () => {
    clearTimeout(telling);
    if (note === undefined) return;
    const { sinceMs, bytes, messages } = note;
    note = undefined;
    const counts = [...messages].sort(([, one], [, other]) => other - one);
    report({
      lines: counts.reduce((sum, [, count]) => sum + count, 0),
      bytes,
      seconds: Math.ceil((nowMs() - sinceMs) / 1000),
      messages: counts.map(([message, count]) => `${message}: ${count}`).join(", "),
    });
  };
  const leaveOut = (message: string, bytes: number) => {
    leftOut.budget += 1;
    if (note === undefined) {
      note = { sinceMs: nowMs(), bytes: 0, messages: new Map() };
      telling = setTimeout(flush, TELL_MS);
      Deno.unrefTimer(telling);
    }
    const { messages } = note;
    const key = messages.has(message) || messages.size < MESSAGES_MAX ? message : OTHERS;
    messages.set(key, (messages.get(key) ?? 0) + 1);
    note.bytes += bytes;
  };
  return {
    takes(level, message, bytes) {
      const thenMs = atMs;
      atMs = nowMs();
      left = Math.min(left + (atMs - thenMs) / HOUR_MS * HOUR_BYTES, BURST_BYTES);
      if (left - bytes < BURST_BYTES * LEFT_TO_OTHERS[level]) {
        leaveOut(message, bytes);
        return false;
      }
      left -= bytes;
      return true;
    },
    flush,
  };
}

/** Most characters that wait for a slow reader. */
const WAITING_CHARS_MAX = 4 * 1024 * 1024;
/** Milliseconds between two writes: each goes through a thread of the runtime, and wakes the reader. */
const GATHER_MS = 10;
/** Milliseconds until the next attempt, when a non-blocking reader has no room. */
const FULL_PAUSE_MS = 20;

/**
 * A log that never makes its writer wait. While a write waits in a thread of the runtime, lines gather up to a limit;
 * beyond that they are lost and counted.
 */
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
}

/** Opens the stream; it has nothing to close. */
export function openLogStream(options: LogStreamOptions): LogStream {
  const { write, lost } = options;
  const encoder = new TextEncoder();
  let waiting: string[] = [];
  let chars = 0;
  let lostLines = 0;
  let writing: Promise<void> | undefined;
  let writtenAtMs = Number.NEGATIVE_INFINITY;
  const writeAll = async () => {
    while (waiting.length > 0) {
      // Lines of one turn of the event loop are written together; soon after another write, those of several turns.
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
      if (chars > 0 && chars + line.length > WAITING_CHARS_MAX) {
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

// Limits how fast the log may grow: a budget of bytes that refills with time. When it runs low, lines that
// need no action stop first, so that warnings and errors keep room of their own. Omitted lines are counted by
// message, and reported once a minute.

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

/** What a budget needs. */
interface LogBudgetOptions {
  /** Writes a report, which is not budgeted. */
  readonly report: (note: LeftOutNote) => void;
  readonly leftOut: Pick<LeftOut, "budget">;
  /** A clock that never goes back. */
  readonly nowMs?: () => number;
  readonly burstBytes?: number;
  readonly hourBytes?: number;
}

/** Decides which lines are written. */
export interface LogBudget {
  /** Whether a line may be written; it is counted either way. */
  takes(level: keyof typeof LEFT_TO_OTHERS, message: string, bytes: number): boolean;
  /** Reports what was left out since the last report, if anything was. */
  flush(): void;
}

/** Opens a budget that is not used yet. */
export function openLogBudget(options: LogBudgetOptions): LogBudget {
  const {
    report,
    leftOut,
    nowMs = () => performance.now(),
    burstBytes = BURST_BYTES,
    hourBytes = HOUR_BYTES,
  } = options;
  let left = burstBytes;
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
      left = Math.min(left + (atMs - thenMs) / HOUR_MS * hourBytes, burstBytes);
      if (left - bytes < burstBytes * LEFT_TO_OTHERS[level]) {
        leaveOut(message, bytes);
        return false;
      }
      left -= bytes;
      return true;
    },
    flush,
  };
}

// The log: one line per event, past tense, values as fields. Text for a terminal, JSON otherwise, and
// bunyan's JSON for SmartOS, whose logs are read with the viewer of that name. Lines go to standard
// error, where journald and SMF collect them.

import { HOUR_MS } from "../domain/instant.ts";
import { LOG_LEVELS, type LogLevel } from "../domain/job/job.ts";
import { jsonLine, withoutOrders } from "../domain/json.ts";

/** Writes events. A child carries fields that every one of its lines has. */
export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  with(fields: LogFields): Log;
  /** Counts of the lines that the log does not have, where someone counts them. */
  readonly leftOut?: LeftOut;
}

/** Values of an event by their names; an error is shown by its message. */
export type LogFields = Readonly<Record<string, unknown>>;

/** `text` for people, `json`, or `bunyan` with its field names. */
export type LogFormat = "text" | "json" | "bunyan";

/** The levels as bunyan numbers them. */
const BUNYAN_LEVELS = { debug: 20, info: 30, warn: 40, error: 50 } as const;
/** The version of the format of its lines. */
const BUNYAN_VERSION = 0;

/** Who writes, as lines for bunyan have it. */
interface LogWriter {
  readonly name: string;
  readonly hostname: string;
  readonly pid: number;
}

/** Which lines are written, in which form, and where to. */
export interface LogOptions {
  /** Looked at for every line: it may be changed while the log is open. */
  level: LogLevel;
  readonly format: LogFormat;
  /** Shown in every line of the format bunyan, and in no other. */
  readonly writer?: LogWriter;
  /** Takes one finished line without its line break. */
  readonly write: (line: string) => void;
  readonly now: () => string;
  /** How much may be written; unlimited without one. */
  readonly budget?: LogBudget | undefined;
  readonly leftOut?: LeftOut;
}

/** Characters of one field, an object's as JSON. */
const FIELD_CHARS_MAX = 2000;

/**
 * Opens a log. Control characters in values are escaped, so that no value can forge a line. A line
 * that cannot be written is lost; logging never throws.
 */
export function openLog(options: LogOptions, base: LogFields = {}): Log {
  const line = (level: LogLevel, message: string, fields: LogFields = {}) => {
    if (LOG_LEVELS.indexOf(level) < LOG_LEVELS.indexOf(options.level)) return;
    const all = { ...base, ...fields };
    try {
      const text = lineOf(options, level, message, all);
      if (options.budget?.takes(level, message, byteLength(text)) === false) return;
      options.write(text);
    } catch {
      // Its reader has gone or its disk is full; the work that the line reports must not fail because of
      // that.
    }
  };
  return {
    debug: (message, fields) => line("debug", message, fields),
    info: (message, fields) => line("info", message, fields),
    warn: (message, fields) => line("warn", message, fields),
    error: (message, fields) => line("error", message, fields),
    with: (fields) => openLog(options, { ...base, ...fields }),
    ...(options.leftOut === undefined ? {} : { leftOut: options.leftOut }),
  };
}

const encoder = new TextEncoder();
/** What takes more than a byte. */
const NOT_ASCII = /[^\0-\x7f]/;

/** Bytes of a written line, including its end. */
function byteLength(line: string): number {
  return (NOT_ASCII.test(line) ? encoder.encode(line).length : line.length) + 1;
}

/** A log that goes nowhere. */
export const silentLog: Log = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  with: () => silentLog,
};

function lineOf(
  { format, writer, now }: LogOptions,
  level: LogLevel,
  message: string,
  fields: LogFields,
): string {
  switch (format) {
    case "text":
      return textLine(now(), level, message, fields);
    case "json":
      return headedLine({ ts: now(), level, msg: message }, fields);
    case "bunyan": {
      const head = { ...writer, level: BUNYAN_LEVELS[level], time: now(), msg: message };
      return headedLine({ v: BUNYAN_VERSION, ...head }, fields);
    }
  }
}

/**
 * A field that has the name of one of the head's own is shown under that name and `_`. The text is put together here:
 * an object of fields with any names would be a dictionary, which takes three times as long.
 */
function headedLine(head: Readonly<Record<string, unknown>>, fields: LogFields): string {
  let members = "";
  const add = (key: string, value: unknown) => {
    const json = JSON.stringify(value);
    // JSON has no word for undefined.
    if (json === undefined) return;
    members += `${members === "" ? "" : ","}${JSON.stringify(key)}:${json}`;
  };
  for (const key of Object.keys(head)) add(key, head[key]);
  for (const key of Object.keys(fields)) {
    add(Object.hasOwn(head, key) ? `${key}_` : key, bounded(fields[key]));
  }
  return withoutOrders(`{${members}}`);
}

function textLine(ts: string, level: LogLevel, message: string, fields: LogFields): string {
  const words = Object.entries(fields).map(([key, value]) =>
    `${plainWord(key)}=${plainWord(bounded(value))}`
  );
  const time = ts.slice(11, 19);
  return [`${time} ${level.padEnd(5)} ${jsonLine(message).slice(1, -1)}`, ...words].join(" ");
}

/** A text that needs no quotes. */
function plainWord(value: unknown): string {
  return typeof value === "string" && /^[\w./:@+-]+$/.test(value) ? value : jsonLine(value);
}

function bounded(value: unknown): unknown {
  if (typeof value === "string") return value.slice(0, FIELD_CHARS_MAX);
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Error) return value.message.slice(0, FIELD_CHARS_MAX);
  const json = jsonLine(value);
  return json.length > FIELD_CHARS_MAX ? json.slice(0, FIELD_CHARS_MAX) : value;
}

// Limits how fast the log may grow: a budget of bytes that refills with time. When it runs low, lines that
// need no action stop first, so that warnings and errors keep room of their own. Omitted lines are counted by
// message, and reported once a minute.

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
  readonly burstBytes?: number;
  readonly hourBytes?: number;
}

interface LogBudget {
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

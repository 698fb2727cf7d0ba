// The log: one line per event, past tense, values as fields. Text for a terminal, JSON otherwise, and
// bunyan's JSON for SmartOS, whose logs are read with the viewer of that name. Lines go to standard
// error, where journald and SMF collect them.

import { LOG_LEVELS, type LogLevel } from "../domain/job/log_line.ts";
import { jsonLine, withoutOrders } from "../domain/json.ts";
import type { LeftOut, LogBudget } from "./log_output.ts";

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

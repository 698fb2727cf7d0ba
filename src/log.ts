// The log: one line per event, past tense, values as fields. Text for a terminal, JSON otherwise.
// Lines go to standard error, where journald and SMF collect them.

/** Writes events. A child carries fields that every one of its lines has. */
export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  with(fields: LogFields): Log;
}

/** Values of an event by their names; an error is shown by its message. */
export type LogFields = Readonly<Record<string, unknown>>;

const LEVELS = ["debug", "info", "warn", "error"] as const;
/** Lines below the level are left out. */
export type LogLevel = typeof LEVELS[number];
/** How a line looks. */
export type LogFormat = "text" | "json";

/** Which lines are written, how, and whereto. */
export interface LogOptions {
  readonly level: LogLevel;
  readonly format: LogFormat;
  /** Takes one finished line without its line break. */
  readonly write: (line: string) => void;
  readonly now: () => string;
}

const FIELD_CHARS_MAX = 2000;

/**
 * Opens a log. Control characters in values are escaped, so that no value can forge a line. A line
 * that cannot be written is lost; logging never throws.
 */
export function openLog(options: LogOptions, base: LogFields = {}): Log {
  const lowest = LEVELS.indexOf(options.level);
  const line = (level: LogLevel, message: string, fields: LogFields = {}) => {
    if (LEVELS.indexOf(level) < lowest) return;
    const all = { ...base, ...fields };
    try {
      options.write(
        options.format === "json"
          ? JSON.stringify({ ts: options.now(), level, msg: message, ...bounded(all) })
          : textLine(options.now(), level, message, all),
      );
    } catch {
      // Its reader is gone or its disk is full: what a line tells of must not fail for it.
    }
  };
  return {
    debug: (message, fields) => line("debug", message, fields),
    info: (message, fields) => line("info", message, fields),
    warn: (message, fields) => line("warn", message, fields),
    error: (message, fields) => line("error", message, fields),
    with: (fields) => openLog(options, { ...base, ...fields }),
  };
}

/** A log that goes nowhere. */
export const silentLog: Log = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  with: () => silentLog,
};

function textLine(ts: string, level: LogLevel, message: string, fields: LogFields): string {
  const words = Object.entries(bounded(fields)).map(([key, value]) =>
    `${key}=${
      typeof value === "string" && /^[\w./:@+-]+$/.test(value) ? value : JSON.stringify(value)
    }`
  );
  const time = ts.slice(11, 19);
  return [`${time} ${level.padEnd(5)} ${JSON.stringify(message).slice(1, -1)}`, ...words].join(" ");
}

function bounded(fields: LogFields): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => {
      if (value instanceof Error) return [key, value.message.slice(0, FIELD_CHARS_MAX)];
      return [key, typeof value === "string" ? value.slice(0, FIELD_CHARS_MAX) : value];
    }),
  );
}

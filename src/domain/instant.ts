// Instants, and spans of time as people write them. On the wire, in SQL and in TypeScript an instant is the same
// text: ISO 8601 in UTC with milliseconds, which sorts as it reads. Document 2 and the older software write dates
// this way.

/** By which the clock's milliseconds become fields in seconds. */
export const MS_PER_SECOND = 1000;
/** 60 s, for deadlines. */
export const MINUTE_MS = 60_000;
/** 60 minutes, for deadlines and for counters by hour. */
export const HOUR_MS = 3_600_000;
/** The unit behind `m` in times that people type. */
export const MINUTE_SECONDS = 60;
/** The unit behind `h`. */
export const HOUR_SECONDS = 3600;
/** The unit behind `d`: always 24 hours, whatever the calendar does. */
export const DAY_SECONDS = 86_400;
/** 365 days. */
export const YEAR_SECONDS: number = 365 * DAY_SECONDS;

/** ISO 8601 in UTC with milliseconds, such as `2026-11-20T13:00:00.000Z`. */
export type Instant = string;

/** The current time. Passed as an argument, so that tests can choose it. */
export type Now = () => Instant;

let shownMs = Number.NaN;
let shown: Instant = "";

/** The system's clock. A busy agent asks it several times per millisecond, so each instant is formatted once. */
export const systemNow: Now = () => {
  const date = new Date();
  const ms = date.getTime();
  if (ms !== shownMs) {
    shown = date.toISOString();
    shownMs = ms;
  }
  return shown;
};

/** An instant some milliseconds later (or earlier, when negative). */
export function instantAfter(instant: Instant, ms: number): Instant {
  return new Date(Date.parse(instant) + ms).toISOString();
}

/** The current time, but never before `earliest`: the clock may have been set back. */
export function notBefore(earliest: Instant, present: Instant): Instant {
  return present < earliest ? earliest : present;
}

/** Milliseconds from one instant to another. */
export function msBetween(from: Instant, to: Instant): number {
  return Date.parse(to) - Date.parse(from);
}

/** A date, or a date and time with its offset, with blanks around. */
export const ISO_8601 =
  /^\s*(\d{4})-(\d{2})-(\d{2})(?:T(\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?(?:Z|([+-]\d{2})(?::?(\d{2}))?))?\s*$/;
/** The last millisecond whose year has four digits: later ones would not sort as they read. */
export const EPOCH_MS_MAX: number = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

const DAY_MINUTES = 24 * 60;
/** Length of an instant with a year of four digits; longer ones would not sort as they read. */
const INSTANT_CHARS = 24;

/**
 * The instant of a date, which is its midnight UTC, or of a date and time with its offset; undefined
 * for another text, and where there is no such day or time.
 * @see document 2, Job, exec_after
 */
export function instantOf(text: string): Instant | undefined {
  const match = ISO_8601.exec(text);
  const ms = match === null ? undefined : epochMs(match);
  const instant = ms === undefined ? "" : new Date(ms).toISOString();
  return instant.length === INSTANT_CHARS ? instant : undefined;
}

/**
 * Milliseconds since 1970; undefined when there is no such day or time. Date.parse() is not used: it turns 31
 * February into 3 March.
 */
function epochMs(match: RegExpExecArray): number | undefined {
  const part = (group: number) => Number(match[group] ?? 0);
  const [year, month, day] = [part(1), part(2), part(3)];
  const [hours, minutes, seconds] = [part(4), part(5), part(6)];
  const ms = Number((match[7] ?? "").padEnd(3, "0").slice(0, 3));
  const endOfDay = hours === 24 && minutes === 0 && seconds === 0 && ms === 0;
  if ((hours > 23 && !endOfDay) || minutes > 59 || seconds > 59) return undefined;
  const offset = offsetMinutes(match[8] ?? "+00", part(9));
  if (offset === undefined) return undefined;
  const midnight = new Date(0);
  midnight.setUTCFullYear(year, month - 1, day);
  if (midnight.getUTCMonth() !== month - 1 || midnight.getUTCDate() !== day) return undefined;
  return midnight.getTime() + (hours * 60 + minutes - offset) * MINUTE_MS + seconds * 1000 + ms;
}

/** Minutes east of UTC, or undefined when the offset is a day or more. */
function offsetMinutes(signedHours: string, minutes: number): number | undefined {
  const total = Number(signedHours.slice(1)) * 60 + minutes;
  if (minutes > 59 || total >= DAY_MINUTES) return undefined;
  return signedHours.startsWith("-") ? -total : total;
}

const UNIT_SECONDS = { s: 1, m: MINUTE_SECONDS, h: HOUR_SECONDS, d: DAY_SECONDS } as const;

/** Seconds of a text such as `90`, `90s`, `10m`, `6h` or `7d`, or undefined when it is none. */
export function durationSeconds(text: string): number | undefined {
  const match = /^(\d{1,12})([smhd]?)$/.exec(text);
  if (match === null) return undefined;
  const unit = match[2] as keyof typeof UNIT_SECONDS | "";
  return Number(match[1]) * (unit === "" ? 1 : UNIT_SECONDS[unit]);
}

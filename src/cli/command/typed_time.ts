// Parses times for `--since`, `--until` and `--at`. A date without a time means midnight in the caller's time
// zone; a time of day must name its zone, since a log or a colleague may use another.

import { durationSeconds, EPOCH_MS_MAX, type Instant, instantOf } from "../../domain/instant.ts";
import { cannot } from "./arguments.ts";

/** The values of `--since` and `--until`, for their help. */
export const PAST_FORMS = "today, 2h, 2026-11-22 or 2026-11-22T18:30Z";

/**
 * The instant that `--since` or `--until` names.
 * @param flag with its dashes
 * @throws {AgentError} `invalid_argument`
 */
export function typedPast(text: string, flag: string, nowMs: number): Instant {
  const day = calendarInstant(text, nowMs);
  if (day !== undefined) return day;
  const seconds = /\d$/.test(text) ? undefined : durationSeconds(text);
  const before = seconds === undefined ? undefined : instantAt(nowMs - seconds * 1000);
  if (before !== undefined) return before;
  throw cannot(
    `use ${flag} ${JSON.stringify(text)}${withoutZone(text)}: expected today (from midnight in ` +
      "your time zone), a time ago such as 2h or 7d, a date such as 2026-11-22, or a time with its " +
      "zone such as 2026-11-22T18:30Z",
  );
}

/**
 * The instant that `--at` names: relative to now, or a calendar date.
 * @throws {AgentError} `invalid_argument`
 */
export function typedFuture(text: string, flag: string, nowMs: number): Instant {
  const day = text === "today" ? undefined : calendarInstant(text, nowMs);
  if (day !== undefined) return day;
  const later = text.startsWith("+") ? text.slice(1) : text;
  const seconds = /\d$/.test(later) ? undefined : durationSeconds(later);
  const after = seconds === undefined ? undefined : instantAt(nowMs + seconds * 1000);
  if (after !== undefined) return after;
  const what = `use ${flag} ${JSON.stringify(text)}`;
  if (/[*@]/.test(text) || text.trim().split(/\s+/).length > 3) {
    throw cannot(
      `${what}: there is no cron here, a job runs once: expected one time such as +2h or ` +
        "2026-12-01T03:00Z; let cron or a systemd timer call zonewright job run",
    );
  }
  throw cannot(
    `${what}${
      withoutZone(text)
    }: expected a time from now such as +90s, +10m or +2h, a date such as ` +
      "2026-12-01 (midnight in your time zone), or a time with its zone such as 2026-12-01T03:00Z",
  );
}

/** `today`, a date, or a date and time with its offset; undefined for another text. */
function calendarInstant(text: string, nowMs: number): Instant | undefined {
  if (text === "today") return midnight(new Date(nowMs));
  const instant = instantOf(text);
  if (instant === undefined || text.includes("T")) return instant;
  const [year = 0, month = 1, day = 1] = text.trim().split("-").map(Number);
  const date = new Date(nowMs);
  date.setFullYear(year, month - 1, day);
  return midnight(date);
}

/** The beginning of a day in the caller's time zone, from TZ or the system. */
function midnight(date: Date): Instant | undefined {
  return instantAt(new Date(date).setHours(0, 0, 0, 0));
}

function instantAt(ms: number): Instant | undefined {
  return ms >= 0 && ms <= EPOCH_MS_MAX ? new Date(ms).toISOString() : undefined;
}

/** Says so if a date and time lacks nothing but its zone. */
function withoutZone(text: string): string {
  return instantOf(`${text}Z`) === undefined ? "" : `: it names no time zone: ${text}Z is UTC`;
}

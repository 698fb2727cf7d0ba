// Instants. On the wire, in SQL and in TypeScript an instant is the same text: ISO 8601 in UTC with
// milliseconds, which sorts as it reads. Document 2 and the older software write dates this way.

import { invalidArgument } from "./error.ts";

/** ISO 8601 in UTC with milliseconds, such as `2026-11-20T13:00:00.000Z`. */
export type Instant = string;

/** The present instant; handed in as an argument so that tests decide it. */
export type Now = () => Instant;

export const systemNow: Now = () => new Date().toISOString();

/** An instant some milliseconds later (or earlier, when negative). */
export function instantAfter(instant: Instant, ms: number): Instant {
  return new Date(Date.parse(instant) + ms).toISOString();
}

/** Milliseconds from one instant to another. */
export function msBetween(from: Instant, to: Instant): number {
  return Date.parse(to) - Date.parse(from);
}

const ISO_8601 = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}([.,]\d{1,9})?)?(Z|[+-]\d{2}(:?\d{2})?))?$/;

/**
 * Reads a date of a request parameter: a calendar date (midnight UTC), or a date and time with its
 * offset. A time without an offset is refused, since it would depend on the host's zone.
 * @throws {AgentError} `invalid_argument` naming `field`
 * @see document 2, POST /jobs, exec_after
 */
export function parseInstant(value: unknown, field: string): Instant {
  const text = typeof value === "string" ? value.trim() : "";
  const match = ISO_8601.exec(text);
  // Date.parse wants a point before the fraction and a colon in the offset.
  const normal = text.replace(",", ".").replace(
    /([+-]\d{2})(\d{2})?$/,
    (all, hours, minutes) => match?.[1] === undefined ? all : `${hours}:${minutes ?? "00"}`,
  );
  const ms = match === null ? Number.NaN : Date.parse(normal);
  if (Number.isNaN(ms) || !sameDay(text, ms, match?.[4])) {
    throw invalidArgument(
      field,
      `Cannot read ${field}: expected an ISO 8601 date with an offset, such as 2026-01-31T18:30:00Z`,
    );
  }
  return new Date(ms).toISOString();
}

/** V8 rolls 31 February over into March; such a date is refused instead. */
function sameDay(text: string, ms: number, offset: string | undefined): boolean {
  const sign = offset?.startsWith("-") ? -1 : 1;
  const digits = offset === undefined || offset === "Z" ? "" : offset.replace(/\D/g, "");
  const minutes = Number(digits.slice(0, 2) || 0) * 60 + Number(digits.slice(2, 4) || 0);
  const local = new Date(ms + sign * minutes * 60_000).toISOString();
  return local.slice(0, 10) === text.slice(0, 10) || text.slice(11, 13) === "24";
}

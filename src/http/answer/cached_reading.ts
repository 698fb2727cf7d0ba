// Cached readings of slow or expensive sources. Each has a deadline, is kept for a while, and never runs
// twice at once, so callers cannot overload the source.

import { messageOf, undefinedWhileAway } from "../../domain/error.ts";
import type { Instant, Now } from "../../domain/instant.ts";

/** The value of a reading, or the error. */
export type KeptReading<T> =
  | { readonly read_at: Instant; readonly error: null; readonly value: T }
  | { readonly read_at: Instant; readonly error: string; readonly value: null };

/** A source, and how often it may be read. */
export interface Readable<T> {
  /** How long a value is kept, milliseconds. */
  readonly keepMs: number;
  /** How long an error is kept; as long as a value unless given. */
  readonly keepFailedMs?: number;
  /** How long it may take, milliseconds. */
  readonly deadlineMs: number;
  /** A failure is kept like any other reading. */
  look(signal: AbortSignal): Promise<T>;
}

/** The clocks that readings use. */
export interface ReadingClocks {
  readonly now: Now;
  readonly monotonicMs: () => number;
}

/**
 * Caches the readings of a source.
 * @returns gives a reading within the deadline; never rejects
 */
export function keptReading<T>(
  readable: Readable<T>,
  clocks: ReadingClocks,
): () => Promise<KeptReading<T>> {
  let last: { readonly atMs: number; readonly reading: KeptReading<T> } | undefined;
  let underWay: Promise<KeptReading<T>> | undefined;
  return () => {
    if (underWay !== undefined) return bounded(underWay, readable, clocks);
    if (last !== undefined) {
      const { keepMs, keepFailedMs = keepMs } = readable;
      const validMs = last.reading.error === null ? keepMs : keepFailedMs;
      if (clocks.monotonicMs() - last.atMs < validMs) return Promise.resolve(last.reading);
    }
    underWay = read(readable, clocks).then((reading) => {
      last = { atMs: clocks.monotonicMs(), reading };
      underWay = undefined;
      return reading;
    });
    return bounded(underWay, readable, clocks);
  };
}

/** Never rejects. A reading that ignores its signal continues, and no other starts until it ends. */
async function read<T>(
  { look, deadlineMs }: Readable<T>,
  { now }: ReadingClocks,
): Promise<KeptReading<T>> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), deadlineMs);
  try {
    const value = await look(late.signal);
    return { read_at: now(), error: null, value };
  } catch (error) {
    const words = late.signal.aborted ? noAnswer(deadlineMs) : messageOf(error);
    return { read_at: now(), error: words, value: null };
  } finally {
    clearTimeout(timer);
  }
}

async function bounded<T>(
  reading: Promise<KeptReading<T>>,
  { deadlineMs }: Readable<T>,
  { now }: ReadingClocks,
): Promise<KeptReading<T>> {
  const { promise, resolve } = Promise.withResolvers<KeptReading<T>>();
  const timer = setTimeout(
    () => resolve({ read_at: now(), error: noAnswer(deadlineMs), value: null }),
    deadlineMs,
  );
  try {
    return await Promise.race([reading, promise]);
  } finally {
    clearTimeout(timer);
  }
}

function noAnswer(deadlineMs: number): string {
  return `no answer within ${deadlineMs} ms`;
}

/**
 * A value from the store: current, or as it was some time ago because the database is away; null if it was never
 * read.
 */
export interface KeptRead<T> {
  readonly value: T | null;
  readonly staleMs?: number;
}

/** Remembers the last value of each kind, for the time when the database is away. */
export function openKeptReads<T>(
  nowMs: () => number,
): (kind: string, read: () => Promise<T>) => Promise<KeptRead<T>> {
  const last = new Map<string, { readonly value: T; readonly atMs: number }>();
  return async (kind, read) => {
    const value = await undefinedWhileAway(read());
    if (value === undefined) {
      const kept = last.get(kind);
      return { value: kept?.value ?? null, staleMs: kept === undefined ? 0 : nowMs() - kept.atMs };
    }
    last.set(kind, { value, atMs: nowMs() });
    return { value };
  };
}

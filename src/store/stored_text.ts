// JSON texts as the store holds them. A text that is only passed on is never parsed: it is read as bytes, one part at a
// time, whenever the caller is ready for the next.

import type { Instant } from "../domain/instant.ts";
import type { Wording } from "../domain/job/wire.ts";

/** Bytes of one part; a smaller text is read in one go. */
export const PART_BYTES = 128 * 1024;

/** Entries of a list whose sizes are read for one part. */
export const MEASURED_MAX = 1000;

/** A part that was read already, or is read on demand. */
export type TextPart = Uint8Array | LazyPart;

/** A part of a stored text. It is a snapshot: writes during the reading do not change it. */
export interface LazyPart {
  readonly bytes: number;
  /** @throws {AgentError} `aborted` when the text was removed */
  read(from: number, bytes: number): Promise<Uint8Array>;
  /** Ends the reading; may be called twice. The receiver of a part must close it. */
  close(): void;
}

/** One JSON value, or several with commas between them. */
export interface StoredText {
  readonly parts: readonly TextPart[];
  /** Bytes of all parts. */
  readonly bytes: number;
  /** Names of fields, as a JSON list, whose values only administrators may see. */
  readonly secrets: string | null;
  /** Milliseconds since the text was current; set when the database is away and the text comes from memory. */
  readonly staleMs?: number;
}

/** How a job is shown. */
export interface Showing {
  readonly wording: Wording;
  readonly now: Instant;
  /** Whether the reader masks secrets: then each job is a text of its own, beside the names of its secrets. */
  readonly masksSecrets: boolean;
}

/** A part of a list. */
export interface TextPage {
  readonly texts: readonly StoredText[];
  readonly entries: number;
  /** Place of the last entry, from which the list continues. */
  readonly place: number | undefined;
  /** Whether this is the last part of the requested list. */
  readonly last: boolean;
}

/** How many rows, beginning at an index, fit a part; at least one. */
export function fitting(
  rows: readonly { readonly bytes: number }[],
  first = 0,
  bytesMax = PART_BYTES,
): number {
  let bytes = 0;
  for (let at = first; at < rows.length; at++) {
    bytes += rows[at]?.bytes ?? 0;
    if (bytes > bytesMax) return Math.max(at - first, 1);
  }
  return rows.length - first;
}

/** A text that is already in memory. */
export function readText(bytes: Uint8Array, secrets: string | null = null): StoredText {
  return { parts: [bytes], bytes: bytes.length, secrets };
}

// JSON texts as the store holds them. Text that is only sent on is never parsed: it is read as bytes, one
// part at a time, when the caller is ready for it.

import type { Instant } from "../domain/instant.ts";
import type { Wording } from "../domain/job/wire.ts";

/** Bytes of one part; smaller texts are read at once. */
export const PART_BYTES = 128 * 1024;

/** Entries of a list whose sizes are read for one part. */
export const MEASURED_MAX = 1000;

/** A part that was read already, or is read on demand. */
export type TextPart = Uint8Array | LazyPart;

/** A part of a stored text: a snapshot, whatever is written while it is read. */
export interface LazyPart {
  readonly bytes: number;
  /** @throws {AgentError} `aborted` when it was removed */
  read(from: number, bytes: number): Promise<Uint8Array>;
  /** Ends the reading; may be called twice. The receiver of a part must close it. */
  close(): void;
}

/** One JSON value, or several with commas between them. */
export interface StoredText {
  readonly parts: readonly TextPart[];
  /** Their bytes altogether. */
  readonly bytes: number;
  /** Names of fields, as a JSON list, whose values only administrators may see. */
  readonly secrets: string | null;
  /** Milliseconds since it was current; set when the database is away and the text comes from memory. */
  readonly staleMs?: number;
}

/** How a job is shown, and in which words. */
export interface Showing {
  readonly wording: Wording;
  readonly now: Instant;
  /** Whether each job is a separate text, which can be masked by its own rules. */
  readonly apart: boolean;
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

/** How many rows, starting at an index, make a page: as many as fit a part, and at least one. */
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

// JSON texts as the store holds them. What is only sent on needs no values: it is read as bytes, a part
// at a time, when the caller is ready for the part.

import type { Instant } from "../domain/instant.ts";
import type { Wording } from "../domain/job/wire.ts";

/** Bytes of one part; what is smaller is read at once. */
export const PART_BYTES = 128 * 1024;

/** A part that was read, or one that is read on demand. */
export type TextPart = Uint8Array | LazyPart;

/** A part of a text that is in the store: as it is now, whatever is written while it is read. */
export interface LazyPart {
  readonly bytes: number;
  /** @throws {AgentError} `aborted` when it is not there any more */
  read(from: number, bytes: number): Promise<Uint8Array>;
  /** Nothing more is read. May be called twice; every part is closed by who was given it. */
  close(): void;
}

/** One JSON value, or several with commas between them. */
export interface StoredText {
  readonly parts: readonly TextPart[];
  /** Bytes of the whole. */
  readonly bytes: number;
  /** Names of fields, as a JSON list, whose values only administrators may see. */
  readonly secrets: string | null;
}

/** How jobs are shown. */
export interface Showing {
  readonly wording: Wording;
  readonly now: Instant;
  /** Whether each job is a text of its own, so that each can be masked by its own rules. */
  readonly apart: boolean;
}

/** A part of a list. */
export interface TextPage {
  readonly texts: readonly StoredText[];
  /** How many entries these are. */
  readonly entries: number;
  /** The place of the last one: the list goes on from there. */
  readonly place: number | undefined;
  /** Whether nothing comes after it, as far as was asked. */
  readonly last: boolean;
}

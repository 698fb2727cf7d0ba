// Reads the texts of rows in parts, on demand. They stay bytes and are never decoded to strings.

import { AgentError } from "../../domain/error.ts";
import {
  type LazyPart,
  PART_BYTES,
  readText,
  type StoredText,
  type TextPart,
} from "../stored_text.ts";
import type { Connection, TextReader } from "./connection.ts";

const encoder = new TextEncoder();

/** Where a text stands in the database, so that it can be read in parts. */
export interface TextPlace {
  /** Id of the row, for writers that change it. */
  readonly row: string;
  readonly sql: string;
  /** What follows FROM, with one question mark for each of `values`. */
  readonly from: string;
  readonly values: readonly (string | number)[];
  readonly bytes: number;
}

/** A text stored in a row. */
export function partAt(db: Connection, place: TextPlace): LazyPart {
  const { row, sql, from, values, bytes } = place;
  const select = (at: number, length: number) =>
    db.row<{ part: Uint8Array | null }>(
      `SELECT substr(CAST(${sql} AS BLOB), ?, ?) AS part FROM ${from}`,
      at + 1,
      length,
      ...values,
    )?.part ?? undefined;
  // Start following changes now: the length is that of the present text.
  const readWhole = () => select(0, bytes);
  let reader: TextReader | undefined = db.readers.open(row, `${sql} ${values}`, readWhole);
  return {
    bytes,
    read: (at, length) =>
      db.durably(() => {
        const part = reader?.original()?.subarray(at, at + length) ?? select(at, length);
        if (part !== undefined) return part;
        throw new AgentError("aborted", "Cannot read the rest of the text: its row was removed");
      }),
    close: () => {
      reader?.close();
      reader = undefined;
    },
  };
}

/**
 * Makes a text of one row, which is read in one go unless it is large.
 * @throws {Error} when the row is missing
 */
export function textAt(
  db: Connection,
  place: TextPlace,
  secrets: string | null = null,
): StoredText {
  if (place.bytes > PART_BYTES) return textOfParts([partAt(db, place)], secrets);
  const { sql, from, values } = place;
  const row = db.row<{ text: Uint8Array }>(
    `SELECT CAST(${sql} AS BLOB) AS text FROM ${from}`,
    ...values,
  );
  if (row === undefined) throw new Error(`Cannot read ${place.row}: it is missing`);
  return readText(row.text, secrets);
}

/** A text made of parts; small ones are joined. */
export function textOfParts(
  parts: readonly (TextPart | string)[],
  secrets: string | null = null,
): StoredText {
  const joined: TextPart[] = [];
  let small = "";
  const close = () => {
    if (small !== "") joined.push(encoder.encode(small));
    small = "";
  };
  for (const part of parts) {
    if (typeof part === "string") small += part;
    else {
      close();
      joined.push(part);
    }
  }
  close();
  const bytes = joined.reduce(
    (sum, part) => sum + (part instanceof Uint8Array ? part.length : part.bytes),
    0,
  );
  return { parts: joined, bytes, secrets };
}

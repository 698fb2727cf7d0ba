// Rows that are being sent to callers, a part at a time. A row is not held for a caller who takes it
// slowly; what still has to be sent of it is read before a write changes it, once for all who are at it.

import { AgentError } from "../../domain/error.ts";

/** Bytes that are kept for those who have not read a row to its end when it was changed. */
const KEPT_BYTES_MAX = 32 * 1024 * 1024;

/** A text that callers are at. */
interface OpenText {
  readonly row: string;
  readonly key: string;
  readonly readWhole: () => Uint8Array | undefined;
  readers: number;
  /** The text as it was before the row was changed. */
  kept?: Uint8Array | "removed";
}

/** A caller's place at a text. */
export interface TextReader {
  /** The text as it was, if it was changed since. @throws {AgentError} `aborted` when it is gone */
  kept(): Uint8Array | undefined;
  close(): void;
}

/** Who is reading what. */
export class RowReaders {
  readonly #open = new Map<string, OpenText>();
  #keptBytes = 0;

  /**
   * Begins to read.
   * @param row names the row, for changing()
   * @param key names the text in it
   */
  open(row: string, key: string, readWhole: () => Uint8Array | undefined): TextReader {
    const place = `${row} ${key}`;
    const text = this.#open.get(place) ?? { row, key, readWhole, readers: 0 };
    this.#open.set(place, text);
    text.readers += 1;
    let closed = false;
    return {
      kept: () => {
        if (text.kept !== "removed") return text.kept;
        throw new AgentError("aborted", "Cannot read on: what was being read has changed");
      },
      close: () => {
        if (closed) return;
        closed = true;
        text.readers -= 1;
        if (text.readers > 0) return;
        if (text.kept instanceof Uint8Array) this.#keptBytes -= text.kept.length;
        if (this.#open.get(place) === text) this.#open.delete(place);
      },
    };
  }

  /** Whether nobody reads anything. */
  get idle(): boolean {
    return this.#open.size === 0;
  }

  /** A row is about to be changed or removed. */
  changing(row: string): void {
    for (const [place, text] of this.#open) {
      if (text.row !== row) continue;
      // Who comes later reads the row as it is then.
      this.#open.delete(place);
      const whole = text.readWhole();
      const fits = whole !== undefined && this.#keptBytes + whole.length <= KEPT_BYTES_MAX;
      text.kept = fits ? whole : "removed";
      if (fits) this.#keptBytes += whole.length;
    }
  }
}

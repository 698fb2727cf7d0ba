// Texts that were read whole. A transaction that a slow caller kept open would keep the server from tidying up, so a
// large text waits in memory for its reader: it stays of one piece, whatever is written meanwhile.

import { AgentError } from "../../domain/error.ts";
import { type LazyPart, PART_BYTES, readText, type StoredText } from "../stored_text.ts";

/** Bytes of large texts that are being sent at the same time; one is sent whatever its size. */
const HELD_BYTES_MAX = 64 * 1024 * 1024;
/** There is one memory, whatever number of stores. */
let heldBytes = 0;

const encoder = new TextEncoder();

/** A text, which may be large. */
export function wholeText(text: string, secrets: string | null = null): StoredText {
  const bytes = encoder.encode(text);
  if (bytes.length <= PART_BYTES) return readText(bytes, secrets);
  return { parts: [keptPart(bytes)], bytes: bytes.length, secrets };
}

/** Counted from its first part on: one that nobody begins to read is forgotten soon. */
function keptPart(whole: Uint8Array): LazyPart {
  const { length } = whole;
  let kept: Uint8Array | undefined = whole;
  let isCounted = false;
  const count = () => {
    if (isCounted) return;
    if (heldBytes > 0 && heldBytes + length > HELD_BYTES_MAX) {
      const words = `${HELD_BYTES_MAX} bytes of large texts are being sent, the maximum`;
      throw new AgentError("overloaded", `Cannot read the text: ${words}`);
    }
    heldBytes += length;
    isCounted = true;
  };
  return {
    bytes: length,
    // Rejects instead of throwing, as a part does that is read from a file.
    read: (from, bytes) =>
      new Promise((resolve) => {
        if (kept === undefined) {
          throw new AgentError("aborted", "Cannot read the rest of the text: its copy was removed");
        }
        count();
        resolve(kept.subarray(from, from + bytes));
      }),
    close: () => {
      kept = undefined;
      if (isCounted) heldBytes -= length;
      isCounted = false;
    },
  };
}

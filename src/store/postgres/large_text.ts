// Texts that are read completely before they are sent. A transaction kept open by a slow caller would keep VACUUM from
// removing dead rows, so a large text waits in memory for its reader. It also stays consistent, whatever is written
// meanwhile.

import { AgentError } from "../../domain/error.ts";
import { type LazyPart, PART_BYTES, readText, type StoredText } from "../stored_text.ts";

/** Bytes of large texts that may be sent at the same time; a single text may be larger. */
const HELD_BYTES_MAX = 64 * 1024 * 1024;
/** Module state, since all stores of a process share its memory. */
let heldBytes = 0;

const encoder = new TextEncoder();

/** Makes a stored text; a large one is counted while it is being sent. */
export function wholeText(text: string, secrets: string | null = null): StoredText {
  const bytes = encoder.encode(text);
  if (bytes.length <= PART_BYTES) return readText(bytes, secrets);
  return { parts: [keptPart(bytes)], bytes: bytes.length, secrets };
}

/** The part is counted from its first read: a text that nobody begins to read is soon garbage-collected. */
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
    // The promise rejects instead of throwing, as for a part that is read from a file.
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

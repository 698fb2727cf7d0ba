// Reads the body of an upload, and gives up on callers that send too slowly.

import { AgentError, messageOf } from "../../domain/error.ts";

const KEPT_FOR_A_DAY = "the bytes so far are kept for a day";

/** How slowly a body may arrive. */
export interface PaceLimits {
  /** Seconds without data after which a request is aborted. */
  readonly uploadStallSeconds: number;
  /** Lowest rate, bytes per second, measured over `uploadStallSeconds` of waiting; 0 for no limit. */
  readonly uploadRateMin: number;
}

/**
 * The bytes of a body, as they arrive.
 * @throws {AgentError} `too_slow` when the caller stalls or is below the lowest rate; `malformed` when the
 *   body breaks off
 */
export async function* partsOf(
  name: string,
  body: ReadableStream<Uint8Array> | null,
  limits: PaceLimits,
): AsyncGenerator<Uint8Array> {
  if (body === null) return;
  const reader = body.getReader();
  const pace = openPace(name, limits);
  try {
    // The loop ends with the body.
    for (;;) {
      const part = await pace.within(reader.read(), () => void reader.cancel().catch(() => {}));
      if (part.done) return;
      pace.came(part.value.byteLength);
      yield part.value;
    }
  } catch (error) {
    if (error instanceof AgentError) throw error;
    throw brokenBody(name, `the body was cut off: ${messageOf(error)}`, error);
  } finally {
    // An unread body would hold the connection.
    reader.cancel().catch(() => {});
  }
}

/**
 * Measures how fast a caller sends, so that a few slow ones cannot hold every upload slot forever. Only time
 * spent waiting for the caller counts, not time spent writing to the disk.
 */
function openPace(name: string, { uploadStallSeconds, uploadRateMin }: PaceLimits) {
  const windowMs = uploadStallSeconds * 1000;
  const least = uploadRateMin * uploadStallSeconds;
  let waitedMs = 0;
  let bytes = 0;
  const slow = (why: string) =>
    new AgentError("too_slow", `Cannot upload ${name}: ${why}; ${KEPT_FOR_A_DAY}`);
  return {
    async within<T>(read: Promise<T>, giveUp: () => void): Promise<T> {
      const began = performance.now();
      let stalled = false;
      const timer = setTimeout(() => {
        stalled = true;
        giveUp();
      }, windowMs);
      const part = await read.finally(() => clearTimeout(timer));
      if (stalled) throw slow(`no data arrived for ${uploadStallSeconds} seconds`);
      waitedMs += performance.now() - began;
      return part;
    },
    came(count: number): void {
      bytes += count;
      if (waitedMs < windowMs) return;
      if (bytes < least) {
        throw slow(
          `${bytes} bytes arrived in ${uploadStallSeconds} seconds, expected at least ${least}`,
        );
      }
      waitedMs = 0;
      bytes = 0;
    },
  };
}

/** The error for a body that ended early; the upload can be continued. */
export function brokenBody(name: string, why: string, cause?: unknown): AgentError {
  const message = `Cannot upload ${name}: ${why}; ${KEPT_FOR_A_DAY}`;
  return new AgentError("malformed", message, cause === undefined ? {} : { cause });
}

// The body of one request of an upload: its bytes as they come, and how slowly they may.

import { AgentError, messageOf } from "../../domain/error.ts";

const KEPT = "what has come is kept for a day";

/** How slowly a body may come. */
export interface PaceLimits {
  /** Seconds without a byte after which a request is given up. */
  readonly uploadStallSeconds: number;
  /** Bytes a second, over as many seconds of waiting, below which it is given up too; 0 for any. */
  readonly uploadRateMin: number;
}

/**
 * The bytes of a body, as long as they come within the stall time and at the least rate.
 * @throws {AgentError} `too_slow` when they do not; `malformed` when it breaks off
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
    // Ends with the body.
    for (;;) {
      const part = await pace.within(reader.read(), () => void reader.cancel().catch(() => {}));
      if (part.done) return;
      pace.came(part.value.byteLength);
      yield part.value;
    }
  } catch (error) {
    if (error instanceof AgentError) throw error;
    throw brokenBody(name, `the body broke off: ${messageOf(error)}`, error);
  } finally {
    // What nobody reads must not hold the connection.
    reader.cancel().catch(() => {});
  }
}

/**
 * Watches how fast a caller sends. Only the time counts in which its bytes are waited for: what the disk takes
 * is not its fault. Otherwise a few callers that send a byte now and then would hold all places for ever.
 */
function openPace(name: string, { uploadStallSeconds, uploadRateMin }: PaceLimits) {
  const windowMs = uploadStallSeconds * 1000;
  const least = uploadRateMin * uploadStallSeconds;
  let waitedMs = 0;
  let bytes = 0;
  const slow = (why: string) =>
    new AgentError("too_slow", `Cannot upload ${name}: ${why}; ${KEPT}`);
  return {
    async within<T>(read: Promise<T>, giveUp: () => void): Promise<T> {
      const began = performance.now();
      let stalled = false;
      const timer = setTimeout(() => {
        stalled = true;
        giveUp();
      }, windowMs);
      const part = await read.finally(() => clearTimeout(timer));
      if (stalled) throw slow(`no byte came for ${uploadStallSeconds} seconds`);
      waitedMs += performance.now() - began;
      return part;
    },
    came(count: number): void {
      bytes += count;
      if (waitedMs < windowMs) return;
      if (bytes < least) {
        throw slow(
          `${bytes} bytes came in ${uploadStallSeconds} seconds, expected at least ${least} ` +
            "(setting limits.upload_rate_min)",
        );
      }
      waitedMs = 0;
      bytes = 0;
    },
  };
}

/** The error of a body that ended too early: what came of it can be continued. */
export function brokenBody(name: string, why: string, cause?: unknown): AgentError {
  const message = `Cannot upload ${name}: ${why}; ${KEPT}`;
  return new AgentError("malformed", message, cause === undefined ? {} : { cause });
}

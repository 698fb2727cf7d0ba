// A small document of a vendor, read from its server each time: a checksum document or a signature.

import { AgentError } from "../../domain/error.ts";
import { withRetries } from "../web/retry.ts";
import { openDeadline, type TimeLimits, type Wait } from "../web/time_limits.ts";
import { ask, failure, shown, type Web } from "../web/request.ts";

/** Bytes of one document, by what it is. */
export const VENDOR_BYTES_MAX = {
  /** The lists of the largest vendors have some hundred thousand. */
  checksums: 8 * 1024 * 1024,
  /** A text that is signed, with its signature or without. */
  signed: 1024 * 1024,
  /** A signature beside what it signs; one has some hundred. */
  signature: 64 * 1024,
} as const;

/** How a vendor is asked. */
export interface VendorWeb {
  readonly web: Web;
  readonly times: TimeLimits;
  readonly wait: Wait;
  /** From 0 up to 1. */
  readonly random: () => number;
}

/**
 * The document as it is now; undefined when the vendor has it no longer.
 * @throws {AgentError} `upstream`, `timeout`, `too_large` or `aborted`
 */
export async function readVendorDocument(
  vendor: VendorWeb,
  url: string,
  kind: keyof typeof VENDOR_BYTES_MAX,
  signal: AbortSignal | undefined,
): Promise<Uint8Array | undefined> {
  const share = signal === undefined ? {} : { signal };
  return await withRetries(() => readOnce(vendor, url, VENDOR_BYTES_MAX[kind], signal), {
    ...vendor,
    ...share,
  });
}

async function readOnce(
  { web, times }: VendorWeb,
  url: string,
  bytesMax: number,
  signal: AbortSignal | undefined,
): Promise<Uint8Array | undefined> {
  const what = `read ${shown(url)}`;
  const deadline = openDeadline(times.answerMs, what, signal);
  try {
    const response = await ask(web, url, { headers: { accept: "*/*" }, deadline });
    if (response.status !== 200) {
      await response.body?.cancel();
      if (response.status === 404 || response.status === 410) return undefined;
      throw new AgentError("upstream", `Cannot ${what}: the server answered ${response.status}`);
    }
    const parts: Uint8Array[] = [];
    let size = 0;
    try {
      for await (const part of response.body ?? []) {
        size += part.byteLength;
        if (size > bytesMax) {
          const message = `Cannot ${what}: it has over ${bytesMax} bytes`;
          throw new AgentError("too_large", message);
        }
        parts.push(part);
        deadline.extend(times.idleMs);
      }
    } catch (error) {
      await response.body?.cancel().catch(() => {});
      throw failure(error, deadline.signal, what);
    }
    return new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
  } finally {
    deadline.clear();
  }
}

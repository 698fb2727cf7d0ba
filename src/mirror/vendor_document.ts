// A small document of a vendor, read anew from its server: a checksum document or a signature.

import { AgentError } from "../domain/error.ts";
import { withRetries } from "./retry.ts";
import { openDeadline, type TimeLimits, type Wait } from "./time_limits.ts";
import { ask, failure, shown, type Web } from "./web_request.ts";

/** Bytes of one document; the lists of the largest vendors have some hundred thousand. */
const DOCUMENT_BYTES_MAX = 8 * 1024 * 1024;

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
  signal: AbortSignal | undefined,
): Promise<Uint8Array | undefined> {
  const share = signal === undefined ? {} : { signal };
  return await withRetries(() => readOnce(vendor, url, signal), { ...vendor, ...share });
}

async function readOnce(
  { web, times }: VendorWeb,
  url: string,
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
        if (size > DOCUMENT_BYTES_MAX) {
          const message = `Cannot ${what}: it has over ${DOCUMENT_BYTES_MAX} bytes`;
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

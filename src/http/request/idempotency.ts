// `Idempotency-Key`: a caller who does not know whether a request for a job arrived sends it again
// under the same key, and gets the job of the first one.

import { invalidArgument } from "../../domain/error.ts";
import { type Idempotency, IDEMPOTENCY_KEY } from "../../domain/job/job.ts";
import { canonicalJson, type JsonValue } from "../../domain/json.ts";
import { sha256Hex } from "../../domain/digest.ts";

/** The header of a repeated answer: `true`. */
export const IDEMPOTENCY_REPLAYED = "idempotency-replayed";

/** Visible ASCII. */
const KEY = /^[\x21-\x7e]{1,255}$/;

/**
 * The key and digest of a request; undefined without the header.
 * @param body the order of its keys does not count
 * @throws {AgentError} `invalid_argument` naming the header
 */
export async function idempotencyOf(
  headers: Headers,
  body: JsonValue,
): Promise<Idempotency | undefined> {
  const key = headers.get(IDEMPOTENCY_KEY);
  if (key === null) return undefined;
  if (!KEY.test(key)) {
    const message =
      `Cannot read ${IDEMPOTENCY_KEY}: expected 1 to 255 visible ASCII characters, without blanks`;
    throw invalidArgument(IDEMPOTENCY_KEY, message);
  }
  const request = new TextEncoder().encode(canonicalJson(body));
  return { key, request_sha256: await sha256Hex(request) };
}

// Requests that may be repeated: a caller that does not know whether its request arrived sends it again with the same key,
// and gets the job of the first one.

import { sha256Hex } from "../digest.ts";
import { invalidArgument } from "../error.ts";
import { canonicalJson, type JsonValue } from "../json.ts";

/** The header of a request that may be repeated. */
export const IDEMPOTENCY_KEY = "Idempotency-Key";
/** What the header may contain: visible ASCII without spaces. */
export const IDEMPOTENCY_KEY_TEXT: RegExp = /^[\x21-\x7e]{1,255}$/;

/** Distinguishes a repeated request from a new one. */
export interface Idempotency {
  readonly key: string;
  /** Lower-case hex SHA-256 of the canonical request. */
  readonly request_sha256: string;
}

/** The header of an answer that repeats an earlier one; its value is `true`. */
export const IDEMPOTENCY_REPLAYED = "idempotency-replayed";

/**
 * The key and digest by which a repeated request is recognized.
 * @param key the value of the header
 * @param request the request as a value; the order of its keys does not count
 * @throws {AgentError} `invalid_argument` naming the header
 */
export async function idempotencyOf(
  key: string,
  request: JsonValue,
): Promise<Idempotency> {
  if (!IDEMPOTENCY_KEY_TEXT.test(key)) {
    const message =
      `Cannot read ${IDEMPOTENCY_KEY}, expected 1 to 255 visible ASCII characters, without blanks`;
    throw invalidArgument(IDEMPOTENCY_KEY, message);
  }
  const bytes = new TextEncoder().encode(canonicalJson(request));
  return { key, request_sha256: await sha256Hex(bytes) };
}

// `Idempotency-Key`: a caller who does not know whether a request for a job arrived sends it again
// under the same key, and gets the job that the first one made.

import { AgentError, invalidArgument } from "../../domain/error.ts";
import type { Idempotency } from "../../domain/job/job.ts";
import { canonicalJson, type JsonValue } from "../../domain/json.ts";
import { sha256Hex } from "../../domain/digest.ts";
import type { EarlierOutcome, JobStore } from "../../store/job_store.ts";

/** The header of a request that may be repeated. */
export const IDEMPOTENCY_KEY = "Idempotency-Key";
/** The header of an answer to a request that came before: `true`. */
export const IDEMPOTENCY_REPLAYED = "idempotency-replayed";

/** Visible ASCII. */
const KEY = /^[\x21-\x7e]{1,255}$/;

/**
 * What tells a repeated request from a new one; undefined without the header.
 * @param body the body of the request, of which the order of keys does not count
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

/**
 * What an earlier request under the key came to; undefined when there was none. It is asked before
 * anything that may have changed since, such as the workflow, is looked at.
 * @throws {AgentError} `conflict` when the key was used for another request
 */
export async function earlierJob(
  idempotency: Idempotency | undefined,
  jobs: JobStore,
): Promise<Extract<EarlierOutcome, { kind: "repeated" }> | undefined> {
  if (idempotency === undefined) return undefined;
  const outcome = await jobs.earlier(idempotency);
  if (outcome?.kind === "key_reused") throw keyReused(outcome);
  return outcome;
}

/** A key that was used for another request, as an error that names both. */
export function keyReused(
  { job_uuid }: Extract<EarlierOutcome, { kind: "key_reused" }>,
): AgentError {
  const message = `Cannot create a job: the ${IDEMPOTENCY_KEY} was used by another request, ` +
    `which made job ${job_uuid}`;
  return new AgentError("conflict", message, {
    errors: [{ field: IDEMPOTENCY_KEY, code: "Invalid", message }],
  });
}

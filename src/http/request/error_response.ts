// Errors as responses. `code` has the words that restify gave its errors, which clients of document 2's
// software know; `error_code` has our own. Document 1's Error is `message`, `request_id` and
// `error_code`, so that one shape serves every route.

import { AgentError, ERROR_CODES } from "../../domain/error.ts";
import type { JsonObject } from "../../domain/json.ts";

/** How a caller that must show a token is told so. */
const CHALLENGE = 'Bearer realm="zonewright"';
/** Seconds after which a refused caller may try again, when the error names none. */
const RETRY_AFTER_SECONDS = 1;

/** What an answer says of an error, in an error of its own or as a part of it. */
export interface ErrorWords {
  /** A word for the status. */
  readonly code: string;
  /** For people. */
  readonly message: string;
}

/** The words for anything that was thrown; those of a defect are never shown. */
export function errorWords(error: unknown): ErrorWords & JsonObject {
  const known = knownOf(error);
  return {
    code: ERROR_CODES[known?.code ?? "internal"].word,
    message: known?.message ?? "Cannot answer the request: an internal error, told in the log",
  };
}

function knownOf(error: unknown): AgentError | undefined {
  return error instanceof AgentError && error.code !== "internal" ? error : undefined;
}

/**
 * The response to anything that was thrown. What is no AgentError is a defect: its text may hold
 * paths or SQL and is never shown, only logged by request_id.ts.
 */
export function errorResponse(error: unknown, request_id: string): Response {
  const known = knownOf(error);
  const error_code = known?.code ?? "internal";
  const { status } = ERROR_CODES[error_code];
  const headers = new Headers({ "content-type": "application/json", "x-request-id": request_id });
  if (status === 401) headers.set("www-authenticate", CHALLENGE);
  if (status === 503 || known?.retryAfterSeconds !== undefined) {
    headers.set("retry-after", String(known?.retryAfterSeconds ?? RETRY_AFTER_SECONDS));
  }
  const body = {
    ...errorWords(error),
    request_id,
    error_code,
    ...(known === undefined || known.errors.length === 0 ? {} : { errors: known.errors }),
  };
  return new Response(JSON.stringify(body), { status, headers });
}

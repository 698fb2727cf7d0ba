// The only table from error codes to the words of the wire. `code` has the words that restify gave
// its errors, which clients of document 2's software know; `error_code` has our own. Document 1's
// Error is `message`, `request_id` and `error_code`, so that one shape serves every route.

import type { ContentfulStatusCode } from "hono/utils/http-status";
import { AgentError, type ErrorCode } from "../../domain/error.ts";
import type { JsonObject } from "../../domain/json.ts";

interface Answer {
  readonly status: ContentfulStatusCode;
  readonly code: string;
}

const ANSWERS: Readonly<Record<ErrorCode, Answer>> = {
  malformed: { status: 400, code: "InvalidContent" },
  // Document 2: a missing or incorrect parameter is a conflict.
  invalid_argument: { status: 409, code: "InvalidArgument" },
  not_found: { status: 404, code: "ResourceNotFound" },
  method_not_allowed: { status: 405, code: "MethodNotAllowedError" },
  not_acceptable_type: { status: 415, code: "UnsupportedMediaType" },
  too_large: { status: 413, code: "RequestEntityTooLarge" },
  head_too_large: { status: 431, code: "RequestHeaderFieldsTooLarge" },
  conflict: { status: 409, code: "ConflictError" },
  forbidden: { status: 403, code: "Forbidden" },
  unauthorized: { status: 401, code: "Unauthorized" },
  overloaded: { status: 503, code: "ServiceUnavailable" },
  storage_full: { status: 507, code: "InsufficientStorage" },
  host: { status: 502, code: "BadGateway" },
  upstream: { status: 502, code: "BadGateway" },
  digest_mismatch: { status: 502, code: "BadGateway" },
  timeout: { status: 504, code: "GatewayTimeout" },
  aborted: { status: 503, code: "ServiceUnavailable" },
  unreachable: { status: 503, code: "ServiceUnavailable" },
  internal: { status: 500, code: "InternalError" },
};

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
    code: ANSWERS[known?.code ?? "internal"].code,
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
  const { status } = ANSWERS[error_code];
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

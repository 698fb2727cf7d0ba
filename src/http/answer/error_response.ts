// Errors as responses. `code` has restify's names, which clients of document 2's software know; `error_code`
// has the agent's. Document 1's Error is `message`, `request_id` and `error_code`, so one shape serves every
// route.

import { AgentError, ERROR_CODES } from "../../domain/error.ts";
import type { JsonObject } from "../../domain/json.ts";

/** `WWW-Authenticate` for a caller that must send a token. */
const CHALLENGE = 'Bearer realm="zonewright"';
const RETRY_AFTER_SECONDS = 1;

/** An error as JSON, as a whole response or a part of one. */
interface ErrorWords {
  /** restify's name of the status. */
  readonly code: string;
  readonly message: string;
}

/** Anything thrown, as JSON; the text of a defect is not shown. */
export function errorWords(error: unknown): ErrorWords & JsonObject {
  const known = knownOf(error);
  return {
    code: ERROR_CODES[known?.code ?? "internal"].word,
    message: known?.message ?? "Cannot answer the request: an internal error, see the log",
  };
}

function knownOf(error: unknown): AgentError | undefined {
  return error instanceof AgentError && error.code !== "internal" ? error : undefined;
}

/**
 * The response to anything thrown. Anything but an AgentError is a defect: its text may contain paths or SQL,
 * so only request_id.ts logs it.
 */
export function errorResponse(error: unknown, request_id: string): Response {
  const known = knownOf(error);
  const error_code = known?.code ?? "internal";
  const { status } = ERROR_CODES[error_code];
  const headers = new Headers({ "content-type": "application/json", "x-request-id": request_id });
  if (status === ERROR_CODES.unauthorized.status) headers.set("www-authenticate", CHALLENGE);
  if (status === ERROR_CODES.overloaded.status || known?.retryAfterSeconds !== undefined) {
    headers.set("retry-after", String(known?.retryAfterSeconds ?? RETRY_AFTER_SECONDS));
  }
  if (known?.uploadOffset !== undefined) headers.set("upload-offset", String(known.uploadOffset));
  const body = {
    ...errorWords(error),
    request_id,
    error_code,
    ...(known === undefined || known.errors.length === 0 ? {} : { errors: known.errors }),
  };
  return new Response(JSON.stringify(body), { status, headers });
}

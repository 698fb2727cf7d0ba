// Errors as responses. `code` has restify's names, which clients of document 2's software know; `error_code`
// has the agent's. Document 1's Error is `message`, `request_id` and `error_code`, so one shape serves every
// route.

import { FIELD_ERROR } from "../../domain/description/description.ts";
import { listOf, objectOf, type ShapeOf, shapeRef, TEXT } from "../../domain/description/answer.ts";
import { AgentError, ERROR_CODES } from "../../domain/error.ts";

/** `WWW-Authenticate` for a caller that must send a token. */
const CHALLENGE = 'Bearer realm="zonewright"';
const RETRY_AFTER_SECONDS = 1;

/** The body of every refusal, as document 2 has it; `errors` lists each incorrect field. */
export const ERROR = objectOf(
  "Why a request was refused; the same on every route.",
  ["code", "message", "request_id"],
  {
    code: { ...TEXT, description: "A word for the status, such as `ResourceNotFound`." },
    message: {
      ...TEXT,
      description: "For people: what could not be done, what was found, and what was expected.",
    },
    request_id: { ...TEXT, description: "As in the header `X-Request-Id`." },
    error_code: { ...TEXT, description: "A word for the reason, such as `not_found`." },
    errors: listOf(shapeRef("FieldError", FIELD_ERROR)),
    about: objectOf(
      "What is in the way, where that is not what the request names.",
      ["kind"],
      {
        kind: { ...TEXT, description: "A word such as `job`, `host` or `setting`." },
        name: { ...TEXT, description: "Its uuid, name or path." },
      },
    ),
  },
);
type ErrorBody = ShapeOf<typeof ERROR>;

/** Anything thrown, in the words of a response; the text of a defect is not shown. */
export function errorWords(error: unknown): Pick<ErrorBody, "code" | "message"> {
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
  const body: ErrorBody = {
    ...errorWords(error),
    request_id,
    error_code,
    ...(known === undefined || known.errors.length === 0 ? {} : { errors: known.errors }),
    ...(known?.about === undefined ? {} : { about: known.about }),
  };
  return new Response(JSON.stringify(body), { status, headers });
}

// The headers of requests and answers that the description names.

import type { JsonObject } from "../../domain/json.ts";
import { parameterRef, TEXT } from "./operation.ts";

/** `components.headers`, by the names of the headers. */
export const HEADERS: JsonObject = {
  "X-Request-Id": {
    required: true,
    description: "The request's id: the caller's, or one that was made for it.",
    schema: TEXT,
  },
  "Location": {
    required: true,
    description: "Path of what was made, ending in its uuid.",
    schema: { type: "string", format: "uri-reference" },
  },
  "Request-Id": {
    description: 'With `compat = "node-workflow"`: the uuid of what was made or read, unless the ' +
      "caller sent an id of the request.",
    schema: TEXT,
  },
  "Idempotency-Replayed": {
    description: "Present when an equal request under the same key made the job before.",
    schema: { type: "string", enum: ["true"] },
  },
  "X-Count": {
    required: true,
    description: "How many there are, on all pages together.",
    schema: { type: "integer", minimum: 0 },
  },
  "Allow": { required: true, description: "The methods that the path has.", schema: TEXT },
  "WWW-Authenticate": {
    required: true,
    description: "How a caller makes itself known: by a bearer token.",
    schema: TEXT,
  },
  "Retry-After": {
    description: "Seconds after which the same request may succeed.",
    schema: { type: "integer", minimum: 0 },
  },
  "ETag": {
    required: true,
    description: "Strong tag of exactly these bytes; a compressed answer has another one.",
    schema: { type: "string", pattern: '^"[^"]+"$' },
  },
  "Last-Modified": { required: true, description: "An HTTP date.", schema: TEXT },
  "X-Index-Age": {
    description:
      "Whole seconds since the index was last compared with its upstream. Present when " +
      "that is over a day ago, or the latest attempt failed.",
    schema: { type: "integer", minimum: 0 },
  },
};

/** Headers of requests, as parameters. */
export const HEADER_PARAMETERS: JsonObject = {
  RequestId: {
    name: "X-Request-Id",
    in: "header",
    description:
      "An id of the caller's, which the answer and the agent's log repeat. At most 128 " +
      "letters, digits and `_ . : @ / + = -`; other characters are left out.",
    schema: TEXT,
    example: "deploy-42",
  },
  IdempotencyKey: {
    name: "Idempotency-Key",
    in: "header",
    description: "A name of this request: sent again under it within a day, the request makes no " +
      "other job and is answered with the first one, as it is then. Another request under the same " +
      "key is refused.",
    schema: { type: "string", minLength: 1, maxLength: 255, pattern: "^[\\x21-\\x7e]*$" },
    example: "stop-42",
  },
  IfNoneMatch: {
    name: "If-None-Match",
    in: "header",
    description: "Tags of what the caller has: 304 when one still holds.",
    schema: TEXT,
    example: '"0b0a1c"',
  },
  IfModifiedSince: {
    name: "If-Modified-Since",
    in: "header",
    description: "An HTTP date; without `If-None-Match`, 304 when nothing changed since.",
    schema: TEXT,
    example: "Thu, 01 Jan 2026 00:00:00 GMT",
  },
};

/** Parameters of operations that answer 304. */
export const CONDITIONS: JsonObject[] = [
  parameterRef("IfNoneMatch"),
  parameterRef("IfModifiedSince"),
];

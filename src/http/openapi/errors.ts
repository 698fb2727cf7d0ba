// Errors in the OpenAPI document: for each status, the cases in which a request is refused, with an example of each;
// their schema, their headers, and a response for each status.

import { FIELD_ERROR } from "../../domain/description/description.ts";
import { ERROR } from "../answer/error_response.ts";
import { ERROR_CODES, type ErrorCode, type ErrorStatus } from "../../domain/error.ts";
import type { JsonObject } from "../../domain/json.ts";
import { schemaRef } from "../../domain/description/answer.ts";
import { headerRef } from "./operation.ts";
import { tooManyRequests } from "../request/request_gate.ts";

type RefusalStatus = ErrorStatus;

/** The codes that have a status. */
type CodeOf<Status extends RefusalStatus> = {
  [Code in ErrorCode]: ErrorStatus<Code> extends Status ? Code : never;
}[ErrorCode];

interface Refusal<Code extends ErrorCode = ErrorCode> {
  readonly name: string;
  readonly description: string;
  readonly examples: Readonly<Record<string, RefusalExample<Code>>>;
  readonly headers?: readonly string[];
}

interface RefusalExample<Code extends ErrorCode> {
  readonly error_code: Code;
  readonly message: string;
  readonly errors?: JsonObject[];
  readonly about?: JsonObject;
}

/** Another host. */
const HOST = "6d1e1e3a-8f5b-4f8e-9a5e-0d7f7a1f4b11";
const JOB = "job 51fe1f0c-2f6c-4a33-9c0a-7f2f3f9d8e10";

/** What each status means to callers, with an example for each of its reasons. */
export const REFUSALS: { readonly [Status in RefusalStatus]: Refusal<CodeOf<Status>> } = {
  "400": {
    name: "BadRequest",
    description: "The request could not be read: invalid JSON, an incomplete body, no Host.",
    examples: {
      json: {
        error_code: "malformed",
        message: "Cannot read the body: it is not UTF-8, expected JSON in UTF-8",
      },
    },
  },
  "401": {
    name: "Unauthorized",
    description: "A bearer token is required, and no valid one was sent.",
    headers: ["WWW-Authenticate"],
    examples: {
      token: {
        error_code: "unauthorized",
        message: "Cannot accept the request: a bearer token is required and none was sent",
      },
    },
  },
  "403": {
    name: "Forbidden",
    description:
      "Over TCP, the Host is unknown or a page of another site sent the request; or the " +
      "request is not allowed, such as a callback to a host that is not configured.",
    examples: {
      callback: {
        error_code: "forbidden",
        message: 'Cannot call back to "example.com": none is allowed, see the setting ' +
          "callback_host",
      },
      ticket: {
        error_code: "forbidden",
        message:
          "Cannot open the console: the ticket is not known: it was used, has expired, or belongs " +
          "to another machine",
      },
      host: {
        error_code: "forbidden",
        message:
          'Cannot accept the request: Host is "example.com", expected a name of this host or ' +
          "one of the setting allow_host",
      },
    },
  },
  "404": {
    name: "NotFound",
    description: "The resource does not exist, or was removed.",
    examples: {
      job: {
        error_code: "not_found",
        message: `Cannot find ${JOB}: it does not exist, or was removed`,
      },
    },
  },
  "405": {
    name: "MethodNotAllowed",
    description: "The path has other methods: `Allow` names them.",
    headers: ["Allow"],
    examples: {
      put: {
        error_code: "method_not_allowed",
        message: 'Cannot PUT "/jobs/51fe1f0c-2f6c-4a33-9c0a-7f2f3f9d8e10", expected GET, HEAD',
      },
    },
  },
  "408": {
    name: "RequestTimeout",
    description:
      "The body was too slow. The bytes so far of an upload are kept, and it can be continued.",
    examples: {
      late: {
        error_code: "too_slow",
        message: "Cannot read the body: it did not arrive within 30 seconds",
      },
      slow: {
        error_code: "too_slow",
        message:
          "Cannot upload installer.iso: no data arrived for 60 seconds; the bytes so far are kept " +
          "for a day",
      },
    },
  },
  "409": {
    name: "Conflict",
    description:
      "A parameter is missing or incorrect, and `errors` names it; or the state of the " +
      "resource does not allow the change.",
    examples: {
      parameter: {
        error_code: "invalid_argument",
        message:
          "Cannot accept the workflow: name is missing, expected a text of 1 to 255 characters",
        errors: [{
          field: "name",
          code: "Missing",
          message: "name is missing, expected a text of 1 to 255 characters",
        }],
      },
      taken: {
        error_code: "conflict",
        message: `Cannot create a job: ${JOB} locks the target`,
        about: { kind: "job", name: "51fe1f0c-2f6c-4a33-9c0a-7f2f3f9d8e10" },
      },
      state: {
        error_code: "conflict",
        message: `Cannot resume ${JOB}: execution is "running", expected waiting`,
      },
    },
  },
  "412": {
    name: "PreconditionFailed",
    description: "The document is not the one of `If-Match` or `If-Unmodified-Since`.",
    examples: {
      tag: {
        error_code: "precondition_failed",
        message: 'Cannot send the document: its entity tag is "0b0a1c", expected one of If-Match',
      },
    },
  },
  "413": {
    name: "TooLarge",
    description: "The body, or a part of it, is over its limit.",
    examples: {
      body: {
        error_code: "too_large",
        message: "Cannot read the body: it is over 2097152 bytes, the maximum",
      },
    },
  },
  "415": {
    name: "UnsupportedMediaType",
    description: "The content type is not JSON in UTF-8, or there is none.",
    examples: {
      type: {
        error_code: "not_acceptable_type",
        message: 'Cannot read the body: content type is "text/plain", expected application/json',
      },
    },
  },
  "431": {
    name: "HeaderTooLarge",
    description: "The header fields are too many, or too long.",
    examples: {
      fields: {
        error_code: "head_too_large",
        message: "Cannot accept the request: it has more than 64 header fields",
      },
    },
  },
  "500": {
    name: "InternalError",
    description: "A defect of the agent; its log has the reason under the request id.",
    examples: {
      defect: {
        error_code: "internal",
        message: "Cannot answer the request: an internal error, see the log",
      },
    },
  },
  "502": {
    name: "BadGateway",
    description:
      "A program of the host, or the upstream of the index, failed; or the agent of another " +
      "host does not accept the call of this one.",
    headers: ["Retry-After"],
    examples: {
      host: {
        error_code: "host_refused",
        message: `Cannot get an answer from host gz03 (${HOST}): it answers 302, ` +
          "expected no redirect",
      },
      upstream: {
        error_code: "upstream",
        message: "Cannot read v1/index.json: it is not there",
      },
    },
  },
  "503": {
    name: "ServiceUnavailable",
    description:
      "Too many requests are active, a limit is reached, or the agent is stopping: try " +
      "again later. For what another host answers: it is away, and the message names it.",
    headers: ["Retry-After"],
    examples: {
      host: {
        error_code: "host_away",
        message: `Cannot reach host gz03 (${HOST}): it was last heard from at ` +
          "2026-11-20T12:00:00.000Z",
      },
      overload: {
        error_code: "overloaded",
        message: tooManyRequests(256).message,
      },
      full: {
        error_code: "overloaded",
        message: "Cannot create a job: there are 100000 unfinished jobs, the maximum",
      },
    },
  },
  "504": {
    name: "GatewayTimeout",
    description: "A program of the host, or the upstream of the index, took too long.",
    examples: {
      host: {
        error_code: "timeout",
        message: 'Cannot run "/usr/sbin/vmadm": it was not done after 60 s and was killed',
      },
    },
  },
  "507": {
    name: "InsufficientStorage",
    description: "No space is left. Nothing was changed.",
    headers: ["Retry-After"],
    examples: {
      disk: {
        error_code: "storage_full",
        message: "Cannot write to the store: database or disk is full",
      },
    },
  },
};

const REQUEST_ID = "8f3f0c0e-5b1a-4d64-9f7a-0d6a4f3c2b1e";

/** Statuses that any request may get. */
const ALWAYS: readonly RefusalStatus[] = ["400", "401", "403", "431", "500", "503"];
/** Further statuses that a request with a body may get. */
export const BODY_REFUSALS: readonly RefusalStatus[] = ["408", "409", "413", "415"];

/** The errors of an operation, added to those of every request. */
export function refusals(...statuses: readonly RefusalStatus[]): JsonObject {
  return onlyRefusals(...ALWAYS, ...statuses);
}

/** The refusals of these statuses and no others. */
export function onlyRefusals(...statuses: readonly RefusalStatus[]): JsonObject {
  return Object.fromEntries(
    statuses.map((status) => [status, { $ref: `#/components/responses/${REFUSALS[status].name}` }]),
  );
}

/** `components.responses`: one for each status. */
export const ERROR_RESPONSES: JsonObject = Object.fromEntries(
  Object.values(REFUSALS).map(({ name, description, headers = [], examples }) => [name, {
    description,
    headers: Object.fromEntries(
      [...headers, "X-Request-Id"].map((header) => [header, headerRef(header)]),
    ),
    content: {
      "application/json": { schema: schemaRef("Error"), examples: withRequestId(examples) },
    },
  }]),
);

function withRequestId(examples: Refusal["examples"]): JsonObject {
  return Object.fromEntries(
    Object.entries(examples).map(([name, { message, error_code, ...more }]) => {
      const { word: code } = ERROR_CODES[error_code];
      const value = { code, message, request_id: REQUEST_ID, error_code };
      return [name, { value: { ...value, ...more } }];
    }),
  );
}

/** Components of the OpenAPI document that refusals refer to, by name. */
export const ERROR_SCHEMAS: JsonObject = { Error: ERROR, FieldError: FIELD_ERROR };

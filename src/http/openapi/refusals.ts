// The refusals of the description as data: for each status by which a request is refused, in which
// cases, with an example of each.

import type { ErrorCode } from "../../domain/error.ts";
import type { JsonObject } from "../../domain/json.ts";

/** Statuses of refusals. */
export type RefusalStatus =
  | "400"
  | "401"
  | "403"
  | "404"
  | "405"
  | "409"
  | "413"
  | "415"
  | "431"
  | "500"
  | "502"
  | "503"
  | "504"
  | "507";

/** A status by which requests are refused. */
export interface Refusal {
  readonly name: string;
  readonly description: string;
  readonly examples: Readonly<Record<string, RefusalExample>>;
  readonly headers?: readonly string[];
}

/** One case. */
export interface RefusalExample {
  readonly code: string;
  readonly error_code: ErrorCode;
  readonly message: string;
  readonly errors?: JsonObject[];
}

const JOB = "job 51fe1f0c-2f6c-4a33-9c0a-7f2f3f9d8e10";

/** By status. */
export const REFUSALS: Readonly<Record<RefusalStatus, Refusal>> = {
  "400": {
    name: "BadRequest",
    description: "The request could not be read: broken JSON, a body that broke off, no Host.",
    examples: {
      json: {
        code: "InvalidContent",
        error_code: "malformed",
        message: "Cannot read the body: it is not UTF-8",
      },
    },
  },
  "401": {
    name: "Unauthorized",
    description: "The agent wants to know who calls, and no token that it knows was shown.",
    headers: ["WWW-Authenticate"],
    examples: {
      token: {
        code: "Unauthorized",
        error_code: "unauthorized",
        message: "Cannot accept the request: a bearer token is required and none was sent",
      },
    },
  },
  "403": {
    name: "Forbidden",
    description: "Over TCP: the Host is foreign, or a page of another site sent the request. Or " +
      "what is asked for is not allowed, such as a callback to a host that is no configured one.",
    examples: {
      callback: {
        code: "Forbidden",
        error_code: "forbidden",
        message: 'Cannot call back to "example.com": none is allowed, see the setting ' +
          "callback_host",
      },
      ticket: {
        code: "Forbidden",
        error_code: "forbidden",
        message:
          "Cannot open the console: the ticket is not known: it was used, has expired, or is " +
          "another machine's",
      },
      host: {
        code: "Forbidden",
        error_code: "forbidden",
        message: 'Cannot accept the request: Host "example.com" is neither a loopback name nor a ' +
          "configured one",
      },
    },
  },
  "404": {
    name: "NotFound",
    description: "There is no such resource; one that was removed is answered the same way.",
    examples: {
      job: {
        code: "ResourceNotFound",
        error_code: "not_found",
        message: `Cannot find ${JOB}`,
      },
    },
  },
  "405": {
    name: "MethodNotAllowed",
    description: "The path has other methods: `Allow` names them.",
    headers: ["Allow"],
    examples: {
      put: {
        code: "MethodNotAllowedError",
        error_code: "method_not_allowed",
        message: 'Cannot PUT "/jobs/51fe1f0c-2f6c-4a33-9c0a-7f2f3f9d8e10": expected GET, HEAD',
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
        code: "InvalidArgument",
        error_code: "invalid_argument",
        message: "Cannot accept the workflow: name is missing",
        errors: [{ field: "name", code: "Missing", message: "name is missing" }],
      },
      state: {
        code: "ConflictError",
        error_code: "conflict",
        message: `Cannot resume ${JOB}: execution is "running", expected waiting`,
      },
    },
  },
  "413": {
    name: "TooLarge",
    description: "The body, or what it asks to keep, is over its limit.",
    examples: {
      body: {
        code: "RequestEntityTooLarge",
        error_code: "too_large",
        message: "Cannot read the body: it is over 2097152 bytes",
      },
    },
  },
  "415": {
    name: "UnsupportedMediaType",
    description: "The content type is not JSON in UTF-8, or there is none.",
    examples: {
      type: {
        code: "UnsupportedMediaType",
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
        code: "RequestHeaderFieldsTooLarge",
        error_code: "head_too_large",
        message: "Cannot accept the request: it has over 64 header fields",
      },
    },
  },
  "500": {
    name: "InternalError",
    description: "A defect of the agent; its log has the reason under the request id.",
    examples: {
      defect: {
        code: "InternalError",
        error_code: "internal",
        message: "Cannot answer the request: an internal error, told in the log",
      },
    },
  },
  "502": {
    name: "BadGateway",
    description: "A program of the host, or the upstream of the index, failed.",
    headers: ["Retry-After"],
    examples: {
      upstream: {
        code: "BadGateway",
        error_code: "upstream",
        message: "Cannot read v1/index.json: it is not there",
      },
    },
  },
  "503": {
    name: "ServiceUnavailable",
    description:
      "Too much is under way, as much is kept as may be, or the agent is stopping: try " +
      "again later.",
    headers: ["Retry-After"],
    examples: {
      overload: {
        code: "ServiceUnavailable",
        error_code: "overloaded",
        message: "Cannot answer now: 256 requests are under way",
      },
      full: {
        code: "ServiceUnavailable",
        error_code: "overloaded",
        message: "Cannot create a job: there are 100000 unfinished jobs, the most there may be",
      },
    },
  },
  "504": {
    name: "GatewayTimeout",
    description: "A program of the host, or the upstream of the index, took too long.",
    examples: {
      host: {
        code: "GatewayTimeout",
        error_code: "timeout",
        message: 'Cannot run "/usr/sbin/vmadm": it was not done after 60 s and was killed',
      },
    },
  },
  "507": {
    name: "InsufficientStorage",
    description: "There is no space left for what was to be kept. Nothing was changed.",
    headers: ["Retry-After"],
    examples: {
      disk: {
        code: "InsufficientStorage",
        error_code: "storage_full",
        message: "Cannot write to the store: database or disk is full",
      },
    },
  },
};

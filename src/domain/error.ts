// The one error class of zonewright. Whatever fails for a reason that a caller can act on is thrown
// as an AgentError with a code of this closed set; every other error is a defect and is shown to
// callers as "internal". Only http/error_response.ts and cli/cli.ts translate codes.

/** Why an operation failed, in one word. */
export type ErrorCode =
  | "malformed" // the request could not be read at all: broken JSON, broken body
  | "invalid_argument" // a parameter is missing or incorrect; `errors` names it
  | "not_found"
  | "method_not_allowed"
  | "not_acceptable_type" // the content type is not JSON
  | "too_large" // a named limit was passed
  | "head_too_large" // the limit of a request's header fields was passed
  | "conflict" // the state of the resource does not allow it
  | "forbidden" // the policy or the origin of the call does not allow it
  | "unauthorized"
  | "overloaded" // try again later
  | "storage_full" // no space left for the store, a medium or a zone
  | "host" // a host program failed
  | "upstream" // the index upstream or a download failed
  | "digest_mismatch" // bytes are not the ones that were promised
  | "timeout" // a deadline of ours passed
  | "aborted" // the caller gave up: canceled job, closed connection, shutdown
  | "unreachable" // the agent does not answer (command line only)
  | "internal";

/** One incorrect parameter, by its path such as `chain[1].timeout`. */
export interface FieldError {
  readonly field: string;
  readonly code: "Missing" | "Invalid" | "UnknownField" | "TooLarge";
  readonly message: string;
}

/** What an error may carry besides its code and its message. */
export interface AgentErrorOptions {
  cause?: unknown;
  errors?: readonly FieldError[];
  /** Seconds after which the same call may succeed. */
  retryAfterSeconds?: number;
}

/** A failure with a closed code and a message for people: action, colon, state found and wanted. */
export class AgentError extends Error {
  override readonly name = "AgentError";
  readonly code: ErrorCode;
  readonly errors: readonly FieldError[];
  readonly retryAfterSeconds: number | undefined;

  constructor(code: ErrorCode, message: string, options: AgentErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.errors = options.errors ?? [];
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

/** An incorrect parameter as an error of code `invalid_argument` that names its field. */
export function invalidArgument(
  field: string,
  message: string,
  code: FieldError["code"] = "Invalid",
): AgentError {
  return new AgentError("invalid_argument", message, { errors: [{ field, code, message }] });
}

/** Ends an exhaustive switch: the compiler refuses it while a case is missing. */
export function unreachable(value: never): never {
  throw new AgentError("internal", `Cannot go on: unexpected case ${JSON.stringify(value)}`);
}

/** The text of anything that was thrown, for messages and records. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

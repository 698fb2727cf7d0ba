// The one error class of zonewright. A failure that a caller can act on is thrown as an AgentError with
// a code of this closed set; every other error is a defect and is shown to callers as "internal".
// The table says what each code means outside: http/answer/error_response.ts and the API description
// take the status and the word from it, cli/command/ the exit code.

/**
 * Every code with its HTTP status, restify's word for that status, which clients of document 2's software
 * know, and the name of the exit code. A status without a code means the first code that has it.
 */
export const ERROR_CODES = {
  /** The request could not be read: broken JSON, a body that broke off. */
  malformed: { status: 400, word: "InvalidContent", exit: "failure" },
  not_found: { status: 404, word: "ResourceNotFound", exit: "not_found" },
  method_not_allowed: { status: 405, word: "MethodNotAllowedError", exit: "failure" },
  /** A body arrives more slowly than a named limit requires. */
  too_slow: { status: 408, word: "RequestTimeout", exit: "timeout" },
  /** The content type is not JSON. */
  not_acceptable_type: { status: 415, word: "UnsupportedMediaType", exit: "failure" },
  /** A named limit was exceeded. */
  too_large: { status: 413, word: "RequestEntityTooLarge", exit: "failure" },
  /** The limit of a request's header fields was exceeded. */
  head_too_large: { status: 431, word: "RequestHeaderFieldsTooLarge", exit: "failure" },
  /** The state of the resource does not allow it. */
  conflict: { status: 409, word: "ConflictError", exit: "conflict" },
  /** What the caller named by `If-Match` or `If-Unmodified-Since` has changed. */
  precondition_failed: { status: 412, word: "PreconditionFailed", exit: "conflict" },
  /** Something has this uuid or name already. */
  already_exists: { status: 409, word: "ConflictError", exit: "conflict" },
  /** A parameter is missing or incorrect, which document 2 calls a conflict; `errors` names it. */
  invalid_argument: { status: 409, word: "InvalidArgument", exit: "usage" },
  /** A parameter names a host that has not registered in the store. */
  no_host: { status: 409, word: "ConflictError", exit: "not_found" },
  /** The policy or the origin of the call does not allow it. */
  forbidden: { status: 403, word: "Forbidden", exit: "failure" },
  unauthorized: { status: 401, word: "Unauthorized", exit: "failure" },
  /** There is no room now; the same request can succeed later. */
  overloaded: { status: 503, word: "ServiceUnavailable", exit: "failure" },
  /** Canceled before its end: with its job, by a closed connection, or as the agent stops. */
  aborted: { status: 503, word: "ServiceUnavailable", exit: "interrupted" },
  /** The agent does not answer; only the command line says so. */
  unreachable: { status: 503, word: "ServiceUnavailable", exit: "unreachable" },
  /** No space left for the store, a medium or a zone. */
  storage_full: { status: 507, word: "InsufficientStorage", exit: "failure" },
  /** The upstream of the index or a download failed. */
  upstream: { status: 502, word: "BadGateway", exit: "failure" },
  /** A program of the host failed. */
  host: { status: 502, word: "BadGateway", exit: "failure" },
  /** The bytes do not have the expected digest. */
  digest_mismatch: { status: 502, word: "BadGateway", exit: "failure" },
  /** A deadline of the agent passed. */
  timeout: { status: 504, word: "GatewayTimeout", exit: "timeout" },
  /** Another host was not heard lately, or its agent does not answer; the message names it. */
  host_away: { status: 503, word: "ServiceUnavailable", exit: "failure" },
  /** The agent of another host does not accept the call of this one; the message names it. */
  host_refused: { status: 502, word: "BadGateway", exit: "failure" },
  /** The database has tables of a version that this program cannot use. */
  other_schema: { status: 503, word: "ServiceUnavailable", exit: "other_schema" },
  internal: { status: 500, word: "InternalError", exit: "failure" },
} as const;

/**
 * The exit code for a database whose tables this program cannot use. Service managers must know it: starting again
 * does not help.
 */
export const OTHER_SCHEMA_EXIT = 8;

/** Why an operation failed, in one word. */
export type ErrorCode = keyof typeof ERROR_CODES;
/** The status of an error as text, or of certain codes. */
export type ErrorStatus<Code extends ErrorCode = ErrorCode> =
  `${typeof ERROR_CODES[Code]["status"]}`;

/** The code that a status means; `internal` if no code has it. */
export function codeOfStatus(status: number): ErrorCode {
  // The keys of a constant are exactly those of its type.
  const codes = Object.keys(ERROR_CODES) as ErrorCode[];
  return codes.find((code) => ERROR_CODES[code].status === status) ?? "internal";
}

/** The kinds of mistakes in a parameter. */
export const FIELD_ERROR_CODES = ["Missing", "Invalid", "UnknownField", "TooLarge"] as const;

/** One incorrect parameter, named by its path such as `chain[1].timeout`. */
export interface FieldError {
  readonly field: string;
  readonly code: typeof FIELD_ERROR_CODES[number];
  readonly message: string;
}

/**
 * What an error may be about, besides what the request itself names. Clients choose by it what to look at next, since a
 * code says only what kind of failure it is.
 */
export const SUBJECT_KINDS = [
  /** An address of the agent that cannot be listened on. */
  "address",
  /** Another agent on this host; its name is its process. */
  "agent",
  /** A distro, release or file of the image index. */
  "artifact",
  "certificate",
  "database",
  /** A file of the caller's. */
  "file",
  "host",
  /** The image index, which has not been synced. */
  "index",
  "job",
  "leftover",
  "machine",
  "medium",
  /** Where standard output of a command goes. */
  "output",
  /** The scheme of an address; its name is the address with the one that is spoken there. */
  "scheme",
  /** A server that is not an agent. */
  "server",
  /** A setting, which forbids it to every caller. */
  "setting",
  /** The signer of a certificate, whom the caller does not trust; its name is the address that has it. */
  "signer",
  /** A unix socket of the agent that cannot be listened on. */
  "socket",
  "state_dir",
  /** The token of the caller, whose scope does not allow it. */
  "token",
  /** The upstream of the image index, which is not configured. */
  "upstream",
  "workflow",
] as const;
/** What kind of thing an error is about. */
export type SubjectKind = typeof SUBJECT_KINDS[number];

/** One thing that an error is about. */
export interface ErrorSubject {
  readonly kind: SubjectKind;
  /** Its uuid, name or path; not given where there is one alone, or several are meant. */
  readonly name?: string;
}

/** Refusals for which clients of node-workflow expect other codes and words: see http/request/compat.ts. */
export type NamedRefusal =
  | "equal_job"
  | "not_waiting"
  | "info_of_no_job"
  | "entry_of_no_job";

/** What an error may have in addition to code and message. */
interface AgentErrorOptions {
  cause?: unknown;
  errors?: readonly FieldError[];
  about?: ErrorSubject | undefined;
  /** Seconds after which the same call may succeed. */
  retryAfterSeconds?: number;
  refusal?: NamedRefusal;
  /** Byte at which an upload continues. */
  uploadOffset?: number;
}

/** A failure with a closed code and a message: action, colon, state found and expected. */
export class AgentError extends Error {
  override readonly name = "AgentError";
  readonly code: ErrorCode;
  readonly errors: readonly FieldError[];
  readonly about: ErrorSubject | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly refusal: NamedRefusal | undefined;
  readonly uploadOffset: number | undefined;

  constructor(code: ErrorCode, message: string, options: AgentErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.errors = options.errors ?? [];
    this.about = options.about;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.refusal = options.refusal;
    this.uploadOffset = options.uploadOffset;
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

/** The error of an action that was canceled. @param action such as `Cannot boot machine 51fe…` */
export function abortedError(action: string, signal?: AbortSignal): AgentError {
  const options = signal?.aborted === true ? { cause: signal.reason } : {};
  return new AgentError("aborted", `${action}: it was canceled`, options);
}

/**
 * Ends an exhaustive switch: the compiler refuses it while a case is missing.
 * @throws {AgentError} `internal` for a case that the types rule out
 */
export function unreachable(value: never): never {
  throw new AgentError("internal", `Cannot continue: unexpected case ${JSON.stringify(value)}`);
}

/** The text of anything that was thrown, for messages and records. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** In messages of the system, SQLite and programs of the host: a full disk, a full pool, an exceeded quota. */
const NO_SPACE = /no space left|out of space|quota exceeded|disk is full/i;

/**
 * Whether there was no space left.
 * @param failure an error, or what a program printed; some errors name it only by the code of the system
 */
export function isNoSpace(failure: unknown): boolean {
  const code = failure instanceof Error && "code" in failure ? failure.code : undefined;
  return code === "ENOSPC" || code === "EDQUOT" || NO_SPACE.test(messageOf(failure));
}

/** Whether a call failed for a reason that may soon pass: a database that is away, or too much work. */
export function isAway(error: unknown): boolean {
  return error instanceof AgentError && error.code === "overloaded";
}

/** The result of a call; undefined when it failed for such a reason. @throws any other error of the call */
export async function undefinedWhileAway<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (isAway(error)) return undefined;
    throw error;
  }
}

/**
 * The code for an error of the operating system: no permission, no such file, no space. Errors are recognized
 * by name, since the domain does not depend on the runtime.
 * @returns undefined for any other error: a defect, or one with a code of its own
 */
export function systemCode(error: unknown): ErrorCode | undefined {
  if (error instanceof AgentError || !(error instanceof Error)) return undefined;
  if (error.name === "PermissionDenied" || error.name === NOT_CAPABLE) return "forbidden";
  if (isNoSpace(error)) return "storage_full";
  if (error.name === "NotFound") return "not_found";
  return SYSTEM_NUMBER.test(error.message) ? "conflict" : undefined;
}

/** The runtime opens few files of /dev, /proc and /sys for a program that lacks any permission. */
const NOT_CAPABLE = "NotCapable";

/** The number that the runtime appends to an error of the operating system. */
const SYSTEM_NUMBER = / \(os error \d+\)/;

/** The message of a system error without its number: `permission denied: open '/x'`. */
export function systemWords(error: unknown): string {
  const words = wordsOf(error).replace(SYSTEM_NUMBER, "");
  return words.slice(0, 1).toLowerCase() + words.slice(1);
}

/** The same without the call: `permission denied`, `is a directory`. */
export function systemReason(error: unknown): string {
  const [reason = ""] = wordsOf(error).split(" (os error ", 1);
  return reason.slice(0, 1).toLowerCase() + reason.slice(1);
}

/** The message of the system; what the runtime refuses has one that only its builders understand. */
function wordsOf(error: unknown): string {
  const refused = error instanceof Error && error.name === NOT_CAPABLE;
  return refused ? "this program may not open it" : messageOf(error);
}

// Reads an error that an agent has answered; http/answer/error_response.ts writes it. That agent may be older or newer
// than this program, so a word that is not known here only makes the error less exact.

import {
  codeOfStatus,
  ERROR_CODES,
  type ErrorCode,
  type ErrorSubject,
  FIELD_ERROR_CODES,
  type FieldError,
  SUBJECT_KINDS,
} from "./error.ts";
import { isJsonObject, type JsonObject, objectsIn } from "./json.ts";

/** What is known of such an error. */
interface ReadError {
  readonly code: ErrorCode;
  /** Undefined where it is not an error of an agent. */
  readonly message: string | undefined;
  readonly errors: readonly FieldError[];
  readonly about: ErrorSubject | undefined;
}

/** Codes that end the program that has them: for its caller, another agent that answers so has no time now. */
const ENDING_CODES: readonly ErrorCode[] = ["aborted", "other_schema", "unreachable"];

/** Reads the body of an answer with an error's status. */
export function readErrorBody(status: number, body: JsonObject): ReadError {
  const { message, errors = null } = body;
  return {
    code: codeIn(status, body),
    message: typeof message === "string" ? message : undefined,
    errors: objectsIn(errors).flatMap(({ field, code, message }) => {
      const known = FIELD_ERROR_CODES.find((one) => one === code) ?? "Invalid";
      const whole = typeof field === "string" && typeof message === "string";
      return whole ? [{ field, code: known, message }] : [];
    }),
    about: subjectIn(body),
  };
}

/** Several codes share a status, and some a word: the agent's own word says most. */
function codeIn(status: number, { error_code, code }: JsonObject): ErrorCode {
  // The keys of a constant are exactly those of its type.
  const fitting = (Object.keys(ERROR_CODES) as ErrorCode[])
    .filter((one) => ERROR_CODES[one].status === status && !ENDING_CODES.includes(one));
  return fitting.find((one) => one === error_code) ??
    fitting.find((one) => ERROR_CODES[one].word === code) ??
    codeOfStatus(status);
}

function subjectIn({ about }: JsonObject): ErrorSubject | undefined {
  if (!isJsonObject(about)) return undefined;
  const kind = SUBJECT_KINDS.find((one) => one === about.kind);
  if (kind === undefined) return undefined;
  return typeof about.name === "string" ? { kind, name: about.name } : { kind };
}

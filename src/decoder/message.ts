// JSON messages of a decoder, and their untrusting parser: a decoder that has read hostile bytes is
// as hostile as a guest.

import { AgentError, type ErrorCode } from "../domain/error.ts";
import { isJsonObject, type JsonValue } from "../domain/json.ts";
import { measureJson } from "../domain/json_scan.ts";
import { GUEST_PERMISSIONS, type GuestCheck } from "../wall/protocol.ts";
import { type DecoderFrame, jsonOf } from "./frames.ts";

/** Bytes of the JSON text of a request. */
export const REQUEST_BYTES_MAX = 1024 * 1024;
/** Bytes of the JSON text of a readiness report. */
export const READY_BYTES_MAX = 8 * 1024;
/** Characters of the message of an error. */
export const MESSAGE_CHARS_MAX = 2000;

/**
 * Values of an answer, which take many times their text once parsed. A list of builds may have five
 * times the values of its document, since absent fields are null.
 */
export const ANSWER_VALUES_MAX = 500_000;
/** Depth of an answer: that of a document, plus its envelope. */
const ANSWER_DEPTH_MAX = 100;

/** Error codes that a decoder may return. */
export const ANSWER_CODES = [
  "conflict",
  "digest_mismatch",
  "internal",
  "invalid_argument",
  "malformed",
  "not_found",
  "too_large",
  "upstream",
] as const satisfies readonly ErrorCode[];

/** Result of a piece of work. */
export type DecoderAnswer =
  | { readonly ok: true; readonly value: JsonValue }
  | {
    readonly ok: false;
    readonly code: typeof ANSWER_CODES[number];
    readonly message: string;
  };

/**
 * Parses a decoder's report of its permissions.
 * @throws {TypeError} or {SyntaxError} for an invalid report
 */
export function parseReady(frame: DecoderFrame): GuestCheck[] {
  const message = jsonOf(frame);
  const checks = isJsonObject(message) ? message.checks : undefined;
  if (!Array.isArray(checks) || checks.length > GUEST_PERMISSIONS.length) {
    throw new TypeError("its first frame is no report");
  }
  return checks.map((check: unknown) => {
    if (
      isJsonObject(check) && typeof check.check === "string" && typeof check.ok === "boolean" &&
      typeof check.detail === "string"
    ) return { check: check.check, ok: check.ok, detail: check.detail };
    throw new TypeError("its report holds something else than checks");
  });
}

/**
 * Parses an answer.
 * @throws {AgentError} the work's own error
 * @throws {TypeError} or {SyntaxError} for an invalid answer
 */
export function parseAnswer(frame: DecoderFrame): JsonValue {
  const { values, depth } = measureJson(frame.payload);
  if (values > ANSWER_VALUES_MAX) {
    throw new TypeError(`its answer has over ${ANSWER_VALUES_MAX} values`);
  }
  if (depth > ANSWER_DEPTH_MAX) {
    throw new TypeError(`its answer is nested deeper than ${ANSWER_DEPTH_MAX}`);
  }
  const message = jsonOf(frame);
  if (!isJsonObject(message)) throw new TypeError("its answer is no object");
  const { ok, value, code, message: words } = message;
  if (ok === true && value !== undefined) return value as JsonValue;
  const known = ANSWER_CODES.find((one) => one === code);
  if (ok !== false || known === undefined || typeof words !== "string") {
    throw new TypeError("its answer is neither a value nor an error");
  }
  if (words.length > MESSAGE_CHARS_MAX) throw new TypeError("the message of its error is too long");
  throw new AgentError(known, words);
}

// What a decoder says in JSON, and the parse that believes none of it: a decoder that has read hostile
// bytes is as hostile as a guest.

import { AgentError, type ErrorCode } from "../domain/error.ts";
import { isJsonObject, type JsonValue } from "../domain/json.ts";
import { measureJson } from "../domain/json_scan.ts";
import { GUEST_PERMISSIONS, type GuestCheck } from "../sandbox/protocol.ts";
import { type DecoderFrame, jsonOf } from "./frames.ts";

/** Bytes of the JSON text that begins a piece of work. */
export const REQUEST_BYTES_MAX = 1024 * 1024;
/** Bytes of the JSON text by which a decoder reports that it is ready. */
export const READY_BYTES_MAX = 8 * 1024;
/** Characters of the message of an error. */
export const MESSAGE_CHARS_MAX = 2000;

/**
 * Values of an answer, which are many times their text once they are parsed. A list of builds may have
 * five times those of its document, since absent fields are null in it.
 */
export const ANSWER_VALUES_MAX = 500_000;
/** Nesting of an answer: that of a document, and what stands around it. */
const ANSWER_DEPTH_MAX = 100;

/** The errors that a decoder may hand back. */
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

/** How a piece of work ended. */
export type DecoderAnswer =
  | { readonly ok: true; readonly value: JsonValue }
  | {
    readonly ok: false;
    readonly code: typeof ANSWER_CODES[number];
    readonly message: string;
  };

/**
 * What a decoder reports of its permissions.
 * @throws {TypeError} or {SyntaxError} when it is no such report
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
 * The value of an answer.
 * @throws {AgentError} of the code and with the message that the work has thrown
 * @throws {TypeError} or {SyntaxError} when it is no answer
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

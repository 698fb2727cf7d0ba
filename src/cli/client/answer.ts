// Reads the agent's answers. The command line may be older or newer than the agent: unknown fields are kept for
// --json, and missing fields stay empty in tables.

import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { AgentError, ERROR_CODES, type ErrorCode } from "../../domain/error.ts";
import { readErrorBody } from "../../domain/error_body.ts";
import type { ApiAnswer, ApiCall } from "./api_call.ts";

/** @throws {AgentError} `internal` when the answer is not an object */
export function readObject(value: unknown, what: string): JsonObject {
  if (isJsonObject(value)) return value;
  throw new AgentError("internal", `Cannot read ${what}, expected a JSON object`);
}

/** @throws {AgentError} `internal` when the answer is not a list of objects */
export function readObjects(value: unknown, what: string): JsonObject[] {
  if (Array.isArray(value) && value.every(isJsonObject)) return value;
  throw new AgentError("internal", `Cannot read ${what}, expected a JSON list of objects`);
}

/** A member that is a text, or undefined. */
export function textIn(object: JsonObject, key: string): string | undefined {
  const value = object[key];
  return typeof value === "string" ? value : undefined;
}

/** What a cell of a table says: a member that is a text, or `-`. */
export function textCell(key: string): (object: JsonObject) => string {
  return (object) => textIn(object, key) ?? "-";
}

/** The same of a member that is a number. */
export function numberCell(key: string): (object: JsonObject) => string {
  return (object) => String(numberIn(object, key) ?? "-");
}

/** A member that is a number, or undefined. */
export function numberIn(object: JsonObject, key: string): number | undefined {
  const value = object[key];
  return typeof value === "number" ? value : undefined;
}

/** The members of a list that are objects; none when there is no list. */
export function objectsAt(object: JsonObject, key: string): JsonObject[] {
  const value = object[key];
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

/** The status with which a proxy in front of the agent refuses too many requests. */
const TOO_MANY_REQUESTS = 429;

/** Codes of failures that may soon be over: something is away, or has no room. */
const PASSING: readonly ErrorCode[] = ["host_away", "overloaded", "unreachable"];

/** Whether the same call may succeed a little later. */
export function isPassing(error: unknown): boolean {
  return error instanceof AgentError && PASSING.includes(error.code);
}

/** The error for an answer other than 2xx. */
export function answerError(call: ApiCall, answer: ApiAnswer): AgentError {
  const body = isJsonObject(answer.body) ? answer.body : {};
  const status = answer.status === TOO_MANY_REQUESTS
    ? ERROR_CODES.overloaded.status
    : answer.status;
  const { code, message, errors, about } = readErrorBody(status, body);
  const words = message ??
    `Cannot ${call.method} ${call.path}: the agent answered ${answer.status}`;
  const retryAfter = Number(answer.headers.get("retry-after") ?? Number.NaN);
  return new AgentError(code, words, {
    errors,
    about,
    ...(Number.isFinite(retryAfter) ? { retryAfterSeconds: retryAfter } : {}),
  });
}

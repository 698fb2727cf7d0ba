// Reads what the agent answers. The command line may be older or newer than the agent it talks to:
// fields it does not know are kept for --json, fields that are missing are missing in the table.

import { AgentError, codeOfStatus, ERROR_CODES, type FieldError } from "../../domain/error.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import type { ApiAnswer, ApiCall } from "./api_call.ts";

/** @throws {AgentError} `internal` when the answer is no object */
export function readObject(value: unknown, what: string): JsonObject {
  if (isJsonObject(value)) return value;
  throw new AgentError("internal", `Cannot read ${what}: expected a JSON object`);
}

/** @throws {AgentError} `internal` when the answer is no list of objects */
export function readObjects(value: unknown, what: string): JsonObject[] {
  if (Array.isArray(value) && value.every(isJsonObject)) return value;
  throw new AgentError("internal", `Cannot read ${what}: expected a JSON list of objects`);
}

/** A member that is a text, or undefined. */
export function textIn(object: JsonObject, key: string): string | undefined {
  const value = object[key];
  return typeof value === "string" ? value : undefined;
}

/** A member that is a number, or undefined. */
export function numberIn(object: JsonObject, key: string): number | undefined {
  const value = object[key];
  return typeof value === "number" ? value : undefined;
}

/** The members of a list that are objects; none when there is no list. */
export function objectsIn(object: JsonObject, key: string): JsonObject[] {
  const value = object[key];
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

/** What a proxy before the agent answers to too many requests. */
const TOO_MANY_REQUESTS = 429;

/** The error that an answer other than 2xx stands for. */
export function answerError(call: ApiCall, answer: ApiAnswer): AgentError {
  const body = isJsonObject(answer.body) ? answer.body : {};
  const errors = objectsIn(body, "errors").map(fieldError);
  const status = answer.status === TOO_MANY_REQUESTS ? "overloaded" : codeOfStatus(answer.status);
  // Document 2 answers 409 to a wrong parameter and to a wrong state alike.
  const argument = (textIn(body, "error_code") ?? textIn(body, "code")) === "invalid_argument" ||
    textIn(body, "code") === ERROR_CODES.invalid_argument.word;
  const code = status === "conflict" && argument ? "invalid_argument" : status;
  const message = textIn(body, "message") ??
    `Cannot ${call.method} ${call.path}: the agent answered ${answer.status}`;
  const retryAfter = Number(answer.headers.get("retry-after") ?? Number.NaN);
  return new AgentError(code, message, {
    errors,
    ...(Number.isFinite(retryAfter) ? { retryAfterSeconds: retryAfter } : {}),
  });
}

function fieldError(error: JsonObject): FieldError {
  const message = textIn(error, "message") ?? "";
  return { field: textIn(error, "field") ?? "", code: "Invalid", message };
}

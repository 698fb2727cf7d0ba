// One call of the HTTP interface as a value: client.ts sends it, or prints it for curl.

import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import { AgentError, ERROR_CODES, type ErrorCode } from "../../domain/error.ts";
import { readErrorBody } from "../../domain/error_body.ts";

/** Methods that `zonewright api` may send. */
export const METHODS: readonly string[] = ["GET", "HEAD", "POST", "PUT", "DELETE"];

/** One request to the agent. */
export interface ApiCall {
  readonly method: string;
  /** Begins with a slash, and includes the query. */
  readonly path: string;
  readonly body?: JsonValue;
  /** A body that is not JSON, read as it is sent. */
  readonly stream?: ReadableStream<Uint8Array<ArrayBuffer>>;
  /** The file that the stream reads, for curl. */
  readonly file?: string;
  /** In addition to those that every call has; names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds for the whole answer; 30 seconds unless given. */
  readonly deadlineMs?: number;
}

/** One response, whatever its status. */
export interface ApiAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The parsed body; undefined when there is none or it is not JSON. */
  readonly body: unknown;
}

/** The agent that commands call: a URL, or its socket on this machine. */
export type AgentAddress =
  | { readonly kind: "url"; /** Without a slash at the end. */ readonly base: string }
  | { readonly kind: "socket"; readonly path: string };

/** The files with which a caller authenticates itself and verifies the agent. */
export interface Credentials {
  /** Absolute path of a file that contains a bearer token and nothing else. */
  readonly tokenFile?: string | undefined;
  /** Absolute path of the CA certificates (PEM) that may have signed the agent's. */
  readonly caFile?: string | undefined;
}

/** The base of URLs when the connection is a socket. */
const SOCKET_BASE = "http://localhost";

/** The URL of a call. */
export function urlOf(address: AgentAddress, path: string): string {
  return (address.kind === "url" ? address.base : SOCKET_BASE) + path;
}

/** The address as messages name it. */
export function addressText(address: AgentAddress): string {
  return address.kind === "url" ? address.base : address.path;
}

/** The body of a call. Document 2 requires JSON with every POST and PUT, so no body is sent as `{}`. */
export function bodyText({ method, body, stream, file }: ApiCall): string | undefined {
  if (stream !== undefined || file !== undefined) return undefined;
  if (body !== undefined) return JSON.stringify(body);
  return method === "POST" || method === "PUT" ? "{}" : undefined;
}

// Reads the agent's answers. The command line may be older or newer than the agent: unknown fields are kept
// for --json, and missing fields stay empty in tables.

/** @throws {AgentError} `internal` when the answer is not an object */
export function readObject(value: unknown, what: string): JsonObject {
  if (isJsonObject(value)) return value;
  throw new AgentError("internal", `Cannot read ${what}: expected a JSON object`);
}

/** @throws {AgentError} `internal` when the answer is not a list of objects */
export function readObjects(value: unknown, what: string): JsonObject[] {
  if (Array.isArray(value) && value.every(isJsonObject)) return value;
  throw new AgentError("internal", `Cannot read ${what}: expected a JSON list of objects`);
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
export function objectsIn(object: JsonObject, key: string): JsonObject[] {
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

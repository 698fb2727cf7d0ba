// What another agent answers: passed on to the caller, or turned into an error that names its host.

import {
  AgentError,
  codeOfStatus,
  ERROR_CODES,
  type ErrorCode,
  FIELD_ERROR_CODES,
  type FieldError,
  messageOf,
} from "../../domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue, objectsIn } from "../../domain/json.ts";
import type { ListedHost } from "../../store/host_store.ts";

/** Lists of media are the longest answers. */
const ANSWER_BYTES_MAX = 64 * 1024 * 1024;
/** A longer error is not shown. */
export const ERROR_BYTES_MAX = 64 * 1024;
/** Headers of an answer that mean the same to the caller. */
const KEPT_HEADERS = [
  "location",
  "retry-after",
  "cache-control",
  "x-count",
  "age",
  "idempotency-replayed",
  "allow",
  "upload-offset",
  "upload-complete",
] as const;

/** What agents answer with. Another type, such as a page with scripts, would be shown in this agent's name. */
const KEPT_TYPES = ["application/json", "application/octet-stream"];
/** Characters of another one that its error shows. */
const TYPE_CHARS_MAX = 64;

/** The host as errors name it. */
export function named({ name, uuid }: ListedHost): string {
  return `host ${name} (${uuid})`;
}

/** The error for an agent that does not answer. */
export function notReached(host: ListedHost, url: URL, error: unknown): AgentError {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  const message = `Cannot reach ${named(host)} at ${url.origin}: ${messageOf(cause)}`;
  return new AgentError("host_away", message, { cause: error });
}

/** The answer for the caller. @throws {AgentError} the error that it answers; `host_refused` */
export async function shownAnswer(
  host: ListedHost,
  answer: Response,
  method: string,
): Promise<Response> {
  const { status } = answer;
  if (status >= 400 && method !== "HEAD") {
    throw await errorOf(host, status, answer.headers, answer.body);
  }
  if (status >= 300 && status < 400) {
    await answer.body?.cancel();
    throw refusedBy(host, `it answers ${status}, expected no redirect`);
  }
  if (status === ERROR_CODES.unauthorized.status || status === ERROR_CODES.forbidden.status) {
    throw refusedBy(host, `it answers ${status}`);
  }
  const type = typeOf(answer);
  const isKept = KEPT_TYPES.includes(type);
  if (answer.body !== null && !isKept) {
    await answer.body.cancel();
    const shown = JSON.stringify(type.slice(0, TYPE_CHARS_MAX));
    throw refusedBy(host, `it answers with ${shown}, expected JSON or a file`);
  }
  const headers = new Headers(isKept ? { "content-type": type } : {});
  for (const name of KEPT_HEADERS) {
    const value = answer.headers.get(name);
    if (value !== null) headers.set(name, value);
  }
  if (method === "HEAD") await answer.body?.cancel();
  const body = method === "HEAD" ? null : answer.body?.pipeThrough(bounded(ANSWER_BYTES_MAX));
  return new Response(body ?? null, { status, headers });
}

/** The type of an answer, without its parameters. */
function typeOf({ headers }: Response): string {
  return (headers.get("content-type") ?? "").replace(/;.*$/s, "").trim().toLowerCase();
}

/** The error for an agent that does not do what was asked of it. */
export function refusedBy(host: ListedHost, why: string): AgentError {
  return new AgentError("host_refused", `Cannot have ${named(host)} answer: ${why}`);
}

/**
 * An error of another agent, which names its host; `host_refused` when it is about the call and not about the request of
 * the caller.
 */
export async function errorOf(
  host: ListedHost,
  status: number,
  headers: Headers,
  body: ReadableStream<Uint8Array<ArrayBuffer>> | null,
): Promise<AgentError> {
  const error = await parsedError(body);
  if (typeof error?.message !== "string") {
    return refusedBy(host, `it answers ${status} without an error of an agent`);
  }
  // The caller's own token was accepted here.
  if (status === ERROR_CODES.unauthorized.status) return refusedBy(host, error.message);
  const known = typeof error.error_code === "string" &&
    Object.hasOwn(ERROR_CODES, error.error_code);
  const code = known ? error.error_code as ErrorCode : codeOfStatus(status);
  const seconds = Number(headers.get("retry-after") ?? Number.NaN);
  const message = `Cannot do this on host ${host.name}: ${error.message}`;
  return new AgentError(code, message, {
    errors: fieldErrorsOf(error.errors),
    ...(Number.isSafeInteger(seconds) ? { retryAfterSeconds: seconds } : {}),
  });
}

async function parsedError(
  body: ReadableStream<Uint8Array<ArrayBuffer>> | null,
): Promise<JsonObject | undefined> {
  if (body === null) return undefined;
  try {
    const value: unknown = await new Response(body.pipeThrough(bounded(ERROR_BYTES_MAX))).json();
    return isJsonObject(value) ? value : undefined;
  } catch {
    // It is no JSON, too long, or broke off.
    return undefined;
  }
}

function fieldErrorsOf(errors: JsonValue | undefined): FieldError[] {
  return objectsIn(errors ?? null).flatMap(({ field, code, message }) => {
    const known = FIELD_ERROR_CODES.find((one) => one === code);
    if (known === undefined || typeof field !== "string" || typeof message !== "string") return [];
    return [{ field, code: known, message }];
  });
}

/** Ends a stream with an error beyond a number of bytes. */
function bounded(bytesMax: number) {
  let bytes = 0;
  return new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(piece, controller) {
      bytes += piece.length;
      if (bytes <= bytesMax) controller.enqueue(piece);
      else controller.error(new Error(`the answer is over ${bytesMax} bytes`));
    },
  });
}

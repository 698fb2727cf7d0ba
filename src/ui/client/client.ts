// Requests to the agent, and the same calls as commands for a terminal. The console uses the same API as every other
// caller, and has no special rights.

import { signal } from "@preact/signals";
import type { Answers, Schemas } from "./schema.ts";

/** The signed-in caller; undefined until the agent has answered. */
export const session = signal<Schemas["Session"] | undefined>(undefined);

/** Whether a session ended without a sign-out, so that the sign-in can say why it is shown. */
export const sessionEnded = signal(false);

/** A call, as it is sent and as it is shown as a command. */
export interface Call {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** The path, with its query if it has one. */
  readonly path: string;
  readonly body?: unknown;
  /** Besides those that every call has. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** A refusal of the agent, with its message. */
class CallError extends Error {
  /** The HTTP status; 0 when the agent was not reached. */
  readonly status: number;
  /** Each incorrect field, with its path in the body. */
  readonly errors: readonly Schemas["FieldError"][];

  constructor(message: string, status: number, errors: readonly Schemas["FieldError"][] = []) {
    super(message);
    this.status = status;
    this.errors = errors;
  }
}

/** Reads an answer that the description names. @throws {CallError} */
export async function read<K extends keyof Answers & `GET ${string}`>(
  _operation: K,
  path: string,
  signal?: AbortSignal,
): Promise<Answers[K]> {
  // The agent's description says that this is its answer; a test compares both.
  return await send({ method: "GET", path }, signal) as Answers[K];
}

/** An answer with its age. */
interface AgedAnswer<T> {
  readonly answer: T;
  /** Seconds; undefined when the agent read it for this answer. */
  readonly age: number | undefined;
}

/** Like read(), for an answer that the agent may have kept. @throws {CallError} */
export async function readAged<K extends keyof Answers & `GET ${string}`>(
  _operation: K,
  path: string,
  signal?: AbortSignal,
): Promise<AgedAnswer<Answers[K]>> {
  const { body, headers } = await exchange({ method: "GET", path }, signal);
  const age = headers.get("age");
  return { answer: body as Answers[K], age: age === null ? undefined : Number(age) };
}

/** Sends a call. @returns its JSON, or undefined when there is no body @throws {CallError} */
export async function send(call: Call, signal?: AbortSignal): Promise<unknown> {
  return (await exchange(call, signal)).body;
}

/** Why the agent refuses a path; undefined when it does not. */
export async function refusalOf(path: string): Promise<unknown> {
  const closing = new AbortController();
  try {
    const response = await fetch(path, { credentials: "same-origin", signal: closing.signal });
    if (response.ok) return undefined;
    return refusal(response.status, await response.json().catch(() => undefined));
  } catch (error) {
    return error;
  } finally {
    closing.abort();
  }
}

/** Whether the same call would fail again. A missing sign-in, a timeout and overload may pass. */
export function isFinal(error: unknown): boolean {
  const status = statusOf(error) ?? 0;
  return status >= 400 && status < 500 && ![401, 408, 429].includes(status);
}

async function exchange(
  call: Call,
  signal?: AbortSignal,
): Promise<{ readonly body: unknown; readonly headers: Headers }> {
  const headers = new Headers({ accept: "application/json", ...call.headers });
  if (call.method !== "GET") {
    for (const [name, value] of forgeryHeaders()) headers.set(name, value);
  }
  const withBody = call.method === "POST" || call.method === "PUT";
  if (withBody) headers.set("content-type", "application/json");
  let response;
  try {
    response = await fetch(call.path, {
      method: call.method,
      headers,
      credentials: "same-origin",
      ...(withBody ? { body: JSON.stringify(call.body ?? {}) } : {}),
      ...(signal === undefined ? {} : { signal }),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new CallError("The agent does not answer", 0);
  }
  if (response.status === 204) return { body: undefined, headers: response.headers };
  const body: unknown = await response.json().catch((error) => {
    if (signal?.aborted) throw error;
    // A refusal may come from a proxy, in any form.
    if (response.ok) throw new CallError("The answer of the agent broke off", 0);
  });
  if (response.ok) return { body, headers: response.headers };
  // The session has ended: show the sign-in, and then the page again.
  if (response.status === 401) take(SIGNED_OUT);
  throw refusal(response.status, body);
}

/** The caller is not signed in, although a token is required. */
const SIGNED_OUT: Schemas["Session"] = {
  caller: null,
  scope: null,
  csrf: null,
  expires_at: null,
};

/** Updates the session in memory. */
function take(found: Schemas["Session"]): void {
  const wasSignedIn = (session.peek()?.scope ?? null) !== null;
  sessionEnded.value = found.scope === null && (wasSignedIn || sessionEnded.peek());
  session.value = found;
}

/** The header against forged requests, which every change by a session needs. */
export function forgeryHeaders(): readonly (readonly [string, string])[] {
  const csrf = session.value?.csrf ?? null;
  return csrf === null ? [] : [["x-csrf-token", csrf]];
}

/** The error of an unsuccessful response. */
export function refusal(status: number, body: unknown): CallError {
  const { message, errors } = (body ?? {}) as { message?: unknown; errors?: unknown };
  return new CallError(
    typeof message === "string" ? message : `The agent answered with status ${status}`,
    status,
    Array.isArray(errors) ? errors : [],
  );
}

/** The message of an error, for people. */
export function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The status of a refusal: 0 when the agent was not reached, undefined for any other failure. */
export function statusOf(error: unknown): number | undefined {
  return error instanceof CallError ? error.status : undefined;
}

/** The incorrect fields that a refusal names. */
export function fieldErrorsOf(error: unknown): readonly Schemas["FieldError"][] {
  return error instanceof CallError ? error.errors : [];
}

/** The status of a missing resource. */
export const NOT_FOUND = 404;

/** Waits, or until the signal fires. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    resolve();
  }, { once: true });
  return promise;
}

/** Whether the console may change anything. */
export function mayChange(): boolean {
  return session.value?.scope === "admin";
}

/** Asks the agent who is signed in. @throws {CallError} when it does not answer */
export async function loadSession(): Promise<void> {
  take(await read("GET /agent/v1/session", "/agent/v1/session"));
}

/** @throws {CallError} `forbidden` for an unknown token */
export async function signIn(token: string): Promise<void> {
  const call: Call = { method: "POST", path: "/agent/v1/session", body: { token } };
  take(await send(call) as Answers["POST /agent/v1/session"]);
}

/** Signs out; the sign-in page follows if a token is required. */
export async function signOut(): Promise<void> {
  await send({ method: "DELETE", path: "/agent/v1/session" });
  // Typed texts may contain secrets, and the next user of the tab may be someone else.
  sessionStorage.clear();
  await loadSession();
  sessionEnded.value = false;
}

/** Quotes a word for a POSIX shell. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/**
 * The call as a curl command. In a session, it takes a token from the environment, since the console does not know
 * the token.
 */
export function curlOf(
  { method, path, body, headers = {}, file }: Call & {
    /** The name of a local file that is sent as the body. */
    readonly file?: string;
  },
): string {
  const words = ["curl", "-sS", "--fail-with-body"];
  if (file !== undefined) words.push("-T", quoted(file));
  else if (method !== "GET") words.push("-X", method);
  if (usesToken()) words.push("-H", '"authorization: Bearer $ZONEWRIGHT_TOKEN"');
  for (const [name, value] of Object.entries(headers)) {
    words.push("-H", quoted(`${name}: ${value}`));
  }
  if (file === undefined && (method === "POST" || method === "PUT")) {
    words.push("-H", quoted("content-type: application/json"));
    words.push("--data-raw", quoted(JSON.stringify(body ?? {})));
  }
  words.push(quoted(location.origin + path));
  return words.join(" ");
}

/**
 * The command of zonewright for this agent.
 * @param named whether to name the agent's address even if it is the default
 */
export function cliOf(
  words: readonly string[],
  origin = location.origin,
  named = false,
): string {
  const token = usesToken() ? ["--token-file", '"$ZONEWRIGHT_TOKEN_FILE"'] : [];
  const usual = origin === "http://localhost:8780" || origin === "http://127.0.0.1:8780";
  const url = usual && !named ? [] : ["--url", quoted(origin)];
  return ["zonewright", ...words.map(quoted), ...url, ...token].join(" ");
}

/** The words of a command that runs a workflow. */
export const RUN_WORDS = "job run WORKFLOW --follow".split(" ");

/** The words of a command that creates a machine from an ISO file. */
export const CREATE_WORDS = "machine create -f vm.json --iso installer.iso --follow".split(" ");

function usesToken(): boolean {
  return session.value?.csrf !== null && session.value?.csrf !== undefined;
}

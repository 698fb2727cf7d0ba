// One call of the HTTP interface as a value: client.ts sends it, or prints it for curl.

import type { JsonValue } from "../../domain/json.ts";

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

/** @param path begins with a slash, and may have a query */
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

/** Most characters of a word: Linux allows 128 KiB, and a character may take three bytes. */
const WORD_CHARS_MAX = 32 * 1024;
const END = "END_OF_BODY";
/**
 * Characters that JSON leaves as they are and a terminal obeys. In JSON they only occur in strings, where an
 * escape means the same; printable() of terminal.ts would write escapes that JSON does not have.
 */
const SHOWN_AS_CODE = /[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/**
 * The equivalent curl command as one line for a POSIX shell, with a here-document if the body is
 * too large for a word. The token is not in it: the line reads it from its file when it runs.
 */
export function curlLine(
  address: AgentAddress,
  call: ApiCall,
  { tokenFile, caFile }: Credentials = {},
): string {
  const words = ["curl", "-sS", "--fail-with-body"];
  if (address.kind === "socket") words.push("--unix-socket", address.path);
  if (caFile !== undefined && address.kind === "url") words.push("--cacert", caFile);
  if (call.method === "HEAD") words.push("--head");
  else if (call.file !== undefined) words.push("-T", call.file);
  else if (call.method !== "GET") words.push("-X", call.method);
  for (const [name, value] of Object.entries(call.headers ?? {})) {
    words.push("-H", `${name}: ${value}`);
  }
  const body = bodyText(call)?.replace(SHOWN_AS_CODE, jsonCode);
  const large = body !== undefined && body.length > WORD_CHARS_MAX;
  if (body !== undefined) {
    // --data-raw, or a body that begins with @ would name a file.
    words.push("-H", "content-type: application/json");
    words.push(...(large ? ["--data-binary", "@-"] : ["--data-raw", body]));
  }
  const url = urlOf(address, call.path);
  // curl would expand brackets and braces.
  if (/[[\]{}]/.test(url)) words.push("--globoff");
  words.push(url);
  const line = words.map(shellQuoted);
  if (tokenFile !== undefined) {
    const header = `"authorization: Bearer $(cat ${shellQuoted(tokenFile)})"`;
    line.splice(-1, 0, "-H", header);
  }
  // JSON.stringify() writes no line break, so the body cannot end the here-document.
  return large ? `${line.join(" ")} <<'${END}'\n${body}\n${END}` : line.join(" ");
}

function jsonCode(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** A word quoted so that a POSIX shell reads it back unchanged. */
export function shellQuoted(word: string): string {
  if (/^[A-Za-z0-9_./:@%+=,-]+$/.test(word)) return word;
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

// One call of the HTTP interface as a value: client.ts sends it, or prints it for curl.

import type { JsonValue } from "../../domain/json.ts";

/** Methods of the interface. */
export const METHODS: readonly string[] = ["GET", "HEAD", "POST", "PUT", "DELETE"];

/** One request. */
export interface ApiCall {
  readonly method: string;
  /** Begins with a slash; the query belongs to it. */
  readonly path: string;
  readonly body?: JsonValue;
  /** Besides those that every call has; names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds for the whole answer; 30 seconds when it is left out. */
  readonly deadlineMs?: number;
}

/** One response, whatever its status. */
export interface ApiAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The parsed text; undefined when there is none or when it is not JSON. */
  readonly body: unknown;
}

/** Where an agent answers. */
export type AgentAddress =
  | { readonly kind: "url"; /** Without a slash at the end. */ readonly base: string }
  | { readonly kind: "socket"; readonly path: string };

/** What an agent wants to know of its caller, and the caller of it. */
export interface Credentials {
  /** Absolute path of a file that holds a bearer token and nothing else. */
  readonly tokenFile?: string | undefined;
  /** Absolute path of the certificates (PEM) by which an agent's own may be signed. */
  readonly caFile?: string | undefined;
}

/** The address that stands in the URL when the connection is a socket. */
const SOCKET_BASE = "http://localhost";

/** The URL of a call. */
export function urlOf(address: AgentAddress, path: string): string {
  return (address.kind === "url" ? address.base : SOCKET_BASE) + path;
}

/** An address as messages show it. */
export function addressText(address: AgentAddress): string {
  return address.kind === "url" ? address.base : address.path;
}

/** The body of a call; document 2 wants JSON of every POST and PUT, so none is sent as `{}`. */
export function bodyText({ method, body }: ApiCall): string | undefined {
  if (body !== undefined) return JSON.stringify(body);
  return method === "POST" || method === "PUT" ? "{}" : undefined;
}

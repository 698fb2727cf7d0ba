// The command line's way to an agent: HTTP over TCP or a unix socket, JSON both ways. Answers are
// `unknown` until answer.ts has read them; an error body becomes an AgentError.

import { AgentError, messageOf, systemReason } from "../../domain/error.ts";
import {
  addressText,
  type AgentAddress,
  answerError,
  type ApiAnswer,
  type ApiCall,
  bodyText,
  type Credentials,
  NOT_AN_AGENT,
  urlOf,
} from "./api_call.ts";
import { cannot } from "../command/arguments.ts";
import { isTokenText } from "../../domain/token.ts";

/** What became of the call of a command. */
export type Sent =
  | { readonly kind: "answered"; readonly body: unknown; readonly headers: Headers }
  /** With --curl nothing is called; the command has nothing left to do. */
  | { readonly kind: "printed" };

/** The agent as a command sees it: one call, one answer. */
export interface Client {
  readonly address: AgentAddress;
  /** What is shown to the agent with each call. */
  readonly credentials: Credentials;
  /** The header with the token, if there is one, and the way to the agent, for a WebSocket. */
  connected(): Promise<{ headers: Record<string, string>; http: Deno.HttpClient | undefined }>;
  /** Calls and answers whatever the status is. @throws {AgentError} `unreachable`, `aborted` */
  exchange(call: ApiCall): Promise<ApiAnswer>;
  /** Reads, also with --curl. @throws {AgentError} for every status but 2xx */
  get(path: string, signal?: AbortSignal): Promise<unknown>;
  /** The call that a command is about. @throws {AgentError} for every status but 2xx */
  send(call: ApiCall): Promise<Sent>;
  /** Prints a call that exchange() would make, with --curl alone. @returns whether it did */
  prints(call: ApiCall): boolean;
  close(): void;
}

/** Which agent is called, and whether calls are printed instead. */
interface ClientOptions {
  readonly address: AgentAddress;
  readonly credentials?: Credentials;
  /** Takes a curl command; then `send` prints and does not call. */
  readonly printCurl?: ((line: string) => void) | undefined;
}

const ANSWER_DEADLINE_MS = 30_000;
/** Longest path with its query; the agent's own bound on a request's head is about as large. */
const PATH_CHARS_MAX = 16_384;
const ANSWER_BYTES_MAX = 256 * 1_048_576;

/** Opens a client. Nothing is connected before the first call. */
export function openClient({ address, credentials = {}, printCurl }: ClientOptions): Client {
  const connection = openConnection(address, credentials);
  const exchange = async (call: ApiCall): Promise<ApiAnswer> => {
    const { length } = call.path;
    if (length > PATH_CHARS_MAX) {
      throw cannot(`call a path of ${length} characters: expected ${PATH_CHARS_MAX} at most`);
    }
    const deadline = AbortSignal.timeout(call.deadlineMs ?? ANSWER_DEADLINE_MS);
    const signal = call.signal === undefined ? deadline : AbortSignal.any([call.signal, deadline]);
    const connected = await connection.get();
    try {
      const response = await fetch(urlOf(address, call.path), requestOf(call, connected, signal));
      const text = await readText(response);
      return { status: response.status, headers: response.headers, text, body: parsed(text) };
    } catch (error) {
      if (error instanceof AgentError) throw error;
      if (call.signal?.aborted === true) {
        throw new AgentError(
          "aborted",
          `Cannot finish ${call.method} ${call.path}: the request was aborted`,
        );
      }
      const why = deadline.aborted ? "it does not answer" : await causeOf(address, error);
      throw unreachableError(address, why);
    }
  };
  const send = async (call: ApiCall): Promise<Sent> => {
    const answer = await exchange(call);
    if (answer.status < 200 || answer.status > 299) {
      // An agent says in JSON what it has not; a proxy or another server says it in its own way.
      if (answer.status === 404 && answer.body === undefined && call.method !== "HEAD") {
        throw unreachableError(address, NOT_AN_AGENT);
      }
      throw answerError(call, answer);
    }
    if (answer.text !== "" && answer.body === undefined) {
      throw unreachableError(address, NOT_AN_AGENT);
    }
    return { kind: "answered", body: answer.body, headers: answer.headers };
  };
  const prints = (call: ApiCall) => {
    printCurl?.(curlLine(address, call, credentials));
    return printCurl !== undefined;
  };
  return {
    address,
    credentials,
    connected: () => connection.get(),
    exchange,
    async get(path, signal) {
      const sent = await send({ method: "GET", path, signal });
      return sent.kind === "answered" ? sent.body : undefined;
    },
    async send(call) {
      return prints(call) ? { kind: "printed" } : await send(call);
    },
    prints,
    close: () => connection.close(),
  };
}

/** What fetch() takes of a call. */
function requestOf(call: ApiCall, { headers, http }: Connected, signal: AbortSignal) {
  const text = bodyText(call);
  const body = call.stream ?? text;
  const type = call.stream === undefined ? "application/json" : "application/octet-stream";
  return {
    method: call.method,
    redirect: "manual" as const,
    signal,
    headers: {
      accept: "application/json",
      ...headers,
      ...(body === undefined ? {} : { "content-type": type }),
      ...call.headers,
    },
    ...(body === undefined ? {} : { body }),
    ...(http === undefined ? {} : { client: http }),
  };
}

function unreachableError(address: AgentAddress, why: string): AgentError {
  return new AgentError("unreachable", `Cannot reach the agent at ${addressText(address)}: ${why}`);
}

/** What the runtime says of a failed connection, and what it means. */
const CAUSES: readonly (readonly [said: RegExp, means: string])[] = [
  // The first bytes of plain HTTP are no record of TLS.
  [
    /InvalidContentType|corrupt message|wrong version number/i,
    "it speaks http, not https: expected an address with http://",
  ],
  // Nor is an alert of TLS the first line of an answer.
  [
    /invalid HTTP version parsed/i,
    "it speaks no http, perhaps https: expected an address with https://",
  ],
  [
    /UnknownIssuer/,
    "its certificate is signed by nobody that is trusted here: expected --ca FILE, with the " +
    "certificate of its signer",
  ],
  [
    /CaUsedAsEndEntity/,
    "its certificate is that of a signer (CA:TRUE): expected the agent to have one of its own, " +
    "made with CA:FALSE",
  ],
  [
    /NotValidForName|not valid for name/i,
    "its certificate names other hosts: expected an address with a name that it names",
  ],
  [
    /invalid peer certificate: Expired|certificate expired/i,
    "its certificate has expired, unless the clock here is wrong: expected a renewed one",
  ],
  [
    /NotValidYet|certificate not valid yet/i,
    "its certificate is not valid yet, unless the clock here is wrong",
  ],
  [/dns error|failed to lookup/i, "no address is known for that name"],
];

/** What the system says of a connection that it has not made; its own words are short enough. */
const REFUSALS = /connection refused|no such file or directory|permission denied|timed out/i;

/** The shortest words for a failed connection. */
async function causeOf(address: AgentAddress, error: unknown): Promise<string> {
  if (address.kind === "socket") {
    const found = await Deno.stat(address.path).catch(() => undefined);
    if (found?.isSocket === false) return "it is not a socket";
  }
  const inner = error instanceof Error && error.cause !== undefined ? error.cause : error;
  const message = messageOf(inner);
  const known = CAUSES.find(([said]) => said.test(message))?.[1] ??
    REFUSALS.exec(message)?.[0].toLowerCase();
  // Without what was asked for, which the command knows.
  return known ?? message.replace(/^error sending request .*client error \(\w+\): /, "");
}

async function readText(response: Response): Promise<string> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for await (const part of response.body ?? []) {
    size += part.length;
    if (size > ANSWER_BYTES_MAX) {
      throw new AgentError("too_large", `Cannot read the answer: over ${ANSWER_BYTES_MAX} bytes`);
    }
    parts.push(part);
  }
  return await new Blob(parts).text();
}

function parsed(text: string): unknown {
  try {
    return text === "" ? undefined : JSON.parse(text);
  } catch {
    // Not JSON: the caller sees the text.
    return undefined;
  }
}

// The way to an agent and what is shown to it: over a socket or with certificates of one's own, and with
// a token from a file. Files are read with the first call.

/** What a request or a WebSocket needs besides its URL. */
interface Connected {
  readonly headers: Record<string, string>;
  readonly http: Deno.HttpClient | undefined;
}

/** A way that is opened when it is first gone. */
interface AgentConnection {
  /** @throws {AgentError} `invalid_argument` for an unusable file */
  get(): Promise<Connected>;
  close(): void;
}

const LOOPBACK_URL = /^http:\/\/(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?(?:\/|$)/;

/** Makes the way; nothing is read or connected yet. */
function openConnection(address: AgentAddress, credentials: Credentials): AgentConnection {
  let opened: Promise<Connected> | undefined;
  let http: Deno.HttpClient | undefined;
  const open = async () => {
    const headers = await headersOf(address, credentials.tokenFile);
    if (address.kind === "socket") {
      http = Deno.createHttpClient({ proxy: { transport: "unix", path: address.path } });
    } else if (credentials.caFile !== undefined) {
      http = trusting(await readFile(credentials.caFile, "--ca"), credentials.caFile);
    }
    return { headers, http };
  };
  return {
    get: () => opened ??= open(),
    close: () => http?.close(),
  };
}

function trusting(pem: string, path: string): Deno.HttpClient {
  try {
    if (!pem.includes("-----BEGIN CERTIFICATE-----")) throw new Error("it contains no certificate");
    return Deno.createHttpClient({ caCerts: [pem] });
  } catch (error) {
    throw cannot(`use --ca ${path}: ${messageOf(error)}: expected certificates (PEM)`);
  }
}

async function headersOf(
  address: AgentAddress,
  tokenFile: string | undefined,
): Promise<Record<string, string>> {
  if (tokenFile === undefined) return {};
  const token = (await readFile(tokenFile, "--token-file")).trim();
  if (!isTokenText(token)) {
    const expected = "expected what zonewright token create has printed, and nothing else";
    throw cannot(`use --token-file ${tokenFile}: it contains no token: ${expected}`);
  }
  if (
    address.kind === "url" && !address.base.startsWith("https:") && !LOOPBACK_URL.test(address.base)
  ) {
    const message = `Cannot send a token to ${address.base}: expected https, or this host`;
    throw new AgentError("forbidden", message);
  }
  return { authorization: `Bearer ${token}` };
}

async function readFile(path: string, flag: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch (error) {
    throw cannot(`read ${flag} ${path}: ${systemReason(error)}`);
  }
}

// The curl command that does what a call does, quoted for a POSIX shell.

/** Characters of a word: Linux takes 128 KiB, and a character may have three bytes. */
const WORD_CHARS_MAX = 32 * 1024;
const END = "END_OF_BODY";
/**
 * What JSON leaves as it is and a terminal obeys. In JSON these stand in texts alone, where their codes
 * mean the same; see printable() of terminal.ts, which would write codes that JSON does not know.
 */
const SHOWN_AS_CODE = /[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/**
 * One shell command line, with the lines of its input where the body is too large for a word. A token
 * is read from its file when the line runs, and is not in it.
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
    // --data-raw: a text that begins with @ is a text, not a file.
    words.push("-H", "content-type: application/json");
    words.push(...(large ? ["--data-binary", "@-"] : ["--data-raw", body]));
  }
  const url = urlOf(address, call.path);
  // curl would read brackets and braces as patterns.
  if (/[[\]{}]/.test(url)) words.push("--globoff");
  words.push(url);
  const line = words.map(shellQuoted);
  if (tokenFile !== undefined) {
    const header = `"authorization: Bearer $(cat ${shellQuoted(tokenFile)})"`;
    line.splice(-1, 0, "-H", header);
  }
  // JSON has no line break, so that no line of it ends the text.
  return large ? `${line.join(" ")} <<'${END}'\n${body}\n${END}` : line.join(" ");
}

function jsonCode(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** A word as a POSIX shell reads it back unchanged. */
export function shellQuoted(word: string): string {
  if (/^[A-Za-z0-9_./:@%+=,-]+$/.test(word)) return word;
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

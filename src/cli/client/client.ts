// Calls an agent: HTTP over TCP or a unix socket, JSON both ways. Answers are `unknown` until answer.ts has
// read them; an error body becomes an AgentError.

import { AgentError, type ErrorSubject, messageOf, systemReason } from "../../domain/error.ts";
import {
  addressText,
  type AgentAddress,
  type ApiAnswer,
  type ApiCall,
  bodyText,
  type Credentials,
  curlLine,
  urlOf,
} from "./api_call.ts";
import { answerError } from "./answer.ts";
import { isTokenText } from "../../domain/token.ts";
import { openWords } from "../../state_dir/secret_file.ts";

/** What the agent answered to the call that a command is for. */
export interface Sent {
  readonly body: unknown;
  readonly headers: Headers;
}

/** Ends a command whose call was printed, by --curl, instead of made. */
export class CallPrinted extends Error {}

/** The agent as a command sees it: one call, one answer. */
export interface Client {
  readonly address: AgentAddress;
  /** The header with the token, if there is one, and the HTTP client, for a WebSocket. */
  connected(): Promise<{ headers: Record<string, string>; http: Deno.HttpClient | undefined }>;
  /**
   * Makes the call and returns the answer, whatever its status.
   * @throws {AgentError} `unreachable`, `aborted`
   */
  exchange(call: ApiCall): Promise<ApiAnswer>;
  /** Makes a GET, even with --curl. @throws {AgentError} for every status but 2xx */
  get(path: string, signal?: AbortSignal): Promise<unknown>;
  /**
   * Makes the call that the command is for, or prints it.
   * @throws {AgentError} for every status but 2xx
   * @throws {CallPrinted} with --curl
   */
  send(call: ApiCall): Promise<Sent>;
  /** With --curl, prints a call that exchange() would make. @returns whether it did */
  prints(call: ApiCall): boolean;
  close(): void;
}

/** Which agent is called, and whether calls are printed instead. */
interface ClientOptions {
  readonly address: AgentAddress;
  readonly credentials?: Credentials;
  /** Takes a curl command; if given, `send` prints instead of calling. */
  readonly printCurl?: ((line: string) => void) | undefined;
  /** Takes a line for people. */
  readonly note?: (line: string) => void;
}

const ANSWER_DEADLINE_MS = 30_000;
/** Longest path with its query, characters; the agent's limit on the head of a request is about the same. */
const PATH_CHARS_MAX = 16_384;
const ANSWER_BYTES_MAX = 256 * 1_048_576;

/** Opens a client. Nothing is connected before the first call. */
export function openClient(options: ClientOptions): Client {
  const { address, credentials = {}, printCurl } = options;
  const connection = openConnection(options);
  const exchange = async (call: ApiCall): Promise<ApiAnswer> => {
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
      const cause = deadline.aborted ? SILENT : await causeOf(address, error);
      throw unreachableError(address, cause);
    }
  };
  const send = async (call: ApiCall): Promise<Sent> => {
    const answer = await exchange(call);
    if (answer.status < 200 || answer.status > 299) {
      // An agent answers 404 in JSON; a proxy or another server answers in its own way.
      if (answer.status === 404 && answer.body === undefined && call.method !== "HEAD") {
        throw unreachableError(address, NOT_AN_AGENT);
      }
      throw answerError(call, answer);
    }
    if (answer.text !== "" && answer.body === undefined) {
      throw unreachableError(address, NOT_AN_AGENT);
    }
    return { body: answer.body, headers: answer.headers };
  };
  const prints = (call: ApiCall) => {
    printCurl?.(curlLine(address, call, credentials));
    return printCurl !== undefined;
  };
  return {
    address,
    connected: () => connection.get(),
    exchange,
    async get(path, signal) {
      return (await send({ method: "GET", path, signal })).body;
    },
    async send(call) {
      if (prints(call)) throw new CallPrinted("The call was printed");
      return await send(call);
    },
    prints,
    close: () => connection.close(),
  };
}

/** The options of fetch() for a call. @throws {AgentError} `invalid_argument` for a path that is too long */
function requestOf(call: ApiCall, { headers, http }: Connected, signal: AbortSignal) {
  const { length } = call.path;
  if (length > PATH_CHARS_MAX) {
    const message =
      `Cannot call a path of ${length} characters, expected ${PATH_CHARS_MAX} at most`;
    throw new AgentError("invalid_argument", message);
  }
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

/** Why an agent was not reached. */
interface Unreached {
  readonly means: string;
  readonly about?: ErrorSubject["kind"];
}

const SILENT: Unreached = { means: "it does not answer" };

/** An answer that no agent gives. */
const NOT_AN_AGENT: Unreached = {
  means: "what answers there is not zonewright",
  about: "server",
};

function unreachableError(address: AgentAddress, { means, about: kind }: Unreached): AgentError {
  const text = addressText(address);
  const name = kind === "scheme" ? otherScheme(text) : text;
  return new AgentError("unreachable", `Cannot reach the agent at ${text}: ${means}`, {
    about: kind === undefined ? undefined : { kind, name },
  });
}

function otherScheme(url: string): string {
  return url.startsWith("https:") ? url.replace("https:", "http:") : url.replace("http:", "https:");
}

/** The runtime's messages about failed connections, and what they mean. */
const CAUSES: readonly (Unreached & { readonly said: RegExp })[] = [
  {
    // Plain HTTP where TLS was expected.
    said: /InvalidContentType|corrupt message|wrong version number/i,
    means: "it speaks http, not https, expected an address with http://",
    about: "scheme",
  },
  {
    // TLS where plain HTTP was expected.
    said: /invalid HTTP version parsed/i,
    means: "it does not speak http, perhaps https, expected an address with https://",
    about: "scheme",
  },
  {
    said: /UnknownIssuer/,
    means: "its certificate is not signed by a trusted authority, expected --ca FILE, with the " +
      "certificate of its signer",
    about: "signer",
  },
  {
    said: /CaUsedAsEndEntity/,
    means: "its certificate is that of a signer (CA:TRUE), expected the agent to have one of its " +
      "own, made with CA:FALSE",
    about: "certificate",
  },
  {
    said: /NotValidForName|not valid for name/i,
    means: "its certificate names other hosts, expected an address with a name that it names",
    about: "certificate",
  },
  {
    said: /invalid peer certificate: Expired|certificate expired/i,
    means: "its certificate has expired, unless the clock here is wrong, expected a renewed one",
    about: "certificate",
  },
  {
    said: /NotValidYet|certificate not valid yet/i,
    means: "its certificate is not valid yet, unless the clock here is wrong",
    about: "certificate",
  },
  { said: /dns error|failed to lookup/i, means: "no address is known for that name" },
];

/** The system's messages about connections that it could not make, which are short enough to show. */
const REFUSALS = /connection refused|no such file or directory|permission denied|timed out/i;

/** A socket that is there, but not for this user. */
const SOCKET_CLOSED: Unreached = {
  means:
    "permission denied, expected its owner, root, or a user whom socket_mode and socket_group " +
    "admit",
  about: "file",
};

/** The cause of a failed connection, in few words. */
async function causeOf(address: AgentAddress, error: unknown): Promise<Unreached> {
  if (address.kind === "socket") {
    const found = await Deno.stat(address.path).catch(() => undefined);
    if (found?.isSocket === false) return { means: "it is not a socket" };
  }
  const inner = error instanceof Error && error.cause !== undefined ? error.cause : error;
  const message = messageOf(inner);
  const known = CAUSES.find(({ said }) => said.test(message));
  if (known !== undefined) return known;
  const refusal = REFUSALS.exec(message)?.[0].toLowerCase();
  if (address.kind === "socket" && refusal === "permission denied") return SOCKET_CLOSED;
  // Without the URL, which the command knows.
  return {
    means: refusal ?? message.replace(/^error sending request .*client error \(\w+\): /, ""),
  };
}

async function readText(response: Response): Promise<string> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for await (const part of response.body ?? []) {
    size += part.length;
    if (size > ANSWER_BYTES_MAX) {
      throw new AgentError(
        "too_large",
        `Cannot read the answer: it is over ${ANSWER_BYTES_MAX} bytes, the maximum`,
      );
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

/** What a request or a WebSocket needs besides its URL. */
interface Connected {
  readonly headers: Record<string, string>;
  readonly http: Deno.HttpClient | undefined;
}

/** A connection that is opened on first use. */
interface AgentConnection {
  /** @throws {AgentError} `invalid_argument` for an unusable file */
  get(): Promise<Connected>;
  close(): void;
}

const LOOPBACK_URL = /^http:\/\/(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?(?:\/|$)/;

/**
 * Prepares the connection, over a socket or with CA certificates of one's own, and with a token
 * from a file. Files are read on the first call; nothing is connected yet.
 */
function openConnection(
  { address, credentials = {}, note }: ClientOptions,
): AgentConnection {
  let opened: Promise<Connected> | undefined;
  let http: Deno.HttpClient | undefined;
  const open = async () => {
    const headers = await headersOf(address, credentials.tokenFile, note);
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
    const message = `Cannot use --ca ${path}: ${messageOf(error)}, expected certificates (PEM)`;
    throw new AgentError("invalid_argument", message);
  }
}

async function headersOf(
  address: AgentAddress,
  tokenFile: string | undefined,
  note: ClientOptions["note"],
): Promise<Record<string, string>> {
  if (tokenFile === undefined) return {};
  const found = await Deno.stat(tokenFile).catch(() => undefined);
  // A shell may give a pipe instead. A file of a caller is not refused: `token create > FILE` makes it by the umask.
  const words = found?.isFile ? openWords(found.mode ?? 0) : undefined;
  if (words !== undefined) note?.(`others may read the token in ${tokenFile}: ${words}`);
  const token = (await readFile(tokenFile, "--token-file")).trim();
  if (!isTokenText(token)) {
    const message = `Cannot use --token-file ${tokenFile}: it contains no token, expected what ` +
      "zonewright token create has printed, and nothing else";
    throw new AgentError("invalid_argument", message);
  }
  if (
    address.kind === "url" && !address.base.startsWith("https:") && !LOOPBACK_URL.test(address.base)
  ) {
    const message = `Cannot send a token to ${address.base}, expected https, or this host`;
    throw new AgentError("forbidden", message);
  }
  return { authorization: `Bearer ${token}` };
}

async function readFile(path: string, flag: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch (error) {
    const message = `Cannot read ${flag} ${path}: ${systemReason(error)}, expected a file to read`;
    throw new AgentError("invalid_argument", message);
  }
}

// The command line's way to an agent: HTTP over TCP or a unix socket, JSON both ways. Answers are
// `unknown` until answer.ts has read them; an error body becomes an AgentError.

import { AgentError, messageOf } from "../../domain/error.ts";
import { answerError } from "./answer.ts";
import {
  addressText,
  type AgentAddress,
  type ApiAnswer,
  type ApiCall,
  bodyText,
  type Credentials,
  urlOf,
} from "./api_call.ts";
import { usageError } from "./arguments.ts";
import { openConnection } from "./connection.ts";
import { curlLine } from "./curl.ts";

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
  close(): void;
}

/** Which agent is called, and whether calls are printed instead. */
export interface ClientOptions {
  readonly address: AgentAddress;
  readonly credentials?: Credentials;
  /** Takes a curl command; then `send` prints and does not call. */
  readonly printCurl?: ((line: string) => void) | undefined;
}

const DEADLINE_MS = 30_000;
/** Longest path with its query; the agent's own bound on a request's head is about as large. */
const PATH_CHARS_MAX = 16_384;
const ANSWER_BYTES_MAX = 256 * 1_048_576;

/** Opens a client. Nothing is connected before the first call. */
export function openClient({ address, credentials = {}, printCurl }: ClientOptions): Client {
  const connection = openConnection(address, credentials);
  const exchange = async (call: ApiCall): Promise<ApiAnswer> => {
    if (call.path.length > PATH_CHARS_MAX) {
      throw usageError(
        `a name or path of over ${PATH_CHARS_MAX} characters is too long to ask for`,
      );
    }
    const deadline = AbortSignal.timeout(call.deadlineMs ?? DEADLINE_MS);
    const signal = call.signal === undefined ? deadline : AbortSignal.any([call.signal, deadline]);
    const { headers, http } = await connection.get();
    const body = bodyText(call);
    try {
      const response = await fetch(urlOf(address, call.path), {
        method: call.method,
        redirect: "manual",
        signal,
        headers: {
          accept: "application/json",
          ...headers,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...call.headers,
        },
        ...(body === undefined ? {} : { body }),
        ...(http === undefined ? {} : { client: http }),
      });
      const text = await readText(response);
      return { status: response.status, headers: response.headers, text, body: parsed(text) };
    } catch (error) {
      if (error instanceof AgentError) throw error;
      if (call.signal?.aborted === true) {
        throw new AgentError("aborted", `Cannot go on: ${call.method} ${call.path} was given up`);
      }
      throw unreachableError(address, deadline.aborted ? "it does not answer" : causeOf(error));
    }
  };
  const send = async (call: ApiCall): Promise<Sent> => {
    const answer = await exchange(call);
    if (answer.status < 200 || answer.status > 299) throw answerError(call, answer);
    if (answer.text !== "" && answer.body === undefined) {
      throw unreachableError(address, "what answers there is not zonewright");
    }
    return { kind: "answered", body: answer.body, headers: answer.headers };
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
      if (printCurl === undefined) return await send(call);
      printCurl(curlLine(address, call, credentials));
      return { kind: "printed" };
    },
    close: () => connection.close(),
  };
}

function unreachableError(address: AgentAddress, why: string): AgentError {
  return new AgentError("unreachable", `Cannot reach the agent at ${addressText(address)}: ${why}`);
}

/** The shortest words for a failed connection. */
function causeOf(error: unknown): string {
  const inner = error instanceof Error && error.cause !== undefined ? error.cause : error;
  const message = messageOf(inner);
  const known = /(connection refused|no such file or directory|permission denied|timed out)/i
    .exec(message);
  return known?.[1]?.toLowerCase() ?? message;
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

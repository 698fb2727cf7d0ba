// Calls to other agents: a request about a machine of another host goes to the agent of that host, which answers as
// if the caller had asked it directly. Its answer is passed on to the caller, or turned into an error that names its
// host. No request is forwarded twice.

import { sha256Hex } from "../../domain/digest.ts";
import {
  abortedError,
  AgentError,
  ERROR_CODES,
  type ErrorSubject,
  messageOf,
} from "../../domain/error.ts";
import { readErrorBody } from "../../domain/error_body.ts";
import type { MachineUuid } from "../../domain/id.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import {
  type HostStart,
  newNonce,
  peerAddress,
  type SignedHead,
  signedHeaders,
} from "../../domain/peer.ts";
import type { ListedHost } from "../../store/host_store.ts";
import type { MachineReportStore } from "../../store/report_store.ts";
import { type Caller, callerText, seesSecrets } from "../caller.ts";
import { type CallCheck, headOf, type PeerBook } from "./check.ts";

/** Time for a whole answer, milliseconds: longer than vmadm may take to describe a machine. */
const ANSWER_MS_MAX = 120_000;
/** Headers of a request that may change its answer. */
const SENT_HEADERS = ["content-type", "idempotency-key"] as const;

/** A call to be made, and for whom. */
interface OutgoingCall extends SignedHead {
  readonly caller: Caller;
  readonly body: Uint8Array<ArrayBuffer>;
}

interface PeerOptions {
  readonly own: HostStart;
  readonly privateKey: CryptoKey;
  /** PEM certificates of authorities that are trusted besides those of the system. */
  readonly authorities: readonly string[];
  readonly book: PeerBook;
  readonly reports: MachineReportStore;
  readonly check: CallCheck;
}

/** The other hosts of a shared store. */
export interface Peers {
  readonly own: HostStart;
  readonly reports: MachineReportStore;
  readonly check: CallCheck;
  readonly authorities: readonly string[];
  /** The other host that has a machine; undefined when this one has it, or no host is known to. */
  ownerOf(uuid: MachineUuid): Promise<ListedHost | undefined>;
  /**
   * The URL of a call, and the headers that sign it.
   * @throws {AgentError} `host_away` for a host that cannot be called now; `host_refused` for one that must not be
   *   called
   */
  sign(host: ListedHost, call: OutgoingCall): Promise<SignedCall>;
  /**
   * Forwards a request to another host.
   * @throws {AgentError} the other agent's error, with the name of its host; as sign(); `aborted` when the caller
   *   leaves
   */
  forward(host: ListedHost, request: ForwardedRequest): Promise<Response>;
}

/** A call with its signature. */
interface SignedCall {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
}

interface ForwardedRequest extends OutgoingCall {
  /** The headers of the caller's request. */
  readonly headers: Headers;
  readonly request_id: string;
  /** Fires when the caller leaves. */
  readonly signal: AbortSignal;
}

/** Opens the calls to other hosts. */
export function openPeers(options: PeerOptions): Peers {
  const { own, privateKey, authorities, book, reports, check } = options;
  // No connection is reused, because the other side could close it just when it is used.
  const client = Deno.createHttpClient({ caCerts: [...authorities], poolMaxIdlePerHost: 0 });
  const find = async (uuid: string) =>
    (await book.read(0)).hosts.find((host) => host.uuid === uuid);
  const sign = async (host: ListedHost, { method, target, caller, body }: OutgoingCall) => {
    const url = new URL(target, callable(host));
    const head = headOf({ method, url: url.href });
    const { now } = await book.read(0);
    const call = {
      from: { uuid: own.uuid, generation: own.generation },
      to: { uuid: host.uuid, generation: host.generation },
      at: now,
      nonce: newNonce(),
      sha256: await sha256Hex(body),
      caller: callerText(caller),
      // A ticket is valid only for the console in the signed path, so it may have the scope admin there.
      scope: caller.kind === "ticket" || seesSecrets(caller) ? "admin" : "read",
    } as const;
    return { url, headers: await signedHeaders(call, head, privateKey) };
  };
  return {
    own,
    reports,
    check,
    authorities,
    async ownerOf(uuid) {
      const owner = await reports.ownerOf(uuid);
      return owner === undefined || owner === own.uuid ? undefined : await find(owner);
    },
    sign,
    async forward(host, request) {
      const { url, headers } = await sign(host, request);
      const answer = await fetchAnswer(host, url, {
        method: request.method,
        headers: { ...sentHeaders(request), ...headers },
        body: request.body.length === 0 ? null : request.body,
        client,
        redirect: "manual",
        signal: AbortSignal.any([request.signal, AbortSignal.timeout(ANSWER_MS_MAX)]),
      }, request.signal);
      return await shownAnswer(host, answer, request.method);
    },
  };
}

/** The address of a host that can be called. @throws {AgentError} `host_away`, `host_refused` */
function callable(host: ListedHost): URL {
  const away = (why: string) =>
    new AgentError("host_away", `Cannot reach ${named(host)}: ${why}`, {
      about: subjectOf(host),
      retryAfterSeconds: 10,
    });
  if (host.forgotten) throw away("it was forgotten");
  if (host.state === "away") throw away(`it was last heard from at ${host.seen_at}`);
  if (host.address === null) throw away("its agent has no address for other agents (address)");
  const url = peerAddress(host.address);
  if (url !== undefined) return url;
  // Anyone who can write to the database can change the row.
  const words = "its address is neither https nor http on loopback";
  throw new AgentError("host_refused", `Cannot call ${named(host)}: ${words}`);
}

function sentHeaders({ headers, request_id }: ForwardedRequest): Record<string, string> {
  const sent = SENT_HEADERS.flatMap((name) => {
    const value = headers.get(name);
    return value === null ? [] : [[name, value]];
  });
  return { ...Object.fromEntries(sent), "accept-encoding": "identity", "x-request-id": request_id };
}

async function fetchAnswer(
  host: ListedHost,
  url: URL,
  init: RequestInit & { client: Deno.HttpClient },
  gaveUp: AbortSignal,
): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (error) {
    if (gaveUp.aborted) throw abortedError(`Cannot get an answer from ${named(host)}`, gaveUp);
    throw notReached(host, url, error);
  }
}

/** Longest answer, bytes; lists of media are the longest. */
const ANSWER_BYTES_MAX = 64 * 1024 * 1024;
/** Longest error, bytes; a longer one is replaced by a general one. */
export const ERROR_BYTES_MAX = 64 * 1024;
/** Headers of an answer that mean the same to the caller of this agent. */
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

/** Agents answer with these types. Anything else, such as a page with scripts, would run under this agent's address. */
const KEPT_TYPES = ["application/json", "application/octet-stream"];
/** Characters of an unexpected type that the error shows. */
const TYPE_CHARS_MAX = 64;

/** The host as errors name it. */
function named({ name, uuid }: ListedHost): string {
  return `host ${name} (${uuid})`;
}

function subjectOf({ name }: ListedHost): ErrorSubject {
  return { kind: "host", name };
}

/** The error for an agent that does not answer. */
export function notReached(host: ListedHost, url: URL, error: unknown): AgentError {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  const message = `Cannot reach ${named(host)} at ${url.origin}: ${messageOf(cause)}`;
  return new AgentError("host_away", message, { cause: error, about: subjectOf(host) });
}

/** The answer for the caller. @throws {AgentError} the error that it answers; `host_refused` */
async function shownAnswer(
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

function typeOf({ headers }: Response): string {
  return (headers.get("content-type") ?? "").replace(/;.*$/s, "").trim().toLowerCase();
}

/** The error for an agent that does not do what it was called for. */
export function refusedBy(host: ListedHost, why: string): AgentError {
  const message = `Cannot get an answer from ${named(host)}: ${why}`;
  return new AgentError("host_refused", message, { about: subjectOf(host) });
}

/**
 * The error of another agent, with the name of its host; `host_refused` if it is about the call rather than about the
 * caller's request.
 */
export async function errorOf(
  host: ListedHost,
  status: number,
  headers: Headers,
  body: ReadableStream<Uint8Array<ArrayBuffer>> | null,
): Promise<AgentError> {
  const error = await parsedError(body);
  const { message, ...parts } = readErrorBody(status, error ?? {});
  if (message === undefined) {
    return refusedBy(host, `it answers ${status} without an error of an agent`);
  }
  // This agent accepted the caller's own token, so the other one refused the call itself.
  if (status === ERROR_CODES.unauthorized.status) return refusedBy(host, message);
  const seconds = Number(headers.get("retry-after") ?? Number.NaN);
  return new AgentError(parts.code, `Cannot do this on host ${host.name}: ${message}`, {
    errors: parts.errors,
    about: parts.about,
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
    // Not JSON, too long, or cut off.
    return undefined;
  }
}

/** Passes a stream through, and fails it beyond a number of bytes. */
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

// One GET from a foreign server. Redirects are followed here, so that each address is checked, and the answer
// has a time limit. The caller reads or cancels the body.

import { AgentError, messageOf } from "../../domain/error.ts";
import { quote } from "../../domain/index/index_document.ts";
import type { PackedAs } from "../../domain/machine/media.ts";
import { parseRemote, type Reach, requirePublic } from "./allowed_hosts.ts";
import { retryAfterSeconds, transientError } from "./retry.ts";
import { abortReason, type Deadline } from "./time_limits.ts";

/** Redirects that one request may go through. */
const REDIRECTS_MAX = 5;

const REDIRECTS = [301, 302, 303, 307, 308];

/** How this agent reaches foreign servers: which ones it may, and how it identifies itself. */
export interface Web {
  readonly fetch: typeof fetch;
  readonly reach: Reach;
  readonly userAgent: string;
  /** The bearer token to send to an address, if any. */
  readonly tokenFor: (url: URL) => Promise<string | undefined>;
}

/** One request: always a GET. */
interface WebRequest {
  readonly headers: Readonly<Record<string, string>>;
  /** Also bounds the body: the response ends when it fires. */
  readonly deadline: Deadline;
  /** A host named by the operator, which need not be public. */
  readonly trustedHost?: string;
  /** Also refuses redirects from http to https; those from https to http are always refused. */
  readonly keepsScheme?: boolean;
  /** How the file is compressed: some servers report that as their content encoding. */
  readonly packedAs?: PackedAs;
}

/**
 * Sends the request.
 * @returns a response with status 200, 206, 304, 404, 410 or 416; the body is not read yet
 * @throws {AgentError} `timeout`, `aborted` or `upstream`: transient for 429, 5xx and no answer,
 *   final for a body that was compressed in transit
 */
export async function ask(web: Web, address: string, request: WebRequest): Promise<Response> {
  let url = parseRemote(address, web.reach);
  for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects++) {
    if (url.host !== request.trustedHost) {
      await within(request.deadline.signal, requirePublic(url, web.reach));
    }
    const response = await askOnce(web, url, request);
    if (!REDIRECTS.includes(response.status)) return await accept(response, url, request);
    await response.body?.cancel();
    url = redirected(response, url, web, request.keepsScheme ?? false);
  }
  const message = `Cannot read ${shown(address)}: it redirects over ${REDIRECTS_MAX} times`;
  throw new AgentError("upstream", message);
}

/** The resolver's timeout may be longer than ours. */
async function within(signal: AbortSignal, work: Promise<void>): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  const giveUp = () => reject(signal.reason);
  if (signal.aborted) giveUp();
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}

async function askOnce(web: Web, url: URL, request: WebRequest): Promise<Response> {
  const { signal } = request.deadline;
  try {
    signal.throwIfAborted();
    const token = await web.tokenFor(url);
    const shownToken = token === undefined ? undefined : { authorization: `Bearer ${token}` };
    return await web.fetch(url, {
      headers: {
        "user-agent": web.userAgent,
        // The received bytes are counted and hashed.
        "accept-encoding": "identity",
        ...request.headers,
        ...shownToken,
      },
      redirect: "manual",
      signal,
    });
  } catch (error) {
    throw failure(error, signal, `read ${shown(url.href)}`);
  }
}

/** The error of a fetch or its body: timeout, caller, or network. */
export function failure(error: unknown, signal: AbortSignal, what: string): AgentError {
  if (error instanceof AgentError) return error;
  if (signal.aborted) return abortReason(what, signal);
  // The runtime repeats the address with its query, which may contain a token.
  const why = messageOf(error).replace(/ for url \(\S*\)/, "");
  return transientError(`Cannot ${what}: ${why}`, 0, error);
}

function redirected(response: Response, from: URL, web: Web, keepsScheme: boolean): URL {
  const location = response.headers.get("location");
  if (location === null) {
    const message = `Cannot read ${shown(from.href)}: it redirects without an address`;
    throw new AgentError("upstream", message);
  }
  const to = parseRemote(location, web.reach, from);
  if (to.protocol !== from.protocol && (keepsScheme || from.protocol === "https:")) {
    const message = `Cannot read ${shown(from.href)}: it redirects from ${from.protocol} to ` +
      to.protocol;
    throw new AgentError("upstream", message);
  }
  return to;
}

const ACCEPTED_STATUSES = [200, 206, 304, 404, 410, 416];

async function accept(response: Response, url: URL, request: WebRequest): Promise<Response> {
  if (ACCEPTED_STATUSES.includes(response.status)) return await unpacked(response, url, request);
  await response.body?.cancel();
  const message = `Cannot read ${shown(url.href)}: the server answered ${response.status}`;
  if (response.status === 408 || response.status === 429 || response.status >= 500) {
    const asked = retryAfterSeconds(response.headers);
    throw transientError(message, asked);
  }
  throw new AgentError("upstream", message);
}

/** Refuses a body compressed in transit: it could grow a thousandfold. */
async function unpacked(
  response: Response,
  url: URL,
  { packedAs }: WebRequest,
): Promise<Response> {
  const encoding = response.headers.get("content-encoding")?.trim().toLowerCase() ?? "";
  if (encoding === "" || encoding === "identity") return response;
  if (packedAs !== undefined && [packedAs, `x-${packedAs}`].includes(encoding)) return response;
  await response.body?.cancel();
  const message = `Cannot read ${shown(url.href)}: its content encoding is ` +
    `${quote(encoding)}, expected "identity"`;
  throw new AgentError("upstream", message);
}

/** A URL for people, without its query, which may contain a token. */
export function shown(address: string): string {
  return address.replace(/[?#].*$/s, "").slice(0, 300);
}

// Calls of other agents, on the side that a caller reached: a request about a machine of another host goes to the agent of
// that host, which answers it as if the caller had asked there. Nothing is forwarded twice.

import { sha256Hex } from "../../domain/digest.ts";
import { abortedError, AgentError } from "../../domain/error.ts";
import type { MachineUuid } from "../../domain/id.ts";
import {
  type HostStart,
  newNonce,
  peerAddress,
  type SignedHead,
  signedHeaders,
} from "../../domain/peer.ts";
import type { ListedHost } from "../../store/host_store.ts";
import type { MachineReportStore } from "../../store/machine_report_store.ts";
import { type Caller, callerText, seesSecrets } from "../request/caller.ts";
import { type CallCheck, headOf, type PeerBook } from "./check.ts";
import { named, notReached, shownAnswer } from "./answer.ts";

/** How long an answer may take, to its last byte, milliseconds: longer than vmadm may take to describe a machine. */
const ANSWER_MS_MAX = 120_000;
/** Headers of a request that its answer depends on. */
const SENT_HEADERS = ["content-type", "idempotency-key"] as const;

/** A call to be made, and for whom. */
interface OutgoingCall extends SignedHead {
  readonly caller: Caller;
  readonly body: Uint8Array<ArrayBuffer>;
}

/** What makes calls: the key and the start of this host, and whom it trusts. */
interface PeerOptions {
  readonly own: HostStart;
  readonly privateKey: CryptoKey;
  /** Certificates (PEM) of authorities that count besides those of the system. */
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
   * Where a call goes, and the headers that sign it.
   * @throws {AgentError} `host_away` for a host that cannot be called; `host_refused` for one that must not be
   */
  sign(host: ListedHost, call: OutgoingCall): Promise<SignedCall>;
  /**
   * Has another host answer a request. An error that it answers names it.
   * @throws {AgentError} as sign(); `aborted` when the caller gives up
   */
  forward(host: ListedHost, request: ForwardedRequest): Promise<Response>;
}

/** A call with its signature. */
interface SignedCall {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
}

/** A request to be forwarded. */
interface ForwardedRequest extends OutgoingCall {
  /** Those of the caller's request. */
  readonly headers: Headers;
  readonly request_id: string;
  /** Of the caller: it may give up. */
  readonly signal: AbortSignal;
}

/** The other hosts, and how they are called. */
export function openPeers(options: PeerOptions): Peers {
  const { own, privateKey, authorities, book, reports, check } = options;
  // A connection that is kept could end just as it is used again.
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
      // A ticket is for the one console that the signed path names.
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
    new AgentError("host_away", `Cannot reach ${named(host)}: ${why}`, { retryAfterSeconds: 10 });
  if (host.forgotten) throw away("it was forgotten");
  if (host.state === "away") throw away(`it was last heard at ${host.seen_at}`);
  if (host.address === null) throw away("its agent has no address for other agents (address)");
  const url = peerAddress(host.address);
  if (url !== undefined) return url;
  // The row may be of anyone who writes to the database.
  const words = "its address is neither one of https nor of http on loopback";
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
    if (gaveUp.aborted) throw abortedError(`Cannot have ${named(host)} answer`, gaveUp);
    throw notReached(host, url, error);
  }
}

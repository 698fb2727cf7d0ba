// Checks calls of other agents, on the side that answers them. Deno's servers cannot ask a client for a certificate, so
// the calling agent proves by a signature which host it is and what it calls. docs/scale.md describes what that proof
// is worth.

import { sha256Hex } from "../../domain/digest.ts";
import { AgentError, isAway } from "../../domain/error.ts";
import { type Instant, instantAfter, msBetween } from "../../domain/instant.ts";
import type { HostUuid } from "../../domain/id.ts";
import {
  CALL_BYTES_MAX,
  CALL_FRESH_MS,
  callHeaders,
  type HostStart,
  isSignedBy,
  parseCall,
  type PeerCall,
  type PeerScope,
  type SignedHead,
} from "../../domain/peer.ts";
import type { ListedHost } from "../../store/host_store.ts";
import type { HostReading } from "../../store/report_store.ts";
import type { AcceptedCall, PeerCaller } from "../caller.ts";

/** Milliseconds for which the hosts' rows are cached. A replaced key or a forgotten host stays valid for that long. */
const HOSTS_KEPT_MS = 5_000;
/**
 * Milliseconds after which the rows are read again for a host that they lack, or that they show with an earlier start
 * of its agent.
 */
const HOSTS_AGAIN_MS = 1_000;
/**
 * Milliseconds, by this process's clock, for which nonces are kept. It is longer than calls are valid, because the
 * store's clock may be set back by as much.
 */
const NONCE_KEPT_MS = 3 * CALL_FRESH_MS;
/** Most nonces that are remembered at a time. */
const NONCES_MAX = 30_000;
/** The paths that agents call; consoles and actions are below the machines. */
const CALLABLE = /^\/agent\/v1\/(?:machines|media)(?:\/|$)/;

/** The hosts of the store, and its clock. */
export interface PeerBook {
  /**
   * All hosts, read at most `maxAgeMs` milliseconds ago, and the time by the store's clock now.
   * @throws what reading the store throws
   */
  read(maxAgeMs: number): Promise<HostReading>;
}

/** Caches what `readHosts` returns. @param nowMs a monotonic clock, milliseconds */
export function openPeerBook(
  readHosts: () => Promise<HostReading>,
  nowMs: () => number,
): PeerBook {
  let kept: { readonly reading: HostReading; readonly atMs: number } | undefined;
  let pending: Promise<HostReading> | undefined;
  const look = async () => {
    const reading = await readHosts();
    kept = { reading, atMs: nowMs() };
    return reading;
  };
  return {
    async read(maxAgeMs) {
      if (kept !== undefined) {
        const ageMs = nowMs() - kept.atMs;
        const { hosts, now } = kept.reading;
        if (ageMs < maxAgeMs) return { hosts, now: instantAfter(now, ageMs) };
      }
      return await (pending ??= look().finally(() => pending = undefined));
    },
  };
}

interface CallRules {
  readonly own: HostStart;
  /** The largest scope that callers through other hosts get here. */
  readonly scope: PeerScope;
  readonly book: PeerBook;
  /** A clock that never goes back, milliseconds. */
  readonly nowMs: () => number;
}

/** Checks the head of a request. @returns undefined when it is not a call of another agent */
export type CallCheck = (request: Request) => Promise<AcceptedCall | undefined>;

/**
 * Makes the check, which remembers nonces. It throws AgentError `unauthorized` with what is wrong with the call,
 * `forbidden` when this host accepts no calls, `overloaded` when too many nonces are remembered, and whatever reading
 * the store throws.
 */
export function openCallCheck(rules: CallRules): CallCheck {
  const { own, scope, book, nowMs } = rules;
  const nonces = openNonces(nowMs);
  return async (request) => {
    const headers = callHeaders(request.headers);
    if (headers === undefined) return undefined;
    const call = parseCall(headers.text);
    if (call === undefined) throw refused("its header is malformed");
    if (scope === "off") {
      const words = "this host takes none of other hosts (peer_scope is off)";
      throw new AgentError("forbidden", `Cannot accept the call: ${words}`);
    }
    if (call.to.uuid !== own.uuid) throw refused("it is for another host");
    if (call.to.generation !== own.generation) {
      throw refused("it is for another start of this host");
    }
    const { host, now } = await callerOf(call, book);
    const head = headOf(request);
    if (!CALLABLE.test(head.target.replace(/\?.*$/s, ""))) throw refused("agents do not call this");
    if (host.public_key === null || !await isSignedBy(host.public_key, head, headers)) {
      throw refused(`its signature is not that of host ${host.name}`);
    }
    if (host.generation !== call.from.generation) {
      throw refused(`it is from another start of host ${host.name}`);
    }
    refuseStale(call.at, now);
    // There is no await from here on, so only one of two equal calls finds its nonce unused.
    nonces.take(call.nonce);
    const { uuid, name } = host;
    const from: PeerCaller = {
      host: { uuid, name },
      caller: call.caller,
      scope: scope === "read" ? "read" : call.scope,
      stands: () => mayCall(uuid, book),
    };
    return { from, sha256: call.sha256 };
  };
}

/** The signed parts of a request; the runtime of the calling agent writes a URL in the same normal form. */
export function headOf({ method, url }: Pick<Request, "method" | "url">): SignedHead {
  const { pathname, search } = new URL(url);
  return { method, target: pathname + search };
}

async function callerOf(
  { from }: PeerCall,
  book: PeerBook,
): Promise<{ readonly host: ListedHost; readonly now: Instant }> {
  let reading = await book.read(HOSTS_KEPT_MS);
  let host = reading.hosts.find(({ uuid }) => uuid === from.uuid);
  if (host?.generation !== from.generation) {
    reading = await book.read(HOSTS_AGAIN_MS);
    host = reading.hosts.find(({ uuid }) => uuid === from.uuid);
  }
  if (host === undefined) throw refused("its host is not registered");
  if (host.forgotten) throw refused(`host ${host.name} was forgotten`);
  return { host, now: reading.now };
}

/** Whether a host may still call. While the database is away, calls that have begun continue. */
async function mayCall(uuid: HostUuid, book: PeerBook): Promise<boolean> {
  try {
    const { hosts } = await book.read(HOSTS_KEPT_MS);
    return hosts.some((host) => host.uuid === uuid && !host.forgotten);
  } catch (error) {
    return isAway(error);
  }
}

function refuseStale(at: Instant, now: Instant): void {
  if (Math.abs(msBetween(at, now)) <= CALL_FRESH_MS) return;
  const most = CALL_FRESH_MS / 1000;
  throw refused(`it was made at ${at}, and it is ${now}, expected at most ${most} s between`);
}

function refused(why: string): AgentError {
  return new AgentError("unauthorized", `Cannot accept the call of another host: ${why}`);
}

/**
 * Remembers nonces for longer than their calls are accepted. Only hosts with a valid signature can fill it.
 * @returns takes a nonce. @throws {AgentError} `unauthorized` when it was taken before; `overloaded`
 */
export function openNonces(nowMs: () => number): { take(nonce: string): void } {
  /** Arrival times by nonce, in order of arrival. */
  const seen = new Map<string, number>();
  const forgetOld = (atMs: number) => {
    for (const [nonce, arrivedMs] of seen) {
      if (atMs - arrivedMs <= NONCE_KEPT_MS) return;
      seen.delete(nonce);
    }
  };
  return {
    take(nonce) {
      const atMs = nowMs();
      forgetOld(atMs);
      if (seen.has(nonce)) throw refused("it was sent before");
      if (seen.size >= NONCES_MAX) {
        const words = `${NONCES_MAX} calls arrived recently, the maximum`;
        throw new AgentError("overloaded", `Cannot accept the call of another host: ${words}`);
      }
      seen.set(nonce, atMs);
    },
  };
}

/**
 * Reads the body of a call and compares it with what was signed.
 * @param read reads at most CALL_BYTES_MAX bytes of the body
 * @returns the request with the body that was read
 * @throws {AgentError} `unauthorized`; what `read` throws
 */
export async function withSignedBody(
  request: Request,
  sha256: string,
  read: (request: Request, bytesMax: number) => Promise<Uint8Array<ArrayBuffer>>,
): Promise<Request> {
  const body = request.body === null ? new Uint8Array() : await read(request, CALL_BYTES_MAX);
  if (sha256 !== await sha256Hex(body)) throw refused("its body is not what was signed");
  if (request.body === null) return request;
  const { url, method, headers, signal } = request;
  return new Request(url, { method, headers, signal, body });
}

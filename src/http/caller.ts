// Callers and their rights. access.ts identifies the caller of a request.

import { unreachable } from "../domain/error.ts";
import type { Now } from "../domain/instant.ts";
import { idempotencyOf } from "../domain/job/idempotency.ts";
import type { JobFields } from "../domain/job/job.ts";
import type { Wording } from "../domain/job/wire.ts";
import type { JsonValue } from "../domain/json.ts";
import type { Token, TokenScope } from "../domain/token.ts";
import type { ListedHost } from "../store/host_store.ts";
import type { Showing } from "../store/stored_text.ts";

/** A caller who shows a token, or has shown it to begin a session. */
interface TokenCaller {
  readonly kind: "token";
  readonly name: string;
  readonly scope: TokenScope;
  /** Whether its session is still valid. */
  readonly stands?: () => boolean;
}

/** The caller of a call that another agent forwards. */
export interface PeerCaller {
  readonly host: Pick<ListedHost, "uuid" | "name">;
  /** The caller, as the records of that agent name it. */
  readonly caller: string;
  /** What the caller may do here. */
  readonly scope: TokenScope;
  /** Whether the calling host may still call. */
  readonly stands: () => Promise<boolean>;
}

/** A call with the signature of a registered host. Its body is still to be checked. */
export interface AcceptedCall {
  readonly from: PeerCaller;
  /** SHA-256 that its body must have, lower-case hex. */
  readonly sha256: string;
}

/** What a request was admitted by: where it comes from, or what it shows. */
export type Caller =
  | { readonly kind: "socket" }
  | { readonly kind: "loopback" }
  | TokenCaller
  /** With a ticket for one console, requested by that caller. */
  | { readonly kind: "ticket"; readonly maker: Caller }
  /** Of the agent of another host, which has forwarded the request. */
  | { readonly kind: "host"; readonly from: PeerCaller };

/** When a caller must show a token, and which tokens count. */
export interface Access {
  requiresToken(remote: Deno.Addr | undefined): boolean;
  tokens(): Promise<readonly Token[]>;
  /** Milliseconds of a monotonic clock. */
  nowMs(): number;
}

/** Every caller is an administrator, and no token is valid. */
export const OPEN_ACCESS: Access = {
  requiresToken: () => false,
  tokens: () => Promise.resolve([]),
  nowMs: () => performance.now(),
};

/**
 * Whether a caller still has access: its token, or that of a ticket's maker, was neither revoked nor reduced
 * since, and its session has not ended.
 */
export async function isStillGood(caller: Caller, access: Access): Promise<boolean> {
  switch (caller.kind) {
    case "socket":
    case "loopback":
      return true;
    case "ticket":
      return await isStillGood(caller.maker, access);
    case "host":
      return await caller.from.stands();
    case "token":
      return (caller.stands?.() ?? true) && (await access.tokens())
        .some(({ name, scope }) => name === caller.name && scope === caller.scope);
    default:
      return unreachable(caller);
  }
}

/** Why a stream or console ends when its caller loses access. */
export const LOST_ACCESS =
  "the token was revoked, the session has ended, or the host was forgotten";

/** Whether a caller may see secrets; others see them masked. */
export function seesSecrets(caller: Caller | undefined): boolean {
  switch (caller?.kind) {
    case undefined:
    case "ticket":
      return false;
    case "socket":
    case "loopback":
      return true;
    case "token":
      return caller.scope === "admin";
    case "host":
      return caller.from.scope === "admin";
    default:
      return unreachable(caller);
  }
}

/** How jobs are read for a caller: where secrets are masked, each by its own rules. */
export function showingTo(
  caller: Caller | undefined,
  { wording, now }: { readonly wording: Wording; readonly now: Now },
): Showing {
  return { wording, now: now(), masksSecrets: !seesSecrets(caller) };
}

/** Where a request came from, without the port. */
export function peerText(remote: Deno.Addr | undefined): string {
  if (remote === undefined) return "unknown";
  return "hostname" in remote ? remote.hostname : "socket";
}

/**
 * What a new job of a shared store records about its caller; nothing in other stores. For a forwarded request it is
 * the caller of the other agent.
 */
export function orderedBy(
  caller: Caller | undefined,
  { store }: { readonly store: { readonly shared: boolean } },
): { readonly ordered_by?: string } {
  if (!store.shared) return {};
  return { ordered_by: caller?.kind === "host" ? caller.from.caller : callerText(caller) };
}

/**
 * What a new job records about its request: the idempotency key, and in a shared store who ordered it.
 * @param key the idempotency key, if the request has one
 * @param asked the request as a value; the order of its keys does not count
 * @throws {AgentError} `invalid_argument` naming the header
 */
export async function askedBy(
  caller: Caller | undefined,
  { key, asked }: { readonly key: string | undefined; readonly asked: JsonValue },
  context: Parameters<typeof orderedBy>[1],
): Promise<Pick<JobFields, "idempotency" | "ordered_by">> {
  const by = orderedBy(caller, context);
  return key === undefined ? by : { ...by, idempotency: await idempotencyOf(key, asked) };
}

/** The caller as records name it; see `who` of AuditEntry. */
export function callerText(caller: Caller | undefined): string {
  switch (caller?.kind) {
    case undefined:
      return "refused";
    case "token":
      return `token:${caller.name}`;
    case "ticket":
      return `ticket:${callerText(caller.maker)}`;
    case "host":
      return `host:${caller.from.host.name}:${caller.from.caller}`;
    case "socket":
    case "loopback":
      return caller.kind;
    default:
      return unreachable(caller);
  }
}

/** One line of the audit file; see docs/access.md. */
export interface AuditEntry {
  readonly ts: string;
  readonly request_id: string;
  /**
   * `socket`, `loopback`, `token:NAME`, `ticket:` and its maker, `host:NAME:` and the caller of the agent of that host,
   * or `refused` for a caller without access.
   */
  readonly who: string;
  /** The address of the caller, or `socket`. */
  readonly peer: string;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** The job that the call made. */
  readonly job_uuid?: string;
}

/** Where entries are kept besides the log. */
export interface AuditTrail {
  /** Writes one entry. A failure is logged and does not fail the call. */
  append(entry: AuditEntry): Promise<void>;
}

// Callers and what tells them apart, as words for all who ask; access.ts finds out who one is.

import type { Token, TokenScope } from "../domain/token.ts";

/** Who a request comes from. */
export type Caller =
  | { readonly kind: "socket" }
  | { readonly kind: "loopback" }
  | { readonly kind: "token"; readonly name: string; readonly scope: TokenScope };

/** What tells callers apart. */
export interface Access {
  /** Whether a caller from there must show a token. */
  wantsToken(remote: Deno.Addr | undefined): boolean;
  /** The tokens that are good now. */
  tokens(): Promise<readonly Token[]>;
  /** A clock that never goes back, milliseconds. */
  nowMs(): number;
}

/** Everybody who gets through is an administrator, and no token is any good. */
export const OPEN_ACCESS: Access = {
  wantsToken: () => false,
  tokens: () => Promise.resolve([]),
  nowMs: () => performance.now(),
};

/** Where a request came from, without the port, which says nothing. */
export function peerText(remote: Deno.Addr | undefined): string {
  if (remote === undefined) return "unknown";
  return "hostname" in remote ? remote.hostname : "socket";
}

/** A caller in one word for records: `socket`, `loopback`, `token:NAME`. */
export function callerText(caller: Caller | undefined): string {
  if (caller === undefined) return "refused";
  return caller.kind === "token" ? `token:${caller.name}` : caller.kind;
}

// Calls from one agent to another: what is signed, and how it is written. An agent signs the requests that it
// forwards with the key of its host; the agent that answers knows the public key from that host's row.

import { bytesOfBase64Url } from "./bytes.ts";
import { isDigestValue } from "./digest.ts";
import type { RegisteredHost } from "./host.ts";
import { type HostUuid, isUuid } from "./id.ts";
import { type Instant, instantOf } from "./instant.ts";
import { isJsonObject } from "./json.ts";
import { isLoopback } from "./ip_address.ts";
import { secretText, type TokenScope, tokenScopeOf } from "./token.ts";

/** The header with the call, as base64url of JSON. */
export const CALL_HEADER = "zonewright-call";
/** The header with the signature, as base64url. */
const SIGNATURE_HEADER = "zonewright-signature";
/** How far the time of a call may differ from now, milliseconds. */
export const CALL_FRESH_MS = 30_000;
/** Longest body of a call, bytes. */
export const CALL_BYTES_MAX = 64 * 1024;

/** WebCrypto's name for the algorithm of keys and signatures. */
export const KEY_ALGORITHM = "Ed25519";
/** The first signed line, so that a signature is valid for nothing else. */
const PURPOSE = "zonewright-call-1";
const CALL_CHARS_MAX = 2048;
/** 16 random bytes, as secretText() writes them. */
const NONCE = /^[A-Za-z0-9_-]{22}$/;
const NONCE_BYTES = 16;
/** A caller as records name it; it ends a field of the audit file. */
const CALLER = /^[\x21-\x7e]{1,200}$/;

/** The most that a host lets callers of other hosts do. */
export const PEER_SCOPES = ["admin", "read", "off"] as const;
/** One of them; `off` accepts no call of another host. */
export type PeerScope = typeof PEER_SCOPES[number];

/** One start of the agent of a host. */
export type HostStart = Pick<RegisteredHost, "uuid" | "generation">;

/** The contents of a call. */
export interface PeerCall {
  /** The calling agent's host. */
  readonly from: HostStart;
  /** The host that should answer. */
  readonly to: HostStart;
  /** When it was made, by the clock of the database. */
  readonly at: Instant;
  /** Different for every call. */
  readonly nonce: string;
  /** SHA-256 of the body, 64 hexadecimal digits. */
  readonly sha256: string;
  /** The caller, as the records of the calling agent name it. */
  readonly caller: string;
  /** What that caller may do. */
  readonly scope: TokenScope;
}

/** The parts of a request that are signed with the call. */
export interface SignedHead {
  readonly method: string;
  /** Path and query, as sent. */
  readonly target: string;
}

/** 16 random bytes as text, different for every call. */
export function newNonce(): string {
  return secretText(crypto.getRandomValues(new Uint8Array(NONCE_BYTES)));
}

/** The headers of a call. @param key private key of the calling host */
export async function signedHeaders(
  call: PeerCall,
  head: SignedHead,
  key: CryptoKey,
): Promise<Record<string, string>> {
  const text = secretText(new TextEncoder().encode(JSON.stringify(call)));
  const signature = await crypto.subtle.sign(KEY_ALGORITHM, key, signedBytes(head, text));
  return { [CALL_HEADER]: text, [SIGNATURE_HEADER]: secretText(new Uint8Array(signature)) };
}

/** Whether the agent with a public key signed these headers for this request. @param publicKey 32 bytes as base64url */
export async function isSignedBy(
  publicKey: string,
  head: SignedHead,
  { text, signature }: CallHeaders,
): Promise<boolean> {
  const raw = bytesOfBase64Url(publicKey);
  const signed = bytesOfBase64Url(signature);
  if (raw === undefined || signed === undefined) return false;
  try {
    const key = await crypto.subtle.importKey("raw", raw, KEY_ALGORITHM, false, ["verify"]);
    return await crypto.subtle.verify(KEY_ALGORITHM, key, signed, signedBytes(head, text));
  } catch {
    // Not a key: no agent wrote the row.
    return false;
  }
}

function signedBytes({ method, target }: SignedHead, text: string): Uint8Array<ArrayBuffer> {
  // No part contains a line break: HTTP allows none.
  return new TextEncoder().encode([PURPOSE, method, target, text].join("\n"));
}

interface CallHeaders {
  readonly text: string;
  readonly signature: string;
}

/** The headers of a call; undefined for any other request. */
export function callHeaders(headers: Headers): CallHeaders | undefined {
  const text = headers.get(CALL_HEADER);
  const signature = headers.get(SIGNATURE_HEADER);
  if (text === null && signature === null) return undefined;
  return { text: text ?? "", signature: signature ?? "" };
}

/** Parses a call; undefined for anything that an agent would not write. */
export function parseCall(text: string): PeerCall | undefined {
  const bytes = text.length <= CALL_CHARS_MAX ? bytesOfBase64Url(text) : undefined;
  if (bytes === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    return undefined;
  }
  if (!isJsonObject(value)) return undefined;
  const [from, to] = [startOf(value.from), startOf(value.to)];
  const at = typeof value.at === "string" ? instantOf(value.at) : undefined;
  const nonce = textOf(value.nonce, NONCE);
  const { sha256 } = value;
  const caller = textOf(value.caller, CALLER);
  const scope = tokenScopeOf(value.scope);
  if (from === undefined || to === undefined || at === undefined) return undefined;
  if (nonce === undefined || !isDigest(sha256)) return undefined;
  if (caller === undefined || scope === undefined) return undefined;
  return { from, to, at, nonce, sha256, caller, scope };
}

function startOf(value: unknown): HostStart | undefined {
  if (!isJsonObject(value)) return undefined;
  const { uuid, generation } = value;
  if (!isUuid(uuid) || !Number.isSafeInteger(generation)) return undefined;
  return { uuid: uuid as string as HostUuid, generation: generation as number };
}

function isDigest(value: unknown): value is string {
  return typeof value === "string" && isDigestValue("sha256", value);
}

function textOf(value: unknown, form: RegExp): string | undefined {
  return typeof value === "string" && form.test(value) ? value : undefined;
}

/**
 * The address of an agent as a URL; undefined for an address that is never called: not https (or http on loopback),
 * or with a path.
 */
export function peerAddress(text: string): URL | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.pathname !== "/" || /[?#@]/.test(text)) return undefined;
  const name = url.hostname.replace(/^\[|\]$/g, "");
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopback(name))
    ? url
    : undefined;
}

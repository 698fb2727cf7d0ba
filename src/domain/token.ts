// Bearer tokens: their form, their scopes, and what is stored about them. A token is 256 random bits, so nobody can
// guess it, and its plain SHA-256 cannot be reversed. Slow hashes, as passwords need, would only slow requests down.

import { base64Of } from "./bytes.ts";
import { AgentError } from "./error.ts";
import { isJsonObject } from "./json.ts";

/** What a token allows: `read` is GET and HEAD without secrets, `admin` is everything. */
export const TOKEN_SCOPES = ["read", "admin"] as const;
/** What a token allows: `admin` everything, `read` only GET, without secrets and params. */
export type TokenScope = typeof TOKEN_SCOPES[number];

/** What is stored about a token; the token itself is shown once and never stored. */
export interface Token {
  readonly name: string;
  readonly scope: TokenScope;
  /** SHA-256 of the token's text, 64 hexadecimal digits. */
  readonly sha256: string;
  readonly created_at: string;
}

/** Random bytes in a token. */
export const TOKEN_BYTES = 32;
/** Prefix of every token, so that leaked ones can be searched for. */
const PREFIX = "zwt_";
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const TEXT = /^zwt_[A-Za-z0-9_-]{43}$/;
const SHA256 = /^[0-9a-f]{64}$/;
const TOKENS_MAX = 1000;

/** A token's text from its random bytes. */
export function tokenText(random: Uint8Array): string {
  return PREFIX + secretText(random);
}

/** Random bytes as base64url without padding, for tokens, tickets and sessions. */
export function secretText(random: Uint8Array): string {
  return base64Of(random).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** SHA-256 of a secret text, which is all that is kept of it. */
export async function secretDigest(text: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
}

/** Whether a text has the form of a token. */
export function isTokenText(text: string): boolean {
  return TEXT.test(text);
}

/** Whether this may be the name of a token: letters, digits, dots, dashes and underscores, at most 64. */
export function isTokenName(text: string): boolean {
  return NAME.test(text);
}

/** One of the two scopes, or undefined. */
export function tokenScopeOf(text: unknown): TokenScope | undefined {
  return TOKEN_SCOPES.find((scope) => scope === text);
}

/**
 * The tokens in the JSON of a file.
 * @throws {AgentError} `invalid_argument` for anything that tokensText() would not write
 */
export function parseTokens(value: unknown): readonly Token[] {
  const list = isJsonObject(value) && value.version === 1 ? value.tokens : undefined;
  if (!Array.isArray(list) || list.length > TOKENS_MAX) {
    throw damaged(`expected version 1 and a list of at most ${TOKENS_MAX} tokens`);
  }
  const tokens = list.map(parseToken);
  if (new Set(tokens.map(({ name }) => name)).size < tokens.length) {
    throw damaged("two tokens have one name");
  }
  return tokens;
}

function parseToken(value: unknown): Token {
  if (!isJsonObject(value)) throw damaged("expected an object for each token");
  const { name, sha256, created_at } = value;
  const scope = tokenScopeOf(value.scope);
  if (typeof name !== "string" || !isTokenName(name)) throw damaged("a token has no name");
  if (scope === undefined) throw damaged(`the scope of ${name} is neither read nor admin`);
  if (typeof sha256 !== "string" || !SHA256.test(sha256)) throw damaged(`${name} has no digest`);
  if (typeof created_at !== "string") throw damaged(`${name} has no time`);
  return { name, scope, sha256, created_at };
}

function damaged(why: string): AgentError {
  return new AgentError("invalid_argument", `Cannot read the tokens: ${why}`);
}

/** The text of a file of tokens. */
export function tokensText(tokens: readonly Token[]): string {
  return JSON.stringify({ version: 1, tokens }, null, 2) + "\n";
}

// An agent that knows two tokens, for tests of who may call.

import { type Token, type TokenScope, tokenText } from "../../src/domain/token.ts";
import type { Access, AuditEntry } from "../../src/http/caller.ts";
import { type AgentChanges, type HttpAgent, withHttpAgent } from "./http_agent.ts";

export const READ = tokenText(new Uint8Array(32).fill(1));
export const ADMIN = tokenText(new Uint8Array(32).fill(2));
export const UNKNOWN = tokenText(new Uint8Array(32).fill(3));

export async function tokenOf(name: string, scope: TokenScope, text: string): Promise<Token> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  const sha256 = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0"));
  return { name, scope, sha256: sha256.join(""), created_at: "2026-01-01T00:00:00.000Z" };
}

/** Runs a test with an agent that knows two tokens, and wants one unless the test says otherwise. */
export async function withTokens(
  run: (agent: HttpAgent, entries: AuditEntry[]) => Promise<void>,
  { required = true, ...changes }: AgentChanges & { required?: boolean } = {},
): Promise<void> {
  const tokens = [await tokenOf("reader", "read", READ), await tokenOf("boss", "admin", ADMIN)];
  const access: Access = {
    requiresToken: () => required,
    tokens: () => Promise.resolve(tokens),
    nowMs: () => 0,
  };
  const entries: AuditEntry[] = [];
  const append = (entry: AuditEntry) => Promise.resolve(void entries.push(entry));
  await withHttpAgent((agent) => run(agent, entries), {
    access,
    auditTrail: { append },
    ...changes,
  });
}

export const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

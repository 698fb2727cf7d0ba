// What agents sign when they call each other, and which addresses they call.

import { assert, assertEquals, assertFalse, assertMatch } from "@std/assert";
import type { HostUuid } from "../../src/domain/id.ts";
import {
  CALL_HEADER,
  callHeaders,
  isSignedBy,
  newNonce,
  parseCall,
  peerAddress,
  type PeerCall,
  signedHeaders,
} from "../../src/domain/peer.ts";
import { secretText } from "../../src/domain/token.ts";

const HEAD = { method: "POST", target: "/agent/v1/machines/m/stop?a=1" };
const CALL: PeerCall = {
  from: { uuid: "33333333-0000-4000-8000-000000000001" as HostUuid, generation: 3 },
  to: { uuid: "33333333-0000-4000-8000-000000000002" as HostUuid, generation: 5 },
  at: "2026-11-20T12:00:00.000Z",
  nonce: newNonce(),
  sha256: "0".repeat(64),
  caller: "token:alice",
  scope: "read",
};

async function newKey(): Promise<{ key: CryptoKey; text: string }> {
  const pair = await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"]);
  const { privateKey, publicKey } = pair as CryptoKeyPair;
  const raw = new Uint8Array(await crypto.subtle.exportKey("raw", publicKey));
  return { key: privateKey, text: secretText(raw) };
}

function encoded(value: unknown): string {
  return secretText(new TextEncoder().encode(JSON.stringify(value)));
}

Deno.test("a signature holds for its key, its method, its path and query, and what the call says", async () => {
  const { key, text } = await newKey();
  const sent = callHeaders(new Headers(await signedHeaders(CALL, HEAD, key)));
  assert(sent !== undefined);
  assertEquals(parseCall(sent.text), CALL);
  assert(await isSignedBy(text, HEAD, sent));
  assertFalse(await isSignedBy((await newKey()).text, HEAD, sent));
  assertFalse(await isSignedBy(text, { ...HEAD, method: "GET" }, sent));
  assertFalse(await isSignedBy(text, { ...HEAD, target: HEAD.target.replace("1", "2") }, sent));
  for (
    const change of [
      { scope: "admin" },
      { caller: "token:bob" },
      { sha256: "1".repeat(64) },
      { at: "2026-11-20T12:00:01.000Z" },
      { nonce: newNonce() },
      { to: { ...CALL.to, generation: 6 } },
      { from: { ...CALL.from, generation: 4 } },
    ]
  ) {
    const changed = { ...sent, text: encoded({ ...CALL, ...change }) };
    assert(parseCall(changed.text) !== undefined);
    assertFalse(await isSignedBy(text, HEAD, changed));
  }
});

Deno.test("an invalid signature or key verifies nothing", async () => {
  const { key, text } = await newKey();
  const sent = callHeaders(new Headers(await signedHeaders(CALL, HEAD, key)));
  assert(sent !== undefined);
  for (const signature of ["", "AAAA", "!", sent.signature.slice(1)]) {
    assertFalse(await isSignedBy(text, HEAD, { ...sent, signature }));
  }
  for (const other of ["", "AAAA", "not base64", "A".repeat(86)]) {
    assertFalse(await isSignedBy(other, HEAD, sent));
  }
});

Deno.test("a request with either header is a call, one without both is not", () => {
  assertEquals(callHeaders(new Headers()), undefined);
  assertEquals(callHeaders(new Headers({ [CALL_HEADER]: "x" })), { text: "x", signature: "" });
  const signed = new Headers({ "zonewright-signature": "x" });
  assertEquals(callHeaders(signed), { text: "", signature: "x" });
});

Deno.test("parseCall() accepts only what an agent writes", () => {
  for (
    const change of [
      { scope: "owner" },
      { caller: "" },
      { caller: "a b" },
      { caller: "a\nb" },
      { caller: "a".repeat(201) },
      { sha256: "0" },
      { nonce: "short" },
      { at: "yesterday" },
      { from: { uuid: "x", generation: 1 } },
      { from: { ...CALL.from, generation: 1.5 } },
      { to: null },
    ]
  ) assertEquals(parseCall(encoded({ ...CALL, ...change })), undefined, JSON.stringify(change));
  for (const text of ["", "!", "AAAA", encoded([]), encoded({ ...CALL, more: "x".repeat(2000) })]) {
    assertEquals(parseCall(text), undefined);
  }
  assertMatch(newNonce(), /^[\w-]{22}$/);
});

Deno.test("calls go to https, and to http on loopback only", () => {
  for (
    const address of [
      "https://host3.example.org:8780",
      "https://192.0.2.7",
      "http://127.0.0.1:8780",
      "http://localhost:8780",
      "http://[::1]:8780",
    ]
  ) assertEquals(peerAddress(address)?.origin, address);
  for (
    const address of [
      "http://host3.example.org:8780",
      "http://192.0.2.7:8780",
      "http://localhost.example.org",
      "ftp://127.0.0.1",
      "https://user@host3.example.org",
      "https://host3.example.org/path",
      "https://host3.example.org?query",
      "https://host3.example.org#part",
      "host3.example.org:8780",
      "",
    ]
  ) assertEquals(peerAddress(address), undefined, address);
});

// Two hosts of a store as their agents know them, for tests of what the agents send each other.

import type { HostUuid, MachineUuid } from "../../src/domain/id.ts";
import { newNonce, type PeerCall, type SignedHead, signedHeaders } from "../../src/domain/peer.ts";
import { sha256Hex } from "../../src/domain/digest.ts";
import { secretText } from "../../src/domain/token.ts";
import { openPeerBook, type PeerBook } from "../../src/http/peers/check.ts";
import type { ListedHost } from "../../src/store/host_store.ts";
import type { MachineReportStore } from "../../src/store/report_store.ts";
import { T0 } from "../support/job.ts";

export const MACHINE = "0f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f" as MachineUuid;

/** The key of a host, as tests make it. */
export interface TestKey {
  readonly privateKey: CryptoKey;
  readonly publicKey: string;
}

export async function newKey(): Promise<TestKey> {
  const pair = await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"]);
  const { privateKey, publicKey } = pair as CryptoKeyPair;
  const raw = new Uint8Array(await crypto.subtle.exportKey("raw", publicKey));
  return { privateKey, publicKey: secretText(raw) };
}

/** A host that was just heard. */
export function hostOf(number: number, changes: Partial<ListedHost> = {}): ListedHost {
  return {
    uuid: `33333333-0000-4000-8000-00000000000${number}` as HostUuid,
    name: `gz${number}`,
    version: "1.0.0",
    capabilities: [],
    slots: 1,
    brands: [],
    address: null,
    public_key: null,
    allow_workflow: [],
    allow_caller: [],
    generation: 1,
    seen_at: T0,
    lease_ms: 30_000,
    cordoned: false,
    forgotten: false,
    state: "connected",
    silent_ms: 0,
    ...changes,
  };
}

/** The rows of the hosts, which a test changes, and two clocks, which it moves. */
export interface Directory {
  hosts: ListedHost[];
  now: string;
  ms: number;
  readonly book: PeerBook;
  readonly reports: MachineReportStore;
}

/** @param owner the host that every machine is on */
export function openDirectory(hosts: ListedHost[], owner?: ListedHost): Directory {
  const read = () => Promise.resolve({ now: directory.now, hosts: directory.hosts });
  const directory: Directory = {
    hosts,
    now: T0,
    ms: 0,
    book: openPeerBook(read, () => directory.ms),
    reports: {
      report: () => Promise.resolve(),
      list: () => Promise.resolve({ now: directory.now, machines: [], count: 0 }),
      hosts: read,
      ownerOf: () => Promise.resolve(owner?.uuid),
    },
  };
  return directory;
}

/** The headers of a call from one host to another. */
export async function headersOf(
  key: TestKey,
  [from, to]: readonly [ListedHost, ListedHost],
  head: SignedHead,
  { body = "", ...changes }: Partial<PeerCall> & { readonly body?: string } = {},
): Promise<Record<string, string>> {
  const call: PeerCall = {
    from: { uuid: from.uuid, generation: from.generation },
    to: { uuid: to.uuid, generation: to.generation },
    at: T0,
    nonce: newNonce(),
    sha256: await sha256Hex(new TextEncoder().encode(body)),
    caller: "token:alice",
    scope: "admin",
    ...changes,
  };
  return await signedHeaders(call, head, key.privateKey);
}

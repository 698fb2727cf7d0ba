// Files as a vendor offers them, for the tests of downloads.

import { assertRejects } from "@std/assert";
import type { Artifact, Location } from "../../src/domain/index/artifact.ts";
import type { Digest } from "../../src/domain/digest.ts";
import { AgentError } from "../../src/domain/error.ts";
import type { FoundArtifact } from "../../src/mirror/media/find_artifact.ts";

/** Where most tests serve {@linkcode ISO}. */
export const PATH = "images/disk.raw";

/** What a test wants to be different. */
export interface Changes {
  body?: Uint8Array;
  digests?: Digest[];
  size?: number | null;
  compression?: string;
  locations?: Location[];
}

/** An artifact of one location, described as its vendor would. */
export async function artifact(url: string, changes: Changes = {}): Promise<FoundArtifact> {
  const body = changes.body ?? ISO;
  const digests = changes.digests ?? await digestsOf(body);
  const described: Artifact = {
    arch: "x86_64",
    format: "raw",
    compression: changes.compression ?? "none",
    locations: changes.locations ?? [{ url, kind: "primary", redirects_off_host: null }],
    variant: "server",
    default_variant: true,
    size: changes.size === undefined ? body.byteLength : changes.size,
    firmware: [],
    datasources: [],
    ssh_key_injection: null,
    integrity: {
      digests: digests.map((digest) => ({ ...digest, source: null })),
      http: null,
      signatures: [],
    },
  };
  return {
    distro: "aurora",
    release: "24.0",
    build: "1",
    artifact: described,
    name: "aurora-24.0-1-server-x86_64.raw",
    label: "aurora 24.0 1 server x86_64 raw",
  };
}

/** Both digests of a file. */
export async function digestsOf(body: Uint8Array): Promise<[Digest, Digest]> {
  return [
    { algorithm: "sha256", value: await hashed("SHA-256", body) },
    { algorithm: "sha512", value: await hashed("SHA-512", body) },
  ];
}

/** Lower-case hex. */
export async function hashed(algorithm: string, body: Uint8Array): Promise<string> {
  const hash = await crypto.subtle.digest(algorithm, new Uint8Array(body));
  return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Bytes that do not compress and do not repeat. */
export function patterned(size: number, seed = 1): Uint8Array {
  let state = seed;
  return Uint8Array.from({ length: size }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 24;
  });
}

/** One gzip member. */
export async function gzip(body: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([new Uint8Array(body)]).stream();
  return await new Response(stream.pipeThrough(new CompressionStream("gzip"))).bytes();
}

export function joined(parts: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(parts.flatMap((part) => [...part]));
}

/** The error that a call must end with. */
export async function rejection(promise: Promise<unknown>): Promise<AgentError> {
  return await assertRejects(() => promise, AgentError);
}

/** Names in a folder, sorted. */
export async function namesIn(folder: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of Deno.readDir(folder)) names.push(name);
  return names.sort();
}

/** Bytes of a file, or undefined when it is not there. */
export async function sizeOf(path: string): Promise<number | undefined> {
  return (await Deno.stat(path).catch(() => undefined))?.size;
}

/** The file that most tests download. */
export const ISO = patterned(300_000);

// An upstream that means harm: the small index with one artifact whose file, checksum document and
// signatures a load decides. It runs in the process of the test.

import type { JsonObject } from "../../src/domain/json.ts";
import { fixtureFiles, type IndexServer, openIndexServer } from "../mirror/index_server.ts";
import { digestsOf } from "../mirror/vendor_file.ts";
import { until } from "../support/until.ts";
import { type ChaosAgent, objectOf } from "./agent_under_chaos.ts";
import { FINAL } from "./load_machine.ts";

/** The artifact that a load describes. */
export const ARTIFACT: JsonObject = { distro: "aurora", release: "24.0", format: "raw" };
const RELEASE = "v1/distros/aurora/releases/24.0/index.json";
/** The same document under the name of its alias. */
const ALIAS = "v1/distros/aurora/aliases/lts.json";
const SYNC_MS_MAX = 180_000;

/** What the file is, and who says so. */
export interface LoadFile {
  readonly body: Uint8Array;
  /** Name of the file in documents; the path below the server. */
  readonly compression?: string;
  /** Path of the checksum document; the digest has no source without one. */
  readonly document?: string;
  readonly signatures?: readonly { readonly kind: string; readonly url: string }[];
}

/** Starts the upstream with its small index. */
export async function openUpstream(): Promise<IndexServer> {
  return openIndexServer(await fixtureFiles());
}

/** The flags by which an agent has that upstream. */
export function upstreamFlags(server: IndexServer): string[] {
  return ["--index", server.url, "--allow-http-index"];
}

/** Describes the one artifact again. */
export async function publish(server: IndexServer, file: LoadFile): Promise<void> {
  const { body, compression = "none", document, signatures = [] } = file;
  const [digest] = await digestsOf(body);
  const documentUrl = `${server.url}/${document}`;
  const source = document === undefined
    ? null
    : { format: "gnu", url: documentUrl, filename: "disk.raw" };
  server.files.set("disk.raw", { body, etag: `"${digest.value}"` });
  const stored = server.files.get(RELEASE);
  const release = JSON.parse(new TextDecoder().decode(stored?.body));
  const [build] = release.builds;
  const [artifact] = build.artifacts;
  artifact.compression = compression;
  artifact.size = body.length;
  artifact.locations[0].url = `${server.url}/disk.raw`;
  artifact.integrity.digests = [{ ...digest, source }];
  artifact.integrity.signatures = signatures.map(({ kind, url }) => ({
    kind,
    signs: documentUrl,
    url: `${server.url}/${url}`,
    key_url: null,
  }));
  build.artifacts = [artifact];
  publishRelease(server, JSON.stringify(release));
}

/** Replaces the document that describes the artifact. @returns its path */
export function publishRelease(server: IndexServer, text: string): string {
  const file = { body: new TextEncoder().encode(text), etag: `"${crypto.randomUUID()}"` };
  server.files.set(RELEASE, file);
  server.files.set(ALIAS, file);
  return RELEASE;
}

/** Syncs, and expects that all of it is taken. */
export async function syncWhole(agent: ChaosAgent): Promise<void> {
  const { outcome, problems } = await sync(agent);
  if (outcome !== "complete") {
    throw new Error(`The sync was ${outcome}: ${JSON.stringify(problems)}`);
  }
}

/** Syncs, and waits for the end. @returns what the agent says of it */
export async function sync(agent: ChaosAgent): Promise<JsonObject> {
  const posted = await agent.ask("POST", "/agent/v1/index/sync", {
    wait: true,
    accept_changed: true,
  });
  if (posted.status === 200) return objectOf(posted);
  throw new Error(`The sync was answered ${posted.status} ${JSON.stringify(posted.body)}`);
}

/** Asks for the artifact, and waits for the end of the job. */
export async function fetchMedium(agent: ChaosAgent, wanted: JsonObject): Promise<JsonObject> {
  const job = await beginFetch(agent, wanted);
  return await until("the job to end", async () => {
    const read = objectOf(await agent.ask("GET", `/jobs/${job}`));
    return FINAL.includes(String(read.execution)) ? read : undefined;
  }, SYNC_MS_MAX);
}

/** @returns the job */
export async function beginFetch(agent: ChaosAgent, wanted: JsonObject): Promise<string> {
  const posted = await agent.ask("POST", "/agent/v1/media", { artifact: ARTIFACT, ...wanted });
  const { job_uuid } = objectOf(posted);
  if (posted.status !== 202) throw new Error(`Answered ${posted.status} ${JSON.stringify(posted)}`);
  return String(job_uuid);
}

// Takes one distro from the upstream: its document, the builds of its releases, their archives and
// the alias files, all of them accepted or the distro refused. Only what a parent names is asked.

import { type BuildList, parseBuildList } from "../domain/artifact.ts";
import { AgentError, messageOf } from "../domain/error.ts";
import { type Distro, type DistroSummary, holderOf, parseDistro } from "../domain/image_index.ts";
import { decodeDocument } from "../domain/index_document.ts";
import {
  aliasPath,
  archivePath,
  distroPath,
  releasePath,
  SERVED_ALIASES,
} from "../domain/index_path.ts";
import { canonicalJson, type JsonValue } from "../domain/json.ts";
import type { IndexStore } from "../store/store.ts";
import { weakened } from "./pins.ts";
import type { SyncReader, TakenDocument } from "./sync_reader.ts";

/** What became of one distro. */
export type DistroOutcome =
  | { readonly kind: "accepted"; readonly documents: readonly TakenDocument[] }
  /** What the store has of the distro stays as it is. */
  | { readonly kind: "kept"; readonly problem: { document: string; message: string } };

/** What the sync of one distro works with. */
export interface SyncDistroOptions {
  readonly reader: SyncReader;
  readonly index: IndexStore;
  /** Takes changed digests as well; see pins.ts. */
  readonly acceptChanged: boolean;
  readonly signal?: AbortSignal;
}

/** @throws {AgentError} `aborted` when the caller gave up; every other failure is an outcome */
export async function syncDistro(
  summary: DistroSummary,
  { reader, index, acceptChanged, signal }: SyncDistroOptions,
): Promise<DistroOutcome> {
  const documents: TakenDocument[] = [];
  let document = distroPath(summary.id);
  const take = async (path: string) => {
    document = path;
    const taken = await reader.take(path);
    if (taken !== undefined) documents.push(taken);
    return taken;
  };
  const need = async (path: string) => {
    const taken = await take(path);
    if (taken === undefined) throw missing(path);
    return taken;
  };
  try {
    const own = await need(distroPath(summary.id));
    const distro = parseDistro(decodeDocument(await own.body(), own.path), summary);
    const builds = new Map<string, TakenDocument>();
    for (const { id } of distro.releases) {
      const current = await need(releasePath(distro.id, id));
      const archive = await take(archivePath(distro.id, id));
      document = current.path;
      await checkRelease(distro, id, current, archive, index, acceptChanged);
      builds.set(id, current);
    }
    await checkAliasFiles(distro, builds, need);
    return { kind: "accepted", documents };
  } catch (error) {
    if (signal?.aborted || !(error instanceof AgentError)) throw error;
    return { kind: "kept", problem: { document, message: messageOf(error) } };
  }
}

function missing(path: string): AgentError {
  return new AgentError("upstream", `Cannot accept ${path}: it is named, but it is not there`);
}

/** Lists that did not change were accepted when they were taken. */
async function checkRelease(
  distro: Distro,
  release: string,
  current: TakenDocument,
  archive: TakenDocument | undefined,
  index: IndexStore,
  acceptChanged: boolean,
): Promise<void> {
  if (current.state === "unchanged" && (archive?.state ?? "unchanged") === "unchanged") return;
  const about = { distro: distro.id, release };
  const read = (body: Uint8Array, document: string, kind: "current" | "archived") =>
    parseBuildList(decodeDocument(body, document), { document, ...about, kind });
  const after = [read(await current.body(), current.path, "current")];
  if (archive !== undefined) after.push(read(await archive.body(), archive.path, "archived"));
  if (acceptChanged) return;
  const before: BuildList[] = [];
  const held = await index.get(current.path);
  const heldArchive = await index.get(archivePath(distro.id, release));
  if (held !== undefined) before.push(read(held.body, held.path, "current"));
  if (heldArchive !== undefined) {
    before.push(read(heldArchive.body, heldArchive.path, "archived"));
  }
  const change = weakened(before, after);
  if (change !== undefined) {
    const message = `Cannot accept ${current.path}: it ${change}, which the operator must allow`;
    throw new AgentError("upstream", message);
  }
}

/** An alias file is a copy of the builds of the release that holds the alias. */
async function checkAliasFiles(
  distro: Distro,
  builds: ReadonlyMap<string, TakenDocument>,
  need: (path: string) => Promise<TakenDocument>,
): Promise<void> {
  for (const alias of SERVED_ALIASES) {
    const holder = holderOf(distro, alias);
    const original = holder === undefined ? undefined : builds.get(holder.id);
    if (original === undefined) continue;
    const copy = await need(aliasPath(distro.id, alias));
    if (copy.sha256 === original.sha256) continue;
    if (await canonicalOf(copy) !== await canonicalOf(original)) {
      const message = `Cannot accept ${copy.path}: $ must equal ${original.path}`;
      throw new AgentError("upstream", message);
    }
  }
}

async function canonicalOf(document: TakenDocument): Promise<string> {
  // Whatever JSON.parse returns is a JSON value.
  return canonicalJson(decodeDocument(await document.body(), document.path) as JsonValue);
}

// Reads the whole tree of an upstream and plans a sync of it. A distro is read with the builds of its releases, their
// archives and the alias files; all are accepted, or the distro is refused. Only documents named by a parent are
// read.

import { AgentError } from "../../domain/error.ts";
import {
  type Distro,
  type DistroList,
  type DistroSummary,
  holderOf,
} from "../../domain/index/image_index.ts";
import {
  aliasPath,
  archivePath,
  DISTRO_LIST_PATH,
  distroPath,
  IMAGES_PATH,
  indexPlaceOf,
  OPENAPI_PATH,
  refuse,
  RefusedDocument,
  releasePath,
  SERVED_ALIASES,
} from "../../domain/index/index_document.ts";
import type { Instant, Now } from "../../domain/instant.ts";
import { sha256Hex } from "../../domain/digest.ts";
import { mapLimited } from "../../runtime/run.ts";
import type {
  IndexDocument,
  IndexPin,
  IndexPinChanges,
  IndexProblem,
  IndexStore,
} from "../../store/store.ts";
import type { IndexReading, ListedState, ReadDocument, ReleaseDocument } from "./index_reading.ts";
import {
  addComposed,
  addPins,
  addTaken,
  emptyPlan,
  heldLists,
  leavingPins,
  pinsOfRelease,
  planRemovals,
  type SyncPlan,
} from "./plan.ts";
import {
  Contradiction,
  isProblem,
  problemOf,
  type SyncReader,
  type TakenDocument,
} from "./reader.ts";
import type { Wait } from "../web/time_limits.ts";

/** Distros read at the same time. */
const DISTROS_AT_ONCE = 4;
/** Documents read besides those of the distros. */
const TREE_DOCUMENTS = 3;

interface PlanTreeOptions extends SyncDistroOptions {
  readonly now: Now;
}

/** @throws {AgentError} `aborted` when it was canceled; every other failure is in the plan */
export async function planTree(options: PlanTreeOptions): Promise<SyncPlan> {
  const { reader, reading, index, now } = options;
  const plan = emptyPlan();
  reader.expect(TREE_DOCUMENTS);
  const listed = await readList(plan, options);
  if (listed === undefined) return plan;
  const { distros } = listed.list;
  reader.expect(distros.length);
  const outcomes = new Map<string, DistroOutcome>();
  await mapLimited(distros, DISTROS_AT_ONCE, async (summary) => {
    outcomes.set(summary.id, await syncDistro(summary, options));
  });
  const accepted: TakenDocument[] = [];
  for (const { id } of distros) {
    const outcome = outcomes.get(id);
    if (outcome?.kind === "kept") {
      plan.problems.push({ ...outcome.problem, kept: reader.stored.has(distroPath(id)) });
    }
    if (outcome?.kind !== "accepted") continue;
    accepted.push(...outcome.taken.documents);
    addPins(plan, outcome.taken.pins);
  }
  // With nothing accepted, an empty list would replace the stored one.
  plan.failed = distros.length > 0 && accepted.length === 0;
  if (plan.failed) return plan;
  const whole = plan.problems.length === 0;
  const stays = new Set<string>();
  for (const path of [IMAGES_PATH, OPENAPI_PATH]) {
    const read = await readOptional(plan, path, options);
    // The document of all images also covers distros that were not taken.
    if (read === "kept" || path === IMAGES_PATH && !whole) stays.add(path);
    else if (read !== undefined) accepted.push(read);
  }
  const stateOf = (distro: string): ListedState => {
    if (outcomes.get(distro)?.kind === "accepted") return "accepted";
    return reader.stored.has(distroPath(distro)) ? "kept" : "absent";
  };
  const heldList = (await index.get(DISTRO_LIST_PATH))?.body;
  const states = distros.map(({ id }) => [id, stateOf(id)] as const);
  const composed = await reading.compose(await listed.taken.body(), heldList, states);
  for (const document of accepted) addTaken(plan, document);
  if (composed === null) addTaken(plan, listed.taken);
  else addComposed(plan, await madeList(composed, now()), reader.stored.get(DISTRO_LIST_PATH));
  const here = new Set([...accepted.map(({ path }) => path), ...stays, DISTRO_LIST_PATH]);
  const isKept = (path: string) => {
    const place = indexPlaceOf(path);
    return place.kind !== "tree" && outcomes.get(place.distro)?.kind === "kept";
  };
  await planRemovals(plan, reader.stored, { index, reading }, {
    isHere: (path) => here.has(path) || isKept(path),
    isListed: (distro) => outcomes.has(distro),
  });
  return plan;
}

/** Releases of one distro read at the same time. */
const RELEASES_AT_ONCE = 4;
/** Times that a distro is read if its documents contradict each other: it may be changing right now. */
const READINGS_MAX = 2;
const READING_PAUSE_MS = 2000;

type DistroOutcome =
  | { readonly kind: "accepted"; readonly taken: TakenDistro }
  /** The store keeps what it has of the distro. */
  | { readonly kind: "kept"; readonly problem: IndexProblem };

/** The documents of an accepted distro. */
interface TakenDistro {
  readonly documents: readonly TakenDocument[];
  readonly pins: IndexPinChanges;
}

interface SyncDistroOptions {
  readonly reader: SyncReader;
  readonly reading: IndexReading;
  readonly index: IndexStore;
  /** Also accepts changed digests and older builds; see domain/index. */
  readonly acceptChanged: boolean;
  readonly wait: Wait;
  readonly signal?: AbortSignal;
}

/** @throws {AgentError} `aborted` when it was canceled; every other failure is an outcome */
async function syncDistro(
  summary: DistroSummary,
  options: SyncDistroOptions,
): Promise<DistroOutcome> {
  for (let reading = 1;; reading++) {
    try {
      return { kind: "accepted", taken: await takeDistro(summary, options) };
    } catch (error) {
      if (!isProblem(error, options.signal)) throw error;
      if (!(error instanceof Contradiction) || reading >= READINGS_MAX) {
        return { kind: "kept", problem: problemOf(error, distroPath(summary.id)) };
      }
      await options.wait(READING_PAUSE_MS, options.signal);
    }
  }
}

interface DistroReading {
  readonly distro: Distro;
  readonly documents: TakenDocument[];
  readonly pins: { readonly put: IndexPin[]; readonly remove: Omit<IndexPin, "pin">[] };
}

async function takeDistro(
  summary: DistroSummary,
  options: SyncDistroOptions,
): Promise<TakenDistro> {
  const { reader, reading: documentsOf, acceptChanged } = options;
  const documents: TakenDocument[] = [];
  const take = async (path: string) => {
    const taken = await reader.take(path);
    if (taken !== undefined) documents.push(taken);
    return taken;
  };
  const need = async (path: string) => {
    const taken = await take(path);
    if (taken !== undefined) return taken;
    throw new Contradiction({ document: path, path: "$" }, "is named but does not exist");
  };
  const own = await need(distroPath(summary.id));
  const distro = await documentsOf.distro(await asRead(own), summary);
  if (!acceptChanged) refuseEmptied(distro, reader);
  const reading: DistroReading = { distro, documents, pins: { put: [], remove: [] } };
  const aliases = SERVED_ALIASES.filter((alias) => holderOf(distro, alias) !== undefined);
  reader.expect(2 * distro.releases.length + aliases.length);
  const builds = new Map<string, TakenDocument>();
  await mapLimited(distro.releases, RELEASES_AT_ONCE, async ({ id }) => {
    const current = await need(releasePath(distro.id, id));
    const archive = await take(archivePath(distro.id, id));
    await checkRelease(reading, id, { current, archive }, options);
    builds.set(id, current);
  });
  for (const alias of aliases) {
    const original = builds.get(holderOf(distro, alias)?.id ?? "");
    const copy = await take(aliasPath(distro.id, alias));
    // An alias file missing upstream is missing here too.
    if (copy !== undefined && original !== undefined) {
      await checkAliasFile(copy, original, documentsOf);
    }
  }
  await pinDropped(reading, options);
  return reading;
}

/** A list is never empty: a distro without releases is not listed at all. */
function refuseEmptied(distro: Distro, reader: SyncReader): void {
  if (distro.releases.length > 0 || heldReleases(distro.id, reader).length === 0) return;
  const place = { document: distroPath(distro.id), path: "$.releases" };
  throw new RefusedDocument(
    place,
    "is empty while releases are stored; the operator must allow this",
  );
}

function heldReleases(distro: string, { stored }: SyncReader): string[] {
  return [...stored.keys()].flatMap((path) => {
    const place = indexPlaceOf(path);
    return place.kind === "current" && place.distro === distro ? [place.release] : [];
  });
}

/** Unchanged lists were accepted when they were stored. */
async function checkRelease(
  { distro, pins }: DistroReading,
  release: string,
  { current, archive }: { current: TakenDocument; archive: TakenDocument | undefined },
  { reader, reading, index, acceptChanged }: SyncDistroOptions,
): Promise<void> {
  const dropped = archive === undefined && reader.stored.has(archivePath(distro.id, release));
  const same = (document: TakenDocument | undefined) =>
    document === undefined || document.state === "unchanged";
  if (!dropped && same(current) && same(archive)) return;
  const about = { distro: distro.id, release };
  const news: ReleaseDocument[] = [{ kind: "current", ...await asRead(current) }];
  if (archive !== undefined) news.push({ kind: "archived", ...await asRead(archive) });
  const held = await heldLists(index, distro.id, release);
  const gone = await index.pins(distro.id, release);
  const read = await reading.release({ ...about, news, held, gone, accepts: acceptChanged });
  if (read.change !== null) {
    const place = { document: current.path, path: "$" };
    throw new RefusedDocument(place, `${read.change}; the operator must allow this`);
  }
  reader.countArtifacts(current.path, read.artifacts);
  pins.put.push(...leavingPins(about, read));
  pins.remove.push(...read.back.map((artifact) => ({ ...about, artifact })));
}

async function asRead({ path, body }: TakenDocument): Promise<ReadDocument> {
  return { path, body: await body() };
}

/** An alias file is a copy of the builds of the release that holds the alias. */
async function checkAliasFile(
  copy: TakenDocument,
  original: TakenDocument,
  reading: IndexReading,
): Promise<void> {
  if (copy.sha256 === original.sha256) return;
  if (await reading.equal(await asRead(copy), await asRead(original))) return;
  throw new Contradiction({ document: copy.path, path: "$" }, `must equal ${original.path}`);
}

/** Pins the artifacts of releases that the distro dropped. */
async function pinDropped(
  { distro, pins }: DistroReading,
  { reader, reading, index }: SyncDistroOptions,
): Promise<void> {
  const here = new Set(distro.releases.map(({ id }) => id));
  for (const release of heldReleases(distro.id, reader)) {
    if (here.has(release)) continue;
    pins.put.push(...await pinsOfRelease(index, reading, { distro: distro.id, release }));
  }
}

/** A list that is composed here, not received. */
async function madeList(body: Uint8Array, now: Instant): Promise<IndexDocument> {
  return {
    path: DISTRO_LIST_PATH,
    body,
    sha256: await sha256Hex(body),
    // The upstream's validators belong to different bytes; without them, the next sync reads the list in
    // full.
    etag: null,
    last_modified: null,
    fetched_at: now,
  };
}

async function readList(
  plan: SyncPlan,
  { reader, reading, acceptChanged, signal }: PlanTreeOptions,
): Promise<{ list: DistroList; taken: TakenDocument } | undefined> {
  try {
    const taken = await reader.take(DISTRO_LIST_PATH);
    if (taken === undefined) {
      throw new AgentError("upstream", `Cannot read ${DISTRO_LIST_PATH}: it does not exist`);
    }
    const list = await reading.list(await taken.body());
    const holdsDistros = [...reader.stored.keys()].some((path) =>
      indexPlaceOf(path).kind !== "tree"
    );
    if (list.distros.length === 0 && holdsDistros && !acceptChanged) {
      const place = { document: DISTRO_LIST_PATH, path: "$.distros" };
      refuse(place, "is empty while distros are stored; the operator must allow this");
    }
    return { list, taken };
  } catch (error) {
    if (!isProblem(error, signal)) throw error;
    plan.failed = true;
    const kept = reader.stored.has(DISTRO_LIST_PATH);
    plan.problems.push({ ...problemOf(error, DISTRO_LIST_PATH), kept });
    return undefined;
  }
}

/**
 * Reads a document that may be missing from the tree.
 * @returns undefined when it is missing, `kept` when it is refused and the stored one stays
 */
async function readOptional(
  plan: SyncPlan,
  path: string,
  { reader, reading, signal }: PlanTreeOptions,
): Promise<TakenDocument | "kept" | undefined> {
  try {
    const taken = await reader.take(path);
    if (taken === undefined) return undefined;
    await reading.optional({ path, body: await taken.body() });
    return taken;
  } catch (error) {
    if (!isProblem(error, signal)) throw error;
    plan.problems.push({ ...problemOf(error, path), kept: reader.stored.has(path) });
    return "kept";
  }
}

// The plan of a sync, built from what was read. Nothing here writes.

import { archivePath, indexPlaceOf, releasePath } from "../../domain/index/index_document.ts";
import type {
  IndexDocument,
  IndexPin,
  IndexPinChanges,
  IndexProblem,
  IndexStore,
} from "../../store/store.ts";
import type { IndexReading, ReleaseDocument, ReleaseReading } from "./index_reading.ts";
import type { StoredDocument, TakenDocument } from "./reader.ts";

/** How one document differs from the stored one. */
interface PlannedChange {
  readonly kind: "added" | "changed" | "removed";
  readonly document: string;
}

/** What a sync would write. */
export interface SyncPlan {
  readonly put: Map<string, IndexDocument>;
  readonly remove: string[];
  readonly pins: { readonly put: IndexPin[]; readonly remove: Omit<IndexPin, "pin">[] };
  readonly changes: PlannedChange[];
  unchanged: number;
  readonly problems: IndexProblem[];
  /** Whether nothing was accepted, so that nothing may be written. */
  failed: boolean;
}

/** A plan that changes nothing, to be filled while documents are read. */
export function emptyPlan(): SyncPlan {
  return {
    put: new Map(),
    remove: [],
    pins: { put: [], remove: [] },
    changes: [],
    unchanged: 0,
    problems: [],
    failed: false,
  };
}

/** Number of documents by kind of change. */
export function countsOf({ changes, unchanged }: SyncPlan) {
  const count = (kind: PlannedChange["kind"]) => changes.filter((one) => one.kind === kind).length;
  return { added: count("added"), changed: count("changed"), removed: count("removed"), unchanged };
}

/** Plans a document of the upstream. */
export function addTaken(plan: SyncPlan, { path, state, put }: TakenDocument): void {
  if (state === "unchanged") plan.unchanged += 1;
  else plan.changes.push({ kind: state, document: path });
  if (put !== null) plan.put.set(path, put);
}

/** Plans a document composed here. */
export function addComposed(
  plan: SyncPlan,
  made: IndexDocument,
  held: StoredDocument | undefined,
): void {
  if (held?.sha256 === made.sha256) {
    plan.unchanged += 1;
    return;
  }
  const kind = held === undefined ? "added" : "changed";
  plan.changes.push({ kind, document: made.path });
  plan.put.set(made.path, made);
}

/** Plans the pins to store for artifacts that leave, and to drop for those that return. */
export function addPins(plan: SyncPlan, { put, remove }: IndexPinChanges): void {
  plan.pins.put.push(...put);
  plan.pins.remove.push(...remove);
}

/**
 * Plans the removal of documents that are gone.
 * @param isHere whether a document was taken, or stays without that
 * @param isListed whether a distro is in the upstream's list
 */
export async function planRemovals(
  plan: SyncPlan,
  stored: ReadonlyMap<string, StoredDocument>,
  { index, reading }: { readonly index: IndexStore; readonly reading: IndexReading },
  { isHere, isListed }: {
    readonly isHere: (path: string) => boolean;
    readonly isListed: (distro: string) => boolean;
  },
): Promise<void> {
  for (const path of stored.keys()) {
    if (isHere(path)) continue;
    plan.remove.push(path);
    plan.changes.push({ kind: "removed", document: path });
    const place = indexPlaceOf(path);
    // Releases dropped by a listed distro were handled when the distro was read.
    if (place.kind !== "current" || isListed(place.distro)) continue;
    addPins(plan, { put: await pinsOfRelease(index, reading, place), remove: [] });
  }
}

/** Drops stored validators after a change of upstream: they mean nothing to the new one. */
export async function forgetValidators(
  plan: SyncPlan,
  stored: ReadonlyMap<string, StoredDocument>,
  index: IndexStore,
): Promise<void> {
  const removed = new Set(plan.remove);
  for (const { path, etag, last_modified } of stored.values()) {
    const foreign = etag !== null || last_modified !== null;
    if (!foreign || plan.put.has(path) || removed.has(path)) continue;
    const document = await index.get(path);
    if (document !== undefined) {
      plan.put.set(path, { ...document, etag: null, last_modified: null });
    }
  }
}

/** The stored lists of a release, current and archived. */
export async function heldLists(
  index: IndexStore,
  distro: string,
  release: string,
): Promise<ReleaseDocument[]> {
  const lists: ReleaseDocument[] = [];
  const paths = [["current", releasePath], ["archived", archivePath]] as const;
  for (const [kind, pathOf] of paths) {
    const held = await index.get(pathOf(distro, release));
    if (held !== undefined) lists.push({ kind, path: held.path, body: held.body });
  }
  return lists;
}

/** The pins to store for artifacts that leave a release. */
export function leavingPins(
  { distro, release }: { readonly distro: string; readonly release: string },
  { leaving }: ReleaseReading,
): IndexPin[] {
  return leaving.map(([artifact, pin]) => ({ distro, release, artifact, pin }));
}

/** The pins to store when a whole release leaves. */
export async function pinsOfRelease(
  index: IndexStore,
  reading: IndexReading,
  { distro, release }: { readonly distro: string; readonly release: string },
): Promise<IndexPin[]> {
  const held = await heldLists(index, distro, release);
  if (held.length === 0) return [];
  const about = { distro, release, news: [], held, gone: [], accepts: true };
  return leavingPins({ distro, release }, await reading.release(about));
}

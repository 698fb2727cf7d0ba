// What a sync would write: put together from what was read, and written by nobody here.

import { archivePath, placeOf, releasePath } from "../../domain/index/index_path.ts";
import type {
  IndexDocument,
  IndexPin,
  IndexPinChanges,
  IndexProblem,
  IndexStore,
} from "../../store/store.ts";
import type { IndexReading, ReleaseDocument, ReleaseReading } from "./index_reading.ts";
import type { StoredDocument, TakenDocument } from "./reader.ts";

/** How one document differs from what the store has. */
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

/** A plan in which nothing happens. */
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

/** How many documents differ, and how. */
export function countsOf({ changes, unchanged }: SyncPlan) {
  const count = (kind: PlannedChange["kind"]) => changes.filter((one) => one.kind === kind).length;
  return { added: count("added"), changed: count("changed"), removed: count("removed"), unchanged };
}

/** Plans for a document as it was taken. */
export function addTaken(plan: SyncPlan, { path, state, put }: TakenDocument): void {
  if (state === "unchanged") plan.unchanged += 1;
  else plan.changes.push({ kind: state, document: path });
  if (put !== null) plan.put.set(path, put);
}

/** Plans for a document that was made here. */
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

/** Plans what is remembered of artifacts that leave, and forgotten of those that come back. */
export function addPins(plan: SyncPlan, { put, remove }: IndexPinChanges): void {
  plan.pins.put.push(...put);
  plan.pins.remove.push(...remove);
}

/**
 * Plans the removal of what is no longer there.
 * @param isHere whether a document was taken, or stays although it was not
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
    const place = placeOf(path);
    // Releases that a listed distro drops were seen when it was read.
    if (place.kind !== "current" || isListed(place.distro)) continue;
    addPins(plan, { put: await pinsOfRelease(index, reading, place), remove: [] });
  }
}

/** After a change of the upstream, what is kept must not be compared with the new one's answers. */
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

// The lists of a release that the store has, to compare new ones with, and what is to be remembered of
// artifacts that leave.

/** The lists of a release that the store has, current and archived. */
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

/** The pins to store of artifacts that leave a release. */
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

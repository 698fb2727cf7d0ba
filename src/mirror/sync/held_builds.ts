// The lists of a release that the store has, to compare new ones with, and what is to be remembered of
// artifacts that leave.

import { archivePath, releasePath } from "../../domain/index/index_path.ts";
import type { IndexPin, IndexStore } from "../../store/store.ts";
import type { IndexReading, ReleaseDocument, ReleaseReading } from "./index_reading.ts";

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

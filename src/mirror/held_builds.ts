// The builds of a release that the store has, to compare new ones with, and what is remembered of
// those that are gone.

import { type BuildList, parseBuildList } from "../domain/artifact.ts";
import { AgentError } from "../domain/error.ts";
import { decodeDocument } from "../domain/index_document.ts";
import { archivePath, releasePath } from "../domain/index_path.ts";
import type { IndexPin, IndexStore } from "../store/store.ts";
import { isEmptyPin, type Pin, pinsOf } from "./pins.ts";

/** Reads a list of builds by the rules. @throws {AgentError} `upstream` */
export function readBuilds(
  body: Uint8Array,
  document: string,
  about: { readonly distro: string; readonly release: string },
  kind: "current" | "archived",
): BuildList {
  return parseBuildList(decodeDocument(body, document), { document, ...about, kind });
}

/** The lists of a release that the store has, current and archived. */
export async function heldBuilds(
  index: IndexStore,
  distro: string,
  release: string,
): Promise<BuildList[]> {
  const lists: BuildList[] = [];
  const paths = [["current", releasePath], ["archived", archivePath]] as const;
  for (const [kind, pathOf] of paths) {
    const held = await index.get(pathOf(distro, release));
    if (held === undefined) continue;
    try {
      lists.push(readBuilds(held.body, held.path, { distro, release }, kind));
    } catch (error) {
      // It was taken by an earlier version, whose rules were fewer: it must not stand in the way.
      if (!(error instanceof AgentError)) throw error;
    }
  }
  return lists;
}

/** What is remembered of artifacts that have left a release. */
export async function gonePins(
  index: IndexStore,
  distro: string,
  release: string,
): Promise<Map<string, Pin>> {
  const rows = await index.pins(distro, release);
  // The text was made below.
  return new Map(rows.map(({ artifact, pin }) => [artifact, JSON.parse(pin) as Pin]));
}

/** The pins to store of artifacts that leave a release. */
export function leavingPins(
  { distro, release }: { readonly distro: string; readonly release: string },
  before: readonly BuildList[],
  after: readonly BuildList[],
): IndexPin[] {
  const here = new Set(pinsOf(after).map(([artifact]) => artifact));
  return pinsOf(before).flatMap(([artifact, pin]) =>
    here.has(artifact) || isEmptyPin(pin)
      ? []
      : [{ distro, release, artifact, pin: JSON.stringify(pin) }]
  );
}

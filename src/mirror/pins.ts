// What was once published for checking an artifact is pinned: a later index may add to it, but not
// change it or take it away. Whoever can write the index could otherwise exchange an image together
// with its digest. A change that is meant must be accepted by the operator.

import { type Artifact, artifactKey, type BuildList } from "../domain/artifact.ts";

/**
 * The first way in which new lists say less of, or something else about, an artifact of old lists.
 * @param before the lists of one release that are held now, current and archived
 * @param after the lists that would replace them
 * @returns words that follow the name of a document, or undefined
 */
export function weakened(
  before: readonly BuildList[],
  after: readonly BuildList[],
): string | undefined {
  const held = artifactsOf(before);
  for (const [key, artifact] of artifactsOf(after)) {
    const earlier = held.get(key);
    const change = earlier === undefined ? undefined : difference(earlier, artifact);
    if (change !== undefined) return `${change} of build ${key}`;
  }
  return undefined;
}

function artifactsOf(lists: readonly BuildList[]): Map<string, Artifact> {
  const artifacts = new Map<string, Artifact>();
  for (const list of lists) {
    for (const build of list.builds) {
      for (const artifact of build.artifacts) {
        artifacts.set(`${JSON.stringify(build.build)} ${artifactKey(artifact)}`, artifact);
      }
    }
  }
  return artifacts;
}

function difference(before: Artifact, after: Artifact): string | undefined {
  const digests = after.integrity?.digests ?? [];
  for (const { algorithm, value } of before.integrity?.digests ?? []) {
    const same = digests.filter((digest) => digest.algorithm === algorithm);
    if (same.length === 0) return `drops the ${algorithm}`;
    if (!same.every((digest) => digest.value === value)) return `changes the ${algorithm}`;
  }
  const kinds = new Set(after.integrity?.signatures.map((signature) => signature.kind));
  const lost = before.integrity?.signatures.find((signature) => !kinds.has(signature.kind));
  return lost === undefined ? undefined : `drops the ${lost.kind} signature`;
}

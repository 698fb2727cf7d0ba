// What was once published for checking an artifact is pinned: a later index may add to it, but not
// change it or take it away. Otherwise anyone who can write the index could exchange an image together
// with its digest. A change that is meant must be accepted by the operator.
//
// The pins of artifacts that the index has are in its documents. Of an artifact that leaves, a pin
// is stored, so that nothing comes back under the same name as something else.

import { type Artifact, artifactKey, type BuildList } from "./artifact.ts";

/** What was published of one artifact. */
export interface Pin {
  /** Lower-case hex by algorithm. */
  readonly digests: readonly (readonly [algorithm: string, value: string])[];
  /** Kinds of signatures. */
  readonly signatures: readonly string[];
}

/** A pin with the name of its artifact within a release. */
type NamedPin = readonly [artifact: string, pin: Pin];

/** The pins of all artifacts; one that is both current and archived has two. */
export function pinsOf(lists: readonly BuildList[]): NamedPin[] {
  return lists.flatMap(({ builds }) =>
    builds.flatMap(({ build, artifacts }) =>
      artifacts.map((artifact): NamedPin => [
        `${JSON.stringify(build)} ${artifactKey(artifact)}`,
        pinOf(artifact),
      ])
    )
  );
}

function pinOf({ integrity }: Artifact): Pin {
  return {
    digests: (integrity?.digests ?? []).map(({ algorithm, value }) => [algorithm, value]),
    signatures: [...new Set(integrity?.signatures.map((signature) => signature.kind))],
  };
}

/** Whether there is anything to hold an artifact to. */
export function isEmptyPin({ digests, signatures }: Pin): boolean {
  return digests.length === 0 && signatures.length === 0;
}

/**
 * The first contradiction between new lists and the pins: a known artifact with less to check it by, or
 * with other values.
 * @param held the pins of one release, including artifacts that have left it
 * @param after the pins according to the new lists
 * @returns words that follow the name of a document, or undefined
 */
export function weakened(
  held: ReadonlyMap<string, Pin>,
  after: readonly NamedPin[],
): string | undefined {
  for (const [key, pin] of after) {
    const earlier = held.get(key);
    const change = earlier === undefined ? undefined : difference(earlier, pin);
    if (change !== undefined) return `${change} of build ${key}`;
  }
  return undefined;
}

function difference(before: Pin, after: Pin): string | undefined {
  for (const [algorithm, value] of before.digests) {
    const same = after.digests.filter(([other]) => other === algorithm);
    if (same.length === 0) return `drops the ${algorithm}`;
    if (!same.every(([, other]) => other === value)) return `changes the ${algorithm}`;
  }
  const lost = before.signatures.find((kind) => !after.signatures.includes(kind));
  return lost === undefined ? undefined : `drops the ${lost} signature`;
}

/**
 * Whether new lists are older than the known ones. Anyone who could replay an old tree would keep a host from
 * ever seeing fixes. It also counts as older when the newest build is gone and no newer one replaces it.
 * @returns words that follow the name of a document, or undefined
 */
export function rolledBack(
  before: readonly BuildList[],
  after: readonly BuildList[],
): string | undefined {
  const held = newestSeen(before);
  const found = newestSeen(after);
  if (held === undefined || found !== undefined && found.ms >= held.ms) return undefined;
  const newest = found === undefined ? "none has a date" : `the newest is of ${found.text}`;
  return `goes back behind a build that was first seen at ${held.text}: ${newest}`;
}

function newestSeen(lists: readonly BuildList[]): { text: string; ms: number } | undefined {
  let newest: { text: string; ms: number } | undefined;
  for (const { builds } of lists) {
    for (const { first_seen } of builds) {
      const ms = Date.parse(first_seen ?? "");
      if (first_seen !== null && ms > (newest?.ms ?? -Infinity)) newest = { text: first_seen, ms };
    }
  }
  return newest;
}

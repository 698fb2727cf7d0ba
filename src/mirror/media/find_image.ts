// The artifact that a reference means, by the search of the index: one query over its rows instead of
// three documents that are read and parsed. The rules are those of findArtifact(), which answers for
// everything that does not lead to exactly one file.

import { parseBuildList } from "../../domain/index/artifact.ts";
import type { ArtifactRef } from "../../domain/machine/media.ts";
import type { ImageStore } from "../../store/image_store.ts";
import { ARCH_DEFAULT, type FoundArtifact, foundArtifact } from "./find_artifact.ts";

/** Artifacts of one build that fit a reference; more are left to findArtifact(). */
const FITTING_MAX = 100;

/** @returns undefined when not exactly one artifact fits */
export async function findImage(
  images: ImageStore,
  ref: ArtifactRef,
): Promise<FoundArtifact | undefined> {
  const { build, variant, arch = ARCH_DEFAULT, ...place } = ref;
  const wanted = { ...place, arch, ...(build === undefined ? { newest: true } : { build }) };
  const found = await images.search(wanted, { limit: FITTING_MAX + 1 });
  if (found.length > FITTING_MAX) return undefined;
  // A build that is also in the archive comes first as it is now.
  const fitting = found.filter(({ archived }) => archived === found[0]?.archived);
  const marked = fitting.filter(({ artifact }) => artifact.default_variant === true);
  const chosen = variant !== undefined
    ? fitting.filter(({ artifact }) => artifact.variant === variant)
    : marked.length > 0
    ? marked
    : fitting.filter(({ artifact }) => (artifact.variant ?? null) === null);
  const [only] = chosen;
  if (only === undefined || chosen.length > 1) return undefined;
  const { distro, release, archived } = only;
  const list = { distro, release, builds: [{ build: only.build, artifacts: [only.artifact] }] };
  const document = `the search for ${distro} ${release} ${only.build}`;
  const kind = archived ? "archived" : "current";
  const artifact = parseBuildList(list, { document, distro, release, kind }).builds[0]
    ?.artifacts[0];
  return artifact && foundArtifact(distro, release, only.build, artifact);
}

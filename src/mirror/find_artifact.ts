// From a reference to an artifact: alias or release, build, and the one file that is meant. What
// does not lead to exactly one file is answered with the choices that there are.

import { type Artifact, type Build, type BuildList, parseBuildList } from "../domain/artifact.ts";
import { AgentError, invalidArgument } from "../domain/error.ts";
import {
  type Distro,
  type DistroSummary,
  holderOf,
  parseDistro,
  parseDistroList,
} from "../domain/image_index.ts";
import { decodeDocument, quote } from "../domain/index_document.ts";
import { archivePath, DISTRO_LIST_PATH, distroPath, releasePath } from "../domain/index_path.ts";
import { type ArtifactRef, safeMediaName } from "../domain/media.ts";
import type { IndexStore } from "../store/store.ts";

/** The architecture of a reference that names none, in the words of the OS information database. */
export const ARCH_DEFAULT = "x86_64";
/** Choices that an error names. */
const CHOICES_MAX = 20;

/** An artifact with its place in the index. */
export interface FoundArtifact {
  readonly distro: string;
  /** The release's id; an alias has been resolved. */
  readonly release: string;
  readonly build: string;
  readonly artifact: Artifact;
  /** A safe file name made of the identity, never of what an address ends in. */
  readonly name: string;
  /** For people. */
  readonly label: string;
}

/**
 * Finds the artifact that a reference means.
 * @throws {AgentError} `not_found` or `invalid_argument` (several fit), naming the choices
 */
export async function findArtifact(index: IndexStore, ref: ArtifactRef): Promise<FoundArtifact> {
  const distro = await findDistro(index, ref.distro);
  const release = holderOf(distro, ref.release)?.id ??
    distro.releases.find((one) => one.id === ref.release)?.id;
  if (release === undefined) {
    const choices = distro.releases.flatMap((one) => [...one.aliases, one.id]);
    throw noneOf(`release ${quote(ref.release)} of ${distro.id}`, choices);
  }
  const build = await findBuild(index, distro.id, release, ref.build);
  const artifact = selectArtifact(build, ref, `${distro.id} ${release} ${build.build}`);
  return foundArtifact(distro.id, release, build.build, artifact);
}

/** An artifact with the names that are made of its identity. */
export function foundArtifact(
  distro: string,
  release: string,
  build: string,
  artifact: Artifact,
): FoundArtifact {
  const words = [artifact.variant, artifact.arch, artifact.format].filter((word) => word !== null);
  const identity = [distro, release, build, ...words.slice(0, -1)].join("-");
  return {
    distro,
    release,
    build,
    artifact,
    // Parts that hold a slash would look like folders.
    name: safeMediaName(`${identity}.${artifact.format}`.replace(/[\\/]/g, "-")),
    label: [distro, release, build, ...words].join(" "),
  };
}

async function findDistro(index: IndexStore, id: string): Promise<Distro> {
  const list = await index.get(DISTRO_LIST_PATH);
  if (list === undefined) {
    throw new AgentError("not_found", `Cannot find distro ${quote(id)}: the index is empty`);
  }
  const { distros } = parseDistroList(decodeDocument(list.body, list.path));
  const summary = distros.find((one: DistroSummary) => one.id === id);
  const document = summary === undefined ? undefined : await index.get(distroPath(summary.id));
  if (summary === undefined || document === undefined) {
    throw noneOf(`distro ${quote(id)}`, distros.map((one) => one.id));
  }
  return parseDistro(decodeDocument(document.body, document.path), summary);
}

async function findBuild(
  index: IndexStore,
  distro: string,
  release: string,
  wanted: string | undefined,
): Promise<Build> {
  const current = await readBuilds(index, distro, release, "current");
  const first = current?.builds[0];
  if (current === undefined || first === undefined) {
    throw new AgentError("not_found", `Cannot find builds of ${distro} ${release}: none are here`);
  }
  if (wanted === undefined) return first;
  const found = current.builds.find((build) => build.build === wanted);
  if (found !== undefined) return found;
  const archive = await readBuilds(index, distro, release, "archived");
  const archived = archive?.builds.find((build) => build.build === wanted);
  if (archived !== undefined) return archived;
  const choices = [...current.builds, ...archive?.builds ?? []].map((build) => build.build);
  throw noneOf(`build ${quote(wanted)} of ${distro} ${release}`, choices);
}

async function readBuilds(
  index: IndexStore,
  distro: string,
  release: string,
  kind: "current" | "archived",
): Promise<BuildList | undefined> {
  const path = kind === "current" ? releasePath(distro, release) : archivePath(distro, release);
  const document = await index.get(path);
  if (document === undefined) return undefined;
  const expected = { document: path, distro, release, kind };
  return parseBuildList(decodeDocument(document.body, path), expected);
}

/**
 * The artifact of a build that fits. Without a variant the vendor's default one is meant; where the
 * vendor marks none, an artifact without a variant.
 */
function selectArtifact(build: Build, ref: ArtifactRef, label: string): Artifact {
  const arch = ref.arch ?? ARCH_DEFAULT;
  const fitting = build.artifacts.filter((artifact) =>
    artifact.arch === arch && (ref.format === undefined || artifact.format === ref.format)
  );
  const marked = fitting.filter((artifact) => artifact.default_variant === true);
  const unnamed = fitting.filter((artifact) => artifact.variant === null);
  const chosen = ref.variant !== undefined
    ? fitting.filter((artifact) => artifact.variant === ref.variant)
    : marked.length > 0
    ? marked
    : unnamed;
  const [only] = chosen;
  if (only !== undefined && chosen.length === 1) return only;
  const wanted = [ref.variant ?? "default variant", arch, ref.format ?? "any format"].join(" ");
  if (only === undefined) throw noneOf(`${wanted} of ${label}`, build.artifacts.map(choice));
  const message = `Cannot choose an artifact of ${label}: ${wanted} fits ` +
    chosen.slice(0, CHOICES_MAX).map(choice).join(", ");
  const field = chosen.every((one) => one.variant === only.variant) ? "format" : "variant";
  throw invalidArgument(field, message);
}

function choice(artifact: Artifact): string {
  return [artifact.variant ?? "-", artifact.arch, artifact.format].join("/");
}

function noneOf(what: string, choices: readonly string[]): AgentError {
  const named = choices.slice(0, CHOICES_MAX).join(", ");
  const more = choices.length > CHOICES_MAX ? ` and ${choices.length - CHOICES_MAX} more` : "";
  return new AgentError("not_found", `Cannot find ${what}: there are ${named || "none"}${more}`);
}

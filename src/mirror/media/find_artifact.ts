// Resolves a reference to an artifact: alias or release, build, and one file. A reference that does not match exactly
// one file is refused, naming the choices.

import { AgentError, invalidArgument } from "../../domain/error.ts";
import { type Artifact, type Build, parseBuildList } from "../../domain/index/artifact.ts";
import { type Distro, type DistroSummary, holderOf } from "../../domain/index/image_index.ts";
import { DISTRO_LIST_PATH, distroPath, quote } from "../../domain/index/index_document.ts";
import { type ArtifactRef, safeMediaName } from "../../domain/machine/media.ts";
import type { ImageStore } from "../../store/image_store.ts";
import type { IndexStore } from "../../store/store.ts";
import type { IndexReading } from "../sync/index_reading.ts";
import { heldLists } from "../sync/plan.ts";

/** Architecture of a reference that names none, spelled as in the OS information database. */
const ARCH_DEFAULT = "x86_64";
/** Most choices that an error names. */
const CHOICES_MAX = 20;

/** An artifact with its place in the index. */
export interface FoundArtifact {
  readonly distro: string;
  /** The release's id, with aliases resolved. */
  readonly release: string;
  readonly build: string;
  readonly artifact: Artifact;
  /** A safe file name built from the identity, never from a URL. */
  readonly name: string;
  readonly label: string;
}

/** The stored index and the decoders for its documents. */
interface KnownIndex {
  readonly index: IndexStore;
  readonly reading: IndexReading;
}

/**
 * Finds the artifact that a reference means.
 * @throws {AgentError} `not_found` or `invalid_argument` (several match), naming the choices
 */
export async function findArtifact(known: KnownIndex, ref: ArtifactRef): Promise<FoundArtifact> {
  const distro = await findDistro(known, ref.distro);
  const release = holderOf(distro, ref.release)?.id ??
    distro.releases.find((one) => one.id === ref.release)?.id;
  if (release === undefined) {
    const choices = distro.releases.flatMap((one) => [...one.aliases, one.id]);
    throw noneOf(`release ${quote(ref.release)} of ${distro.id}`, choices);
  }
  const build = await findBuild(known, { distro: distro.id, release }, ref.build);
  const artifact = selectArtifact(build, ref, `${distro.id} ${release} ${build.build}`);
  return foundArtifact(distro.id, release, build.build, artifact);
}

/** Matching artifacts of one build; more are left to findArtifact(). */
const FITTING_MAX = 100;

/**
 * Finds the artifact by one query over the index rows, instead of reading and parsing three
 * documents. Follows the rules of {@linkcode findArtifact}, which answers for everything but
 * exactly one match.
 * @returns undefined unless exactly one artifact matches
 */
export async function findImage(
  images: ImageStore,
  ref: ArtifactRef,
): Promise<FoundArtifact | undefined> {
  const { build, variant, arch = ARCH_DEFAULT, ...place } = ref;
  const wanted = { ...place, arch, ...(build === undefined ? { newest: true } : { build }) };
  const found = await images.search(wanted, { limit: FITTING_MAX + 1 });
  if (found.length > FITTING_MAX) return undefined;
  // The current build comes before the same build in the archive.
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

/** Adds the names built from the identity. */
function foundArtifact(
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
    // A slash would mean a folder.
    name: safeMediaName(`${identity}.${artifact.format}`.replace(/[\\/]/g, "-")),
    label: [distro, release, build, ...words].join(" "),
  };
}

async function findDistro({ index, reading }: KnownIndex, id: string): Promise<Distro> {
  const list = await index.get(DISTRO_LIST_PATH);
  if (list === undefined) {
    const message = `Cannot find distro ${quote(id)}: the index is empty`;
    throw new AgentError("not_found", message, { about: { kind: "index" } });
  }
  const { distros } = await reading.list(list.body);
  const summary = distros.find((one: DistroSummary) => one.id === id);
  const document = summary === undefined ? undefined : await index.get(distroPath(summary.id));
  if (summary === undefined || document === undefined) {
    throw noneOf(`distro ${quote(id)}`, distros.map((one) => one.id));
  }
  return await reading.distro(document, summary);
}

async function findBuild(
  { index, reading }: KnownIndex,
  about: { readonly distro: string; readonly release: string },
  wanted: string | undefined,
): Promise<Build> {
  const of = `${about.distro} ${about.release}`;
  const lists = await heldLists(index, about.distro, about.release);
  if (lists[0]?.kind !== "current") {
    const message = `Cannot find builds of ${of}: it has none`;
    throw new AgentError("not_found", message, { about: { kind: "artifact", name: of } });
  }
  const names: string[] = [];
  for (const list of lists) {
    const read = await reading.build(list, about, wanted);
    if (read.build !== undefined) return read.build;
    names.push(...read.names);
  }
  throw noneOf(`build ${quote(wanted ?? "")} of ${of}`, names);
}

/**
 * The artifact of a build that matches. Without a variant, the vendor's default one; where the
 * vendor marks no default, an artifact without a variant.
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
  const variant = ref.variant === undefined ? "default variant" : `variant ${ref.variant}`;
  const wanted = [variant, arch, ref.format ?? "any format"].join(", ");
  if (only === undefined) {
    throw noneOf(`a file (${wanted}) of ${label}`, build.artifacts.map(choice));
  }
  const message = `Cannot choose a file of ${label}: ${wanted} matches ` +
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
  const message = `Cannot find ${what}: the choices are ${named || "none"}${more}`;
  return new AgentError("not_found", message, { about: { kind: "artifact" } });
}

// What a document of the image index says to those who search: read once, when it is stored. The
// sync has judged the document before; here a field of another type is passed over.

import { isJsonObject, type JsonObject, type JsonValue } from "../../../domain/json.ts";
import { decodeDocument, RefusedDocument } from "../../../domain/index/index_document.ts";
import { DISTRO_LIST_PATH } from "../../../domain/index/index_path.ts";
import type { IndexDocument } from "../../store.ts";

/** One row of a list of distros. */
export interface DistroRow {
  readonly distro: string;
  readonly words: string;
}

/** One release of a distro. */
export interface ReleaseRow {
  readonly release: string;
  readonly aliases: readonly string[];
  readonly words: string;
}

/** One artifact of a build. */
export interface ArtifactRow {
  readonly build_place: number;
  readonly place: number;
  readonly build: string;
  readonly arch: string;
  readonly format: string;
  readonly compression: string;
  readonly variant: string | null;
  readonly default_variant: boolean;
  readonly datasources: readonly string[];
  readonly firmware: readonly string[];
  readonly words: string;
  readonly point_release: string | null;
  readonly published_at: string | null;
  readonly url: string | null;
  /** JSON text. */
  readonly artifact: string;
}

/** Which rows belong to a document. */
export type RowsPlace =
  | { readonly kind: "distros" }
  | { readonly kind: "releases"; readonly distro: string }
  | {
    readonly kind: "artifacts";
    readonly distro: string;
    readonly release: string;
    readonly archived: boolean;
  }
  /** A document that says nothing of its own, such as an alias file. */
  | { readonly kind: "none" };

/** The rows of a document. */
export type DocumentRows =
  | { readonly kind: "distros"; readonly rows: readonly DistroRow[] }
  | { readonly kind: "releases"; readonly distro: string; readonly rows: readonly ReleaseRow[] }
  | Extract<RowsPlace, { kind: "artifacts" }> & { readonly rows: readonly ArtifactRow[] }
  | { readonly kind: "none" };

const RELEASES = /^v1\/distros\/([^/]+)\/index\.json$/;
const ARTIFACTS = /^v1\/distros\/([^/]+)\/releases\/([^/]+)\/(index|archive)\.json$/;

/** Where the rows of a document are. */
export function rowsPlace(path: string): RowsPlace {
  if (path === DISTRO_LIST_PATH) return { kind: "distros" };
  const [, distro] = RELEASES.exec(path) ?? [];
  if (distro !== undefined) return { kind: "releases", distro };
  const [, of, release, list] = ARTIFACTS.exec(path) ?? [];
  if (of === undefined || release === undefined) return { kind: "none" };
  return { kind: "artifacts", distro: of, release, archived: list === "archive" };
}

/** Reads the rows of a document. What is no JSON object has none: it is served as it is. */
export function documentRows({ path, body }: IndexDocument): DocumentRows {
  const place = rowsPlace(path);
  const document = place.kind === "none" ? undefined : parsed(path, body);
  if (place.kind === "none" || document === undefined) return { kind: "none" };
  switch (place.kind) {
    case "distros":
      return { ...place, rows: objects(document.distros).map(distroRow) };
    case "releases":
      return { ...place, rows: objects(document.releases).map(releaseRow) };
    case "artifacts":
      return { ...place, rows: objects(document.builds).flatMap(artifactRows) };
  }
}

/** A document of an older version may be larger than those that are taken today: it has no rows. */
function parsed(path: string, body: Uint8Array): JsonObject | undefined {
  try {
    const value = decodeDocument(body, path);
    return isJsonObject(value) ? value : undefined;
  } catch (error) {
    if (error instanceof RefusedDocument) return undefined;
    throw error;
  }
}

function distroRow(distro: JsonObject): DistroRow {
  const id = text(distro.id) ?? "";
  return { distro: id, words: wordsOf([id, text(distro.name), text(distro.os_family)]) };
}

function releaseRow(release: JsonObject): ReleaseRow {
  const id = text(release.id) ?? "";
  const aliases = texts(release.aliases);
  const words = wordsOf([id, text(release.title), text(release.version), ...aliases]);
  return { release: id, aliases, words };
}

function artifactRows(build: JsonObject, build_place: number): ArtifactRow[] {
  const artifacts = objects(build.artifacts);
  const marked = new Set(
    artifacts.filter(({ default_variant }) => default_variant === true).map(({ arch }) => arch),
  );
  const id = text(build.build) ?? "";
  const point_release = text(build.point_release);
  return artifacts.map((artifact, place) => {
    const arch = text(artifact.arch) ?? "";
    const format = text(artifact.format) ?? "";
    const compression = text(artifact.compression) ?? "";
    const variant = text(artifact.variant);
    const datasources = texts(artifact.datasources);
    const firmware = texts(artifact.firmware);
    const url = addressOf(artifact);
    const file = url?.split("/").at(-1) ?? null;
    const facts = [id, point_release, arch, format, compression, variant, file];
    return {
      build_place,
      place,
      build: id,
      arch,
      format,
      compression,
      variant,
      default_variant: artifact.default_variant === true ||
        variant === null && !marked.has(arch),
      datasources,
      firmware,
      words: wordsOf([...facts, ...datasources, ...firmware]),
      point_release,
      published_at: text(build.published_at),
      url,
      artifact: JSON.stringify(artifact),
    };
  });
}

function addressOf(artifact: JsonObject): string | null {
  const locations = objects(artifact.locations);
  const primary = locations.find(({ kind }) => kind === "primary") ?? locations[0];
  return text(primary?.url);
}

/** Case does not count in a search. A line break stands between two facts: no word holds one. */
function wordsOf(facts: readonly (string | null)[]): string {
  return facts.filter((fact) => fact !== null).join("\n").toLowerCase();
}

function text(value: JsonValue | undefined): string | null {
  return typeof value === "string" ? value : null;
}

function texts(value: JsonValue | undefined): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}

function objects(value: JsonValue | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

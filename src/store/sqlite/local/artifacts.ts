// The rows by which the image index is searched, kept equal to its documents: they are written in the
// transaction that writes the documents.

import type { IndexDocument, IndexStore } from "../../store.ts";
import type { Connection } from "../connection.ts";
import { yieldTurn } from "../../limits.ts";
import { isJsonObject, type JsonObject, type JsonValue, objectsIn } from "../../../domain/json.ts";
import { textOrNull } from "../../../domain/machine/shown.ts";
import {
  decodeDocument,
  DISTRO_LIST_PATH,
  RefusedDocument,
} from "../../../domain/index/index_document.ts";

/** Documents whose rows are written together when the store is opened. */
const FILL_AT_A_TIME = 100;
/** Milliseconds of reading documents before yielding to other work. */
const READ_MS = 8;

/** The rows of documents that are about to be written, by their paths. */
type RowsByPath = ReadonlyMap<string, DocumentRows>;

/** Computes the rows of documents, yielding to other work in between. */
export async function readRows(documents: readonly IndexDocument[]): Promise<RowsByPath> {
  const rows = new Map<string, DocumentRows>();
  let began = performance.now();
  for (const document of documents) {
    rows.set(document.path, documentRows(document));
    if (performance.now() - began < READ_MS) continue;
    await yieldTurn();
    began = performance.now();
  }
  return rows;
}

/** Replaces the rows of documents that are written in the same transaction. */
export function putRows(db: Connection, byPath: RowsByPath): void {
  for (const [path, rows] of byPath) {
    removeRows(db, path);
    db.run("INSERT INTO index_searched (path) VALUES (?)", path);
    switch (rows.kind) {
      case "distros":
        for (const [place, row] of rows.rows.entries()) insertDistro(db, place, row);
        break;
      case "releases":
        for (const [place, row] of rows.rows.entries()) insertRelease(db, rows.distro, place, row);
        break;
      case "artifacts":
        for (const row of rows.rows) insertArtifact(db, rows, row);
        break;
      case "none":
        break;
    }
  }
}

/** Removes the rows of a document that is removed in the same transaction. */
export function removeRows(db: Connection, path: string): void {
  if (!deleteSearched(db, path)) return;
  const place = rowsPlace(path);
  switch (place.kind) {
    case "distros":
      deleteDistros(db);
      break;
    case "releases":
      deleteReleases(db, place.distro);
      deleteAliases(db, place.distro);
      break;
    case "artifacts":
      deleteArtifacts(db, place);
      break;
    case "none":
      break;
  }
}

/** @returns whether the document had rows */
function deleteSearched(db: Connection, path: string): boolean {
  return db.run("DELETE FROM index_searched WHERE path = ?", path) > 0;
}

function deleteDistros(db: Connection): void {
  db.run("DELETE FROM index_distros");
}

function deleteReleases(db: Connection, distro: string): void {
  db.run("DELETE FROM index_releases WHERE distro = ?", distro);
}

function deleteAliases(db: Connection, distro: string): void {
  db.run("DELETE FROM index_aliases WHERE distro = ?", distro);
}

interface ArtifactsPlace {
  readonly distro: string;
  readonly release: string;
  readonly archived: boolean;
}

function deleteArtifacts(db: Connection, { distro, release, archived }: ArtifactsPlace): void {
  db.run(
    "DELETE FROM index_artifacts WHERE distro = ? AND release = ? AND archived = ?",
    distro,
    release,
    Number(archived),
  );
}

/** Writes the rows of documents that an older version stored without them. */
export async function fillRows(db: Connection, index: IndexStore): Promise<void> {
  const missing = await db.durably(() => selectUnsearched(db));
  for (let at = 0; at < missing.length; at += FILL_AT_A_TIME) {
    const documents: IndexDocument[] = [];
    for (const path of missing.slice(at, at + FILL_AT_A_TIME)) {
      const document = await index.get(path);
      if (document !== undefined) documents.push(document);
    }
    const rows = await readRows(documents);
    await db.write("index_fill", () => putRows(db, rows));
  }
}

/** Answered from the two primary keys: no document is read. */
function selectUnsearched(db: Connection): string[] {
  return db.rows<{ path: string }>(
    "SELECT path FROM index_documents WHERE path NOT IN (SELECT path FROM index_searched)",
  ).map(({ path }) => path);
}

/** The sync refuses duplicate names and aliases; should one be stored nevertheless, the first one counts. */
function insertDistro(db: Connection, place: number, { distro, words }: DistroRow): void {
  db.run(
    "INSERT INTO index_distros (place, distro, words) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
    place,
    distro,
    words,
  );
}

function insertRelease(
  db: Connection,
  distro: string,
  place: number,
  { release, aliases, words }: ReleaseRow,
): void {
  db.run(
    `INSERT INTO index_releases (distro, place, release, aliases, words)
     VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
    distro,
    place,
    release,
    JSON.stringify(aliases),
    words,
  );
  for (const alias of aliases) insertAlias(db, distro, alias, release);
}

function insertAlias(db: Connection, distro: string, alias: string, release: string): void {
  db.run(
    `INSERT INTO index_aliases (distro, alias, release) VALUES (?, ?, ?)
     ON CONFLICT DO NOTHING`,
    distro,
    alias,
    release,
  );
}

function insertArtifact(
  db: Connection,
  { distro, release, archived }: ArtifactsPlace,
  row: ArtifactRow,
): void {
  db.run(
    `INSERT INTO index_artifacts (distro, release, archived, build_place, place, build, arch,
                                  format, compression, variant, default_variant, datasources,
                                  firmware, words)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    distro,
    release,
    Number(archived),
    row.build_place,
    row.place,
    row.build,
    row.arch,
    row.format,
    row.compression,
    row.variant,
    Number(row.default_variant),
    JSON.stringify(row.datasources),
    JSON.stringify(row.firmware),
    row.words,
  );
  insertArtifactTexts(db, row);
}

/** The texts of the artifact that was inserted last. */
function insertArtifactTexts(db: Connection, row: ArtifactRow): void {
  db.run(
    `INSERT INTO index_artifact_texts (artifact_id, point_release, published_at, url, artifact)
     VALUES (last_insert_rowid(), ?, ?, ?, ?)`,
    row.point_release,
    row.published_at,
    row.url,
    row.artifact,
  );
}

interface DistroRow {
  readonly distro: string;
  readonly words: string;
}

interface ReleaseRow {
  readonly release: string;
  readonly aliases: readonly string[];
  readonly words: string;
}

interface ArtifactRow {
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
  readonly artifact: string;
}

/** Which rows belong to a document. */
type RowsPlace =
  | { readonly kind: "distros" }
  | { readonly kind: "releases"; readonly distro: string }
  | {
    readonly kind: "artifacts";
    readonly distro: string;
    readonly release: string;
    readonly archived: boolean;
  }
  /** A document without content of its own, such as an alias file. */
  | { readonly kind: "none" };

/** The rows that a document adds to the search tables. */
type DocumentRows =
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

/**
 * Extracts the searchable content of a document, once when it is stored. The sync has checked the document; here a field of
 * an unexpected type is ignored. Anything but a JSON object has no rows, and is only served.
 */
function documentRows({ path, body }: IndexDocument): DocumentRows {
  const place = rowsPlace(path);
  const document = place.kind === "none" ? undefined : parsed(path, body);
  if (place.kind === "none" || document === undefined) return { kind: "none" };
  switch (place.kind) {
    case "distros":
      return { ...place, rows: objectsIn(document.distros).map(distroRow) };
    case "releases":
      return { ...place, rows: objectsIn(document.releases).map(releaseRow) };
    case "artifacts":
      return { ...place, rows: objectsIn(document.builds).flatMap(artifactRows) };
  }
}

/** A document stored by an older version may exceed today's limits; it gets no rows. */
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
  const id = textOrNull(distro.id) ?? "";
  return {
    distro: id,
    words: wordsOf([id, textOrNull(distro.name), textOrNull(distro.os_family)]),
  };
}

function releaseRow(release: JsonObject): ReleaseRow {
  const id = textOrNull(release.id) ?? "";
  const aliases = texts(release.aliases);
  const words = wordsOf([id, textOrNull(release.title), textOrNull(release.version), ...aliases]);
  return { release: id, aliases, words };
}

function artifactRows(build: JsonObject, build_place: number): ArtifactRow[] {
  const artifacts = objectsIn(build.artifacts);
  const marked = new Set(
    artifacts.filter(({ default_variant }) => default_variant === true).map(({ arch }) => arch),
  );
  const id = textOrNull(build.build) ?? "";
  const point_release = textOrNull(build.point_release);
  return artifacts.map((artifact, place) => {
    const arch = textOrNull(artifact.arch) ?? "";
    const format = textOrNull(artifact.format) ?? "";
    const compression = textOrNull(artifact.compression) ?? "";
    const variant = textOrNull(artifact.variant);
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
      published_at: textOrNull(build.published_at),
      url,
      artifact: JSON.stringify(artifact),
    };
  });
}

function addressOf(artifact: JsonObject): string | null {
  const locations = objectsIn(artifact.locations);
  const primary = locations.find(({ kind }) => kind === "primary") ?? locations[0];
  return textOrNull(primary?.url);
}

/** Searches ignore case. Facts are separated by line breaks, which no search word contains. */
function wordsOf(facts: readonly (string | null)[]): string {
  return facts.filter((fact) => fact !== null).join("\n").toLowerCase();
}

function texts(value: JsonValue | undefined): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}

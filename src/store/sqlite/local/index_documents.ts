// The documents of the image index, as the upstream wrote them, their search, and the reports of the syncs.
// Bodies are compressed: index JSON shrinks to a tenth, and so do the file, its log and its backups.
// Compressing takes less time than writing the full text.

import type { BindValue } from "@db/sqlite";
import type { JsonObject } from "../../../domain/json.ts";
import {
  type ImageFilter,
  type ImagePage,
  type ImagePlace,
  type ListedImage,
  SEARCH_WORDS_MAX,
} from "../../image_store.ts";
import type { IndexDocument, IndexPin, IndexPinChanges, IndexSync } from "../../store.ts";
import type { Connection } from "../connection.ts";

/** Reports of syncs that are kept. */
const SYNC_REPORTS_MAX = 100;
/** Documents below this size are not compressed, bytes. */
const COMPRESSED_BYTES_MIN = 512;

interface StoredBody extends IndexDocument {
  readonly encoding: "identity" | "gzip";
}

/** Compresses documents for their rows. */
export async function packDocuments(documents: readonly IndexDocument[]): Promise<StoredBody[]> {
  const packed: StoredBody[] = [];
  for (const document of documents) packed.push(await packDocument(document));
  return packed;
}

async function packDocument(document: IndexDocument): Promise<StoredBody> {
  const { body } = document;
  if (body.byteLength >= COMPRESSED_BYTES_MIN) {
    const smaller = await piped(body, new CompressionStream("gzip"));
    if (smaller.byteLength < body.byteLength) {
      return { ...document, body: smaller, encoding: "gzip" };
    }
  }
  return { ...document, encoding: "identity" };
}

/** The document of a row. */
export async function unpackDocument(row: StoredBody): Promise<IndexDocument> {
  const { encoding, ...document } = row;
  if (encoding === "identity") return document;
  return { ...document, body: await piped(row.body, new DecompressionStream("gzip")) };
}

async function piped(
  bytes: Uint8Array,
  through: TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>,
): Promise<Uint8Array> {
  const source = new Blob([new Uint8Array(bytes)]).stream();
  return new Uint8Array(await new Response(source.pipeThrough(through)).arrayBuffer());
}

/**
 * The row with its body as stored, maybe compressed: see unpackDocument(). Undefined when the path
 * is missing.
 */
export function selectDocument(db: Connection, path: string): StoredBody | undefined {
  return db.row<StoredBody>(
    `SELECT path, body, encoding, sha256, etag, last_modified, fetched_at
       FROM index_documents WHERE path = ?`,
    path,
  );
}

/** Every document by path; bodies are not read. */
export function selectDocuments(db: Connection): Omit<IndexDocument, "body">[] {
  return db.rows<Omit<IndexDocument, "body">>(
    "SELECT path, sha256, etag, last_modified, fetched_at FROM index_documents ORDER BY path",
  );
}

/** Writes a packed document, replacing any of the same path. */
export function upsertDocument(db: Connection, document: StoredBody): void {
  db.run(
    `INSERT INTO index_documents (path, body, sha256, etag, last_modified, fetched_at, encoding)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
     ON CONFLICT (path) DO UPDATE
        SET body = ?2, sha256 = ?3, etag = ?4, last_modified = ?5, fetched_at = ?6, encoding = ?7`,
    document.path,
    document.body,
    document.sha256,
    document.etag,
    document.last_modified,
    document.fetched_at,
    document.encoding,
  );
}

/** Removes a document; does nothing when no document has the path. */
export function deleteDocument(db: Connection, path: string): void {
  db.run("DELETE FROM index_documents WHERE path = ?", path);
}

/** Records the report of a sync; only the newest `SYNC_REPORTS_MAX` are kept. */
export function insertSync(db: Connection, sync: IndexSync): void {
  db.run("INSERT INTO index_syncs (report) VALUES (?)", JSON.stringify(sync));
  deleteOldSyncs(db);
}

function deleteOldSyncs(db: Connection): void {
  db.run(
    "DELETE FROM index_syncs WHERE id <= (SELECT max(id) FROM index_syncs) - ?",
    SYNC_REPORTS_MAX,
  );
}

/** The report of the newest sync; undefined before the first one. */
export function selectLastSync(db: Connection): IndexSync | undefined {
  const row = db.row<{ report: string }>(
    "SELECT report FROM index_syncs ORDER BY id DESC LIMIT 1",
  );
  // The text was made by this store from a report.
  return row === undefined ? undefined : JSON.parse(row.report) as IndexSync;
}

/** Pins that are kept; the known trees lose a few hundred artifacts in a month. */
const PINS_MAX = 100_000;

/** The artifacts that have left this release, each with its pin, in no order. */
export function selectPins(db: Connection, distro: string, release: string): IndexPin[] {
  return db.rows<IndexPin>(
    "SELECT distro, release, artifact, pin FROM index_pins WHERE distro = ? AND release = ?",
    distro,
    release,
  );
}

/**
 * Changes the pins of artifacts that have left the index; see decoder/work/index_documents.ts. Removes first, then writes:
 * an artifact named in both keeps its new pin. Only the most recent pins are kept.
 */
export function changePins(db: Connection, { put, remove }: IndexPinChanges): void {
  for (const pin of remove) deletePin(db, pin);
  for (const pin of put) upsertPin(db, pin);
  if (put.length > 0) deleteOldPins(db);
}

function deletePin(db: Connection, { distro, release, artifact }: Omit<IndexPin, "pin">): void {
  db.run(
    "DELETE FROM index_pins WHERE distro = ? AND release = ? AND artifact = ?",
    distro,
    release,
    artifact,
  );
}

function upsertPin(db: Connection, { distro, release, artifact, pin }: IndexPin): void {
  db.run(
    `INSERT INTO index_pins (distro, release, artifact, pin) VALUES (?, ?, ?, ?)
     ON CONFLICT (distro, release, artifact) DO UPDATE SET pin = excluded.pin`,
    distro,
    release,
    artifact,
    pin,
  );
}

function deleteOldPins(db: Connection): void {
  db.run("DELETE FROM index_pins WHERE id <= (SELECT max(id) FROM index_pins) - ?", PINS_MAX);
}

const TABLES = `index_distros AS d
  CROSS JOIN index_releases AS r ON r.distro = d.distro
  CROSS JOIN index_artifacts AS a ON a.distro = r.distro AND a.release = r.release`;

/** A filter that is null matches everything. */
const MATCHES_FILTER = `(?1 IS NULL OR d.distro = ?1)
  AND (?2 IS NULL OR r.release = coalesce(
        (SELECT x.release FROM index_aliases AS x WHERE x.distro = r.distro AND x.alias = ?2), ?2))
  AND (?3 IS NULL OR a.archived = ?3)
  AND (?4 IS NULL OR (a.archived = 0 AND a.build_place = 0) = ?4)
  AND (?5 IS NULL OR a.default_variant = ?5)
  AND (?6 IS NULL OR a.build = ?6)
  AND (?7 IS NULL OR a.arch = ?7)
  AND (?8 IS NULL OR a.format = ?8)
  AND (?9 IS NULL OR a.variant = ?9)
  AND (?10 IS NULL OR a.compression = ?10)
  -- A text with its quotes stands in the JSON of a list only where it is one of the list.
  AND (?11 IS NULL OR instr(a.datasources, ?11) > 0)
  AND (?12 IS NULL OR instr(a.firmware, ?12) > 0)
  ${
  Array.from({ length: SEARCH_WORDS_MAX }, (_, number) => `?${number + 13}`).map((word) =>
    `AND (${word} IS NULL OR instr(a.words, ${word}) OR instr(r.words, ${word})
      OR instr(d.words, ${word}))`
  ).join("\n  ")
}`;
/** Number of the last question mark in it. */
const FITS_BOUND = 12 + SEARCH_WORDS_MAX;
const BEFORE_ALL: ImagePlace = [-1, 0, 0, 0, 0];

interface ImageRow {
  readonly distro: string;
  readonly release: string;
  readonly aliases: string;
  readonly build: string;
  readonly point_release: string | null;
  readonly published_at: string | null;
  readonly archived: number;
  readonly url: string | null;
  readonly artifact: string;
  readonly distro_place: number;
  readonly release_place: number;
  readonly build_place: number;
  readonly place: number;
}

/**
 * The search over the artifacts of the image index. The three tables are joined in key order, which is the order of the
 * tree: nothing is sorted, and reading stops when the page is full. A given distro or release limits what is read; other
 * filters check the narrow rows that remain. One statement serves every filter, so that callers cannot fill the memory with
 * prepared statements.
 */
export function searchImages(
  db: Connection,
  filter: ImageFilter,
  { limit, after = BEFORE_ALL }: ImagePage,
): ListedImage[] {
  const place = after.map((_, number) => `?${FITS_BOUND + 1 + number}`);
  return db.rows<ImageRow>(
    `SELECT a.distro, a.release, r.aliases, a.build, t.point_release, t.published_at, a.archived,
            t.url, t.artifact, d.place AS distro_place, r.place AS release_place, a.build_place,
            a.place
       FROM ${TABLES}
      CROSS JOIN index_artifact_texts AS t ON t.artifact_id = a.id
      WHERE d.place >= ${place[0]}
        AND (d.place, r.place, a.archived, a.build_place, a.place) > (${place.join(", ")})
        AND ${MATCHES_FILTER}
      ORDER BY d.place, r.place, a.archived, a.build_place, a.place
      LIMIT ?${FITS_BOUND + 1 + place.length}`,
    ...bound(filter),
    ...after,
    limit,
  ).map(imageFromRow);
}

/** How many artifacts of the index match, on all pages. */
export function countImages(db: Connection, filter: ImageFilter): number {
  const row = db.row<{ artifacts: number }>(
    `SELECT count(*) AS artifacts FROM ${TABLES} WHERE ${MATCHES_FILTER}`,
    ...bound(filter),
  );
  return row?.artifacts ?? 0;
}

/** The values bound to the filter, in order. */
function bound(filter: ImageFilter): BindValue[] {
  const flag = (on: boolean | undefined) => on === undefined ? null : Number(on);
  const listed = (word: string | undefined) => word === undefined ? null : JSON.stringify(word);
  const { words = [] } = filter;
  return [
    filter.distro ?? null,
    filter.release ?? null,
    flag(filter.archived),
    flag(filter.newest),
    flag(filter.default_variant),
    filter.build ?? null,
    filter.arch ?? null,
    filter.format ?? null,
    filter.variant ?? null,
    filter.compression ?? null,
    listed(filter.datasource),
    listed(filter.firmware),
    ...Array.from(
      { length: SEARCH_WORDS_MAX },
      (_, number) => words[number]?.toLowerCase() ?? null,
    ),
  ];
}

function imageFromRow(row: ImageRow): ListedImage {
  const { distro, release, build, point_release, published_at, url } = row;
  const { distro_place, release_place, archived, build_place, place } = row;
  return {
    distro,
    release,
    // Both texts were made by this store.
    aliases: JSON.parse(row.aliases) as string[],
    build,
    point_release,
    published_at,
    archived: archived === 1,
    url,
    artifact: JSON.parse(row.artifact) as JsonObject,
    place: [distro_place, release_place, archived, build_place, place],
  };
}

// The documents of the image index, as the upstream wrote them, and the reports of the syncs.
// Bodies are compressed: index JSON shrinks to a tenth, and so do the file, its log and its backups.
// Compressing takes less time than writing the full text.

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

// Pins of artifacts that have left the index; see decoder/work/index_documents.ts. Only
// the most recent are kept.

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

/** Removes first, then writes: an artifact named in both keeps its new pin. */
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

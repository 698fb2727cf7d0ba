// The documents of the image index, as the upstream wrote them, and the reports of the syncs.

import type { IndexDocument, IndexSync } from "../store.ts";
import type { Connection } from "./connection.ts";

/** Reports of syncs that are kept. */
const SYNC_REPORTS_MAX = 100;

export function selectDocument(db: Connection, path: string): IndexDocument | undefined {
  return db.row<IndexDocument>(
    `SELECT path, body, sha256, etag, last_modified, fetched_at
       FROM index_documents WHERE path = ?`,
    path,
  );
}

export function selectDocuments(db: Connection): Omit<IndexDocument, "body">[] {
  return db.rows<Omit<IndexDocument, "body">>(
    "SELECT path, sha256, etag, last_modified, fetched_at FROM index_documents ORDER BY path",
  );
}

export function upsertDocument(db: Connection, document: IndexDocument): void {
  db.run(
    `INSERT INTO index_documents (path, body, sha256, etag, last_modified, fetched_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6)
     ON CONFLICT (path) DO UPDATE
        SET body = ?2, sha256 = ?3, etag = ?4, last_modified = ?5, fetched_at = ?6`,
    document.path,
    document.body,
    document.sha256,
    document.etag,
    document.last_modified,
    document.fetched_at,
  );
}

export function deleteDocument(db: Connection, path: string): void {
  db.run("DELETE FROM index_documents WHERE path = ?", path);
}

export function insertSync(db: Connection, sync: IndexSync): void {
  db.run("INSERT INTO index_syncs (report) VALUES (?)", JSON.stringify(sync));
  db.run(
    "DELETE FROM index_syncs WHERE id <= (SELECT max(id) FROM index_syncs) - ?",
    SYNC_REPORTS_MAX,
  );
}

export function selectLastSync(db: Connection): IndexSync | undefined {
  const row = db.row<{ report: string }>(
    "SELECT report FROM index_syncs ORDER BY id DESC LIMIT 1",
  );
  // The text was made by this store from a report.
  return row === undefined ? undefined : JSON.parse(row.report) as IndexSync;
}

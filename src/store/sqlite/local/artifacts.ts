// The rows by which the image index is searched, kept equal to its documents: they are written in the
// transaction that writes the documents.

import type { IndexDocument, IndexStore } from "../../store.ts";
import type { ArtifactRow, DistroRow, DocumentRows, ReleaseRow } from "./artifact_rows.ts";
import { documentRows, rowsPlace } from "./artifact_rows.ts";
import type { Connection } from "../connection.ts";
import { otherWork } from "../job/other_work.ts";

/** Documents whose rows are made in one write when the store is opened. */
const FILL_AT_A_TIME = 100;
/** Milliseconds of reading documents after which other work is let through. */
const READ_MS = 8;

/** The rows of documents that are about to be written, by their paths. */
export type RowsByPath = ReadonlyMap<string, DocumentRows>;

/** Reads the rows of documents, with other work let through in between. */
export async function readRows(documents: readonly IndexDocument[]): Promise<RowsByPath> {
  const rows = new Map<string, DocumentRows>();
  let began = performance.now();
  for (const document of documents) {
    rows.set(document.path, documentRows(document));
    if (performance.now() - began < READ_MS) continue;
    await otherWork();
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
  if (db.run("DELETE FROM index_searched WHERE path = ?", path) === 0) return;
  const place = rowsPlace(path);
  switch (place.kind) {
    case "distros":
      db.run("DELETE FROM index_distros");
      break;
    case "releases":
      db.run("DELETE FROM index_releases WHERE distro = ?", place.distro);
      db.run("DELETE FROM index_aliases WHERE distro = ?", place.distro);
      break;
    case "artifacts":
      db.run(
        "DELETE FROM index_artifacts WHERE distro = ? AND release = ? AND archived = ?",
        place.distro,
        place.release,
        Number(place.archived),
      );
      break;
    case "none":
      break;
  }
}

/** Makes the rows of documents that an older program has stored without them. */
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

// A name or an alias that stands twice would have been refused by the sync: the first one counts.

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
  for (const alias of aliases) {
    db.run(
      `INSERT INTO index_aliases (distro, alias, release) VALUES (?, ?, ?)
       ON CONFLICT DO NOTHING`,
      distro,
      alias,
      release,
    );
  }
}

function insertArtifact(
  db: Connection,
  { distro, release, archived }: { distro: string; release: string; archived: boolean },
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
  db.run(
    `INSERT INTO index_artifact_texts (artifact_id, point_release, published_at, url, artifact)
     VALUES (last_insert_rowid(), ?, ?, ?, ?)`,
    row.point_release,
    row.published_at,
    row.url,
    row.artifact,
  );
}

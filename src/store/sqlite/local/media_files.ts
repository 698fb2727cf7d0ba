// The verified files of the host, the downloads that they were made from, and the jobs that use them.

import { type CheckLevel, type Digest, reaches } from "../../../domain/digest.ts";
import type { JobUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import type {
  DownloadedMedia,
  MediaDownload,
  MediaFile,
  MediaStore,
  StoredCopy,
} from "../../media_store.ts";
import type { Connection } from "../connection.ts";

const COLUMNS = `f.sha256, f.name, f.path, f.size, f.source, f.origin, f.label, f.level,
  f.created_at, f.last_used_at, f.verified_at`;
/** Uses by jobs that have not ended, as far as this file knows; jobs of a shared store have no row here. */
const UNFINISHED_USES = `media_uses u LEFT JOIN jobs j ON j.uuid = u.job_uuid
  WHERE j.finished_at IS NULL`;
/** Whether an unfinished job uses the file `f`. */
const IN_USE = `EXISTS (SELECT 1 FROM ${UNFINISHED_USES} AND u.sha256 = f.sha256)`;

/** The part of the store about verified files. */
export function openMediaStore(db: Connection): MediaStore {
  return {
    keep: (file, download) =>
      db.write("media_keep", () => {
        upsertFile(db, file);
        if (file.path !== null) upsertCopy(db, { ...file, path: file.path });
        if (download !== undefined) upsertDownload(db, file.sha256, download);
      }),
    copied: (copy) => db.write("media_copied", () => upsertCopy(db, copy)),
    copies: () => db.durably(() => selectCopies(db)),
    gone: (path) => db.write("media_gone", () => removePlace(db, path)),
    find: (digest, packed) => db.durably(() => selectByDownload(db, digest, packed)),
    get: (sha256) => db.durably(() => selectFile(db, sha256)),
    list: () => db.durably(() => selectFiles(db)),
    use: (sha256, now, job) => db.write("media_use", () => useFile(db, sha256, now, job)),
    raise: (sha256, level) => db.write("media_raise", () => raiseLevel(db, sha256, level)),
    verified: (sha256, now) => db.write("media_verified", () => updateVerified(db, sha256, now)),
    usingJobs: () => db.durably(() => selectUsingJobs(db)),
    ended: (jobs) => db.write("media_ended", () => deleteUses(db, jobs)),
    users: (sha256) => db.durably(() => selectUsers(db, sha256)),
    bytes: () => db.durably(() => selectBytes(db)),
    unused: () => db.durably(() => selectUnused(db)),
    remove: (sha256, damaged = false) =>
      db.write("media_remove", () => removeFile(db, sha256, damaged)),
  };
}

function upsertFile(db: Connection, file: MediaFile): void {
  const known = selectFile(db, file.sha256);
  const level = known !== undefined && reaches(known.level, file.level) ? known.level : file.level;
  db.run(
    `INSERT INTO media_files (sha256, name, path, size, source, origin, label, level, created_at,
                              last_used_at, verified_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
     ON CONFLICT (sha256) DO UPDATE
        SET name = ?2, path = ?3, size = ?4, source = ?5, origin = ?6, label = ?7, level = ?8,
            last_used_at = ?10, verified_at = ?11`,
    file.sha256,
    file.name,
    file.path,
    file.size,
    file.source,
    file.origin,
    file.label,
    level,
    file.created_at,
    file.last_used_at,
    file.verified_at,
  );
}

/** Records a place of a file; does nothing for an unknown file. */
function upsertCopy(db: Connection, { path, sha256, verified_at }: StoredCopy): void {
  db.run(
    `INSERT INTO media_copies (path, sha256, verified_at)
     SELECT ?1, sha256, ?3 FROM media_files WHERE sha256 = ?2
     ON CONFLICT (path) DO UPDATE SET sha256 = excluded.sha256, verified_at = excluded.verified_at`,
    path,
    sha256,
    verified_at,
  );
}

function selectCopies(db: Connection): StoredCopy[] {
  return db.rows<StoredCopy>("SELECT path, sha256, verified_at FROM media_copies ORDER BY path");
}

/** Points a file to another copy of it, or removes it if there is none. */
function removePlace(db: Connection, path: string): void {
  deleteCopy(db, path);
  moveToCopy(db, path);
  deleteFileAt(db, path);
}

function deleteCopy(db: Connection, path: string): void {
  db.run("DELETE FROM media_copies WHERE path = ?", path);
}

function moveToCopy(db: Connection, path: string): void {
  db.run(
    `UPDATE media_files SET path = (SELECT min(path) FROM media_copies c WHERE c.sha256 = media_files.sha256)
      WHERE path = ?1 AND EXISTS (SELECT 1 FROM media_copies c WHERE c.sha256 = media_files.sha256)`,
    path,
  );
}

function deleteFileAt(db: Connection, path: string): void {
  db.run("DELETE FROM media_files WHERE path = ?", path);
}

function upsertDownload(db: Connection, file: string, download: MediaDownload): void {
  db.run(
    `INSERT INTO media_downloads (packed, sha256, sha512, file_sha256) VALUES (?1, ?2, ?3, ?4)
     ON CONFLICT (packed, sha256) DO UPDATE SET sha512 = coalesce(?3, sha512), file_sha256 = ?4`,
    download.packed,
    download.sha256,
    download.sha512,
    file,
  );
}

interface DownloadRow extends MediaFile {
  readonly packed: string;
  readonly download_sha256: string;
  readonly download_sha512: string | null;
}

function selectByDownload(
  db: Connection,
  { algorithm, value }: Digest,
  packed: string,
): DownloadedMedia | undefined {
  const row = algorithm === "sha256"
    ? selectBySha256(db, value, packed)
    : selectBySha512(db, value, packed);
  if (row === undefined) return undefined;
  const { packed: as, download_sha256, download_sha512, ...file } = row;
  return { ...file, download: { packed: as, sha256: download_sha256, sha512: download_sha512 } };
}

/** For two statements, each with an index of its own. */
const SELECT_DOWNLOADS = `SELECT ${COLUMNS}, d.packed, d.sha256 AS download_sha256,
         d.sha512 AS download_sha512
    FROM media_downloads d JOIN media_files f ON f.sha256 = d.file_sha256`;

function selectBySha256(db: Connection, value: string, packed: string): DownloadRow | undefined {
  const sql = `${SELECT_DOWNLOADS} WHERE d.packed = ? AND d.sha256 = ?`;
  return db.row<DownloadRow>(sql, packed, value);
}

function selectBySha512(db: Connection, value: string, packed: string): DownloadRow | undefined {
  const sql = `${SELECT_DOWNLOADS} WHERE d.packed = ? AND d.sha512 = ?`;
  return db.row<DownloadRow>(sql, packed, value);
}

function selectFile(db: Connection, sha256: string): MediaFile | undefined {
  return db.row<MediaFile>(`SELECT ${COLUMNS} FROM media_files f WHERE f.sha256 = ?`, sha256);
}

function selectFiles(db: Connection): MediaFile[] {
  return db.rows<MediaFile>(
    `SELECT ${COLUMNS} FROM media_files f ORDER BY f.last_used_at DESC, f.sha256`,
  );
}

function useFile(db: Connection, sha256: string, now: Instant, job: JobUuid | undefined): boolean {
  const known = db.row(
    "UPDATE media_files SET last_used_at = ?2 WHERE sha256 = ?1 RETURNING 1 AS known",
    sha256,
    now,
  );
  if (known === undefined) return false;
  if (job !== undefined) insertUse(db, sha256, job);
  return true;
}

function insertUse(db: Connection, sha256: string, job: JobUuid): void {
  db.run(
    "INSERT INTO media_uses (sha256, job_uuid) VALUES (?, ?) ON CONFLICT DO NOTHING",
    sha256,
    job,
  );
}

function raiseLevel(db: Connection, sha256: string, level: CheckLevel): void {
  const known = selectFile(db, sha256);
  if (known === undefined || reaches(known.level, level)) return;
  db.run("UPDATE media_files SET level = ?2 WHERE sha256 = ?1", sha256, level);
}

function updateVerified(db: Connection, sha256: string, now: Instant): void {
  db.run("UPDATE media_files SET verified_at = ?2 WHERE sha256 = ?1", sha256, now);
}

function selectUsers(db: Connection, sha256: string): JobUuid[] {
  return db.rows<{ uuid: JobUuid }>(
    `SELECT u.job_uuid AS uuid FROM ${UNFINISHED_USES} AND u.sha256 = ? ORDER BY j.id, u.job_uuid`,
    sha256,
  ).map(({ uuid }) => uuid);
}

function selectUsingJobs(db: Connection): JobUuid[] {
  return db.rows<{ uuid: JobUuid }>("SELECT DISTINCT job_uuid AS uuid FROM media_uses")
    .map(({ uuid }) => uuid);
}

function deleteUses(db: Connection, jobs: readonly JobUuid[]): void {
  db.run(
    "DELETE FROM media_uses WHERE job_uuid IN (SELECT value FROM json_each(?))",
    JSON.stringify(jobs),
  );
}

function selectBytes(db: Connection): number {
  const row = db.row<{ bytes: number | null }>(
    "SELECT sum(size) AS bytes FROM media_files WHERE path IS NULL",
  );
  return row?.bytes ?? 0;
}

function selectUnused(db: Connection): MediaFile[] {
  return db.rows<MediaFile>(
    `SELECT ${COLUMNS} FROM media_files f WHERE f.path IS NULL AND NOT ${IN_USE}
      ORDER BY f.last_used_at, f.sha256`,
  );
}

/** Records that a file leaving the cache remains in a media folder. @returns whether it is in one */
function becomesCopy(db: Connection, sha256: string): boolean {
  const kept = updateToCopy(db, sha256);
  if (kept) deleteDownloads(db, sha256);
  return kept;
}

function updateToCopy(db: Connection, sha256: string): boolean {
  return db.run(
    `UPDATE media_files SET source = 'path', (path, origin, label) = (
         SELECT c.path, c.path, 'file ' || c.path FROM media_copies c
          WHERE c.sha256 = ?1 ORDER BY c.path LIMIT 1)
      WHERE sha256 = ?1 AND path IS NULL AND EXISTS (SELECT 1 FROM media_copies c WHERE c.sha256 = ?1)`,
    sha256,
  ) > 0;
}

function deleteDownloads(db: Connection, sha256: string): void {
  db.run("DELETE FROM media_downloads WHERE file_sha256 = ?", sha256);
}

function removeFile(
  db: Connection,
  sha256: string,
  damaged: boolean,
): "removed" | "in_use" | "not_found" {
  if (selectFile(db, sha256) === undefined) return "not_found";
  if (!damaged && selectUsers(db, sha256).length > 0) return "in_use";
  if (damaged || !becomesCopy(db, sha256)) deleteFile(db, sha256);
  return "removed";
}

function deleteFile(db: Connection, sha256: string): void {
  db.run("DELETE FROM media_files WHERE sha256 = ?", sha256);
}

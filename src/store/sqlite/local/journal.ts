// The journal of this host as rows; see postgres/journal.ts.

import type { JobUuid } from "../../../domain/id.ts";
import { fitting } from "../../stored_text.ts";
import type { JournalRow, JournalStore } from "../../store.ts";
import type { Connection } from "../connection.ts";

/** Rows that are read in one go. */
const ROWS_AT_ONCE = 100;
/** Bytes of them; a single one may be larger. */
const BYTES_AT_ONCE = 4 * 1024 * 1024;

/** The part of the store about the journal. */
export function openJournalRows(db: Connection): JournalStore {
  return {
    append: (job_uuid, entry) => db.write("journal_append", () => insertRow(db, job_uuid, entry)),
    first: () => db.durably(() => selectFirst(db)),
    remove: (ids) =>
      db.write("journal_remove", () => {
        for (const id of ids) deleteRow(db, id);
      }),
    jobs: () => db.durably(() => selectJobs(db)),
    size: () => db.durably(() => selectSize(db)),
  };
}

function insertRow(db: Connection, job: JobUuid, entry: string): void {
  db.run("INSERT INTO journal (job_uuid, entry) VALUES (?, ?)", job, entry);
}

function deleteRow(db: Connection, id: number): void {
  db.run("DELETE FROM journal WHERE id = ?", id);
}

/** The oldest rows, in the order in which they were appended. */
function selectFirst(db: Connection): JournalRow[] {
  const sized = selectSizes(db);
  return selectUpTo(db, sized[fitting(sized, 0, BYTES_AT_ONCE) - 1]?.id ?? 0);
}

function selectSizes(db: Connection): { id: number; bytes: number }[] {
  const sql = "SELECT id, octet_length(entry) AS bytes FROM journal ORDER BY id LIMIT ?";
  return db.rows(sql, ROWS_AT_ONCE);
}

function selectUpTo(db: Connection, id: number): JournalRow[] {
  const sql = "SELECT id, job_uuid, entry FROM journal WHERE id <= ? ORDER BY id";
  return db.rows<JournalRow>(sql, id);
}

function selectJobs(db: Connection): JobUuid[] {
  const rows = db.rows<{ job_uuid: JobUuid }>("SELECT DISTINCT job_uuid FROM journal");
  return rows.map(({ job_uuid }) => job_uuid);
}

function selectSize(db: Connection): { rows: number; bytes: number } {
  const row = db.row<{ rows: number; bytes: number }>(
    "SELECT count(*) AS rows, coalesce(sum(octet_length(entry)), 0) AS bytes FROM journal",
  );
  return row ?? { rows: 0, bytes: 0 };
}

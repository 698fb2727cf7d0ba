// Which errors of SQLite are not those of a statement, but of its file.

/** SQLite's result codes (sqlite.org/rescode.html) of a disk that cannot take a write. */
const SQLITE_IOERR = 10;
const SQLITE_FULL = 13;
/**
 * Kinds of SQLITE_IOERR that only say that there is no room: for the file of the shared index, of
 * the rollback journal or of a temporary table.
 */
const NO_ROOM = new Set([
  4618, // SQLITE_IOERR_SHMOPEN
  4874, // SQLITE_IOERR_SHMSIZE
  6410, // SQLITE_IOERR_GETTEMPPATH
]);

/** Another process holds the file, as an operator's own look into it may. */
const SQLITE_BUSY = 5;
const SQLITE_LOCKED = 6;

/** Whether an error is the disk's or of its other users, and what may be done about it. */
export function storageFailure(error: unknown): "busy" | "full" | "failed" | undefined {
  if (!(error instanceof Error) || !("errcode" in error)) return undefined;
  const { errcode } = error;
  if (typeof errcode !== "number") return undefined;
  const primary = errcode & 0xff;
  if (primary === SQLITE_BUSY || primary === SQLITE_LOCKED) return "busy";
  if (primary === SQLITE_FULL || NO_ROOM.has(errcode)) return "full";
  return primary === SQLITE_IOERR ? "failed" : undefined;
}

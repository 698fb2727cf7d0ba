// Which errors of SQLite are the disk's.

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

/** Whether an error is the disk's, and whether it is a matter of space. */
export function storageFailure(error: unknown): "full" | "failed" | undefined {
  if (!(error instanceof Error) || !("errcode" in error)) return undefined;
  const { errcode } = error;
  if (typeof errcode !== "number") return undefined;
  if ((errcode & 0xff) === SQLITE_FULL || NO_ROOM.has(errcode)) return "full";
  return (errcode & 0xff) === SQLITE_IOERR ? "failed" : undefined;
}

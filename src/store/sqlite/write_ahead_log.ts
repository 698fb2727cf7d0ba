// SQLite's write-ahead log as a file of its own. A commit appends to it; that the commit survives a
// loss of power takes one more call, which SQLite would make itself with synchronous=FULL, while the
// whole process waits. Made here, on another thread, it leaves the event loop free, and everything
// that is written meanwhile shares the next one.

/** What makes commits durable. */
export interface WriteAheadLog {
  /** Settles when everything that was committed before the call is on the disk. */
  sync(): Promise<void>;
  close(): void;
}

/** The log of a database file. It is opened with the first sync: only a commit makes it. */
export function openWriteAheadLog(databasePath: string): WriteAheadLog {
  let file: Deno.FsFile | undefined;
  return {
    sync: async () => {
      file ??= await Deno.open(`${databasePath}-wal`, { read: true, write: true });
      await file.syncData();
    },
    close: () => file?.close(),
  };
}

/** A database in memory has nothing that could outlive the process. */
export const NO_LOG: WriteAheadLog = { sync: () => Promise.resolve(), close: () => {} };

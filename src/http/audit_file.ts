// The audit trail as a file: JSON lines, appended, open to its owner only. An entry is in the file
// before its call is answered; entries that come at the same time share one write. It is opened anew
// when the configuration is read again, so that logadm and logrotate can move it away.

import { AgentError, messageOf } from "../domain/error.ts";
import type { Log } from "../log.ts";
import type { AuditEntry, AuditTrail } from "./audit_trail.ts";

const FILE_MODE = 0o600;

/** A trail whose file can be exchanged. */
export interface AuditFile extends AuditTrail {
  /** Goes on in this file, opened anew; null for none. @throws {AgentError} `invalid_argument` */
  reopen(path: string | null): Promise<void>;
  /** Writes what is left, and closes the file. */
  close(): Promise<void>;
}

/** Opens no file yet: reopen() does. */
export function openAuditFile(log: Log): AuditFile {
  let file: Deno.FsFile | undefined;
  let waiting: string[] = [];
  /** The end of the line: writes and exchanges of the file follow one another. */
  let turn: Promise<unknown> = Promise.resolve();
  let writing: Promise<void> | undefined;
  const after = <T>(run: () => Promise<T>): Promise<T> => {
    const result = turn.then(run);
    turn = result.catch(() => {});
    return result;
  };
  const writeWaiting = async () => {
    writing = undefined;
    const lines = waiting;
    waiting = [];
    if (file === undefined) return;
    try {
      const bytes = new TextEncoder().encode(lines.join(""));
      for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
    } catch (error) {
      log.error("audit entries not written", { count: lines.length, error });
    }
  };
  const exchange = async (path: string | null) => {
    const next = path === null ? undefined : await openAppending(path);
    file?.close();
    file = next;
  };
  return {
    async append(entry: AuditEntry) {
      if (file === undefined) return;
      waiting.push(`${JSON.stringify(entry)}\n`);
      await (writing ??= after(writeWaiting));
    },
    reopen: (path) => after(() => exchange(path)),
    close: () => after(() => exchange(null)),
  };
}

async function openAppending(path: string): Promise<Deno.FsFile> {
  try {
    const found = await Deno.lstat(path).catch(absent);
    if (found?.isFile === false) throw new Error("it is no plain file");
    const file = await Deno.open(path, { append: true, create: true, mode: FILE_MODE });
    if (((found?.mode ?? FILE_MODE) & 0o077) !== 0) await Deno.chmod(path, FILE_MODE);
    return file;
  } catch (error) {
    const message = `Cannot write the audit file ${path}: ${messageOf(error)}`;
    throw new AgentError("invalid_argument", message, { cause: error });
  }
}

function absent(error: unknown): undefined {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}

// The copy of a database that a newer program is about to change. Schemas only go forward: the older
// program goes on from `zonewright.db.schema-2`.

import { Database } from "@db/sqlite";
import { dirname } from "@std/path";
import { AgentError, messageOf } from "../../domain/error.ts";
import { copyPages, removeDatabase, syncFile } from "./database_file.ts";
import type { ConnectionWatch } from "./group_commit.ts";
import { SCHEMA_VERSION } from "./migrations.ts";

/** Where SQLite keeps `user_version` in the head of a file, four bytes. @see sqlite.org/fileformat */
const VERSION_OFFSET = 60;
const HEAD_BYTES = 64;

/**
 * Copies a database of an older schema beside itself; one that is new, or not there, is left alone.
 * A copy that is there was made by a start that did not finish the steps: it is made anew from the
 * same rows.
 * @throws {AgentError} `storage_full`; `internal` when it cannot be copied
 * @param migrating told of the copy under the name `migrate_keep`
 */
export async function keepOlder(
  path: string,
  migrating: ConnectionWatch["migrating"] = () => {},
): Promise<void> {
  if (await versionInHead(path) === SCHEMA_VERSION) return;
  const found = await versionOf(path);
  if (found === 0 || found >= SCHEMA_VERSION) return;
  migrating("before", ["migrate_keep"]);
  const kept = `${path}.schema-${found}`;
  const partial = `${kept}.partial`;
  await removeDatabase(partial);
  try {
    // With the backup interface: a single binary may not attach databases, as VACUUM INTO does.
    await copyPages(path, partial);
    await syncFile(partial);
    await Deno.rename(partial, kept);
    await syncFile(dirname(kept));
  } catch (error) {
    // A disk that is full must not stay so for a copy of no use.
    await removeDatabase(partial).catch(() => {});
    const full = /full|no space/i.test(messageOf(error));
    const message = `Cannot keep ${path} as ${kept} before its schema changes: ${messageOf(error)}`;
    throw new AgentError(full ? "storage_full" : "internal", message, { cause: error });
  }
  migrating("after", ["migrate_keep"]);
}

/** The schema as the file alone tells it, which may be older than what stands in the log. */
async function versionInHead(path: string): Promise<number> {
  let file: Deno.FsFile;
  try {
    file = await Deno.open(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return SCHEMA_VERSION;
    throw error;
  }
  try {
    const head = new Uint8Array(HEAD_BYTES);
    const bytes = await file.read(head) ?? 0;
    return bytes < HEAD_BYTES ? 0 : new DataView(head.buffer).getUint32(VERSION_OFFSET);
  } finally {
    file.close();
  }
}

async function versionOf(path: string): Promise<number> {
  const { size } = await Deno.stat(path);
  if (size === 0) return 0;
  const db = new Database(path, { create: false });
  try {
    const row = db.prepare("PRAGMA user_version").get<{ user_version: number }>();
    return row?.user_version ?? 0;
  } finally {
    db.close();
  }
}

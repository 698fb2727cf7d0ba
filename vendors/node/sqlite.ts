// node:sqlite, taken when the program asks for it. A static import of what an old Node lacks would end it
// before check.ts can say why.

import process from "node:process";

/** The names that vendors/db_sqlite/ imports; undefined in guests and decoders, which have no SQLite. */
export const { backup, DatabaseSync }: Partial<typeof import("node:sqlite")> =
  process.getBuiltinModule("node:sqlite") ?? {};

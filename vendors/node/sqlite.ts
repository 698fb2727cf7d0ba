// node:sqlite, taken when the program asks for it. A static import of what an old Node lacks would end it
// before check.ts can say why.

import process from "node:process";

/** The names that vendors/db_sqlite/ imports. */
export const { backup, DatabaseSync } = process.getBuiltinModule("node:sqlite");

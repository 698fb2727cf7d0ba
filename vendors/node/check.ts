// The first thing of the file for Node: refuses a Node that lacks what the program needs, before anything
// else of it is loaded. It uses nothing that an old Node lacks.

import process from "node:process";
import { NO_SQLITE } from "./wall.ts";

/** What guests and decoders are started with; without them, nothing would shut them in. */
const OPTIONS = ["--permission", "--disable-sigusr1"] as const;
/** Where SmartOS has a Node that will do. */
const ADVICE = "install nodejs22 of pkgsrc (pkgin install nodejs22), and run this file with it";

const older: Partial<Pick<typeof process, "getBuiltinModule">> = process;
/** A guest or a decoder, from which it is taken. */
const isWalled = process.execArgv.includes(NO_SQLITE) && process.execArgv.includes(OPTIONS[0]);
/** What SQLite in this Node lacks of what the program asks of it. */
function lackOfSqlite(): readonly string[] {
  const sqlite = older.getBuiltinModule?.("node:sqlite");
  if (sqlite === undefined) return ["node:sqlite"];
  const database = new sqlite.DatabaseSync(":memory:");
  try {
    database.prepare("SELECT ?1").get(1);
    return [];
  } catch {
    // Until 22.20 a number was taken for the name of a parameter.
    return ["numbered parameters of node:sqlite"];
  } finally {
    database.close();
  }
}

const missing: readonly string[] = [
  ...(isWalled ? [] : lackOfSqlite()),
  ...OPTIONS.filter((option) => !process.allowedNodeEnvironmentFlags.has(option)),
];
if (missing.length > 0) {
  const lacks = missing.join(", ");
  console.error(
    `zonewright: Cannot run on Node ${process.versions.node} (${process.execPath}): ` +
      `it lacks ${lacks}: expected Node 22.20 or later: ${ADVICE}`,
  );
  process.exit(1);
}

// A later program that opens a database and kills itself at a point of the migration.

import { openFailpoint } from "../../src/runtime/failpoint.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { NEWER } from "./newer_schema.ts";

const [path = "", write = "", count = "", when = ""] = Deno.args;
const failpoint = {
  write,
  count: Number(count),
  when: when === "before" ? when : "after",
} as const;
const migrating = openFailpoint(failpoint, () => Deno.kill(Deno.pid, "SIGKILL"));
await (await openSqliteStore(path, { migrating }, NEWER)).close();

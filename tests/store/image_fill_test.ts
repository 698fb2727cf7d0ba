// The SQLite store on a file that has documents of the index without the rows of a search.

import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { Database } from "@db/sqlite";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { T0 } from "../support/job.ts";
import { withFolder } from "../support/until.ts";
import { SYNC, TREE } from "./image_suite.ts";

const COPIES = 60;

Deno.test("documents of an older version are indexed for search when the store is opened", async () => {
  await withFolder(async (folder) => {
    const path = join(folder, "store.db");
    await (await openSqliteStore(path)).close();
    const db = new Database(path);
    const insert = db.prepare(
      `INSERT INTO index_documents (path, body, sha256, fetched_at) VALUES (?, ?, ?, ?)`,
    );
    for (const { path, body, sha256 } of TREE) {
      insert.run(path, body, sha256, T0);
      // More than are read in one go.
      for (let copy = 0; copy < COPIES; copy++) {
        insert.run(`v1/other/${copy}/${path}`, body, sha256, T0);
      }
    }
    db.close();
    for (let start = 0; start < 2; start++) {
      const store = await openSqliteStore(path);
      try {
        assertEquals(await store.images.count({}), 9);
        assertEquals(await store.images.count({ distro: "alpha", release: "latest" }), 1);
      } finally {
        await store.close();
      }
    }
  });
});

Deno.test("a page of images is read in key order, without a sort", async () => {
  await withFolder(async (folder) => {
    const path = join(folder, "store.db");
    const store = await openSqliteStore(path);
    await store.index.swap(TREE, [], SYNC);
    await store.close();
    const db = new Database(path);
    try {
      const plan = db.prepare(
        `EXPLAIN QUERY PLAN
         SELECT a.id FROM index_distros AS d
          CROSS JOIN index_releases AS r ON r.distro = d.distro
          CROSS JOIN index_artifacts AS a ON a.distro = r.distro AND a.release = r.release
          WHERE a.arch = 'x86_64'
          ORDER BY d.place, r.place, a.archived, a.build_place, a.place LIMIT 100`,
      ).all<{ detail: string }>().map(({ detail }) => detail);
      assert(plan.some((step) => step.includes("index_artifacts_place")), plan.join("\n"));
      assert(!plan.some((step) => step.includes("TEMP B-TREE")), plan.join("\n"));
    } finally {
      db.close();
    }
  });
});

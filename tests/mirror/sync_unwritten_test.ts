// What a sync of an unchanged upstream costs the disk: nothing.

import { assert, assertEquals } from "@std/assert";
import { Database } from "@db/sqlite";
import { join } from "@std/path";
import { withoutEqualReports } from "../../src/mirror/sync/sync.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { Store } from "../../src/store/store.ts";
import { withFolder } from "../support/until.ts";
import { edit, replace, type TestMirror, withMirror } from "./test_mirror.ts";

const CINDER = "v1/distros/cinder-os/index.json";
const HOUR_MS = 3_600_000;

/** A store in a file, and what SQLite and the file system say of its writes. */
async function withFile(
  run: (store: Pick<Store, "index">, written: () => unknown) => Promise<void>,
): Promise<void> {
  await withFolder(async (folder) => {
    const path = join(folder, "store.db");
    const file = await openSqliteStore(path);
    // Its data_version changes with every commit of the other connection.
    const watch = new Database(path);
    const written = () => {
      const log = Deno.statSync(`${path}-wal`);
      return [watch.prepare("PRAGMA data_version").get(), log.size, log.mtime?.getTime()];
    };
    try {
      await run({ index: withoutEqualReports(file.index) }, written);
    } finally {
      watch.close();
      await file.close();
    }
  });
}

function later({ clock }: TestMirror, hours: number): void {
  clock.now = new Date(Date.parse(clock.now) + hours * HOUR_MS).toISOString();
}

Deno.test("syncs of an unchanged upstream commit nothing, and once a day one report", async () => {
  await withFile(async (store, written) => {
    await withMirror(async (test) => {
      const mirror = test.again({ store: store.index });
      await mirror.sync();
      const before = written();
      for (let sync = 0; sync < 5; sync++) {
        later(test, 4);
        const { outcome, unchanged } = await mirror.sync();
        assertEquals([outcome, unchanged], ["complete", 16]);
        assertEquals(written(), before);
        assertEquals((await store.index.lastSync())?.compared_at, test.clock.now);
      }
      later(test, 4);
      await mirror.sync();
      assert(JSON.stringify(written()) !== JSON.stringify(before));
      const daily = written();
      later(test, 4);
      await mirror.sync();
      assertEquals(written(), daily);
      edit(test.server, CINDER, (distro) => distro.name = "New");
      assertEquals((await mirror.sync()).changed, 1);
      assert(JSON.stringify(written()) !== JSON.stringify(daily));
    });
  });
});

Deno.test("a refusal is reported once, and its end too", async () => {
  await withFile(async (store, written) => {
    await withMirror(async (test) => {
      const mirror = test.again({ store: store.index });
      await mirror.sync();
      const good = test.server.files.get(CINDER);
      replace(test.server, CINDER, "{}");
      assertEquals((await mirror.sync()).outcome, "partial");
      const before = written();
      later(test, 1);
      assertEquals((await mirror.sync()).outcome, "partial");
      assertEquals(written(), before);
      test.server.outage = { kind: "status", status: 500 };
      const compared = (await store.index.lastSync())?.compared_at;
      later(test, 1);
      assertEquals((await mirror.sync()).outcome, "failed");
      assertEquals((await store.index.lastSync())?.compared_at, compared);
      test.server.outage = undefined;
      if (good !== undefined) test.server.files.set(CINDER, good);
      assertEquals((await mirror.sync()).outcome, "complete");
      assertEquals((await store.index.lastSync())?.compared_at, test.clock.now);
    });
  });
});

Deno.test("a preview writes nothing and reports all that a sync then does", async () => {
  await withFile(async (store, written) => {
    await withMirror(async (test) => {
      const { server } = test;
      const mirror = test.again({ store: store.index });
      await mirror.sync();
      edit(server, CINDER, (distro) => distro.name = "New");
      server.files.delete("v1/distros/aurora/releases/24.0/archive.json");
      replace(server, "v1/images.json", "[]");
      const held = (await store.index.get(CINDER))?.body.byteLength ?? 0;
      const archive = (await store.index.get("v1/distros/aurora/releases/24.0/archive.json"))?.body;
      const before = written();
      const preview = await mirror.preview();
      assertEquals(written(), before);
      const bytes = server.files.get(CINDER)?.body.byteLength ?? 0;
      assertEquals(preview.changes, [
        {
          change: "-",
          document: "v1/distros/aurora/releases/24.0/archive.json",
          bytes: archive?.byteLength ?? 0,
        },
        { change: "~", document: CINDER, bytes },
        { change: "+", document: "v1/images.json", bytes: 2 },
      ]);
      assertEquals([preview.outcome, preview.dry_run], ["complete", true]);
      assertEquals(preview.bytes_put, bytes + 2);
      assertEquals(preview.bytes_removed, held + (archive?.byteLength ?? 0));
      const { added, changed, removed, unchanged } = await mirror.sync();
      assertEquals([added, changed, removed, unchanged], [1, 1, 1, 14]);
      assertEquals([preview.added, preview.changed, preview.removed, preview.unchanged], [
        added,
        changed,
        removed,
        unchanged,
      ]);
    });
  });
});

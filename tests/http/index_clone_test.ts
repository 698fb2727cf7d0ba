// A mirror of a mirror: what is served is a whole upstream, over HTTP and as files in a folder.

import { assert, assertEquals } from "@std/assert";
import { dirname, join, toFileUrl } from "@std/path";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { Store } from "../../src/store/store.ts";
import { edit, replace, storedTree } from "../mirror/test_mirror.ts";
import { assertWholeTree } from "../mirror/whole_tree.ts";
import { withFolder } from "../support/until.ts";
import { served } from "./served_index.ts";

const AURORA = "v1/distros/aurora/index.json";

async function withStore(run: (store: Store) => Promise<void>): Promise<void> {
  const store = await openSqliteStore(":memory:");
  try {
    await run(store);
  } finally {
    await store.close();
  }
}

Deno.test("a mirror of this agent's tree has every document, byte for byte", async () => {
  await served(async ({ mirror, store, server, again }, url) => {
    replace(server, "v1/images.json", "[1, 2]");
    await mirror.sync();
    await withStore(async (other) => {
      const clone = again({ store: other.index, media: other.media, upstream: url });
      const first = await clone.sync();
      assertEquals([first.outcome, first.added, first.problems], ["complete", 17, []]);
      assertEquals(await storedTree(other), await storedTree(store));
      const asked = await other.index.list();
      assert(asked.every(({ etag, last_modified }) => etag !== null && last_modified !== null));
      // Nothing comes a second time.
      const preview = await clone.preview();
      assertEquals([preview.unchanged, preview.changes], [17, []]);
      edit(server, AURORA, (distro) => distro.name = "New");
      await mirror.sync();
      assertEquals((await clone.sync()).changed, 1);
      assertEquals(await storedTree(other), await storedTree(store));
      await assertWholeTree(other);
    });
  });
});

Deno.test("a folder of the served documents is a complete upstream, by path and by URL", async () => {
  await served(async ({ mirror, store, server, again }, url) => {
    replace(server, "v1/images.json", "[1, 2]");
    await mirror.sync();
    const tree = await storedTree(store);
    await withFolder(async (folder) => {
      for (const path of tree.keys()) {
        await Deno.mkdir(dirname(join(folder, path)), { recursive: true });
        const response = await fetch(`${url}/${path}`);
        assertEquals(response.status, 200, path);
        await Deno.writeFile(join(folder, path), response.body ?? new Uint8Array());
      }
      for (const upstream of [folder, toFileUrl(folder).href, `${toFileUrl(folder).href}/`]) {
        await withStore(async (other) => {
          const clone = again({ store: other.index, media: other.media, upstream });
          const sync = await clone.sync();
          assertEquals([sync.outcome, sync.added], ["complete", 17]);
          assertEquals(await storedTree(other), tree);
          assertEquals((await clone.sync()).unchanged, 17);
        });
      }
    });
  });
});

// What must be true of a stored tree at any moment, whatever its upstream did.

import { assert, assertEquals } from "@std/assert";
import { parseBuildList } from "../../src/domain/index/artifact.ts";
import { holderOf, parseDistro, parseDistroList } from "../../src/domain/index/image_index.ts";
import {
  aliasPath,
  archivePath,
  decodeDocument,
  DISTRO_LIST_PATH,
  distroPath,
  IMAGES_PATH,
  OPENAPI_PATH,
  releasePath,
  SERVED_ALIASES,
} from "../../src/domain/index/index_document.ts";
import { sha256Hex } from "../../src/domain/digest.ts";
import type { Store } from "../../src/store/store.ts";

/** Checks that the tree keeps every rule, that its parts agree, and that nothing else is stored. */
export async function assertWholeTree(store: Pick<Store, "index">): Promise<void> {
  const left = new Set((await store.index.list()).map(({ path }) => path));
  const take = async (path: string): Promise<unknown> => {
    const document = await store.index.get(path);
    assert(document !== undefined, `${path} is named and not there`);
    assertEquals(await sha256Hex(document.body), document.sha256, path);
    left.delete(path);
    return decodeDocument(document.body, path);
  };
  for (const path of [OPENAPI_PATH, IMAGES_PATH]) if (left.has(path)) await take(path);
  const { distros } = parseDistroList(await take(DISTRO_LIST_PATH));
  for (const summary of distros) {
    const distro = parseDistro(await take(distroPath(summary.id)), summary);
    const about = { document: "", distro: distro.id };
    for (const { id: release } of distro.releases) {
      const current = await take(releasePath(distro.id, release));
      parseBuildList(current, { ...about, release, kind: "current" });
      const archive = archivePath(distro.id, release);
      if (!left.has(archive)) continue;
      parseBuildList(await take(archive), { ...about, release, kind: "archived" });
    }
    for (const alias of SERVED_ALIASES) {
      const holder = holderOf(distro, alias);
      const path = aliasPath(distro.id, alias);
      if (holder === undefined || !left.has(path)) continue;
      assertEquals(await take(path), await take(releasePath(distro.id, holder.id)), path);
    }
  }
  assertEquals([...left], []);
}

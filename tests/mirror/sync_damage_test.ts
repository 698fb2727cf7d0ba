// Documents that were damaged on the way. What breaks JSON or a rule is refused. A flipped bit inside
// a text that nothing else speaks of makes another sound document, which only TLS can tell from the
// real one: then what is stored is what came, whole, and every rule still holds.
// ZONEWRIGHT_CHAOS=full runs all of them.

import { assert, assertEquals } from "@std/assert";
import { randomOf } from "../chaos/random.ts";
import { type IndexServer, type ServedFile } from "./index_server.ts";
import { replace, storedTree, withMirror } from "./test_mirror.ts";
import { assertWholeTree } from "./whole_tree.ts";

const FULL = Deno.env.get("ZONEWRIGHT_CHAOS") === "full";
const FLIPS = FULL ? 200 : 40;
const TRUNCATIONS = FULL ? 100 : 30;
const SEED = 20_261_120;

/** Serves damaged bytes under a new tag, and puts the file back when the test says so. */
function damage(server: IndexServer, path: string, body: Uint8Array): () => void {
  const good = server.files.get(path) as ServedFile;
  replace(server, path, body);
  return () => replace(server, path, good.body);
}

Deno.test(`${FLIPS} flipped bits leave a whole tree, of documents as they came`, async () => {
  await withMirror(async ({ mirror, store, server }) => {
    await mirror.sync();
    const good = await storedTree(store);
    const random = randomOf(SEED);
    let refused = 0;
    for (let flip = 0; flip < FLIPS; flip++) {
      const path = random.pick([...server.files.keys()]);
      const body = new Uint8Array(server.files.get(path)?.body ?? []);
      const at = random.integer(0, body.length - 1);
      body[at] = (body[at] ?? 0) ^ (1 << random.integer(0, 7));
      const mend = damage(server, path, body);
      const { outcome, problems } = await mirror.sync({ acceptChanged: false });
      await assertWholeTree(store);
      const stored = (await store.index.get(path))?.body;
      const kept = stored !== undefined && new TextDecoder().decode(stored) === good.get(path);
      if (outcome === "complete") assertEquals(stored, body, `${path} byte ${at}`);
      else assert(kept || path === "v1/index.json", `${path} byte ${at}: ${problems[0]?.message}`);
      if (kept) refused += 1;
      mend();
      await mirror.sync({ acceptChanged: true });
      assertEquals(await storedTree(store), good, `${path} byte ${at}`);
    }
    assert(refused > FLIPS / 4, `only ${refused} were refused`);
  });
});

Deno.test(`${TRUNCATIONS} documents that end too early change nothing`, async () => {
  await withMirror(async ({ mirror, store, server }) => {
    await mirror.sync();
    const good = await storedTree(store);
    const random = randomOf(SEED);
    for (let cut = 0; cut < TRUNCATIONS; cut++) {
      const path = random.pick([...server.files.keys()]);
      const body = server.files.get(path)?.body ?? new Uint8Array();
      const text = new TextDecoder().decode(body).trimEnd();
      const length = random.integer(0, new TextEncoder().encode(text).length - 1);
      const mend = damage(server, path, body.slice(0, length));
      const { problems } = await mirror.sync();
      assertEquals(problems.map(({ document }) => document), [path], `${length} bytes`);
      assertEquals(await storedTree(store), good, `${path} after ${length} bytes`);
      mend();
    }
    assertEquals((await mirror.sync()).outcome, "complete");
  });
});

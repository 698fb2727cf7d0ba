// Documents that a tree need not have, and a tree that changes while it is read.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { until } from "../support/until.ts";
import { edit, replace, storedTree, withMirror } from "./test_mirror.ts";
import { assertWholeTree } from "./whole_tree.ts";

const IMAGES = "v1/images.json";
const AURORA = "v1/distros/aurora/index.json";
const RELEASE = "v1/distros/aurora/releases/24.2/index.json";
const LATEST = "v1/distros/aurora/aliases/latest.json";
const LTS = "v1/distros/aurora/aliases/lts.json";

Deno.test("sync() takes the document of all images where there is one, byte for byte", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    await mirror.sync();
    assertEquals(await store.index.get(IMAGES), undefined);
    replace(server, IMAGES, '{ "images": [1,\n2] }');
    assertEquals((await mirror.sync()).added, 1);
    assertEquals((await storedTree(store)).get(IMAGES), '{ "images": [1,\n2] }');
    server.requests.length = 0;
    assertEquals((await mirror.sync()).unchanged, 17);
    assertEquals(server.requests.find(({ path }) => path === IMAGES)?.status, 304);
    server.files.delete(IMAGES);
    assertEquals((await mirror.sync()).removed, 1);
  });
});

Deno.test("sync() keeps the document of all images while a distro of it is refused", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    replace(server, IMAGES, "[1]");
    await mirror.sync();
    const good = server.files.get(AURORA);
    replace(server, AURORA, "{}");
    replace(server, IMAGES, "[2]");
    assertEquals((await mirror.sync()).outcome, "partial");
    assertEquals((await storedTree(store)).get(IMAGES), "[1]");
    if (good !== undefined) server.files.set(AURORA, good);
    assertEquals((await mirror.sync()).outcome, "complete");
    assertEquals((await storedTree(store)).get(IMAGES), "[2]");
  });
});

Deno.test("sync() keeps a document of all images that is followed by a broken one", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    replace(server, IMAGES, "[1]");
    await mirror.sync();
    for (const text of ["7", '"x"', "null", "[", "<html>"]) {
      replace(server, IMAGES, text);
      const { outcome, problems } = await mirror.sync();
      assertEquals([outcome, problems[0]?.document], ["partial", IMAGES], text);
      assertEquals((await storedTree(store)).get(IMAGES), "[1]");
    }
  });
});

Deno.test("an alias file that the upstream lacks answers not found here too", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    server.files.delete(LTS);
    assertEquals((await mirror.sync()).outcome, "complete");
    assertEquals(await store.index.get(LTS), undefined);
    assert(await store.index.get(LATEST) !== undefined);
    server.files.delete(LATEST);
    const sync = await mirror.sync();
    assertEquals([sync.outcome, sync.removed], ["complete", 1]);
    assertEquals(await store.index.get(LATEST), undefined);
    await assertWholeTree(store);
  });
});

Deno.test("sync() reads a distro again when it changes while it is read", async () => {
  await withMirror(async ({ mirror, store, server, waits }) => {
    await mirror.sync();
    edit(server, RELEASE, (list) => list.note = "new");
    // Between the release and the file of its alias, the upstream is one step behind.
    const old = server.files.get(LATEST) ?? { body: new Uint8Array() };
    server.faults.set(LATEST, [{ kind: "answer", make: () => new Response(old.body.slice()) }]);
    edit(server, LATEST, (list) => list.note = "new");
    assertEquals((await mirror.sync()).outcome, "complete");
    assertEquals([waits, server.countOf(AURORA)], [[2000], 3]);
    await assertWholeTree(store);
  });
});

Deno.test("sync() gives a distro up that contradicts itself twice", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    await mirror.sync();
    const before = await storedTree(store);
    edit(server, LATEST, (list) => list.note = "other");
    const { outcome, problems } = await mirror.sync();
    assertEquals([outcome, problems[0]?.document], ["partial", LATEST]);
    assertStringIncludes(problems[0]?.message ?? "", `must equal ${RELEASE}`);
    assertEquals(await storedTree(store), before);
  });
});

Deno.test("an upstream that changes at any moment of a sync leaves no mixed tree", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    await mirror.sync();
    const rounds = server.files.size;
    for (let moment = 1; moment <= rounds; moment++) {
      const swapAt = moment;
      const old = new Map(server.files);
      for (const path of old.keys()) edit(server, path, (value) => value.round = swapAt);
      const fresh = new Map(server.files);
      for (const [path, file] of old) server.files.set(path, file);
      server.received.length = 0;
      const sync = mirror.sync();
      await until(`${swapAt} requests`, () => server.received.length >= swapAt);
      for (const [path, file] of fresh) server.files.set(path, file);
      await sync;
      await assertWholeTree(store);
      for (const id of ["aurora", "basalt", "cinder-os"]) await assertOneAlias(store, id);
    }
    await mirror.sync();
    const texts = [...(await storedTree(store)).values()];
    assert(texts.every((text) => text.includes(`"round":${rounds}`)));
  });
});

/** The alias file and the list that it copies are of the same round. */
async function assertOneAlias(
  store: Parameters<typeof storedTree>[0],
  id: string,
): Promise<void> {
  const tree = await storedTree(store);
  const distro = JSON.parse(tree.get(`v1/distros/${id}/index.json`) ?? "{}");
  const holder = distro.releases.find((one: { aliases: string[] }) =>
    one.aliases.includes("latest")
  );
  const latest = tree.get(`v1/distros/${id}/aliases/latest.json`) ?? "";
  const release = tree.get(`v1/distros/${id}/releases/${holder.id}/index.json`) ?? "";
  assertEquals(JSON.parse(latest), JSON.parse(release));
}

Deno.test("two syncs at the same time are one, and a preview waits for it", async () => {
  await withMirror(async ({ mirror, server }) => {
    server.faults.set("v1/index.json", [{ kind: "stall", after: 10 }]);
    const [first, second] = [mirror.sync(), mirror.sync()];
    const preview = mirror.preview();
    await until("the request", () => server.received.length === 1);
    assertEquals([mirror.syncing, mirror.progress?.phase], [true, "list"]);
    assertEquals(await first, await second);
    assertEquals([mirror.syncing, mirror.generation], [false, 1]);
    const { added, unchanged } = await preview;
    assertEquals([added, unchanged], [0, 16]);
    assertEquals(mirror.progress, null);
  }, { times: { answerMs: 5000, idleMs: 1500, documentMs: 120_000, stallMs: 1500 } });
});

Deno.test("a sync reports its progress", async () => {
  await withMirror(async ({ mirror, server }) => {
    const last = "v1/openapi.json";
    server.faults.set(last, [{ kind: "stall", after: 10 }]);
    const sync = mirror.sync();
    await until("the last request", () => server.received.includes(last));
    const { phase, documents = 0, total = 0, bytes = 0 } = mirror.progress ?? {};
    const size = [...server.files.values()].reduce((sum, { body }) => sum + body.byteLength, 0);
    assertEquals([phase, documents, total], ["documents", 20, 21]);
    assert(bytes > size / 2 && bytes <= size, `${bytes} of ${size}`);
    await sync;
  }, { times: { answerMs: 5000, idleMs: 1500, documentMs: 120_000, stallMs: 1500 } });
});

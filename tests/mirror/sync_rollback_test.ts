// An upstream that later says less than it said, or shows an older tree again: what was published for
// checking a file is held to, until the operator allows the change.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject, JsonValue } from "../../src/domain/json.ts";
import type { IndexServer } from "./index_server.ts";
import { edit, storedTree, type TestMirror, withMirror } from "./test_mirror.ts";
import { assertWholeTree } from "./whole_tree.ts";

const LIST = "v1/index.json";
const AURORA = "v1/distros/aurora/index.json";
const RELEASE = "v1/distros/aurora/releases/24.2/index.json";
const LATEST = "v1/distros/aurora/aliases/latest.json";
const ARCHIVE = "v1/distros/aurora/releases/24.0/archive.json";
const OTHER = "f".repeat(64);

const objects = (value: JsonValue | undefined) => value as JsonObject[];

function artifact(list: JsonObject): JsonObject {
  return objects(objects(list.builds)[0]?.artifacts)[0] as JsonObject;
}

function integrity(list: JsonObject): JsonObject {
  return artifact(list).integrity as JsonObject;
}

function digest(list: JsonObject): JsonObject {
  return objects(integrity(list).digests)[0] as JsonObject;
}

/** Changes the newest release and the alias file that copies it. */
function editRelease(server: IndexServer, change: (list: JsonObject) => void): void {
  for (const path of [RELEASE, LATEST]) edit(server, path, change);
}

/** Name, what is done to the list of builds, words of the refusal. */
const DOWNGRADES: readonly (readonly [string, (list: JsonObject) => void, string])[] = [
  ["another digest", (list) => digest(list).value = OTHER, "changes the sha256 of build"],
  ["no digests", (list) => integrity(list).digests = [], "drops the sha256 of build"],
  ["absent digests", (list) => delete integrity(list).digests, "drops the sha256 of build"],
  ["no integrity", (list) => artifact(list).integrity = null, "drops the sha256 of build"],
  ["absent integrity", (list) => delete artifact(list).integrity, "drops the sha256 of build"],
  ["another algorithm", (list) => {
    integrity(list).digests = [{ algorithm: "sha512", value: "a".repeat(128) }];
  }, "drops the sha256 of build"],
  ["two digests of which one is new", (list) => {
    objects(integrity(list).digests).push({ algorithm: "sha256", value: OTHER });
  }, "changes the sha256 of build"],
  ["the true digest behind another one", (list) => {
    objects(integrity(list).digests).unshift({ algorithm: "sha256", value: OTHER });
  }, "changes the sha256 of build"],
  ["no signatures", (list) => integrity(list).signatures = [], "drops the pgp_detached signature"],
  ["absent signatures", (list) => delete integrity(list).signatures, "drops the pgp_detached"],
  ["a signature of another kind", (list) => {
    const [signature] = objects(integrity(list).signatures);
    integrity(list).signatures = [{ ...signature, kind: "minisign" }];
  }, "drops the pgp_detached signature"],
];

for (const [name, change, words] of DOWNGRADES) {
  Deno.test(`sync() holds back a known build with ${name} until that is allowed`, async () => {
    await withMirror(async (test) => {
      await test.mirror.sync();
      editRelease(test.server, change);
      await assertHeldBack(test, RELEASE, words);
    });
  });
}

/** Refused again and again, and taken once it is allowed. */
async function assertHeldBack(
  { mirror, store }: TestMirror,
  document: string,
  words: string,
): Promise<void> {
  const before = await storedValues(store);
  for (let again = 0; again < 2; again++) {
    const { outcome, problems } = await mirror.sync();
    assert(outcome !== "complete");
    assertEquals(problems[0]?.document, document);
    assertStringIncludes(problems[0]?.message ?? "", words);
    assertStringIncludes(problems[0]?.message ?? "", "the operator must allow this");
    assertEquals(await storedValues(store), before);
  }
  assertEquals((await mirror.sync({ acceptChanged: true })).outcome, "complete");
  await assertWholeTree(store);
  assertEquals((await mirror.sync()).outcome, "complete");
}

async function storedValues(store: TestMirror["store"]): Promise<Map<string, unknown>> {
  const texts = await storedTree(store);
  return new Map(Array.from(texts, ([path, text]) => [path, JSON.parse(text)]));
}

Deno.test("sync() holds an archived build to its digest", async () => {
  await withMirror(async (test) => {
    await test.mirror.sync();
    edit(test.server, ARCHIVE, (list) => digest(list).value = OTHER);
    await assertHeldBack(test, "v1/distros/aurora/releases/24.0/index.json", "changes the sha256");
  });
});

Deno.test("sync() holds a build to its digest when it moves into the archive", async () => {
  await withMirror(async (test) => {
    const { mirror, server } = test;
    editRelease(server, (list) => addBuild(list, "old", "2026-01-01T00:00:00Z"));
    await mirror.sync();
    let moved: JsonValue | undefined;
    editRelease(server, (list) => moved = objects(list.builds).pop());
    const build = structuredClone(moved) as JsonObject;
    const [one] = objects(build.artifacts);
    for (const place of objects(one?.locations)) place.kind = "vault";
    const archive = { distro: "aurora", release: "24.2", builds: [build] };
    digest(archive).value = OTHER;
    const body = new TextEncoder().encode(JSON.stringify(archive));
    server.files.set("v1/distros/aurora/releases/24.2/archive.json", { body, etag: '"a"' });
    await assertHeldBack(test, RELEASE, 'changes the sha256 of build "old"');
  });
});

/** Adds a build of one artifact to the end of a list. */
function addBuild(list: JsonObject, build: string, first_seen: string, value = "b".repeat(64)) {
  const own = structuredClone(artifact(list));
  own.integrity = { digests: [{ algorithm: "sha256", value }] };
  objects(list.builds).push({ build, first_seen, artifacts: [own] });
}

const LEAVINGS: readonly (readonly [string, (server: IndexServer) => () => void])[] = [
  ["a build", (server) => {
    editRelease(server, (list) => objects(list.builds).pop());
    return () => {};
  }],
  ["a release", (server) => {
    const files = [RELEASE, LATEST].map((path) => [path, server.files.get(path)] as const);
    let release: JsonObject | undefined;
    edit(server, AURORA, (distro) => release = objects(distro.releases).shift());
    for (const path of [RELEASE, LATEST]) server.files.delete(path);
    return () => {
      edit(server, AURORA, (distro) => objects(distro.releases).unshift(release ?? {}));
      for (const [path, file] of files) if (file !== undefined) server.files.set(path, file);
      editRelease(server, (list) => objects(list.builds).pop());
    };
  }],
  ["a distro", (server) => {
    let summary: JsonObject | undefined;
    edit(server, LIST, (list) => summary = objects(list.distros).shift());
    return () => {
      edit(server, LIST, (list) => objects(list.distros).unshift(summary ?? {}));
      editRelease(server, (list) => objects(list.builds).pop());
    };
  }],
];

for (const [what, leave] of LEAVINGS) {
  Deno.test(`sync() holds a build to its digest when it comes back after ${what} left`, async () => {
    await withMirror(async (test) => {
      const { mirror, server, store } = test;
      editRelease(server, (list) => addBuild(list, "old", "2026-01-01T00:00:00Z"));
      await mirror.sync();
      const comeBack = leave(server);
      assertEquals((await mirror.sync()).outcome, "complete");
      assert(
        (await store.index.pins("aurora", "24.2")).some((pin) => pin.artifact.includes("old")),
      );
      comeBack();
      editRelease(server, (list) => addBuild(list, "old", "2026-01-01T00:00:00Z", OTHER));
      await assertHeldBack(test, RELEASE, 'changes the sha256 of build "old"');
      const pins = await store.index.pins("aurora", "24.2");
      assertEquals(pins.filter((pin) => pin.artifact.includes("old")), []);
    });
  });
}

Deno.test("sync() takes a build that comes back as it was", async () => {
  await withMirror(async ({ mirror, server, store }) => {
    editRelease(server, (list) => addBuild(list, "old", "2026-01-01T00:00:00Z"));
    await mirror.sync();
    editRelease(server, (list) => objects(list.builds).pop());
    await mirror.sync();
    editRelease(server, (list) => addBuild(list, "old", "2026-01-01T00:00:00Z"));
    assertEquals((await mirror.sync()).outcome, "complete");
    assertEquals(await store.index.pins("aurora", "24.2"), []);
  });
});

Deno.test("sync() holds back a release whose newest build is gone", async () => {
  await withMirror(async (test) => {
    editRelease(test.server, (list) => addBuild(list, "newest", "2026-11-19T00:00:00.000000001Z"));
    await test.mirror.sync();
    editRelease(test.server, (list) => objects(list.builds).pop());
    await assertHeldBack(
      test,
      RELEASE,
      "goes back behind a build that was first seen at 2026-11-19",
    );
  });
});

Deno.test("sync() holds back a release that no longer says when its builds were seen", async () => {
  await withMirror(async (test) => {
    await test.mirror.sync();
    editRelease(test.server, (list) => {
      for (const build of objects(list.builds)) build.first_seen = null;
    });
    await assertHeldBack(test, RELEASE, "none has a date");
  });
});

Deno.test("sync() holds back a document that is older than the one that it has", async () => {
  for (const path of [AURORA, LIST, "v1/openapi.json"]) {
    await withMirror(async (test) => {
      await test.mirror.sync();
      edit(test.server, path, (value) => value.replayed = true);
      const file = test.server.files.get(path) ?? { body: new Uint8Array() };
      const last_modified = "Thu, 01 Oct 2026 04:05:05 GMT";
      test.server.files.set(path, { ...file, last_modified });
      await assertHeldBack(test, path, `is of ${last_modified}, older than the stored one of`);
    });
  }
});

Deno.test("sync() holds back a tree that was emptied", async () => {
  await withMirror(async (test) => {
    await test.mirror.sync();
    edit(test.server, LIST, (list) => list.distros = []);
    await assertHeldBack(test, LIST, "$.distros is empty");
    assertEquals((await test.store.index.list()).map(({ path }) => path), [
      LIST,
      "v1/openapi.json",
    ]);
  });
  await withMirror(async (test) => {
    await test.mirror.sync();
    edit(test.server, AURORA, (distro) => distro.releases = []);
    await assertHeldBack(test, AURORA, "$.releases is empty");
  });
});

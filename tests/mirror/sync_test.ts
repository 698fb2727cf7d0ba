import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { join } from "@std/path";
import { AgentError } from "../../src/domain/error.ts";
import { until, withFolder } from "../support/until.ts";
import { FIXTURE_FOLDER } from "./index_server.ts";
import { edit, storedTree, withMirror } from "./test_mirror.ts";

const LIST = "v1/index.json";

const AURORA = "v1/distros/aurora/index.json";

const NEWEST = "v1/distros/aurora/releases/24.2/index.json";

const LATEST = "v1/distros/aurora/aliases/latest.json";

const BASALT = "v1/distros/basalt/index.json";

Deno.test("sync() stores every document byte for byte", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    const sync = await mirror.sync();
    assertEquals(sync.outcome, "complete");
    assertEquals([sync.added, sync.changed, sync.removed, sync.unchanged], [16, 0, 0, 0]);
    assertEquals(sync.problems, []);
    for (const [path, { body }] of server.files) {
      assertEquals((await store.index.get(path))?.body, body, path);
    }
    assertEquals((await store.index.list()).length, server.files.size);
    assertEquals(await store.index.lastSync(), sync);
  });
});

Deno.test("sync() is reported while it goes on, once in five seconds of the clock", async () => {
  const changes: string[] = [];
  let seconds = 0;
  await withMirror(async ({ mirror }) => {
    await mirror.sync();
    const [first, ...others] = changes.splice(0);
    assertEquals(first, "sync_started");
    assert(others.length > 0 && others.every((change) => change === "syncing"), others.join(" "));
    assert(others.length <= seconds / 5, `${others.length} in ${seconds} seconds`);
  }, {
    emit: ({ payload }) => changes.push(payload.change),
    now: () => new Date(Date.UTC(2026, 10, 20) + 1000 * seconds++).toISOString(),
  });
  await withMirror(async ({ mirror }) => {
    await mirror.sync();
    assertEquals(changes, ["sync_started"]);
  }, { emit: ({ payload }) => changes.push(payload.change) });
});

Deno.test("sync() asks only for what a parent document names, and names itself", async () => {
  await withMirror(async ({ mirror, server }) => {
    await mirror.sync();
    const asked = server.requests.map((request) => request.path).sort();
    const missing = asked.filter((path) => !server.files.has(path));
    // Whether a release has an archive, or the tree one document of all images, is nowhere said.
    assertEquals(missing.filter((path) => !path.endsWith("/archive.json")), ["v1/images.json"]);
    assertEquals(new Set(asked).size, asked.length);
    assertEquals(asked.length, 21);
    assert(server.requests.every((one) => one.headers.get("user-agent") === "zonewright-test/1"));
  });
});

Deno.test("sync() of an unchanged upstream asks conditionally and writes no document", async () => {
  await withMirror(async ({ mirror, store, server, clock }) => {
    await mirror.sync();
    const before = await store.index.list();
    server.requests.length = 0;
    clock.now = "2026-11-21T12:00:00.000Z";
    const sync = await mirror.sync();
    assertEquals([sync.outcome, sync.unchanged, sync.added], ["complete", 16, 0]);
    assertEquals(server.requests.filter((request) => request.status === 304).length, 16);
    assertEquals(server.requests.filter((request) => request.status === 200), []);
    assertEquals(await store.index.list(), before);
    assertEquals((await store.index.lastSync())?.finished_at, clock.now);
  });
});

Deno.test("sync() keeps new validators of an unchanged document for the next request", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    await mirror.sync();
    const { body } = server.files.get(AURORA) ?? { body: new Uint8Array() };
    server.files.set(AURORA, { body, etag: '"moved"' });
    const sync = await mirror.sync();
    assertEquals([sync.unchanged, sync.changed], [16, 0]);
    assertEquals((await store.index.get(AURORA))?.etag, '"moved"');
    server.requests.length = 0;
    await mirror.sync();
    assertEquals(server.requests.filter((request) => request.status === 200), []);
  });
});

Deno.test("sync() takes a changed release with its alias file", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    await mirror.sync();
    for (const path of [NEWEST, LATEST]) {
      edit(server, path, (list) => {
        list.builds = [{ ...first(list.builds), build: "20261120" }, ...rest(list.builds)];
      });
    }
    const sync = await mirror.sync();
    assertEquals([sync.outcome, sync.changed, sync.unchanged], ["complete", 2, 14]);
    const text = (await storedTree(store)).get(NEWEST) ?? "";
    assertStringIncludes(text, "20261120");
  });
});

Deno.test("sync() removes a distro with its documents when the list no longer names it", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    await mirror.sync();
    edit(server, LIST, (list) => list.distros = rest(list.distros));
    const sync = await mirror.sync();
    assertEquals([sync.outcome, sync.removed, sync.changed], ["complete", 6, 1]);
    const paths = [...(await storedTree(store)).keys()];
    assertEquals(paths.filter((path) => path.includes("aurora")), []);
  });
});

Deno.test("sync() reads the same tree from a folder", async () => {
  await withMirror(async ({ again, store, server }) => {
    const mirror = again({ upstream: FIXTURE_FOLDER });
    assertEquals((await mirror.sync()).added, 16);
    for (const [path, { body }] of server.files) {
      assertEquals((await store.index.get(path))?.body, body, path);
    }
    const before = await store.index.list();
    assertEquals((await mirror.sync()).unchanged, 16);
    assertEquals(await store.index.list(), before);
    const other = again({ upstream: new URL(`file://${FIXTURE_FOLDER}/`).href });
    assertEquals((await other.sync()).unchanged, 16);
  });
});

Deno.test("sync() refuses symbolic links in a folder, and a folder that is not there", async () => {
  await withFolder(async (folder) => {
    await Deno.mkdir(join(folder, "v1"));
    await Deno.symlink(join(FIXTURE_FOLDER, LIST), join(folder, LIST));
    await withMirror(async ({ again }) => {
      const linked = await again({ upstream: folder }).sync();
      assertStringIncludes(linked.problems[0]?.message ?? "", "expected a regular file");
      const gone = await again({ upstream: join(folder, "gone") }).sync();
      assertEquals(gone.outcome, "failed");
    });
  });
});

Deno.test("an upstream of another host's files, or of an unknown scheme, is refused", async () => {
  await withMirror(({ again }) => {
    const wrong = [
      "file://server/index",
      "file:///index?a",
      "file:///index#a",
      "ftp://a/",
      "s3://a",
    ];
    for (const upstream of wrong) {
      const error = assertThrows(() => again({ upstream }), AgentError);
      assertEquals(error.code, "invalid_argument", upstream);
    }
    return Promise.resolve();
  });
});

Deno.test("sync() of another upstream sends it no validators of the first", async () => {
  await withMirror(async ({ mirror, server, again }) => {
    await mirror.sync();
    const moved = again({ upstream: `${server.url}/copy` });
    assertEquals((await moved.sync()).outcome, "failed");
    for (const [path, { body, last_modified }] of [...server.files]) {
      server.files.set(`copy/${path}`, { body, ...(last_modified ? { last_modified } : {}) });
    }
    edit(server, `copy/${BASALT}`, (distro) => distro.name = "Copied");
    const { body } = server.files.get(`copy/${BASALT}`) ?? { body: new Uint8Array() };
    server.files.set(`copy/${BASALT}`, { body, last_modified: "Thu, 01 Oct 2026 04:05:06 GMT" });
    const sync = await moved.sync();
    assertEquals([sync.outcome, sync.changed], ["complete", 1]);
  });
});

Deno.test("sync() shows nothing of the new tree before it has all of it", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    await mirror.sync();
    const before = await storedTree(store);
    edit(server, AURORA, (distro) => distro.name = "New");
    edit(server, BASALT, (distro) => distro.name = "New");
    // The description is the last document that is asked for.
    server.faults.set("v1/openapi.json", [{ kind: "silent" }]);
    const giveUp = new AbortController();
    const sync = mirror.sync({ signal: giveUp.signal });
    await until("the last request", () => server.received.at(-1) === "v1/openapi.json");
    assertEquals(await storedTree(store), before);
    assertEquals(mirror.generation, 1);
    giveUp.abort();
    assertEquals((await assertRejects(() => sync, AgentError)).code, "aborted");
    assertEquals(await storedTree(store), before);
  });
});

function first(list: unknown): Record<string, never> {
  return (list as Record<string, never>[])[0] ?? {};
}

function rest(list: unknown): never[] {
  return (list as never[]).slice(1);
}

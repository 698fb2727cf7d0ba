import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { FAILURES_MAX } from "../../src/mirror/sync/reader.ts";
import { edit, replace, storedTree, withMirror } from "./test_mirror.ts";

const LIST = "v1/index.json";

const AURORA = "v1/distros/aurora/index.json";

const NEWEST = "v1/distros/aurora/releases/24.2/index.json";

const ARCHIVE = "v1/distros/aurora/releases/24.0/archive.json";

const BASALT = "v1/distros/basalt/index.json";

Deno.test("sync() removes an archive only when the upstream says that it is gone", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    await mirror.sync();
    server.faults.set(ARCHIVE, Array(3).fill({ kind: "status", status: 503 }));
    assertEquals((await mirror.sync()).outcome, "partial");
    assert(await store.index.get(ARCHIVE) !== undefined);
    server.files.delete(ARCHIVE);
    const sync = await mirror.sync();
    assertEquals([sync.outcome, sync.removed], ["complete", 1]);
    assertEquals(await store.index.get(ARCHIVE), undefined);
  });
});

Deno.test("sync() removes nothing when the list cannot be read", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    await mirror.sync();
    const before = await storedTree(store);
    for (const text of [undefined, "<html>hotel login</html>", '{"distros": "none"}']) {
      if (text === undefined) server.files.delete(LIST);
      else replace(server, LIST, text);
      const sync = await mirror.sync();
      assertEquals([sync.outcome, sync.problems[0]?.document], ["failed", LIST]);
      assertEquals(await storedTree(store), before);
    }
  });
});

Deno.test("sync() keeps a distro with a bad document as it was and goes on with others", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    await mirror.sync();
    const before = await storedTree(store);
    edit(server, AURORA, (distro) => distro.homepage = "https://new.example.com/");
    replace(server, NEWEST, '{"distro":"aurora","release":"24.2","builds":[]}');
    edit(server, BASALT, (distro) => distro.homepage = "https://basalt.example.com/");
    const sync = await mirror.sync();
    assertEquals([sync.outcome, sync.changed], ["partial", 1]);
    assertEquals(sync.problems, [{
      document: NEWEST,
      message: `Cannot accept ${NEWEST}: $.builds must not be empty`,
      json_path: "$.builds",
      reason: "must not be empty",
      kept: true,
    }]);
    const after = await storedTree(store);
    assertEquals(after.get(AURORA), before.get(AURORA));
    assertEquals(after.get(NEWEST), before.get(NEWEST));
    assertStringIncludes(after.get(BASALT) ?? "", "https://basalt.example.com/");
  });
});

Deno.test("sync() updates a distro again once its bad document is corrected", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    await mirror.sync();
    const good = server.files.get(NEWEST);
    assert(good !== undefined);
    replace(server, NEWEST, "{");
    edit(server, AURORA, (distro) => distro.name = "Aurora");
    assertEquals((await mirror.sync()).outcome, "partial");
    server.files.set(NEWEST, good);
    const sync = await mirror.sync();
    assertEquals([sync.outcome, sync.changed], ["complete", 1]);
    assertStringIncludes((await storedTree(store)).get(AURORA) ?? "", '"Aurora"');
  });
});

Deno.test("sync() lists a distro only once it could accept it", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    const good = server.files.get(NEWEST);
    assert(good !== undefined);
    server.files.delete(NEWEST);
    const sync = await mirror.sync();
    assertEquals([sync.outcome, sync.problems[0]?.document], ["partial", NEWEST]);
    assertEquals(await listedIds(store), ["basalt", "cinder-os"]);
    const list = JSON.parse((await storedTree(store)).get(LIST) ?? "");
    assertEquals([list.generator, list.distros[1].mascot], [{ name: "hand", n: 1 }, "狐"]);
    assertEquals((await mirror.sync()).outcome, "partial");
    server.files.set(NEWEST, good);
    assertEquals((await mirror.sync()).outcome, "complete");
    assertEquals((await store.index.get(LIST))?.body, server.files.get(LIST)?.body);
  });
});

Deno.test("sync() lists a kept distro as it was listed before", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    await mirror.sync();
    edit(server, LIST, (list) => {
      list.distros = [{ ...first(list.distros), name: "Renamed" }, ...rest(list.distros)];
    });
    replace(server, AURORA, "{}");
    assertEquals((await mirror.sync()).outcome, "partial");
    const list = JSON.parse((await storedTree(store)).get(LIST) ?? "");
    assertEquals(list.distros[0].name, "Aurora Linux");
  });
});

Deno.test("sync() with no distro accepted leaves everything as it was", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    await mirror.sync();
    const before = await storedTree(store);
    for (const path of server.files.keys()) {
      if (/distros\/[^/]+\/index.json$/.test(path)) replace(server, path, "[]");
    }
    const sync = await mirror.sync();
    assertEquals([sync.outcome, sync.problems.length], ["failed", 3]);
    assertEquals(await storedTree(store), before);
  });
});

Deno.test("sync() repeats requests that failed for a time, and waits as long as the server asks", async () => {
  await withMirror(async ({ mirror, server, waits }) => {
    server.faults.set(LIST, [
      { kind: "status", status: 500 },
      { kind: "status", status: 429, headers: { "retry-after": "7" } },
    ]);
    assertEquals((await mirror.sync()).outcome, "complete");
    assertEquals(waits, [1000, 7000]);
    assertEquals(server.countOf(LIST), 3);
  });
});

Deno.test("sync() gives a document up after three tries", async () => {
  await withMirror(async ({ mirror, server }) => {
    server.faults.set(LIST, Array(9).fill({ kind: "status", status: 502 }));
    const sync = await mirror.sync();
    assertEquals(sync.outcome, "failed");
    assertStringIncludes(sync.problems[0]?.message ?? "", "the server answered 502");
    assertEquals(server.countOf(LIST), 3);
  });
});

Deno.test("sync() does not repeat a request that the server refuses for good", async () => {
  await withMirror(async ({ mirror, server }) => {
    server.faults.set(LIST, [{ kind: "status", status: 403 }]);
    assertEquals((await mirror.sync()).outcome, "failed");
    assertEquals(server.countOf(LIST), 1);
  });
});

Deno.test("sync() stops asking an upstream that fails many times in a row", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    const distros = Array.from({ length: 40 }, (_, n) => ({ id: `d${n}`, os_family: "linux" }));
    replace(server, LIST, JSON.stringify({ distros }));
    for (const { id } of distros) {
      const path = `v1/distros/${id}/index.json`;
      server.faults.set(path, Array(3).fill({ kind: "status", status: 500 }));
    }
    const sync = await mirror.sync();
    assertEquals([sync.outcome, sync.problems.length], ["failed", 40]);
    assertStringIncludes(sync.problems.at(-1)?.message ?? "", "not requested");
    // Those under way when patience ended are brought to their end.
    assert(server.requests.length <= 1 + 3 * (FAILURES_MAX + 3), `${server.requests.length}`);
    assertEquals(await store.index.list(), []);
  });
});

Deno.test("sync() discards a document that is cut off, stalls or is not answered", async () => {
  // A process that has to wait for a processor answers itself later than at once.
  const times = { answerMs: 1000, idleMs: 1000, documentMs: 120_000, stallMs: 1000 };
  await withMirror(async ({ mirror, store, server }) => {
    await mirror.sync();
    const before = await storedTree(store);
    for (const kind of ["cut", "stall", "silent"] as const) {
      edit(server, AURORA, (distro) => distro.name = kind);
      server.faults.set(AURORA, Array(3).fill({ kind, after: 40 }));
      const sync = await mirror.sync();
      assertEquals([sync.outcome, sync.problems[0]?.document], ["partial", AURORA], kind);
      assertEquals((await storedTree(store)).get(AURORA), before.get(AURORA));
    }
  }, { times });
});

Deno.test("sync() follows redirects, but not in a circle", async () => {
  await withMirror(async ({ mirror, server }) => {
    server.faults.set(LIST, [{ kind: "redirect", to: "/elsewhere/index.json" }]);
    const list = server.files.get(LIST);
    assert(list !== undefined);
    server.files.set("elsewhere/index.json", list);
    assertEquals((await mirror.sync()).outcome, "complete");
    server.faults.set(LIST, Array(9).fill({ kind: "redirect", to: `/${LIST}` }));
    server.requests.length = 0;
    const sync = await mirror.sync();
    assertStringIncludes(sync.problems[0]?.message ?? "", "redirects over 5 times");
    assertEquals(server.countOf(LIST), 6);
  });
});

function first(list: unknown): Record<string, never> {
  return (list as Record<string, never>[])[0] ?? {};
}

function rest(list: unknown): never[] {
  return (list as never[]).slice(1);
}

async function listedIds(store: Parameters<typeof storedTree>[0]): Promise<string[]> {
  const list = JSON.parse((await storedTree(store)).get(LIST) ?? "");
  return list.distros.map((distro: { id: string }) => distro.id);
}

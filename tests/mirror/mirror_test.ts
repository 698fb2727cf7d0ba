import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { edit, replace, storedTree, withMirror } from "./test_mirror.ts";

const LIST = "v1/index.json";

const NEWEST = "v1/distros/aurora/releases/24.2/index.json";

const LATEST = "v1/distros/aurora/aliases/latest.json";

Deno.test("sync() holds back a known build whose digest changes until the operator agrees", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    await mirror.sync();
    const before = (await storedTree(store)).get(NEWEST) ?? "";
    const digest = /"value": "([0-9a-f]{64})"/.exec(before)?.[1] ?? "";
    for (const path of [NEWEST, LATEST]) {
      replace(server, path, before.replace(digest, "0".repeat(64)));
    }
    const held = await mirror.sync();
    assertEquals(held.outcome, "partial");
    assertStringIncludes(held.problems[0]?.message ?? "", "changes the sha256 of build");
    assertEquals((await storedTree(store)).get(NEWEST), before);
    assertEquals((await mirror.sync({ acceptChanged: true })).outcome, "complete");
    assertStringIncludes((await storedTree(store)).get(NEWEST) ?? "", "0".repeat(64));
  });
});

Deno.test("sync() runs once for two callers, and ends early only when both give up", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    const one = new AbortController();
    const first = mirror.sync({ signal: one.signal });
    const second = mirror.sync();
    assertEquals(mirror.syncing, true);
    one.abort();
    const error = await assertRejects(() => first, AgentError);
    assertEquals(error.code, "aborted");
    assertEquals((await second).outcome, "complete");
    assertEquals([mirror.syncing, server.countOf(LIST), mirror.generation], [false, 1, 1]);
    const last = new AbortController();
    server.outage = { kind: "silent" };
    const third = mirror.sync({ signal: last.signal });
    last.abort();
    assertEquals((await assertRejects(() => third, AgentError)).code, "aborted");
    assertEquals((await store.index.lastSync())?.outcome, "complete");
  });
});

Deno.test("sync() that is to accept changes does not join one that holds them back", async () => {
  await withMirror(async ({ mirror, server }) => {
    await mirror.sync();
    for (const path of [NEWEST, LATEST]) {
      edit(server, path, (list) => {
        const text = JSON.stringify(list.builds).replace(
          /"value":"[0-9a-f]{64}"/,
          '"value":"' + "0".repeat(64) + '"',
        );
        list.builds = JSON.parse(text);
      });
    }
    const [held, accepted] = await Promise.all([
      mirror.sync(),
      mirror.sync({ acceptChanged: true }),
    ]);
    assertEquals([held.outcome, accepted.outcome], ["partial", "complete"]);
  });
});

Deno.test("openMirror() refuses plain http, credentials and other schemes as upstream", async () => {
  await withMirror(({ again }) => {
    for (
      const upstream of [
        "http://example.com/",
        "https://user:secret@example.com/",
        "https://example.com/?token=1",
        "ftp://example.com/",
      ]
    ) {
      const error = assertThrows(() => again({ upstream, allowHttp: false }), AgentError);
      assertEquals(error.code, "invalid_argument", upstream);
      assert(!error.message.includes("secret"));
    }
    return Promise.resolve();
  });
});

Deno.test("sync() without an upstream is refused", async () => {
  await withMirror(async ({ mirror }) => {
    assertEquals((await assertRejects(() => mirror.sync(), AgentError)).code, "conflict");
  }, { upstream: null });
});

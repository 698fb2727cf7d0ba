import { assertEquals } from "@std/assert";
import { served } from "./served_index.ts";

Deno.test("POST /agent/v1/index/sync starts a sync, or waits for its end", async () => {
  await served(async ({ mirror, store }, url) => {
    const started = await fetch(`${url}/agent/v1/index/sync`, { method: "POST" });
    assertEquals([started.status, await started.json()], [202, { syncing: true }]);
    const sync = `${url}/agent/v1/index/sync?wait=true`;
    const waited = await fetch(sync, { method: "POST" });
    assertEquals(waited.status, 200);
    assertEquals((await waited.json()).outcome, "complete");
    const state = await (await fetch(`${url}/agent/v1/index`)).json();
    assertEquals(state, {
      upstream: mirror.upstream,
      syncing: false,
      last_sync: await store.index.lastSync(),
      documents: 16,
    });
    const wrong = await fetch(`${url}/agent/v1/index/sync?wait=maybe`, { method: "POST" });
    assertEquals((await wrong.json()).error_code, "invalid_argument");
  });
});

Deno.test("POST /agent/v1/index/sync without an upstream is a conflict", async () => {
  await served(async (_test, url) => {
    for (const query of ["", "?wait=true"]) {
      const response = await fetch(`${url}/agent/v1/index/sync${query}`, { method: "POST" });
      assertEquals([response.status, (await response.json()).error_code], [409, "conflict"]);
    }
    const state = await (await fetch(`${url}/agent/v1/index`)).json();
    assertEquals([state.upstream, state.last_sync, state.documents], [null, null, 0]);
  }, null);
});

Deno.test("GET /agent/v1/index/artifacts resolves a reference", async () => {
  await served(async ({ mirror }, url) => {
    await mirror.sync();
    const query = "distro=aurora&release=lts&format=raw";
    const found = await (await fetch(`${url}/agent/v1/index/artifacts?${query}`)).json();
    assertEquals([found.release, found.build], ["24.0", "20261001"]);
    assertEquals(found.name, "aurora-24.0-20261001-server-x86_64.raw");
    const none = await fetch(`${url}/agent/v1/index/artifacts?distro=aurora&release=lts&arch=vax`);
    assertEquals((await none.json()).error_code, "not_found");
    const wrong = await fetch(`${url}/agent/v1/index/artifacts?distro=aurora`);
    assertEquals((await wrong.json()).error_code, "invalid_argument");
  });
});

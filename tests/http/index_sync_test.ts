import { assertEquals } from "@std/assert";
import { until } from "../support/until.ts";
import { served } from "./served_index.ts";

Deno.test("POST /agent/v1/index/sync starts a sync, or waits for its end", async () => {
  await served(async ({ mirror, store, clock }, url) => {
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
      progress: null,
      last_sync: await store.index.lastSync(),
      compared_at: clock.now,
      age_seconds: 0,
      documents: 16,
    });
    const wrong = await fetch(`${url}/agent/v1/index/sync?wait=maybe`, { method: "POST" });
    assertEquals((await wrong.json()).error_code, "invalid_argument");
  });
});

Deno.test("POST /agent/v1/index/sync takes its switches in the query and in the body", async () => {
  await served(async ({ store }, url) => {
    const post = async (query: string, body?: unknown) => {
      const response = await fetch(`${url}/agent/v1/index/sync${query}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return [response.status, await response.json()] as const;
    };
    for (const [query, body] of [["?dry_run=true", {}], ["", { dry_run: true }]] as const) {
      const [status, preview] = await post(query, body);
      assertEquals([status, preview.dry_run, preview.added], [200, true, 16]);
      assertEquals(preview.changes[0].change, "+");
      assertEquals([await store.index.list(), await store.index.lastSync()], [[], undefined]);
    }
    const [status, sync] = await post("", { wait: true, accept_changed: false });
    assertEquals([status, sync.outcome, sync.added], [200, "complete", 16]);
    const wrong = [{ dryrun: true }, { dry_run: "yes" }, { wait: 1 }, [], "x"];
    for (const body of wrong) {
      const [status, error] = await post("", body);
      assertEquals([status, error.error_code], [409, "invalid_argument"], JSON.stringify(body));
    }
    assertEquals((await post("?dryrun=true"))[0], 409);
  });
});

Deno.test("GET /agent/v1/index says how far a sync is, and how old the tree is", async () => {
  await served(async ({ mirror, server, clock }, url) => {
    const state = async () => await (await fetch(`${url}/agent/v1/index`)).json();
    await mirror.sync();
    clock.now = "2026-11-20T13:00:00.900Z";
    const fresh = await state();
    assertEquals([fresh.compared_at, fresh.age_seconds], ["2026-11-20T12:00:00.000Z", 3600]);
    const last = "v1/openapi.json";
    server.received.length = 0;
    const hold = Promise.withResolvers<void>();
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await hold.promise;
        controller.error(new Error("cut"));
      },
    });
    server.faults.set(last, [{ kind: "answer", make: () => new Response(body) }]);
    const sync = mirror.sync();
    await until("the last request", () => server.received.includes(last));
    const { syncing, progress } = await state();
    assertEquals([syncing, progress.phase], [true, "documents"]);
    assertEquals([progress.documents, progress.total, progress.bytes], [20, 21, 0]);
    hold.resolve();
    await sync;
    assertEquals((await state()).progress, null);
    server.outage = { kind: "status", status: 500 };
    clock.now = "2026-11-20T14:00:00.900Z";
    await mirror.sync();
    assertEquals((await state()).age_seconds, 3600);
  });
});

Deno.test("POST /agent/v1/index/sync without an upstream is a conflict", async () => {
  await served(async (_test, url) => {
    for (const query of ["", "?wait=true", "?dry_run=true"]) {
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

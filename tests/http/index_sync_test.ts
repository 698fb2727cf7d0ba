import { assertEquals } from "@std/assert";
import { until } from "../support/until.ts";
import { served } from "./served_index.ts";

Deno.test("POST /agent/v1/index/sync starts a sync, or waits for its end", async () => {
  await served(async ({ mirror, store, clock }, url) => {
    const started = await fetch(`${url}/agent/v1/index/sync`, { method: "POST" });
    assertEquals([started.status, await started.json()], [202, { syncing: true }]);
    const waited = await fetch(`${url}/agent/v1/index/sync`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ wait: true }),
    });
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
  });
});

Deno.test("POST /agent/v1/index/sync reads its options from the body", async () => {
  await served(async ({ store }, url) => {
    const post = async (body: unknown) => {
      const response = await fetch(`${url}/agent/v1/index/sync`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      });
      return [response.status, await response.json()] as const;
    };
    const [shown, preview] = await post({ dry_run: true });
    assertEquals([shown, preview.dry_run, preview.added], [200, true, 16]);
    assertEquals(preview.changes[0].change, "+");
    assertEquals([await store.index.list(), await store.index.lastSync()], [[], undefined]);
    const [status, sync] = await post({ wait: true, accept_changed: false });
    assertEquals([status, sync.outcome, sync.added], [200, "complete", 16]);
    const wrong = [{ dryrun: true }, { dry_run: "true" }, { wait: 1 }, [], "x"];
    for (const body of wrong) {
      const [status, error] = await post(body);
      assertEquals([status, error.error_code], [409, "invalid_argument"], JSON.stringify(body));
    }
  });
});

Deno.test("GET /agent/v1/index reports the progress of a sync, and the age of the tree", async () => {
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
    for (const body of [{}, { wait: true }, { dry_run: true }]) {
      const response = await fetch(`${url}/agent/v1/index/sync`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      });
      assertEquals([response.status, (await response.json()).error_code], [409, "conflict"]);
    }
    const state = await (await fetch(`${url}/agent/v1/index`)).json();
    assertEquals([state.upstream, state.last_sync, state.documents], [null, null, 0]);
  }, null);
});

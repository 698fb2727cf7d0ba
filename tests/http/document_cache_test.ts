import { assert, assertEquals } from "@std/assert";
import {
  openDocumentCache,
  reportedAgeSeconds,
  STALE_MS,
} from "../../src/http/answer/document_cache.ts";
import { ACCOUNTS, openMemoryBudget } from "../../src/domain/memory_budget.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { IndexDocument, IndexSync, Store } from "../../src/store/store.ts";
import { SYNC } from "../store/image_suite.ts";
import { T0 } from "../support/job.ts";

function documentOf(path: string, text: string): IndexDocument {
  const digits = Array.from(
    new TextEncoder().encode(text.slice(0, 8)),
    (byte) => byte.toString(16),
  );
  return {
    path,
    body: new TextEncoder().encode(text),
    sha256: digits.join("").padStart(64, "0"),
    etag: null,
    last_modified: null,
    fetched_at: T0,
  };
}

interface Cached {
  readonly store: Store;
  readonly cache: ReturnType<typeof openDocumentCache>;
  swap(put: readonly IndexDocument[], remove?: readonly string[]): Promise<void>;
  record(sync: Partial<IndexSync>): Promise<void>;
}

async function withCache(
  run: (cached: Cached) => Promise<void>,
  bytesMax?: number,
  budget = openMemoryBudget(),
): Promise<void> {
  const store = await openSqliteStore(":memory:");
  let generation = 0;
  const record = async (
    sync: Partial<IndexSync>,
    put: readonly IndexDocument[] = [],
    remove: readonly string[] = [],
  ) => {
    await store.index.swap(put, remove, { ...SYNC, ...sync });
    generation += 1;
  };
  const cache = openDocumentCache(store.index, () => generation, budget, bytesMax);
  try {
    await run({
      store,
      cache,
      swap: (put, remove) => record({}, put, remove),
      record: (sync) => record(sync),
    });
  } finally {
    await store.close();
  }
}

Deno.test("a document is compressed once for all callers, and again only after a change", async () => {
  await withCache(async ({ cache, swap }) => {
    const one = documentOf("v1/a", "1".repeat(5000));
    await swap([one]);
    const first = await cache.get("v1/a");
    assert(first !== undefined);
    assertEquals(first.held("br"), undefined);
    await Promise.all(Array.from({ length: 8 }, async () => {
      const response = await (await cache.get("v1/a"))?.response("br");
      assertEquals(response?.headers.get("content-encoding"), "br");
      await response?.body?.cancel();
    }));
    assert(first.held("br") !== undefined);
    // A sync that leaves the document alone.
    await swap([documentOf("v1/b", "2")]);
    assertEquals(cache.held("v1/a"), undefined);
    assertEquals(await cache.get("v1/a"), first);
    assertEquals(cache.held("v1/a"), first);
    await swap([documentOf("v1/a", "3")]);
    const changed = await cache.get("v1/a");
    assertEquals(await (await changed?.response("identity"))?.text(), "3");
    await swap([], ["v1/a"]);
    assertEquals(await cache.get("v1/a"), undefined);
  });
});

Deno.test("each answer of a document is a separate response", async () => {
  await withCache(async ({ cache, swap }) => {
    await swap([documentOf("v1/a", "text")]);
    const document = await cache.get("v1/a");
    for (let times = 0; times < 3; times++) {
      const response = await document?.response("identity");
      assertEquals(response?.headers.get("x-request-id"), null);
      response?.headers.set("x-request-id", "mine");
      assertEquals(await response?.text(), "text");
      document?.notModified("identity").headers.set("x-request-id", "mine");
      assertEquals(document?.notModified("identity").headers.get("x-request-id"), null);
    }
  });
});

Deno.test("the memory is limited, compressed copies included; recently requested documents stay", async () => {
  const size = 10_000;
  await withCache(async ({ cache, swap }) => {
    const paths = ["v1/a", "v1/b", "v1/c", "v1/d"];
    await swap(paths.map((path) => documentOf(path, path.repeat(size / 4))));
    for (const path of paths) {
      await cache.get("v1/a");
      assertEquals((await cache.get(path))?.lastModifiedMs, Date.parse(T0));
    }
    assertEquals(paths.map((path) => cache.held(path) !== undefined), [true, false, false, true]);
    // Compressed copies push others out as well.
    const last = await cache.get("v1/d");
    assert(last !== undefined);
    const before = last.bytes;
    await (await last.response("gzip")).body?.cancel();
    assert(last.bytes > before);
    for (const path of paths) await cache.get(path);
    assert(paths.filter((path) => cache.held(path) !== undefined).length <= 2);
  }, 2 * size + 5000);
});

Deno.test("a document larger than the whole memory is sent, but not kept", async () => {
  await withCache(async ({ cache, swap }) => {
    await swap([documentOf("v1/a", "x".repeat(5000))]);
    const document = await cache.get("v1/a");
    assertEquals((await (await document?.response("gzip"))?.bytes())?.byteLength !== 0, true);
    assertEquals(cache.held("v1/a"), undefined);
  }, 1000);
});

Deno.test("a copy is charged until it is neither kept nor used, and only once per version", async () => {
  const budget = openMemoryBudget();
  await withCache(
    async ({ cache, swap }) => {
      await swap([documentOf("v1/a", "a".repeat(6000)), documentOf("v1/b", "b".repeat(6000))]);
      const [one, ...others] = await Promise.all(
        Array.from({ length: 8 }, () => cache.get("v1/a")),
      );
      assert(one !== undefined && others.every((other) => other === one));
      assertEquals(budget.used("documents"), one.bytes);
      const release = one.hold();
      const other = await cache.get("v1/b");
      assert(other !== undefined);
      // The first one had to make room, and a caller still reads it.
      assertEquals(cache.held("v1/a"), undefined);
      assertEquals(budget.used("documents"), one.bytes + other.bytes);
      release();
      release();
      assertEquals(budget.used("documents"), other.bytes);
      await (await other.response("gzip")).body?.cancel();
      assertEquals(budget.used("documents"), other.bytes);
      assertEquals(await cache.get("v1/c"), undefined);
    },
    9000,
    budget,
  );
});

Deno.test("a document waits while slow callers hold too many others", async () => {
  const budget = openMemoryBudget();
  const rest = await budget.reserve("documents", ACCOUNTS.documents, "test");
  await withCache(
    async ({ cache, swap }) => {
      await swap([documentOf("v1/a", "text")]);
      let read = false;
      const waiting = cache.get("v1/a").finally(() => read = true);
      await swap([documentOf("v1/b", "other")]);
      assertEquals(read, false);
      rest.release();
      assertEquals(await (await (await waiting)?.response("identity"))?.text(), "text");
    },
    undefined,
    budget,
  );
});

Deno.test("the age is reported a day after the last comparison, or at once when the next one failed", async () => {
  await withCache(async ({ cache, record }) => {
    assertEquals(await cache.freshness(), {
      atMs: undefined,
      reportFromMs: Number.POSITIVE_INFINITY,
    });
    await record({ finished_at: T0 });
    const reported = async (ms: number) =>
      reportedAgeSeconds(await cache.freshness(), Date.parse(T0) + ms);
    assertEquals(await reported(STALE_MS - 1), undefined);
    assertEquals(await reported(STALE_MS), STALE_MS / 1000);
    assertEquals(cache.heldFreshness(), await cache.freshness());
    const failed = { outcome: "failed", finished_at: instantAfter(T0, 5000) } as const;
    await record({ ...failed, compared_at: instantAfter(T0, 1000) });
    assertEquals(cache.heldFreshness(), undefined);
    assertEquals([await reported(7900), await reported(0)], [6, undefined]);
    // A report of an earlier version does not say when it was.
    await record(failed);
    assertEquals(await reported(9000), 8);
  });
});

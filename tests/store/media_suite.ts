// The suite's part on the verified files of the host.

import { assertEquals } from "@std/assert";
import type { MediaDownload, MediaFile } from "../../src/store/media_store.ts";
import { jobOf, T0 } from "../support/job.ts";
import { create, finish, JOB, run, type Test } from "./store_case.ts";
import { at } from "../support/clocked_store.ts";

const LATER = "2026-11-21T12:00:00.000Z";

/** A digest that shows its number. */
export function hexOf(n: number, digits = 64): string {
  return String(n).repeat(digits);
}

/** A verified file, as the cache records it. */
export function fileOf(n: number, fields: Partial<MediaFile> = {}): MediaFile {
  return {
    sha256: hexOf(n),
    name: `file-${n}.iso`,
    path: null,
    size: 100 * n,
    source: "url",
    origin: `https://example.com/${n}`,
    label: `file ${n}`,
    level: "index",
    created_at: T0,
    last_used_at: T0,
    verified_at: T0,
    ...fields,
  };
}

function downloadOf(n: number, packed = "none"): MediaDownload {
  return { packed, sha256: hexOf(n), sha512: hexOf(n, 128) };
}

export function mediaTests(test: Test): void {
  test("a cached file is found by either digest of its download", async (store) => {
    const { media } = store;
    await media.keep(fileOf(1), downloadOf(2, "xz"));
    const found = { ...fileOf(1), download: downloadOf(2, "xz") };
    assertEquals(await media.find({ algorithm: "sha256", value: hexOf(2) }, "xz"), found);
    assertEquals(await media.find({ algorithm: "sha512", value: hexOf(2, 128) }, "xz"), found);
    assertEquals(await media.find({ algorithm: "sha256", value: hexOf(2) }, "none"), undefined);
    assertEquals(await media.find({ algorithm: "sha256", value: hexOf(1) }, "xz"), undefined);
    assertEquals(await media.get(hexOf(1)), fileOf(1));
    assertEquals(await media.get(hexOf(2)), undefined);
  });

  test("a file that is kept again keeps its age and the level that it has reached", async (store) => {
    const { media } = store;
    await media.keep(fileOf(1, { level: "vendor" }), downloadOf(1));
    await media.keep(fileOf(1, { created_at: LATER, last_used_at: LATER }), downloadOf(1));
    const kept = await media.get(hexOf(1));
    assertEquals([kept?.created_at, kept?.last_used_at, kept?.level], [T0, LATER, "vendor"]);
  });

  test("raise() never lowers a level", async (store) => {
    const { media } = store;
    await media.keep(fileOf(1));
    await media.raise(hexOf(1), "none");
    assertEquals((await media.get(hexOf(1)))?.level, "index");
    await media.raise(hexOf(1), "signature");
    await media.raise(hexOf(1), "vendor");
    assertEquals((await media.get(hexOf(1)))?.level, "signature");
    await media.raise(hexOf(7), "vendor");
  });

  test("unused() lists files of the cache that no unfinished job uses, oldest use first", async (store) => {
    const { media } = store;
    for (const n of [1, 2, 3]) await media.keep(fileOf(n));
    await media.keep(fileOf(4, { path: "/media/4.iso", source: "path" }));
    const job = await run(store);
    assertEquals(await media.use(hexOf(1), LATER, JOB), true);
    await media.use(hexOf(2), LATER);
    const names = async () => (await media.unused()).map(({ name }) => name);
    assertEquals(await names(), ["file-3.iso", "file-2.iso"]);
    assertEquals(await media.users(hexOf(1)), [JOB]);
    assertEquals(await media.bytes(), 600);
    await finish(store, job);
    assertEquals(await names(), ["file-3.iso", "file-1.iso", "file-2.iso"]);
    assertEquals(await media.users(hexOf(1)), []);
    assertEquals((await media.list()).map(({ name }) => name).slice(0, 2), [
      "file-1.iso",
      "file-2.iso",
    ]);
  });

  test("remove() leaves a file that is in use, unless it is damaged", async (store) => {
    const { media } = store;
    await media.keep(fileOf(1), downloadOf(1));
    await create(store, jobOf(1));
    await media.use(hexOf(1), T0, JOB);
    await media.use(hexOf(1), T0, JOB);
    assertEquals(await media.remove(hexOf(1)), "in_use");
    assertEquals(await media.remove(hexOf(1), true), "removed");
    assertEquals(await media.remove(hexOf(1)), "not_found");
    assertEquals(await media.find({ algorithm: "sha256", value: hexOf(1) }, "none"), undefined);
    assertEquals(await media.use(hexOf(1), T0, JOB), false);
  });

  test("a file is kept after the jobs that used it", async (store) => {
    const { media } = store;
    await media.keep(fileOf(1));
    const job = await run(store);
    await media.use(hexOf(1), T0, JOB);
    await finish(store, job);
    const all = { age_ms: null, finished_max: 0, limit: 10 };
    assertEquals(await at(store, LATER).jobs.prune(all), 1);
    assertEquals((await media.get(hexOf(1)))?.name, "file-1.iso");
  });
}

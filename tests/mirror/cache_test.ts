import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { dirname, join } from "@std/path";
import type { JobUuid } from "../../src/domain/id.ts";
import type { Store } from "../../src/store/store.ts";
import { jobOf, RUNNER } from "../support/job.ts";
import { type TestMirror, withMirror } from "./test_mirror.ts";
import { artifact, digestsOf, namesIn, PATH, patterned, rejection, sizeOf } from "./vendor_file.ts";
import { claimJobs } from "../support/clocked_store.ts";
import { NO_LIMIT } from "../support/limits.ts";

const SIZE = 100_000;
const BODIES = [11, 12, 13, 14].map((seed) => patterned(SIZE, seed));

/** Serves file n and downloads it. */
async function fetched(
  { server, mirror }: TestMirror,
  n: number,
  options: Parameters<typeof mirror.download>[1] = {},
  by = mirror,
) {
  const body = BODIES[n] ?? new Uint8Array();
  server.files.set(`file-${n}`, { body });
  return await by.download(await artifact(`${server.url}/file-${n}`, { body }), options);
}

/** A job that is not finished. */
async function newJob(store: Store, n: number): Promise<JobUuid> {
  const job = jobOf(n);
  await store.jobs.create(job, NO_LIMIT);
  return job.uuid;
}

async function end(store: Store, uuid: JobUuid): Promise<void> {
  await store.jobs.cancel(uuid);
}

Deno.test("a refusal names the cache folder that cannot be created, and why", () =>
  withMirror(async (test) => {
    await Deno.writeTextFile(test.cacheDir, "in the way");
    const { code, message } = await rejection(fetched(test, 0));
    assertEquals(code, "conflict");
    assertStringIncludes(message, `Cannot keep media in ${test.cacheDir}: not a directory`);
  }));

Deno.test("the cache removes the least recently used files when it would exceed its limit", async () => {
  await withMirror(async (test) => {
    const { store, clock, again } = test;
    const bounded = again({ cacheBytesMax: 2.5 * SIZE });
    const media = [];
    for (const n of [0, 1]) {
      clock.now = `2026-11-20T12:0${n}:00.000Z`;
      media.push(await fetched(test, n, {}, bounded));
    }
    // Used again, the first one is the newer one.
    clock.now = "2026-11-20T12:05:00.000Z";
    await fetched(test, 0, {}, bounded);
    const third = await fetched(test, 2, {}, bounded);
    const left = (await store.media.list()).map(({ sha256 }) => sha256).sort();
    assertEquals(left, [media[0]?.sha256 ?? "", third.sha256].sort());
    assertEquals(await sizeOf(media[1]?.path ?? ""), undefined);
    assertEquals(await sizeOf(third.path), SIZE);
  });
});

Deno.test("the cache never removes a file of an unfinished job, also after a restart", async () => {
  await withMirror(async (test) => {
    const { store, again } = test;
    const job = await newJob(store, 1);
    const bounded = () => again({ cacheBytesMax: 2.5 * SIZE });
    const used = await fetched(test, 0, { job }, bounded());
    const both = await fetched(test, 1, { job }, bounded());
    const error = await rejection(fetched(test, 2, {}, bounded()));
    assertEquals(error.code, "storage_full");
    assertStringIncludes(error.message, `the cache has ${2 * SIZE} bytes in use`);
    assertEquals([await sizeOf(used.path), await sizeOf(both.path)], [SIZE, SIZE]);
    await end(store, job);
    await fetched(test, 2, {}, bounded());
    assertEquals((await store.media.list()).length, 2);
  });
});

Deno.test("the cache refuses a file that is larger than itself before it is downloaded", async () => {
  await withMirror(async (test) => {
    const error = await rejection(fetched(test, 0, {}, test.again({ cacheBytesMax: SIZE - 1 })));
    assertEquals(error.code, "storage_full");
    assertStringIncludes(
      error.message,
      `it has ${SIZE} bytes, the cache holds at most ${SIZE - 1}`,
    );
    assertEquals(test.server.requests, []);
  });
});

Deno.test("two downloads that fit one by one do not exceed the limit together", async () => {
  await withMirror(async (test) => {
    const bounded = test.again({ cacheBytesMax: 1.5 * SIZE });
    const both = await Promise.allSettled([
      fetched(test, 0, {}, bounded),
      fetched(test, 1, {}, bounded),
    ]);
    // The second is refused, or comes so late that the first one may go.
    assert(both.some(({ status }) => status === "fulfilled"));
    assert(await test.store.media.bytes() <= 1.5 * SIZE);
  });
});

Deno.test("the cache is known by digests: another name or address for the same bytes is no download", async () => {
  await withMirror(async (test) => {
    const { mirror, server } = test;
    const first = await fetched(test, 0);
    const [sha256, sha512] = await digestsOf(BODIES[0] ?? new Uint8Array());
    for (const digest of [sha256, sha512]) {
      const medium = await mirror.downloadUrl(`${server.url}/elsewhere.iso`, digest);
      assertEquals([medium.path, medium.name], [first.path, "elsewhere.iso"]);
    }
    assertEquals(server.requests.length, 1);
  });
});

Deno.test("the cache downloads again to compare a SHA-512 that it has not seen", async () => {
  await withMirror(async ({ mirror, server }) => {
    const body = BODIES[0] ?? new Uint8Array();
    server.files.set(PATH, { body });
    const url = `${server.url}/${PATH}`;
    const [sha256, sha512] = await digestsOf(body);
    const first = await mirror.downloadUrl(url, sha256);
    const wrong = { ...sha512, value: "0".repeat(128) };
    const error = await rejection(mirror.downloadUrl(url, sha256, { digest: wrong }));
    assertEquals(error.code, "digest_mismatch");
    const again = await mirror.downloadUrl(url, sha256, { digest: sha512 });
    assertEquals([again, server.countOf(PATH)], [first, 3]);
    // The agent knows the file from now on.
    assertEquals((await mirror.downloadUrl(url, sha512)).path, first.path);
    assertEquals(server.countOf(PATH), 3);
  });
});

Deno.test("the cache forgets what a crash has left without its record, and keeps the rest", async () => {
  await withMirror(async (test) => {
    const { cacheDir, again } = test;
    const medium = await fetched(test, 0);
    const orphan = join(cacheDir, `sha256-${"0".repeat(64)}`);
    await Deno.mkdir(orphan);
    await Deno.writeTextFile(join(orphan, "disk.raw"), "x");
    await Deno.mkdir(join(cacheDir, "other"));
    await fetched(test, 1, {}, again());
    const names = await namesIn(cacheDir);
    assertEquals(names.includes(`sha256-${"0".repeat(64)}`), false);
    assertEquals([names.includes("other"), await sizeOf(medium.path)], [true, SIZE]);
  });
});

Deno.test("a cache that could not be looked through at first is looked through by the next download", async () => {
  await withMirror(async (test) => {
    const { store, again } = test;
    let failures = 1;
    const list = () => {
      if (failures-- > 0) return Promise.reject(new Error("the store is busy"));
      return store.media.list();
    };
    const by = again({ media: { ...store.media, list } });
    await assertRejects(() => fetched(test, 0, {}, by), Error, "the store is busy");
    await fetched(test, 0, {}, by);
  });
});

Deno.test("verify() reads a file again, and removes one that is damaged", async () => {
  await withMirror(async (test) => {
    const { mirror, store, clock } = test;
    const medium = await fetched(test, 0);
    clock.now = "2026-11-21T12:00:00.000Z";
    const seen: number[] = [];
    const again = await mirror.files.verify(medium.sha256, { onProgress: (n) => seen.push(n) });
    assertEquals({ ...again, source: medium.source }, medium);
    assertEquals(seen.at(-1), SIZE);
    assertEquals((await store.media.get(medium.sha256))?.verified_at, clock.now);
    await Deno.chmod(medium.path, 0o644);
    const bytes = await Deno.readFile(medium.path);
    bytes[5] = (bytes[5] ?? 0) ^ 1;
    await Deno.writeFile(medium.path, bytes);
    const error = await rejection(mirror.files.verify(medium.sha256));
    assertEquals(error.code, "digest_mismatch");
    assertEquals([await sizeOf(medium.path), (await store.media.list()).length], [undefined, 0]);
    assertEquals((await rejection(mirror.files.verify(medium.sha256))).code, "not_found");
    // What is gone is downloaded again.
    assertEquals((await fetched(test, 0)).sha256, medium.sha256);
  });
});

Deno.test("verify() of a file that was removed by hand forgets it", async () => {
  await withMirror(async (test) => {
    const medium = await fetched(test, 0);
    await Deno.remove(dirname(medium.path), { recursive: true });
    const error = await rejection(test.mirror.files.verify(medium.sha256));
    assertStringIncludes(error.message, "its file is gone");
    assertEquals(await test.store.media.list(), []);
  });
});

Deno.test("remove() refuses what an unfinished job uses, and says which", async () => {
  await withMirror(async (test) => {
    const { mirror, store } = test;
    const job = await newJob(store, 1);
    const medium = await fetched(test, 0, { job });
    const error = await rejection(mirror.files.remove(medium.sha256));
    assertEquals(error.code, "conflict");
    assertStringIncludes(error.message, job);
    assertEquals((await mirror.files.get(medium.sha256)).used_by, [job]);
    await end(store, job);
    await mirror.files.remove(medium.sha256);
    assertEquals(await sizeOf(medium.path), undefined);
    assertEquals((await rejection(mirror.files.remove(medium.sha256))).code, "not_found");
  });
});

Deno.test("note() records a file of the operator, and remove() never deletes that file", async () => {
  await withMirror(async (test) => {
    const { mirror, store, cacheDir } = test;
    const path = `${cacheDir}-operator.iso`;
    const body = BODIES[0] ?? new Uint8Array();
    await Deno.writeFile(path, body);
    const [{ value: sha256 }] = await digestsOf(body);
    const source = "path" as const;
    const reported = { source, path, name: "a.iso", size: SIZE, sha256, label: "a", level: "none" };
    await mirror.files.note({ ...reported, level: "none" });
    assertEquals((await mirror.files.list()).map((file) => file.path), [path]);
    assertEquals(await store.media.bytes(), 0);
    await mirror.files.remove(sha256);
    assertEquals(await sizeOf(path), SIZE);
    // Damaged, it is forgotten and left where it is.
    await mirror.files.note({ ...reported, level: "none" });
    await Deno.writeFile(path, new Uint8Array(SIZE));
    assertEquals((await rejection(mirror.files.verify(sha256))).code, "digest_mismatch");
    assertEquals([await sizeOf(path), (await mirror.files.list()).length], [SIZE, 0]);
  });
});

Deno.test("a file is in use by a job that runs while others come and go", async () => {
  await withMirror(async (test) => {
    const { store, again } = test;
    await store.jobs.create({ ...jobOf(1), target: null }, NO_LIMIT);
    const [running] = await claimJobs(store, RUNNER, 1);
    assert(running !== undefined);
    const small = again({ cacheBytesMax: 1.5 * SIZE });
    const medium = await fetched(test, 0, { job: running.uuid }, small);
    for (const n of [1, 2, 3]) {
      assertEquals((await rejection(fetched(test, n, {}, small))).code, "storage_full");
    }
    assertEquals(await sizeOf(medium.path), SIZE);
  });
});

// The ways in which a server fails a download, each with what becomes of it: the right file in the
// end, or a refusal, and never other bytes.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import type { Location } from "../../src/domain/index/artifact.ts";
import { FREE_BYTES_MIN } from "../../src/mirror/media/disk.ts";
import { TRIES_MAX } from "../../src/mirror/web/retry.ts";
import { STALL_BYTES, systemWait } from "../../src/mirror/web/time_limits.ts";
import type { Fault, ServedFile } from "./index_server.ts";
import { type TestMirror, withMirror } from "./test_mirror.ts";
import { artifact, gzip, hashed, ISO, namesIn, PATH, patterned, rejection } from "./vendor_file.ts";

interface Case {
  readonly name: string;
  readonly file?: Partial<ServedFile>;
  readonly faults?: readonly Fault[];
  /** Words of the refusal; without them the file comes whole. */
  readonly refused?: string;
  /** Milliseconds that were waited between tries. */
  readonly waits?: readonly number[];
  readonly requests?: number;
}

const times = (count: number, fault: Fault): Fault[] => Array(count).fill(fault);
const ALWAYS = TRIES_MAX;
const MIB = 1024 * 1024;

const CASES: readonly Case[] = [
  { name: "a cut in the middle", faults: [{ kind: "cut", after: 150_000 }], requests: 2 },
  { name: "a cut before the first byte", faults: [{ kind: "cut", after: 0 }], requests: 2 },
  {
    name: "a cut at every try, further each time",
    faults: times(2, { kind: "cut", after: 90_000 }),
    requests: 3,
  },
  {
    name: "cuts without end",
    file: { ignoresRanges: true },
    faults: times(ALWAYS, { kind: "cut", after: 90_000 }),
    refused: "Cannot download",
  },
  { name: "500 once", faults: [{ kind: "status", status: 500 }], waits: [1000] },
  { name: "502 and 504", faults: [502, 504].map((status) => ({ kind: "status", status })) },
  {
    name: "503 with a time",
    faults: [{ kind: "status", status: 503, headers: { "retry-after": "7" } }],
    waits: [7000],
  },
  {
    name: "429 with a time beyond ours",
    faults: [{ kind: "status", status: 429, headers: { "retry-after": "3600" } }],
    refused: "the server answered 429",
    requests: 1,
  },
  {
    name: "429 without end",
    faults: times(ALWAYS, { kind: "status", status: 429 }),
    refused: "the server answered 429",
  },
  {
    name: "403",
    faults: [{ kind: "status", status: 403 }],
    refused: "the server answered 403",
    requests: 1,
  },
  {
    name: "a redirect to itself",
    faults: times(6, { kind: "redirect", to: `/${PATH}` }),
    refused: "it redirects over 5 times",
  },
  {
    name: "a redirect to a place that is not there",
    faults: [{ kind: "redirect", to: "/gone" }],
    refused: "404",
  },
  {
    name: "a redirect without an address",
    faults: [{ kind: "status", status: 302 }],
    refused: "without an address",
  },
  {
    name: "a page with status 200",
    file: { body: new TextEncoder().encode("<html>out of order</html>") },
    refused: "expected 300000",
  },
  { name: "a byte too few", file: { body: ISO.subarray(0, -1) }, refused: "expected 300000" },
  {
    name: "a byte too many",
    file: { body: new Uint8Array([...ISO, 0]) },
    refused: "expected 300000",
  },
  {
    name: "other bytes of the same length",
    file: { body: patterned(300_000, 6) },
    refused: "its sha",
  },
  {
    name: "416 to a part that was there",
    faults: [{ kind: "cut", after: 100_000 }, { kind: "status", status: 416 }],
    requests: 3,
  },
  {
    name: "an unknown length",
    file: { headers: { "content-length": "" } },
  },
  { name: "no entity tag", file: { etag: "" }, faults: [{ kind: "cut", after: 100_000 }] },
];

async function assertCase(test: TestMirror, one: Case): Promise<void> {
  const { mirror, server, waits, cacheDir } = test;
  server.files.set(PATH, { body: ISO, etag: '"one"', ...one.file });
  server.faults.set(PATH, [...one.faults ?? []]);
  const found = await artifact(`${server.url}/${PATH}`);
  if (one.refused === undefined) {
    const medium = await mirror.download(found);
    assertEquals(medium.sha256, await hashed("SHA-256", await Deno.readFile(medium.path)));
    assertEquals(medium.sha256, await hashed("SHA-256", ISO));
  } else {
    const error = await rejection(mirror.download(found));
    assertStringIncludes(error.message, one.refused);
    assertEquals((await namesIn(cacheDir)).filter((name) => name.startsWith("sha256-")), []);
  }
  if (one.waits !== undefined) assertEquals(waits, [...one.waits]);
  if (one.requests !== undefined) assertEquals(server.countOf(PATH), one.requests);
}

for (const one of CASES) {
  Deno.test(`download() survives ${one.name}`, async () => {
    await withMirror((test) => assertCase(test, one));
  });
}

Deno.test("download() goes on however often it is cut, while each try gets further", async () => {
  await withMirror(async ({ mirror, server }) => {
    const body = patterned(11 * MIB, 4);
    server.files.set(PATH, { body, etag: '"one"' });
    const ends = [2, 4, 6, 8, 10].map((mib) => mib * MIB);
    server.faults.set(PATH, ends.map((after) => ({ kind: "cut", after })));
    const medium = await mirror.download(await artifact(`${server.url}/${PATH}`, { body }));
    assertEquals(await hashed("SHA-256", await Deno.readFile(medium.path)), medium.sha256);
    assertEquals(server.countOf(PATH), ends.length + 1);
  });
});

Deno.test("download() from a server that cannot resume is not started again without end", async () => {
  await withMirror(async ({ mirror, server }) => {
    const body = patterned(3 * MIB, 4);
    server.files.set(PATH, { body, ignoresRanges: true });
    server.faults.set(PATH, times(9, { kind: "cut", after: 2 * MIB }));
    await rejection(mirror.download(await artifact(`${server.url}/${PATH}`, { body })));
    // The first one brought something new.
    assertEquals(server.countOf(PATH), TRIES_MAX);
  });
});

Deno.test("download() gives up a server that stalls, and goes on with the next location", async () => {
  const times = { answerMs: 20_000, idleMs: 20_000, documentMs: 120_000, stallMs: 1000 };
  await withMirror(async ({ mirror, server }) => {
    server.files.set("slow/disk.raw", { body: ISO, etag: '"one"' });
    server.files.set("good/disk.raw", { body: ISO });
    server.faults.set(
      "slow/disk.raw",
      Array(TRIES_MAX).fill({ kind: "stall", after: STALL_BYTES - 1 }),
    );
    const at = (path: string, kind: Location["kind"]): Location => ({
      url: `${server.url}/${path}`,
      kind,
      redirects_off_host: null,
    });
    const locations = [at("slow/disk.raw", "primary"), at("good/disk.raw", "mirror")];
    const medium = await mirror.download(await artifact("", { locations }));
    assertEquals(await Deno.readFile(medium.path), ISO);
    assertEquals(server.countOf("good/disk.raw"), 1);
  }, { times });
});

Deno.test("download() names a server that does not answer at all", async () => {
  await withMirror(async ({ mirror, server }) => {
    server.faults.set(PATH, Array(TRIES_MAX).fill({ kind: "silent" }));
    const error = await rejection(mirror.download(await artifact(`${server.url}/${PATH}`)));
    assertEquals(error.code, "timeout");
  }, { times: { answerMs: 200, idleMs: 20_000, documentMs: 120_000, stallMs: 20_000 } });
});

Deno.test("download() of a disk that fills up fails with its cause, and leaves no part behind", async () => {
  let free = FREE_BYTES_MIN + ISO.byteLength;
  await withMirror(async ({ mirror, server, cacheDir }) => {
    const body = await gzip(patterned(100_000, 3));
    server.files.set(PATH, { body });
    const found = await artifact(`${server.url}/${PATH}`, { body });
    free = FREE_BYTES_MIN + body.byteLength - 1;
    const error = await rejection(mirror.download(found));
    assertEquals(error.code, "storage_full");
    assertStringIncludes(error.message, " in reserve");
    assertEquals(await namesIn(join(cacheDir, "partial")), []);
    free = FREE_BYTES_MIN + body.byteLength;
    await mirror.download(found);
  }, { freeBytes: () => Promise.resolve(free) });
});

Deno.test("download() reads no more bytes from the network than its limit", async () => {
  let clockMs = 0;
  const waited: number[] = [];
  await withMirror(async ({ mirror, server }) => {
    server.files.set(PATH, { body: ISO });
    await mirror.download(await artifact(`${server.url}/${PATH}`));
    // 300,000 bytes at 100,000 a second, of which the first second is a burst.
    const total = waited.reduce((sum, ms) => sum + ms, 0);
    assert(Math.abs(total - 2000) < 1, `${total} ms were waited`);
  }, {
    bytesPerSecond: 100_000,
    monotonicMs: () => clockMs,
    wait: (ms) => {
      waited.push(ms);
      clockMs += ms;
      return Promise.resolve();
    },
  });
});

Deno.test("download() does not count its own waits as a stall of the server", async () => {
  const times = { answerMs: 20_000, idleMs: 20_000, documentMs: 120_000, stallMs: 1000 };
  let waits = 0;
  await withMirror(async ({ mirror, server }) => {
    server.files.set(PATH, { body: ISO });
    await mirror.download(await artifact(`${server.url}/${PATH}`));
    assertEquals([waits, server.countOf(PATH)], [1, 1]);
  }, {
    times,
    // Only the last part is over the burst of the first second.
    bytesPerSecond: ISO.byteLength - 1,
    monotonicMs: () => 0,
    wait: (_ms, signal) => {
      waits += 1;
      return systemWait(2 * times.stallMs, signal);
    },
  });
});

Deno.test("download() of one file for many callers asks once, whatever check each requires", async () => {
  await withMirror(async ({ mirror, server, store }) => {
    server.files.set(PATH, { body: ISO });
    const found = await artifact(`${server.url}/${PATH}`);
    const media = await Promise.all(Array.from({ length: 16 }, () => mirror.download(found)));
    assertEquals(new Set(media.map(({ path }) => path)).size, 1);
    assertEquals([server.countOf(PATH), (await store.media.list()).length], [1, 1]);
  });
});

// Packed files that get nowhere, or grow without end: each is refused in plain words, a cancel ends its
// decoder at once, and nothing of it stays on the disk.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import type { PackedAs } from "../../src/domain/machine/media.ts";
import { until } from "../support/until.ts";
import {
  emptyBzip2Streams,
  emptyGzipMembers,
  emptyXzStreams,
  emptyZstdBlocks,
  emptyZstdFrames,
  growingBzip2,
  skippedZstdFrames,
} from "./hostile_files.ts";
import { withMirror } from "./test_mirror.ts";
import { artifact, namesIn, rejection } from "./vendor_file.ts";

const BOMB = Deno.readFileSync(
  fromFileUrl(new URL("../fixtures/packed/bomb.bz2", import.meta.url)),
);
const MEBI = 1024 * 1024;

const NOWHERE: readonly (readonly [string, PackedAs, () => Uint8Array])[] = [
  ["a million empty frames", "zstd", () => emptyZstdFrames(1_000_000)],
  ["frames to be passed over", "zstd", () => skippedZstdFrames(MEBI)],
  ["a frame of empty blocks", "zstd", () => emptyZstdBlocks(2 * MEBI)],
  ["empty members", "gzip", () => emptyGzipMembers(MEBI / 2)],
  ["empty streams", "xz", () => emptyXzStreams(MEBI / 2)],
  ["empty streams", "bzip2", () => emptyBzip2Streams(MEBI / 2)],
];

for (const [name, compression, make] of NOWHERE) {
  Deno.test(`download() of ${compression} of ${name} is refused, and leaves nothing`, async () => {
    await withMirror(async ({ mirror, server, cacheDir }) => {
      const body = make();
      server.files.set("disk.raw", { body });
      const found = await artifact(`${server.url}/disk.raw`, { body, compression });
      const error = await rejection(mirror.download(found));
      assertEquals(error.code, "upstream");
      assertStringIncludes(error.message, "it makes no progress");
      assertEquals((await namesIn(join(cacheDir, "partial"))).filter(isOutput), []);
    });
  });
}

Deno.test("download() that is given up ends the decoder, and removes what it has written", async () => {
  await withMirror(async ({ mirror, server, cacheDir, decoders }) => {
    const body = growingBzip2(BOMB, 2000);
    server.files.set("disk.raw", { body });
    const found = await artifact(`${server.url}/disk.raw`, { body, compression: "bzip2" });
    const giveUp = new AbortController();
    let unpacked = 0;
    const download = mirror.download(found, {
      signal: giveUp.signal,
      onProgress(done, _total, phase) {
        if (phase === "decompress") unpacked = done;
      },
    });
    const outcome = rejection(download);
    await until("something to be unpacked", () => unpacked > 0);
    const pids = decoders.pids();
    giveUp.abort();
    assertEquals((await outcome).code, "aborted");
    await until(
      "the decoder to be gone",
      () => pids.some((pid) => !decoders.pids().includes(pid)),
    );
    const folder = join(cacheDir, "partial");
    await until("the output to be gone", async () => !(await namesIn(folder)).some(isOutput));
    assert(unpacked < 256 * MEBI, `${unpacked} bytes`);
  });
});

Deno.test("what a killed agent had unpacked is removed by the next one", async () => {
  await withMirror(async ({ mirror, again, server, cacheDir }) => {
    const body = new TextEncoder().encode("medium");
    server.files.set("disk.raw", { body });
    const found = await artifact(`${server.url}/disk.raw`, { body });
    await mirror.download(found);
    await Deno.writeTextFile(join(cacheDir, "partial", "sha256-aa-ungzip.out"), "left");
    await again().download(found);
    assertEquals(await namesIn(join(cacheDir, "partial")), []);
  });
});

function isOutput(name: string): boolean {
  return name.endsWith(".out");
}

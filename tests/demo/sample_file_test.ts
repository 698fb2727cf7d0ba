import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { contentOf, digestsOf } from "../../src/simulator/outside/iso9660.ts";
import {
  SAMPLE_ISO,
  sampleDisk,
  sampleFiles,
  sampleIso,
} from "../../src/simulator/outside/sample_file.ts";
import { AgentError } from "../../src/domain/error.ts";
import { programTest } from "../support/program.ts";
import { withFolder } from "../support/until.ts";
import { readIso, readOpenFile } from "./iso_reader.ts";

const MIB = 1 << 20;

async function writeIso(path: string, bytes: number): Promise<void> {
  using file = await Deno.open(path, { write: true, create: true });
  const writer = file.writable.getWriter();
  for (const chunk of sampleIso(bytes).chunks()) await writer.write(chunk);
  writer.releaseLock();
}

Deno.test("sampleIso() has exactly the size asked for", () => {
  for (const bytes of [MIB, 8 * MIB, 8 * MIB + 2048]) {
    let made = 0;
    for (const chunk of sampleIso(bytes).chunks()) made += chunk.length;
    assertEquals([made, sampleIso(bytes).size], [bytes, bytes]);
  }
});

Deno.test("sampleIso() gives the same bytes on every machine and every run", async () => {
  // Pinned: when the medium is changed on purpose, this digest changes with it.
  const pinned = "983d2964f674bf2e4b23211fa8e63bb37d117de22b647621fd534fea8d288773";
  assertEquals((await digestsOf(sampleIso(8 * MIB).chunks())).sha256, pinned);
});

Deno.test("sampleIso() of 120 MiB is read back from its file", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/large.iso`;
    await writeIso(path, 120 * MIB);
    using file = await Deno.open(path);
    assertEquals((await file.stat()).size, 120 * MIB);
    const iso = readIso(readOpenFile(file));
    assertEquals([iso.volume, iso.size], ["ZONEWRIGHT_SAMPLE", 120 * MIB]);
    const readme = new TextDecoder().decode(iso.files.get("/README.TXT")?.read());
    assert(readme.includes("Nothing is\r\ninstalled by it"));
    assertEquals(iso.files.get("/BOOT/BOOT.BIN")?.read().slice(510), new Uint8Array([0x55, 0xaa]));
    const padding = iso.files.get("/PADDING.BIN");
    assert(padding !== undefined && padding.size > 119 * MIB);
    assertEquals((padding.sector + Math.ceil(padding.size / 2048)) * 2048, 120 * MIB);
  });
});

Deno.test("sampleIso() refuses sizes that it cannot make", () => {
  for (const bytes of [0, MIB - 2048, 8 * MIB + 1, 2 ** 32, -2048, Number.NaN, 2048.5]) {
    const error = assertThrows(() => sampleIso(bytes), AgentError);
    assertEquals(error.code, "invalid_argument", String(bytes));
  }
});

Deno.test("sampleDisk() is a gzip file of a disk whose first sector boots", async () => {
  const packed = await sampleDisk("a title");
  const raw = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const disk = new Uint8Array(await new Response(raw).arrayBuffer());
  assertEquals(disk.length, MIB);
  assertEquals([...disk.subarray(510, 512)], [0x55, 0xaa]);
  assert(new TextDecoder().decode(disk.subarray(0, 512)).includes("a title\r\n"));
});

Deno.test("sampleFiles() gives size and both digests of every file", async () => {
  const files = await sampleFiles({ isoBytes: MIB });
  assertEquals(files[SAMPLE_ISO].content.size, MIB);
  for (const [path, { content, digests }] of Object.entries(files)) {
    const bytes = new Uint8Array(await new Blob([...content.chunks()]).arrayBuffer());
    assertEquals(bytes.length, content.size, path);
    assertEquals(await subtleHex("SHA-256", bytes), digests.sha256, path);
    assertEquals(await subtleHex("SHA-512", bytes), digests.sha512, path);
  }
});

Deno.test("digestsOf() stops when its signal is aborted", async () => {
  const chunks = function* () {
    for (let i = 0; i < 64; i += 1) yield new Uint8Array(MIB);
  };
  await assertRejects(
    () => digestsOf(chunks(), AbortSignal.abort(new Error("gave up"))),
    Error,
    "gave up",
  );
  const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  assertEquals((await digestsOf(contentOf(new Uint8Array()).chunks())).sha256, empty);
});

programTest(
  "xorriso",
  "xorriso reads the sample medium, its boot entry and its files",
  async () => {
    await withFolder(async (folder) => {
      await writeIso(`${folder}/sample.iso`, 8 * MIB);
      const { code, stdout, stderr } = await new Deno.Command("xorriso", {
        args: [
          ...["-indev", `${folder}/sample.iso`, "-report_el_torito", "plain"],
          ...["-osirrox", "on", "-extract", "/README.TXT", `${folder}/readme`],
        ],
        stdout: "piped",
        stderr: "piped",
      }).output();
      const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
      assertEquals(code, 0, err);
      assert(!/SORRY|FAILURE|FATAL|WARNING/.test(err ?? ""), err);
      const fields = (out ?? "").split("\n").map((line) => line.replace(/ +/g, " "));
      assert(fields.includes("El Torito boot img : 1 BIOS y none 0x0000 0x00 4 23"), out);
      assert(fields.includes("El Torito img path : 1 /BOOT/BOOT.BIN"), out);
      const readme = await Deno.readTextFile(`${folder}/readme`);
      assert(readme.startsWith("zonewright sample installation medium\r\n"));
    });
  },
);

async function subtleHex(algorithm: string, bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest(algorithm, bytes));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

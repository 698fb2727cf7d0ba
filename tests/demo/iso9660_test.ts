import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  type Content,
  contentOf,
  type IsoImage,
  isoImage,
} from "../../src/simulator/outside/iso9660.ts";
import { AgentError } from "../../src/domain/error.ts";
import { readIso, readMemory } from "./iso_reader.ts";

const TEXT = new TextEncoder();
const BASE: IsoImage = {
  volume: "TEST",
  date: "2026-02-03T04:05:06.780Z",
  boot: TEXT.encode("a program"),
  files: [],
};

function bytesOf(content: Content): Uint8Array<ArrayBuffer> {
  const chunks = [...content.chunks()];
  const bytes = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

function file(path: string, content: string) {
  return { path, content: contentOf(TEXT.encode(content)) };
}

Deno.test("isoImage() makes files that are found through the directories", () => {
  const files = [
    file("README.TXT", "read me"),
    file("B.TXT", ""),
    file("DOCS/LONG.TXT", "x".repeat(5000)),
    file("DOCS/A1.TXT", "a1"),
    file("DOCS/A.TXT", "a"),
    file("Z/EXACT.BIN", "y".repeat(2048)),
  ];
  const image = isoImage({ ...BASE, files });
  const bytes = bytesOf(image);
  const iso = readIso(readMemory(bytes));
  assertEquals(iso.volume, "TEST");
  assertEquals([image.size, iso.size], [bytes.length, bytes.length]);
  for (const { path, content } of files) {
    assertEquals(iso.files.get(`/${path}`)?.read(), bytesOf(content), path);
  }
  assertEquals(iso.files.size, files.length + 2);
});

Deno.test("isoImage() names its boot program in the catalog, unemulated, in whole sectors", () => {
  const bytes = bytesOf(isoImage({ ...BASE, files: [file("A.TXT", "a")] }));
  const iso = readIso(readMemory(bytes));
  const program = iso.files.get("/BOOT/BOOT.BIN");
  assertEquals(iso.boot, {
    platform: 0,
    media: 0,
    segment: 0,
    diskSectors: 4,
    sector: program?.sector ?? -1,
  });
  assertEquals(program?.read(), BASE.boot);
  assertEquals(iso.files.get("/BOOT/BOOT.CAT")?.size, 2048);
});

Deno.test("isoImage() never lets a directory record cross a sector", () => {
  const files = Array.from({ length: 150 }, (_, i) => file(`D/N${i}.TXT`, String(i)));
  const iso = readIso(readMemory(bytesOf(isoImage({ ...BASE, files }))));
  assertEquals(iso.files.size, 152);
  assertEquals(iso.files.get("/D/N149.TXT")?.read(), TEXT.encode("149"));
});

Deno.test("isoImage() makes the same bytes from the same input, with only its given date", () => {
  const image = { ...BASE, files: [file("A.TXT", "a")] };
  const bytes = bytesOf(isoImage(image));
  assertEquals(bytesOf(isoImage(image)), bytes);
  const created = new TextDecoder().decode(bytes.subarray(16 * 2048 + 813, 16 * 2048 + 830));
  assertEquals(created, "2026020304050678\0");
  assertEquals([...bytes.subarray(16 * 2048 + 156 + 18).slice(0, 7)], [126, 2, 3, 4, 5, 6, 0]);
});

Deno.test("isoImage() refuses names that are not of interchange level 1", () => {
  const wrong = [
    "readme.txt",
    "README",
    "TOOLONGNAME.TXT",
    "A.TEXT",
    "A/B/C.TXT",
    "/A.TXT",
    "",
    "../A.B",
  ];
  for (const path of wrong) {
    const error = assertThrows(() => isoImage({ ...BASE, files: [file(path, "")] }), AgentError);
    assertEquals(error.code, "invalid_argument", path);
  }
  assertThrows(() => isoImage({ ...BASE, volume: "small" }), AgentError, "volume name");
  assertThrows(() => isoImage({ ...BASE, volume: "V".repeat(33) }), AgentError, "volume name");
});

Deno.test("isoImage() refuses a repeated path, and one in the folder of the boot program", () => {
  const twice = [file("A.TXT", "1"), file("A.TXT", "2")];
  assertThrows(() => isoImage({ ...BASE, files: twice }), AgentError, "given twice");
  const inBoot = [file("BOOT/MORE.BIN", "")];
  assertThrows(() => isoImage({ ...BASE, files: inBoot }), AgentError, "boot program");
});

Deno.test("isoImage() refuses a boot program that is empty or larger than a sector", () => {
  for (const size of [0, 2049]) {
    assertThrows(
      () => isoImage({ ...BASE, boot: new Uint8Array(size) }),
      AgentError,
      `${size} bytes`,
    );
  }
});

Deno.test("isoImage() refuses a file too large for one extent", () => {
  const content: Content = { size: 2 ** 32, chunks: () => [] };
  assertThrows(
    () => isoImage({ ...BASE, files: [{ path: "A.BIN", content }] }),
    AgentError,
    "4294967295",
  );
});

Deno.test("isoImage() fails when a file does not have its size", () => {
  const content: Content = { size: 3, chunks: () => [new Uint8Array(2)] };
  const image = isoImage({ ...BASE, files: [{ path: "A.BIN", content }] });
  const error = assertThrows(() => bytesOf(image), AgentError, "A.BIN has 2 bytes, expected 3");
  assert(error.code === "internal");
});

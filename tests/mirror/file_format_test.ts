// What a file is by its first bytes, whatever its name promises.

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { AgentError } from "../../src/domain/error.ts";
import {
  HEAD_BYTES,
  lookAt,
  requireBootableAt,
  warningOf,
} from "../../src/mirror/media/file_format.ts";
import { isoBytes } from "../support/medium.ts";
import { withFolder } from "../support/until.ts";

function textBytes(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(HEAD_BYTES);
  bytes.set(Array.from(text, (character) => character.charCodeAt(0)));
  return bytes;
}

/** The first bytes of what vendors publish under any name. */
const MAGIC: readonly (readonly [kind: string, start: string])[] = [
  ["qcow2", "QFI\xfb\x00\x00\x00\x03"],
  ["vmdk", "KDMV\x01"],
  ["vmdk", "# Disk DescriptorFile\nversion=1"],
  ["vhdx", "vhdxfile"],
  ["gzip", "\x1f\x8b\x08"],
  ["xz", "\xfd7zXZ\x00\x00"],
  ["zstd", "\x28\xb5\x2f\xfd"],
  ["bzip2", "BZh91AY&SY"],
];

Deno.test("a disk image that begins as another format is refused by the format's name", async () => {
  await withFolder(async (folder) => {
    for (const [kind, start] of MAGIC) {
      for (const name of ["disk.img", "disk.RAW"]) {
        const path = join(folder, name);
        await Deno.writeFile(path, textBytes(start));
        const refused = () => requireBootableAt(path, name, "file disk");
        const error = await assertRejects(refused, AgentError);
        assertEquals(error.code, "invalid_argument");
        assertStringIncludes(error.message, `it is a ${kind} file, expected a raw disk image`);
      }
    }
  });
});

Deno.test("an .iso without CD001 is refused, and the error names its real format", async () => {
  await withFolder(async (folder) => {
    const path = join(folder, "a.iso");
    const misplaced = isoBytes(HEAD_BYTES).subarray(1);
    const rows: [Uint8Array<ArrayBuffer>, string][] = [
      [new Uint8Array(10), "found other bytes"],
      [new Uint8Array(HEAD_BYTES), "found other bytes"],
      [misplaced, "found other bytes"],
      ...MAGIC.map(([kind, start]): [Uint8Array<ArrayBuffer>, string] => [
        textBytes(start),
        `found a ${kind} file`,
      ]),
    ];
    for (const [bytes, words] of rows) {
      await Deno.writeFile(path, bytes);
      const error = await assertRejects(() => requireBootableAt(path, "a.iso", "it"), AgentError);
      assertStringIncludes(error.message, `expected CD001 at byte 32769, ${words}`);
    }
  });
});

Deno.test("an ISO is accepted, with a warning if it has no boot record", () => {
  const plain = lookAt("a.iso", isoBytes(HEAD_BYTES, false));
  assertEquals(plain, { kind: "iso", boot_record: false, problem: null });
  assertStringIncludes(warningOf("a.iso", plain) ?? "", "a.iso has no El Torito boot record");
  const bootable = lookAt("a.iso", isoBytes(HEAD_BYTES));
  assertEquals(bootable, { kind: "iso", boot_record: true, problem: null });
  assertEquals(warningOf("a.iso", bootable), undefined);
});

Deno.test("a raw disk of any content is accepted, and so is an ISO for USB sticks with the name of a disk", () => {
  const raw = { kind: "raw", boot_record: null, problem: null };
  assertEquals(lookAt("a.img", textBytes("\xeb\x63\x90")), raw);
  assertEquals(lookAt("a.img", new Uint8Array(1)), raw);
  assertEquals(lookAt("a.raw", isoBytes(HEAD_BYTES)).problem, null);
  assertStringIncludes(lookAt("a.qcow2", textBytes("QFI\xfb")).problem ?? "", "does not end in");
});

import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { bootSector } from "../../src/simulator/outside/sample_file.ts";
import { AgentError } from "../../src/domain/error.ts";

Deno.test("bootSector() has 512 bytes that begin with a jump and end with the signature", () => {
  const sector = bootSector(["one line"]);
  assertEquals(sector.length, 512);
  assertEquals([...sector.subarray(0, 5)], [0xea, 0x05, 0x7c, 0x00, 0x00]);
  assertEquals([...sector.subarray(510)], [0x55, 0xaa]);
});

Deno.test("bootSector() points at its lines, each ended by a line break, all by a zero", () => {
  const sector = bootSector(["first", "", "third"]);
  // mov si, text
  const at = sector.findIndex((byte, i) => byte === 0xbe && i === 0x16);
  const address = new DataView(sector.buffer).getUint16(at + 1, true) - 0x7c00;
  const end = sector.indexOf(0, address);
  const shown = new TextDecoder().decode(sector.subarray(address, end));
  assertEquals(shown, "first\r\n\r\nthird\r\n");
});

Deno.test("bootSector() leaves the place of a partition table empty", () => {
  const sector = bootSector(["x".repeat(79), "x".repeat(79), "x".repeat(79)]);
  assertEquals(sector.subarray(446, 510).some((byte) => byte !== 0), false);
});

Deno.test("bootSector() refuses lines that a screen cannot show", () => {
  for (const line of ["x".repeat(80), "tab\t", "bell\x07", "zero\0", "umlaut \u00fc"]) {
    const error = assertThrows(() => bootSector([line]), AgentError);
    assertEquals(error.code, "invalid_argument");
    assertStringIncludes(error.message, JSON.stringify(line));
  }
  assertThrows(() => bootSector(new Array(25).fill("")), AgentError, "found 25");
});

Deno.test("bootSector() refuses lines that do not fit into the sector", () => {
  const lines = new Array(6).fill("x".repeat(79));
  assertThrows(() => bootSector(lines), AgentError, "487 bytes, at most 404 fit");
});

import { assertEquals } from "@std/assert";
import { parseByteRange } from "../../src/simulator/outside/upstream.ts";

Deno.test("parseByteRange() reads one range and bounds it by the size", () => {
  const part = (first: number, last: number) => ({ kind: "part", first, last }) as const;
  assertEquals(parseByteRange("bytes=0-0", 10), part(0, 0));
  assertEquals(parseByteRange("bytes=4-", 10), part(4, 9));
  assertEquals(parseByteRange("bytes=4-99", 10), part(4, 9));
  assertEquals(parseByteRange("bytes=-3", 10), part(7, 9));
  assertEquals(parseByteRange("bytes=-99", 10), part(0, 9));
  assertEquals(parseByteRange("BYTES = 1-2", 10), part(1, 2));
});

Deno.test("parseByteRange() finds a range beyond the end unsatisfiable", () => {
  assertEquals(parseByteRange("bytes=10-", 10).kind, "unsatisfiable");
  assertEquals(parseByteRange("bytes=10-12", 10).kind, "unsatisfiable");
  assertEquals(parseByteRange("bytes=-0", 10).kind, "unsatisfiable");
});

Deno.test("parseByteRange() answers unreadable ranges with the whole file", () => {
  for (
    const header of [null, "", "bytes=-", "bytes=5-4", "bytes=0-1,3-4", "lines=0-1", "bytes=x-y"]
  ) {
    assertEquals(parseByteRange(header, 10).kind, "whole", String(header));
  }
});

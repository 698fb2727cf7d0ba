// The framing: lines over a byte stream, however the bytes arrive.

import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { type ByteSource, openLineWriter, readLines, writeAll } from "../../src/wall/lines.ts";
import { until } from "../support/until.ts";

/** A stream that gives the chunks as they are. */
function source(chunks: readonly Uint8Array[]): ByteSource {
  const left = [...chunks];
  return {
    read(buffer) {
      const chunk = left.shift();
      if (chunk !== undefined) buffer.set(chunk);
      return Promise.resolve(chunk?.length ?? null);
    },
  };
}

const encode = (text: string) => new TextEncoder().encode(text);

function collect(chunks: readonly Uint8Array[], bytesMax = 1000): Promise<string[]> {
  return Array.fromAsync(readLines(source(chunks), bytesMax));
}

Deno.test("readLines() joins what arrives in pieces", async () => {
  assertEquals(await collect(["a", "b\nc", "d\n\ne\n"].map(encode)), ["ab", "cd", "", "e"]);
});

Deno.test("readLines() gives the same lines however the bytes are cut", async () => {
  const line = fc.string({ unit: "grapheme" }).filter((text) => !text.includes("\n"));
  await fc.assert(fc.asyncProperty(
    fc.array(line, { maxLength: 8 }),
    fc.integer({ min: 1, max: 7 }),
    async (lines, size) => {
      const bytes = encode(lines.map((line) => `${line}\n`).join(""));
      const chunks = [];
      for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.subarray(at, at + size));
      assertEquals(await collect(chunks), lines);
    },
  ));
});

Deno.test("readLines() holds no more of a line that comes byte by byte than its bytes", async () => {
  const bytes = 1_000_000;
  let left = bytes;
  const before = Deno.memoryUsage().heapUsed;
  let heldBytes = 0;
  const byteByByte: ByteSource = {
    read(buffer) {
      if (left === 0) heldBytes = Deno.memoryUsage().heapUsed - before;
      buffer[0] = left === 0 ? 10 : 97;
      left -= 1;
      return Promise.resolve(left < -1 ? null : 1);
    },
  };
  const lines = await Array.fromAsync(readLines(byteByByte, bytes));
  assertEquals(lines.map(({ length }) => length), [bytes]);
  // An object for each byte would be a hundred times as much.
  assert(heldBytes < 50 * bytes, `${heldBytes} bytes`);
});

Deno.test("readLines() drops a last line that was not finished", async () => {
  assertEquals(await collect([encode("a\nb")]), ["a"]);
});

Deno.test("readLines() refuses a line over its limit, finished or not", async () => {
  assertEquals(await collect([encode("12345\n")], 5), ["12345"]);
  await assertRejects(() => collect([encode("123456\n")], 5), RangeError, "longer than 5 bytes");
  await assertRejects(() => collect([encode("123"), encode("456")], 5), RangeError);
});

Deno.test("readLines() refuses bytes that are not UTF-8", async () => {
  await assertRejects(() => collect([new Uint8Array([0xff, 10])]), TypeError);
});

Deno.test("writeAll() writes on after a write that took only some of the bytes", async () => {
  const written: number[] = [];
  const sink = {
    write(bytes: Uint8Array): Promise<number> {
      written.push(...bytes.subarray(0, 3));
      return Promise.resolve(Math.min(3, bytes.length));
    },
  };
  await writeAll(sink, encode("abcdefgh"));
  assertEquals(new TextDecoder().decode(new Uint8Array(written)), "abcdefgh");
});

/** Keeps what is written, and lets each write end when the test says so. */
function slowSink() {
  const written: string[] = [];
  let done = Promise.withResolvers<void>();
  return {
    written,
    /** Lets the write under way end. */
    finish() {
      done.resolve();
      done = Promise.withResolvers();
    },
    async write(bytes: Uint8Array): Promise<number> {
      written.push(new TextDecoder().decode(bytes));
      await done.promise;
      return bytes.length;
    },
  };
}

Deno.test("openLineWriter() writes what comes during a write together, in order", async () => {
  const sink = slowSink();
  const write = openLineWriter(sink);
  write("a");
  write("b");
  assertEquals(sink.written, []);
  await until("the first write", () => sink.written.length === 1);
  write("c");
  write("d");
  sink.finish();
  await until("the second write", () => sink.written.length === 2);
  sink.finish();
  assertEquals(sink.written, ["a\nb\n", "c\nd\n"]);
});

Deno.test("openLineWriter() stops writing to a sink that is closed, and does not throw", async () => {
  let attempts = 0;
  const write = openLineWriter({
    write() {
      attempts += 1;
      return Promise.reject(new Error("closed"));
    },
  });
  write("a");
  await until("the first attempt", () => attempts === 1);
  write("b");
  await until("the second attempt", () => attempts === 2);
});

Deno.test("openLineWriter() reports lines that nobody takes, and drops them", async () => {
  const taken: string[] = [];
  const decoder = new TextDecoder();
  let take = Promise.withResolvers<void>();
  const sink = {
    async write(bytes: Uint8Array) {
      await take.promise;
      taken.push(decoder.decode(bytes));
      return bytes.length;
    },
  };
  let reported = 0;
  const write = openLineWriter(sink, { charsMax: 10, exceeded: () => void (reported += 1) });
  write("123456");
  // The first is under way by then, and counts until it was taken.
  await Promise.resolve();
  write("12345");
  assertEquals(reported, 1);
  write("123");
  assertEquals(reported, 1);
  const first = take;
  take = Promise.withResolvers();
  take.resolve();
  first.resolve();
  await until("both lines", () => taken.length === 2);
  assertEquals(taken, ["123456\n", "123\n"]);
  write("12345");
  assertEquals(reported, 1);
});

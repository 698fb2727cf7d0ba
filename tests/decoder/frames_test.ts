// The framing of a decoder's pipes: whatever the pieces in which bytes arrive, and what it refuses.

import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import {
  type DecoderFrame,
  FRAME,
  frameBytes,
  jsonFrame,
  jsonOf,
  PART_BYTES_MAX,
  partsOf,
  readFrames,
} from "../../src/decoder/decoder_message.ts";

async function* cut(bytes: Uint8Array, sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length] ?? 1;
    yield bytes.slice(at, at + size);
    at += size;
  }
}

async function read(
  chunks: AsyncIterable<Uint8Array>,
  max = PART_BYTES_MAX,
): Promise<DecoderFrame[]> {
  return await Array.fromAsync(
    readFrames(chunks, (kind) => kind <= FRAME.answer ? max : undefined),
  );
}

Deno.test("readFrames() reads what was written, however it is cut", async () => {
  const frames = fc.array(fc.tuple(fc.constantFrom(...Object.values(FRAME)), fc.uint8Array()));
  const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 });
  await fc.assert(fc.asyncProperty(frames, sizes, async (sent, pieces) => {
    const bytes = sent.flatMap(([kind, payload]) => [...frameBytes(kind, payload)]);
    const got = await read(cut(new Uint8Array(bytes), pieces));
    assertEquals(got.map(({ kind, payload }) => [kind, [...payload]]), [
      ...sent.map(([kind, payload]) => [kind, [...payload]]),
    ]);
  }));
});

Deno.test("readFrames() refuses an unexpected kind and a frame that is too long", async () => {
  const seven = new Uint8Array([7, 0, 0, 0, 0]);
  await assertRejects(() => read(cut(seven, [5])), RangeError, "7 is not expected here");
  const long = frameBytes(FRAME.output, new Uint8Array(11));
  await assertRejects(
    () => read(cut(long, [1]), 10),
    RangeError,
    "it has 11 bytes, expected at most 10",
  );
  // Nothing is set aside for what a length claims.
  const claimed = new Uint8Array([FRAME.output, 255, 255, 255, 255]);
  await assertRejects(() => read(cut(claimed, [5]), 10), RangeError, "4294967295");
});

Deno.test("readFrames() drops an incomplete last frame", async () => {
  const bytes = jsonFrame(FRAME.answer, { ok: true });
  assertEquals(await read(cut(bytes.subarray(0, -1), [3])), []);
  assertEquals((await read(cut(bytes, [3]))).map(jsonOf), [{ ok: true }]);
});

Deno.test("readFrames() reads long frames that arrive in pieces of seven bytes", async () => {
  const part = new Uint8Array(PART_BYTES_MAX);
  let count = 0;
  const chunks = async function* () {
    const frame = frameBytes(FRAME.output, part);
    for (let frames = 0; frames < 32; frames++) {
      for (let at = 0; at < frame.length; at += 7) yield frame.subarray(at, at + 7);
    }
  };
  for await (const { payload } of readFrames(chunks(), () => PART_BYTES_MAX)) {
    count += payload.length;
  }
  assertEquals(count, 32 * PART_BYTES_MAX);
});

Deno.test("partsOf() cuts a part into what fits into frames", () => {
  const parts = [...partsOf(new Uint8Array(2 * PART_BYTES_MAX + 1))];
  assertEquals(parts.map(({ length }) => length), [PART_BYTES_MAX, PART_BYTES_MAX, 1]);
  assert([...partsOf(new Uint8Array(0))].length === 0);
});

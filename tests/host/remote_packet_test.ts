// Packets of the file transfer protocol: what is written is what is read, and what is cut is refused.

import { assert, assertEquals } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { attributesOf, fieldsOf, packet } from "../../src/host/ssh/packet.ts";
import { refused } from "./refused.ts";

Deno.test("packet() writes its length, its kind and its fields", () => {
  const bytes = packet(6, [7, "ab", new Uint8Array([1, 2, 3]), 2n ** 40n]);
  assertEquals([...bytes.subarray(0, 9)], [0, 0, 0, 26, 6, 0, 0, 0, 7]);
  const fields = fieldsOf(bytes.subarray(5));
  assertEquals([fields.u32(), fields.text(), [...fields.bytes()]], [7, "ab", [1, 2, 3]]);
  assertEquals([fields.u64(), fields.done], [2n ** 40n, true]);
});

Deno.test("fieldsOf() refuses a packet that ends within a field", () => {
  const bytes = packet(101, [3, "message"]).subarray(5);
  for (let size = 0; size < bytes.length; size++) {
    const fields = fieldsOf(bytes.subarray(0, size));
    try {
      fields.u32();
      fields.text();
    } catch (error) {
      assert(error instanceof AgentError && error.code === "host", String(error));
      continue;
    }
    throw new Error(`a packet of ${size} bytes was taken for a whole one`);
  }
});

Deno.test("attributesOf() requires size, owner and permissions", async () => {
  const all = packet(105, [0xf, 5n, 1000, 1000, 0o100444, 1, 2]).subarray(5);
  assertEquals(attributesOf(fieldsOf(all)), { size: 5, owner: 1000, mode: 0o100444 });
  const none = packet(105, [0]).subarray(5);
  await refused(() => Promise.try(() => attributesOf(fieldsOf(none))), "host", "attributes");
});

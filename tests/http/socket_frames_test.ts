// Frames of a WebSocket: what is read of a client, however it comes in pieces, and what is refused.

import { assertEquals, assertThrows } from "@std/assert";
import {
  CLOSE,
  closeBytes,
  frameBytes,
  FrameError,
  type FramePart,
  OPCODE,
  openFrameReader,
} from "../../src/http/console/frames.ts";
import { clientFrame, joined } from "./client_frames.ts";

const text = (words: string) => new TextEncoder().encode(words);

/** What is read, with the parts of binary messages joined. */
function readAll(bytes: Uint8Array, pieceBytes: number): [number, string][] {
  const read = openFrameReader();
  const found: [number, string][] = [];
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    for (const { opcode, bytes: part } of read(bytes.slice(at, at + pieceBytes))) {
      const words = new TextDecoder().decode(part);
      const last = found.at(-1);
      if (last !== undefined && last[0] === OPCODE.binary && opcode === last[0]) last[1] += words;
      else found.push([opcode, words]);
    }
  }
  return found;
}

Deno.test("frames are read as sent, in pieces of any size", () => {
  const long = "x".repeat(300);
  const sent = joined([
    clientFrame(OPCODE.binary, text("begin ")),
    clientFrame(OPCODE.ping, text("p")),
    clientFrame(OPCODE.binary, text("in parts "), { last: false }),
    clientFrame(OPCODE.pong, text("")),
    clientFrame(OPCODE.continuation, text(""), { last: false }),
    clientFrame(OPCODE.continuation, text(long), { last: true }),
    clientFrame(OPCODE.binary, text("y".repeat(70_000))),
    clientFrame(OPCODE.close, closeBytes(CLOSE.normal, "bye")),
  ]);
  const expected = readAll(sent, sent.length);
  assertEquals(expected.map(([opcode]) => opcode), [2, 9, 2, 10, 2, 8]);
  assertEquals(expected[4]?.[1], `${long}${"y".repeat(70_000)}`);
  for (const pieceBytes of [1, 2, 3, 7, 64, 1000]) {
    assertEquals(readAll(sent, pieceBytes), expected, `in pieces of ${pieceBytes}`);
  }
});

Deno.test("part of a frame is passed on before the frame is complete, so memory stays bounded", () => {
  const read = openFrameReader();
  const head = clientFrame(OPCODE.binary, new Uint8Array(0), { length: 1n << 40n, last: false });
  const parts = Array.from(read(joined([head, new Uint8Array(1000)])), ({ bytes }) => bytes.length);
  assertEquals(parts, [1000]);
  assertEquals(Array.from(read(new Uint8Array(5)), ({ bytes }) => bytes.length), [5]);
});

Deno.test("what a client must not send is refused with the code of its mistake", () => {
  const one = text("0123456789");
  const cases: [string, Uint8Array, number][] = [
    ["not masked", frameBytes(OPCODE.binary, one), CLOSE.protocol],
    ["reserved bits", clientFrame(0x42, one), CLOSE.protocol],
    ["text", clientFrame(OPCODE.text, one), CLOSE.notBinary],
    ["no such kind", clientFrame(3, one), CLOSE.protocol],
    ["continues nothing", clientFrame(OPCODE.continuation, one), CLOSE.protocol],
    ["a ping in parts", clientFrame(OPCODE.ping, one, { last: false }), CLOSE.protocol],
    ["a long ping", clientFrame(OPCODE.ping, new Uint8Array(126)), CLOSE.protocol],
    ["too long", clientFrame(OPCODE.binary, one, { length: 1n << 60n }), CLOSE.tooLarge],
    [
      "begins in a message",
      joined([clientFrame(OPCODE.binary, one, { last: false }), clientFrame(OPCODE.binary, one)]),
      CLOSE.protocol,
    ],
  ];
  for (const [what, bytes, code] of cases) {
    const read = openFrameReader();
    const all = () => Array.from<FramePart>(read(bytes.slice()));
    assertEquals(assertThrows(all, FrameError).code, code, what);
  }
});

Deno.test("frames of the server state the length of their content, and long close reasons are cut", () => {
  assertEquals([...frameBytes(OPCODE.ping, new Uint8Array(0))], [0x89, 0]);
  assertEquals([...frameBytes(OPCODE.binary, new Uint8Array(125))].slice(0, 3), [0x82, 125, 0]);
  assertEquals([...frameBytes(OPCODE.binary, new Uint8Array(126))].slice(0, 4), [
    0x82,
    126,
    0,
    126,
  ]);
  const long = frameBytes(OPCODE.binary, new Uint8Array(65_536));
  assertEquals([...long.slice(0, 10)], [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
  assertEquals(long.length, 65_546);
  // A character that has no room is left out whole.
  assertEquals(closeBytes(CLOSE.normal, "é".repeat(100)).length, 2 + 122);
});

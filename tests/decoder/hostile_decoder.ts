// A decoder that does what its first argument says instead of its work. The pool adds `decoder`.

import { chunksOf } from "../../src/decoder/decoder.ts";
import {
  FRAME,
  frameBytes,
  jsonFrame,
  PART_BYTES_MAX,
  readFrames,
} from "../../src/decoder/decoder_message.ts";
import { revokePermissions } from "../../src/wall/lockdown.ts";

const [way = ""] = Deno.args;
const { stdin, stdout } = Deno;

async function write(bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.length;) done += await stdout.write(bytes.subarray(done));
}

const answer = (value: unknown) => jsonFrame(FRAME.answer, value);

/** What it does once it has read the beginning of its work. */
const WAYS: Record<string, () => void | Promise<void>> = {
  "says nothing": () => new Promise(() => setInterval(() => {}, 60_000)),
  loops: () => {
    for (;;);
  },
  "fills its heap": () => {
    const held: number[][] = [];
    for (;;) held.push(new Array(10_000).fill(held.length));
  },
  "fills buffers": () => {
    const held: Uint8Array[] = [];
    for (;;) held.push(new Uint8Array(16 * 1024 * 1024).fill(held.length));
  },
  exits: () => Deno.exit(3),
  "sends garbage": () => write(new TextEncoder().encode("HTTP/1.1 200 OK\r\n\r\n")),
  "sends too long an answer": () => write(answer({ ok: true, value: "x".repeat(5000) })),
  "sends too long a part": () =>
    write(frameBytes(FRAME.output, new Uint8Array(PART_BYTES_MAX + 1))),
  "sends a second report": () => write(jsonFrame(FRAME.ready, { checks: [] })),
  "sends half an answer": () => write(answer({ ok: true, value: 1 }).subarray(0, 9)),
  "answers no JSON": () => write(frameBytes(FRAME.answer, new Uint8Array([255, 254]))),
  "answers nothing": () => write(answer({ ok: true })),
  "answers with a code of its own": () =>
    write(answer({ ok: false, code: "unauthorized", message: "x" })),
  "answers with a long message": () =>
    write(answer({ ok: false, code: "internal", message: "x".repeat(900) + "y".repeat(2000) })),
  "answers with too many values": () =>
    write(answer({ ok: true, value: new Array(500_000).fill({}) })),
  "answers too deeply": () =>
    write(answer({ ok: true, value: JSON.parse("[".repeat(150) + "]".repeat(150)) })),
  "speaks without end": async () => {
    for (;;) await write(frameBytes(FRAME.output, new Uint8Array(PART_BYTES_MAX).fill(32)));
  },
  "has output": () => write(frameBytes(FRAME.output, new Uint8Array(3))),
};

if (way === "is not ready") await write(answer({ ok: true, value: 1 }));
else if (way === "reports too little") await write(jsonFrame(FRAME.ready, { checks: [] }));
else await write(jsonFrame(FRAME.ready, { checks: await revokePermissions() }));

const limits: Record<number, number> = { 1: 1e6, 2: PART_BYTES_MAX, 3: 0 };
for await (const { kind } of readFrames(chunksOf(stdin), (kind) => limits[kind])) {
  if (kind === FRAME.work) await WAYS[way]?.();
}

// A decoder: the process that reads, parses and unpacks bytes from outside, on the far side of the
// wall. It gives up all permissions before the first byte, does one piece of work at a time, and
// ends with its standard input.

import { messageOf } from "../domain/error.ts";
import type { JsonObject, JsonValue } from "../domain/json.ts";
import { ignoreSignals, revokePermissions } from "../wall/lockdown.ts";
import {
  ANSWER_CODES,
  type DecoderAnswer,
  type DecoderFrame,
  type DecoderWork,
  FRAME,
  frameBytes,
  isOutOfMemory,
  isWorkName,
  jsonFrame,
  jsonOf,
  MESSAGE_CHARS_MAX,
  PART_BYTES_MAX,
  partsOf,
  readFrames,
  REQUEST_BYTES_MAX,
  type WorkName,
  WORKS,
} from "./decoder_message.ts";

const INPUT_BYTES_MAX: Readonly<Record<number, number>> = {
  [FRAME.work]: REQUEST_BYTES_MAX,
  [FRAME.input]: PART_BYTES_MAX,
  [FRAME.inputEnd]: 0,
};

/** Runs this process as a decoder of the agent at the other end of its pipes. Never returns. */
export async function runDecoder(): Promise<void> {
  const { exit, stdin, stdout } = Deno;
  ignoreSignals();
  // Only frames may go to standard output, whatever a library prints.
  console.log = console.info = console.debug = console.error;
  const write = async (bytes: Uint8Array) => {
    for (let done = 0; done < bytes.length;) done += await stdout.write(bytes.subarray(done));
  };
  const frames = readFrames(chunksOf(stdin), (kind) => INPUT_BYTES_MAX[kind]);
  await write(jsonFrame(FRAME.ready, { checks: await revokePermissions() }));
  for await (const frame of frames) await doWork(frame, frames, write);
  exit(0);
}

/** The bytes of a file as they arrive; each chunk is valid until the next. */
export async function* chunksOf(
  source: { read(buffer: Uint8Array<ArrayBuffer>): Promise<number | null> },
): AsyncGenerator<Uint8Array> {
  const buffer = new Uint8Array(PART_BYTES_MAX);
  for (;;) {
    const count = await source.read(buffer);
    if (count === null) return;
    yield buffer.subarray(0, count);
  }
}

async function doWork(
  frame: DecoderFrame,
  frames: AsyncGenerator<DecoderFrame>,
  write: (bytes: Uint8Array) => Promise<void>,
): Promise<void> {
  const { work, request } = jsonOf(frame) as { work: unknown; request: JsonObject };
  if (!isWorkName(work)) throw new RangeError(`Cannot start ${JSON.stringify(work)}: no such work`);
  const input = openInput(frames);
  const output = async (part: Uint8Array) => {
    for (const piece of partsOf(part)) await write(frameBytes(FRAME.output, piece));
  };
  const run = async () => await (await LOAD_WORK[work]())(request, input.parts, output);
  await write(answerFrame(await answerOf(run), WORKS[work].answerBytesMax));
  await input.skipRest();
}

/** The input of one piece of work. */
interface Input {
  readonly parts: AsyncIterable<Uint8Array>;
  /** Skips the rest of the input, so that the next frame starts the next piece of work. */
  skipRest(): Promise<void>;
}

function openInput(frames: AsyncGenerator<DecoderFrame>): Input {
  let ended = false;
  const next = async () => {
    const { value, done } = await frames.next();
    if (done === true) Deno.exit(0);
    if (value.kind === FRAME.work) {
      throw new RangeError("Cannot start the next work: the input of this one has not ended");
    }
    ended = value.kind === FRAME.inputEnd;
    return value.payload;
  };
  return {
    // Not a generator: work that stops reading early must not end the frames.
    parts: {
      [Symbol.asyncIterator]: () => ({
        async next() {
          const value = ended ? undefined : await next();
          return value === undefined || ended ? { done: true, value } : { done: false, value };
        },
      }),
    },
    async skipRest() {
      while (!ended) await next();
    },
  };
}

async function answerOf(run: () => Promise<JsonValue>): Promise<DecoderAnswer> {
  try {
    return { ok: true, value: await run() };
  } catch (error) {
    if (isOutOfMemory(error)) throw error;
    return refusal(error);
  }
}

function refusal(error: unknown): DecoderAnswer {
  const message = messageOf(error).slice(0, MESSAGE_CHARS_MAX);
  const code = typeof error === "object" && error !== null && "code" in error ? error.code : "";
  const known = ANSWER_CODES.find((one) => one === code) ?? "internal";
  return { ok: false, code: known, message };
}

function answerFrame(answer: DecoderAnswer, bytesMax: number): Uint8Array {
  const frame = jsonFrame(FRAME.answer, answer);
  if (frame.length <= bytesMax) return frame;
  const message = `Cannot answer: the answer has more than ${bytesMax} bytes`;
  return jsonFrame(FRAME.answer, { ok: false, code: "too_large", message } satisfies DecoderAnswer);
}

/** The kinds of work. Each is loaded on first use: a decoder starts with only its framing. */
const LOAD_WORK: Readonly<Record<WorkName, () => Promise<DecoderWork>>> = {
  hashes: async () => (await import("./work/hashes.ts")).hashesWork,
  checksums: async () => (await import("./work/checksums.ts")).checksumsWork,
  signature: async () => (await import("./work/signature.ts")).signatureWork,
  file_signature: async () => (await import("./work/signature.ts")).fileSignatureWork,
  index: async () => (await import("./work/index_documents.ts")).indexWork,
  unpack: async () => (await import("./work/unpack.ts")).unpackWork,
  task_sources: async () => (await import("./work/task_sources.ts")).taskSourcesWork,
};

// The input of one piece of work: buffers bytes that arrive in parts of any size, so that a format can read them in the
// sizes it needs; takes several documents apart; and detects packed files that make no progress.

import type { JsonValue } from "../../domain/json.ts";

/** Bytes that are taken in order, waiting for those that have not arrived. */
export interface ByteStream {
  ended(): Promise<boolean>;
  /** Exactly this many bytes. @throws {Error} when fewer are left */
  take(count: number): Promise<Uint8Array>;
  /** This many bytes, in parts as they arrive. @throws {Error} when fewer are left */
  parts(count: number): AsyncGenerator<Uint8Array>;
  /** All remaining bytes, in parts as they arrive. */
  rest(): AsyncGenerator<Uint8Array>;
}

/** Opens a source; nothing is read before the first call. */
export function openByteSource(parts: AsyncIterable<Uint8Array>): ByteStream {
  const iterator = parts[Symbol.asyncIterator]();
  let held: Uint8Array = new Uint8Array();
  /** Reads until the buffer is not empty, or the input has ended. */
  const fill = async (): Promise<boolean> => {
    while (held.byteLength === 0) {
      const next = await iterator.next();
      if (next.done === true) return false;
      held = next.value;
    }
    return true;
  };
  async function* some(count: number): AsyncGenerator<Uint8Array> {
    for (let left = count; left > 0;) {
      if (!await fill()) throw new Error("it is cut off");
      const part = held.subarray(0, left);
      held = held.subarray(part.byteLength);
      left -= part.byteLength;
      yield part;
    }
  }
  return {
    ended: async () => !await fill(),
    async take(count) {
      const whole = new Uint8Array(count);
      let done = 0;
      for await (const part of some(count)) {
        whole.set(part, done);
        done += part.byteLength;
      }
      return whole;
    },
    parts: some,
    async *rest() {
      while (await fill()) {
        const part = held;
        held = new Uint8Array();
        yield part;
      }
    },
  };
}

/** Documents as input, and their lengths for the request. */
interface Bodies {
  readonly lengths: number[];
  readonly input: Uint8Array;
}

/** Several documents as one input, one after another. */
export function joinBodies(bodies: readonly Uint8Array[]): Bodies {
  const lengths = bodies.map((body) => body.byteLength);
  const input = new Uint8Array(lengths.reduce((sum, length) => sum + length, 0));
  let at = 0;
  for (const body of bodies) {
    input.set(body, at);
    at += body.byteLength;
  }
  return { lengths, input };
}

/** Splits them again. @throws {Error} when the input is shorter than the sum of the lengths */
export async function takeBodies(
  source: ByteStream,
  lengths: JsonValue | undefined,
): Promise<Uint8Array[]> {
  const bodies: Uint8Array[] = [];
  for (const length of Array.isArray(lengths) ? lengths : []) {
    bodies.push(await source.take(Number(length)));
  }
  return bodies;
}

/** Packed bytes allowed before there is any output: headers, tables and padding. */
const PACKED_FREE_BYTES = 4 * 1024 ** 2;
/** Further packed bytes allowed per byte of output. Random data grows by at most a hundredth. */
const PACKED_RATIO_MAX = 1.25;
/** Empty frames, members or streams allowed. */
const FRAMES_FREE = 1000;
/** Output that each further one must have, on average, bytes. */
const FRAME_BYTES_MIN = 1024;

/**
 * Counts input and output of one file; each call throws when the file makes no progress. Every frame, member or block
 * costs time beyond its bytes, and a hostile file may consist of empty ones: a file with much input and little output is
 * refused.
 */
export interface UnpackProgress {
  took(bytes: number): void;
  gave(bytes: number): void;
  /** A frame, member or stream begins. */
  began(): void;
}

/** Decompresses one format; throws for damaged or truncated files, and for files without progress. */
export type Unpacker = (
  parts: AsyncIterable<Uint8Array>,
  progress: UnpackProgress,
) => AsyncIterable<Uint8Array>;

/** Opens the counter for one file. */
export function openProgress(): UnpackProgress {
  let [packed, given, frames] = [0, 0, 0];
  return {
    took(bytes) {
      packed += bytes;
      if (packed <= PACKED_FREE_BYTES + given * PACKED_RATIO_MAX) return;
      throw new Error(`it makes no progress: ${packed} packed bytes yielded ${given}`);
    },
    gave(bytes) {
      given += bytes;
    },
    began() {
      frames += 1;
      if (frames <= FRAMES_FREE + given / FRAME_BYTES_MIN) return;
      throw new Error(`it makes no progress: ${frames} frames or streams yielded ${given} bytes`);
    },
  };
}

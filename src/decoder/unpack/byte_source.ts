// Bytes that arrive in parts of any size, taken in the sizes that a format asks for.

import type { JsonValue } from "../../domain/json.ts";

/** Takes bytes in their order. */
export interface ByteStream {
  /** Whether nothing is left. */
  ended(): Promise<boolean>;
  /** Exactly so many bytes. @throws {Error} when fewer are left */
  take(count: number): Promise<Uint8Array>;
  /** So many bytes in parts as they come. @throws {Error} when fewer are left */
  parts(count: number): AsyncGenerator<Uint8Array>;
  /** Everything that is left, in parts as they come. */
  rest(): AsyncGenerator<Uint8Array>;
}

/** Opens it; nothing is read before the first call. */
export function openByteSource(parts: AsyncIterable<Uint8Array>): ByteStream {
  const iterator = parts[Symbol.asyncIterator]();
  let held: Uint8Array = new Uint8Array();
  /** Makes sure that something is held, unless nothing is left. */
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

// Whether a packed file gets anywhere. Each frame, member or block costs more than its bytes, and a file
// may be made of empty ones: what has taken much and given little is refused.

/** Packed bytes that may go in before anything has to come out: heads, tables and padding. */
const PACKED_FREE_BYTES = 4 * 1024 ** 2;
/** Packed bytes beyond those for each byte that came out. Random bytes grow by a hundredth at most. */
const PACKED_RATIO_MAX = 1.25;
/** Frames, members or streams of a file that may be empty. */
const FRAMES_FREE = 1000;
/** Bytes that each further one of them must have given, on average. */
const FRAME_BYTES_MIN = 1024;

/** Counts for one file; each call throws when the file has got nowhere. */
export interface UnpackProgress {
  /** Bytes of the packed file that were taken. */
  took(bytes: number): void;
  /** Bytes that came out. */
  gave(bytes: number): void;
  /** A frame, member or stream begins. */
  began(): void;
}

/** Undoes one compression; throws for what is damaged or cut, and what gets no further. */
export type Unpacker = (
  parts: AsyncIterable<Uint8Array>,
  progress: UnpackProgress,
) => AsyncIterable<Uint8Array>;

/** Opens it for one file. */
export function openProgress(): UnpackProgress {
  let [packed, given, frames] = [0, 0, 0];
  return {
    took(bytes) {
      packed += bytes;
      if (packed <= PACKED_FREE_BYTES + given * PACKED_RATIO_MAX) return;
      throw new Error(`it gets nowhere: ${packed} packed bytes have given ${given}`);
    },
    gave(bytes) {
      given += bytes;
    },
    began() {
      frames += 1;
      if (frames <= FRAMES_FREE + given / FRAME_BYTES_MIN) return;
      throw new Error(`it gets nowhere: ${frames} frames or streams have given ${given} bytes`);
    },
  };
}

// Several documents in the input of one piece of work: one behind the other, their lengths in the
// request.

/** Documents as input, and what the request says of them. */
interface Bodies {
  readonly lengths: number[];
  readonly input: Uint8Array;
}

/** Puts documents behind each other. */
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

/** Takes them apart again. @throws {Error} when the input is shorter than the lengths say */
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

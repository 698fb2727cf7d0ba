// Whether a packed file gets anywhere. Each frame, member or block costs more than its bytes, and a file
// may be made of empty ones: what has taken much and given little is refused.

/** Packed bytes that may go in before anything has to come out: heads, tables and padding. */
export const PACKED_FREE_BYTES = 4 * 1024 ** 2;
/** Packed bytes beyond those for each byte that came out. Random bytes grow by a hundredth at most. */
export const PACKED_RATIO_MAX = 1.25;
/** Frames, members or streams of a file that may be empty. */
export const FRAMES_FREE = 1000;
/** Bytes that each further one of them must have given, on average. */
export const FRAME_BYTES_MIN = 1024;

/** Counts for one file; each call throws when the file has got nowhere. */
export interface Progress {
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
  progress: Progress,
) => AsyncIterable<Uint8Array>;

/** Opens it for one file. */
export function openProgress(): Progress {
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

// Several documents in the input of one piece of work: one behind the other, their lengths in the
// request.

import type { JsonValue } from "../../domain/json.ts";
import type { ByteReader } from "../unpack/byte_source.ts";

/** Documents as input, and what the request says of them. */
export interface Bodies {
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
  source: ByteReader,
  lengths: JsonValue | undefined,
): Promise<Uint8Array[]> {
  const bodies: Uint8Array[] = [];
  for (const length of Array.isArray(lengths) ? lengths : []) {
    bodies.push(await source.take(Number(length)));
  }
  return bodies;
}

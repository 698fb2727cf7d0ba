// Frames as a client of a WebSocket sends them, right and wrong ones.

/** What is unusual about a frame. */
export interface FrameOptions {
  /** Whether it is the last of its message; true unless given. */
  readonly last?: boolean;
  /** Bytes that its head promises; as many as there are unless given. */
  readonly length?: bigint;
}

const FIN = 0x80;
const MASKED = 0x80;
const MASK = [7, 99, 0, 255];

/** One masked frame. @param opcode may have reserved bits */
export function clientFrame(
  opcode: number,
  bytes: Uint8Array,
  { last = true, length = BigInt(bytes.length) }: FrameOptions = {},
): Uint8Array<ArrayBuffer> {
  const long = length > 0xffffn ? 8 : length > 125n ? 2 : 0;
  const frame = new Uint8Array(2 + long + MASK.length + bytes.length);
  const view = new DataView(frame.buffer);
  frame[0] = (last ? FIN : 0) | opcode;
  frame[1] = MASKED | (long === 8 ? 127 : long === 2 ? 126 : Number(length));
  if (long === 8) view.setBigUint64(2, length);
  if (long === 2) view.setUint16(2, Number(length));
  frame.set(MASK, 2 + long);
  bytes.forEach((byte, at) => frame[2 + long + MASK.length + at] = byte ^ (MASK[at % 4] ?? 0));
  return frame;
}

export function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

// The frames of a WebSocket (RFC 6455, section 5): those of a client are masked, those of a server are not. Data is
// passed on as it arrives, so neither long frames nor messages of many frames take memory. Only the payload of a
// control frame, at most 125 bytes, is collected.

/** The kind of a frame (RFC 6455, section 5.2). */
export const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

/** Codes of a close frame (RFC 6455, section 7.4.1). */
export const CLOSE = {
  normal: 1000,
  goingAway: 1001,
  protocol: 1002,
  notBinary: 1003,
  policy: 1008,
  tooLarge: 1009,
  broken: 1011,
} as const;

const FIN = 0x80;
const RESERVED = 0x70;
const OPCODE_BITS = 0x0f;
const MASKED = 0x80;
const LENGTH_BITS = 0x7f;
/** From this value on, the length is in the next two or eight bytes. */
const LENGTH_16 = 126;
const LENGTH_64 = 127;
/** Random bytes in the mask of a frame. */
export const MASK_BYTES = 4;
const UNMASKED = new Uint8Array(0);
const HEAD_BYTES_MAX = 14;
/** Payload of a control frame, bytes. */
const CONTROL_BYTES_MAX = 125;
/** Bytes of the reason in a close frame, after its code. */
const REASON_BYTES_MAX = CONTROL_BYTES_MAX - 2;

/** A violation of the protocol by the other side. `code` goes into the close frame. */
export class FrameError extends Error {
  constructor(readonly code: number, message: string) {
    super(message);
  }
}

/** A part of a binary message, or a whole control frame. */
export interface FramePart {
  readonly opcode:
    | typeof OPCODE.binary
    | typeof OPCODE.close
    | typeof OPCODE.ping
    | typeof OPCODE.pong;
  /** Valid until the next part is requested. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

interface WebSocketFrame {
  readonly opcode: FramePart["opcode"];
  readonly last: boolean;
  readonly mask: Uint8Array;
  /** Bytes that are still missing. */
  left: number;
  /** Payload bytes that have arrived. */
  at: number;
  /** The payload so far of a control frame. */
  readonly gathered: Uint8Array<ArrayBuffer> | undefined;
}

/** Who sends frames. */
type FrameSender = "client" | "server";

/**
 * Reads frames from pieces, which are unmasked in place.
 * @throws {FrameError} while reading a piece
 */
export function openFrameReader(from: FrameSender = "client"): (
  piece: Uint8Array<ArrayBuffer>,
) => Generator<FramePart, void, void> {
  const head = new Uint8Array(HEAD_BYTES_MAX);
  let headSize = 0;
  let frame: WebSocketFrame | undefined;
  /** Whether a message has begun and not ended. */
  let within = false;
  return function* (piece) {
    for (let at = 0; at < piece.length;) {
      if (frame === undefined) {
        head[headSize++] = piece[at++] ?? 0;
        if (headSize < headLength(head, headSize)) continue;
        frame = parseHead(head, within, from);
        headSize = 0;
      }
      const size = Math.min(frame.left, piece.length - at);
      const bytes = piece.subarray(at, at + size);
      unmask(bytes, frame);
      at += size;
      frame.left -= size;
      const { opcode, gathered, left, last } = frame;
      if (gathered !== undefined) gathered.set(bytes, gathered.length - left - size);
      else if (size > 0) yield { opcode, bytes };
      if (left > 0) continue;
      frame = undefined;
      if (gathered !== undefined) yield { opcode, bytes: gathered };
      else within = !last;
    }
  };
}

/** The length of a head, known after its first two bytes. */
function headLength([, second = 0]: Uint8Array, known: number): number {
  if (known < 2) return 2;
  const length = second & LENGTH_BITS;
  return 2 + (length === LENGTH_64 ? 8 : length === LENGTH_16 ? 2 : 0) + maskLength(second);
}

function maskLength(second: number): number {
  return (second & MASKED) === 0 ? 0 : MASK_BYTES;
}

function parseHead(head: Uint8Array, within: boolean, from: FrameSender): WebSocketFrame {
  const [first = 0, second = 0] = head;
  const opcode = opcodeOf(first & OPCODE_BITS, within);
  const last = (first & FIN) !== 0;
  const control = opcode !== OPCODE.binary;
  if ((first & RESERVED) !== 0) throw new FrameError(CLOSE.protocol, "a frame has reserved bits");
  if (((second & MASKED) !== 0) !== (from === "client")) {
    const words = from === "client" ? "not masked" : "masked";
    throw new FrameError(CLOSE.protocol, `a frame is ${words}`);
  }
  const short = second & LENGTH_BITS;
  if (control && (!last || short > CONTROL_BYTES_MAX)) {
    throw new FrameError(CLOSE.protocol, "a control frame is too long or in parts");
  }
  const view = new DataView(head.buffer);
  const left = short === LENGTH_64
    ? Number(view.getBigUint64(2))
    : short === LENGTH_16
    ? view.getUint16(2)
    : short;
  if (!Number.isSafeInteger(left)) throw new FrameError(CLOSE.tooLarge, "a frame is too long");
  const end = headLength(head, 2);
  const mask = head.slice(end - maskLength(second), end);
  return { opcode, last, mask, left, at: 0, gathered: control ? new Uint8Array(left) : undefined };
}

/** A continuation counts as binary: other messages fail at their first frame. */
function opcodeOf(opcode: number, within: boolean): FramePart["opcode"] {
  switch (opcode) {
    case OPCODE.close:
    case OPCODE.ping:
    case OPCODE.pong:
      return opcode;
    case OPCODE.text:
      throw new FrameError(CLOSE.notBinary, "a console takes binary messages");
    case OPCODE.binary:
    case OPCODE.continuation:
      if (within === (opcode === OPCODE.continuation)) return OPCODE.binary;
      throw new FrameError(CLOSE.protocol, "a frame is not in its place in a message");
    default:
      throw new FrameError(CLOSE.protocol, "a frame is of no known kind");
  }
}

function unmask(bytes: Uint8Array, frame: WebSocketFrame): void {
  const { mask } = frame;
  if (mask.length === 0) return;
  for (let at = 0; at < bytes.length; at++) {
    bytes[at] = (bytes[at] ?? 0) ^ (mask[(frame.at + at) % MASK_BYTES] ?? 0);
  }
  frame.at = (frame.at + bytes.length) % MASK_BYTES;
}

/** One whole frame of a server, unmasked, or of a client, with this mask of four bytes. */
export function frameBytes(
  opcode: number,
  bytes: Uint8Array,
  mask: Uint8Array = UNMASKED,
): Uint8Array<ArrayBuffer> {
  const long = bytes.length > 0xffff ? 8 : bytes.length >= LENGTH_16 ? 2 : 0;
  const start = 2 + long + mask.length;
  const frame = new Uint8Array(start + bytes.length);
  const view = new DataView(frame.buffer);
  frame[0] = FIN | opcode;
  const short = long === 8 ? LENGTH_64 : long === 2 ? LENGTH_16 : bytes.length;
  frame[1] = short | (mask.length === 0 ? 0 : MASKED);
  if (long === 8) view.setBigUint64(2, BigInt(bytes.length));
  if (long === 2) view.setUint16(2, bytes.length);
  frame.set(mask, 2 + long);
  for (let at = 0; at < bytes.length && mask.length > 0; at++) {
    frame[start + at] = (bytes[at] ?? 0) ^ (mask[at % MASK_BYTES] ?? 0);
  }
  if (mask.length === 0) frame.set(bytes, start);
  return frame;
}

/** The payload of a close frame; a long reason is cut. */
export function closeBytes(code: number, reason: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(2 + REASON_BYTES_MAX);
  new DataView(bytes.buffer).setUint16(0, code);
  const { written } = new TextEncoder().encodeInto(reason, bytes.subarray(2));
  return bytes.slice(0, 2 + written);
}

// How a client of RFB wants its pixels: 8, 16 or 32 bits, in true colour or through a colour map.

import { PALETTE } from "./screen.ts";

/** @see RFC 6143, 7.4 */
export interface PixelFormat {
  readonly bitsPerPixel: 8 | 16 | 32;
  readonly bigEndian: boolean;
  readonly trueColour: boolean;
  /** Red, green, blue. */
  readonly max: readonly [number, number, number];
  readonly shift: readonly [number, number, number];
}

/** Bytes of a pixel format on the wire. */
export const PIXEL_FORMAT_BYTES = 16;

/** What the server announces: 32 bits, little endian, as qemu does. */
export const SERVER_FORMAT: PixelFormat = {
  bitsPerPixel: 32,
  bigEndian: false,
  trueColour: true,
  max: [255, 255, 255],
  shift: [16, 8, 0],
};

/** The format in 16 bytes of a message, or null when the server cannot speak it. */
export function parsePixelFormat(bytes: Uint8Array): PixelFormat | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const bitsPerPixel = view.getUint8(0);
  if (bitsPerPixel !== 8 && bitsPerPixel !== 16 && bitsPerPixel !== 32) return null;
  return {
    bitsPerPixel,
    bigEndian: view.getUint8(2) !== 0,
    trueColour: view.getUint8(3) !== 0,
    max: [view.getUint16(4), view.getUint16(6), view.getUint16(8)],
    shift: [view.getUint8(10), view.getUint8(11), view.getUint8(12)],
  };
}

/** The 16 bytes of a format. */
export function pixelFormatBytes(format: PixelFormat): Uint8Array {
  const bytes = new Uint8Array(PIXEL_FORMAT_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, format.bitsPerPixel);
  view.setUint8(1, format.bitsPerPixel === 32 ? 24 : format.bitsPerPixel);
  view.setUint8(2, format.bigEndian ? 1 : 0);
  view.setUint8(3, format.trueColour ? 1 : 0);
  format.max.forEach((max, index) => view.setUint16(4 + 2 * index, max));
  format.shift.forEach((shift, index) => view.setUint8(10 + index, shift));
  return bytes;
}

/** Palette indexes as pixels of a format. */
export function encodePixels(indexes: Uint8Array, format: PixelFormat): Uint8Array<ArrayBuffer> {
  const bytesPerPixel = format.bitsPerPixel / 8;
  const colours = PALETTE.map((_, index) => pixelValue(index, format));
  const bytes = new Uint8Array(indexes.length * bytesPerPixel);
  const view = new DataView(bytes.buffer);
  const little = !format.bigEndian;
  indexes.forEach((index, at) => {
    const value = colours[index] ?? 0;
    if (bytesPerPixel === 4) view.setUint32(at * 4, value, little);
    else if (bytesPerPixel === 2) view.setUint16(at * 2, value, little);
    else view.setUint8(at, value);
  });
  return bytes;
}

function pixelValue(index: number, format: PixelFormat): number {
  if (!format.trueColour) return index;
  const colour = PALETTE[index] ?? [0, 0, 0];
  const parts = [0, 1, 2].map((part) => {
    const value = Math.round((colour[part] ?? 0) * (format.max[part] ?? 0) / 255);
    return value << (format.shift[part] ?? 0);
  });
  // Back to an unsigned number: a shift of 24 or more sets the sign.
  return parts.reduce((sum, part) => sum | part, 0) >>> 0;
}

/** The message that tells a client without true colour what the indexes mean. */
export function colourMapMessage(): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(6 + 6 * PALETTE.length);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, 1);
  view.setUint16(4, PALETTE.length);
  PALETTE.flat().forEach((value, at) => view.setUint16(6 + 2 * at, value * 257));
  return bytes;
}

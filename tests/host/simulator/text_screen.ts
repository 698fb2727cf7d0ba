// Reads the words on a screen in VGA's text mode from its pixels: 80 by 25 cells of 9 by 16, the
// eighth of a letter's rows after the other. It knows the letters that the tests look for.

import { RfbClient } from "./rfb_client.ts";

const COLUMNS = 80;
const LINES = 25;
const CELL_WIDTH = 9;
const CELL_HEIGHT = 16;
const GLYPH_WIDTH = 8;
const BYTES_PER_PIXEL = 4;
/** A colour channel above this is not the black of the background. */
const LIT = 60;

/** Rows of each letter in VGA's font, one byte a row. */
const GLYPHS: Readonly<Record<string, string>> = {
  " ": "00000000000000000000000000000000",
  B: "0000fc6666667c66666666fc00000000",
  E: "0000fe6662687868606266fe00000000",
  N: "0000c6e6f6fedecec6c6c6c600000000",
  P: "0000fc6666667c60606060f000000000",
  X: "0000c3c3663c18183c66c3c300000000",
  a: "0000000000780c7ccccccc7600000000",
  b: "0000e06060786c666666667c00000000",
  d: "00001c0c0c3c6ccccccccc7600000000",
  e: "00000000007cc6fec0c0c67c00000000",
  i: "00001818003818181818183c00000000",
  o: "00000000007cc6c6c6c6c67c00000000",
  t: "0000103030fc30303030361c00000000",
};
const LETTERS = new Map(Object.entries(GLYPHS).map(([letter, rows]) => [rows, letter]));

/**
 * The lines on a console as they are now, with `?` for every letter that is not known; null while it
 * is not in text mode.
 */
export async function readTextScreen(port: number, password?: string): Promise<string[] | null> {
  // A new connection each time: a client that knows no resizing is cut to what it saw first.
  using client = await RfbClient.connect(port);
  const { width, height } = await client.handshake("3.8", password);
  if (width !== COLUMNS * CELL_WIDTH || height !== LINES * CELL_HEIGHT) return null;
  await client.setEncodings();
  await client.setPixelBits(32);
  await client.request(false, width, height);
  const lit = new Uint8Array(width * height);
  for (const { x, y, width: wide, height: high, pixels } of await client.update()) {
    for (let at = 0; at < wide * high; at++) {
      const colour = pixels.subarray(at * BYTES_PER_PIXEL, at * BYTES_PER_PIXEL + 3);
      const place = (y + Math.floor(at / wide)) * width + x + at % wide;
      lit[place] = colour.some((channel) => channel > LIT) ? 1 : 0;
    }
  }
  return Array.from(
    { length: LINES },
    (_, line) =>
      Array.from({ length: COLUMNS }, (_, column) => letterAt(lit, width, line, column)).join(""),
  );
}

function letterAt(lit: Uint8Array, width: number, line: number, column: number): string {
  let rows = "";
  for (let y = 0; y < CELL_HEIGHT; y++) {
    const start = (line * CELL_HEIGHT + y) * width + column * CELL_WIDTH;
    const bits = lit.subarray(start, start + GLYPH_WIDTH).join("");
    rows += Number.parseInt(bits, 2).toString(16).padStart(2, "0");
  }
  return LETTERS.get(rows) ?? "?";
}

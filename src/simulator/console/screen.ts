// The screen of a simulated guest: 80 columns by 25 rows of text, drawn as a picture of 640 by 400 pixels, in the pixel
// formats of RFB: 8, 16 or 32 bits, in true color or with a color map. Each row records when it last changed, so that a
// client asking for changes gets only those rows.

const COLUMNS = 80;
const ROWS = 25;
const CELL_WIDTH = 8;
/** Pixels, the height of one row. */
export const CELL_HEIGHT = 16;

/** Width of the screen, pixels. */
export const SCREEN_WIDTH = COLUMNS * CELL_WIDTH;
/** Height of the screen, pixels. */
export const SCREEN_HEIGHT = ROWS * CELL_HEIGHT;

/** What the guest booted from, which decides the background. */
type ScreenKind = "cd" | "disk" | "nothing";

/** Colours of the picture as red, green, blue; a pixel is an index into this list. */
const PALETTE: readonly (readonly [number, number, number])[] = [
  [0, 0, 0],
  [0, 0, 112],
  [0, 64, 40],
  [64, 0, 0],
  [208, 208, 208],
];
const BACKGROUND: Readonly<Record<ScreenKind, number>> = { cd: 1, disk: 2, nothing: 3 };
const INK = 4;

/** A picture made of text; whatever shows it watches `version`. */
export class Screen {
  #rows: string[] = [];
  #background = 0;
  #version = 1;
  /** The version at which each row last changed. */
  #changed: number[] = new Array(ROWS).fill(1);
  #waiting = Promise.withResolvers<void>();

  /** A number that grows with each change. */
  get version(): number {
    return this.#version;
  }

  /** Settles when the picture next changes. */
  get nextChange(): Promise<void> {
    return this.#waiting.promise;
  }

  /** Replaces everything. Without lines the screen is black. */
  show(lines: readonly string[], kind: ScreenKind): void {
    this.#background = lines.length === 0 ? 0 : BACKGROUND[kind];
    this.#rows = lines.map((line) => line.slice(0, COLUMNS));
    this.#touch(0, ROWS);
  }

  /** Appends text, wrapping full rows and scrolling. */
  type(text: string): void {
    const first = Math.max(0, this.#rows.length - 1);
    for (const character of text) {
      const row = this.#rows.length - 1;
      const line = this.#rows[row];
      if (character === "\n") this.#rows.push("");
      else if (line === undefined || line.length >= COLUMNS) this.#rows.push(character);
      else this.#rows[row] = line + character;
    }
    const surplus = this.#rows.length - ROWS;
    if (surplus > 0) this.#rows.splice(0, surplus);
    this.#touch(surplus > 0 ? 0 : first, ROWS);
  }

  /** Removes the last character of the last row. */
  backspace(): void {
    const row = this.#rows.length - 1;
    this.#rows[row] = (this.#rows[row] ?? "").slice(0, -1);
    this.#touch(row, row + 1);
  }

  /** Rows that changed after a version, as runs `[first, end)`. */
  changedSince(version: number): [number, number][] {
    const runs: [number, number][] = [];
    for (let row = 0; row < ROWS; row++) {
      if ((this.#changed[row] ?? 0) <= version) continue;
      const last = runs.at(-1);
      if (last !== undefined && last[1] === row) last[1] = row + 1;
      else runs.push([row, row + 1]);
    }
    return runs;
  }

  /** The pixels of a rectangle as indexes into the palette, line by line. */
  pixels(x: number, y: number, width: number, height: number): Uint8Array {
    const pixels = new Uint8Array(width * height).fill(this.#background);
    for (let line = 0; line < height; line++) {
      const text = this.#rows[Math.floor((y + line) / CELL_HEIGHT)];
      // Glyphs are drawn twice as high as they are, one pixel from the top of their cell.
      const glyphRow = Math.floor(((y + line) % CELL_HEIGHT - 1) / 2);
      if (text === undefined || glyphRow < 0 || glyphRow >= GLYPH_HEIGHT) continue;
      for (let column = 0; column < width; column++) {
        const character = text[Math.floor((x + column) / CELL_WIDTH)];
        const glyphColumn = (x + column) % CELL_WIDTH - 1;
        if (character === undefined || glyphColumn < 0 || glyphColumn >= GLYPH_WIDTH) continue;
        if (isLit(character, glyphColumn, glyphRow)) pixels[line * width + column] = INK;
      }
    }
    return pixels;
  }

  #touch(first: number, end: number): void {
    this.#version += 1;
    this.#changed.fill(this.#version, first, end);
    this.#waiting.resolve();
    this.#waiting = Promise.withResolvers();
  }
}

const GLYPH_WIDTH = 5;
const GLYPH_HEIGHT = 7;

/** The character of the first glyph; the others follow in ASCII order up to `~`. */
const FIRST = 0x20;

/**
 * The letters, drawn for this screen: five columns by seven rows. A glyph is seven digits of base
 * 32, one for each row from the top; its highest bit is the leftmost column.
 */
const GLYPHS = (
  "0000000 4444404 aaa0000 aavavaa 4fke5u4 op248j3 cik8lid 4480000 " + //   ! " # $ % & '
  "2488842 8422248 04lel40 044v440 0000c48 000v000 00000cc 01248g0 " + // ( ) * + , - . /
  "ehjlphe 4c4444e eh1248v v2421he 26aiv22 vgu11he 68guhhe v124888 " + // 0 1 2 3 4 5 6 7
  "ehhehhe ehhf12c 0cc0cc0 0cc0c48 248g842 00v0v00 8421248 eh12404 " + // 8 9 : ; < = > ?
  "eh1dlle ehhvhhh uhhuhhu ehggghe sihhhis vgguggv vgguggg ehgnhhf " + // @ A B C D E F G
  "hhhvhhh e44444e 72222ic hikokih ggggggv hrllhhh hhpljhh ehhhhhe " + // H I J K L M N O
  "uhhuggg ehhhlid uhhukih fgge11u v444444 hhhhhhe hhhhha4 hhhllla " + // P Q R S T U V W
  "hha4ahh hhha444 v1248gv e88888e 0g84210 e22222e 4ah0000 000000v " + // X Y Z [ \ ] ^ _
  "8420000 00e1fhf ggmphhu 00egghe 11djhhf 00ehvge 698s888 0fhhf1e " + // ` a b c d e f g
  "ggmphhh 40c444e 20622ic ggikoki c44444e 00qllhh 00mphhh 00ehhhe " + // h i j k l m n o
  "00uhugg 00djf11 00mpggg 00ege1u 88s8896 00hhhjd 00hhha4 00hhlla " + // p q r s t u v w
  "00ha4ah 00hhf1e 00v248v 2448442 4444444 8442448 008l200" //             x y z { | } ~
).split(" ");

/** Whether a dot of a character is lit; one without a glyph is drawn as a question mark. */
function isLit(character: string, column: number, row: number): boolean {
  const glyph = GLYPHS[character.charCodeAt(0) - FIRST] ?? GLYPHS[0x3f - FIRST] ?? "";
  const bits = Number.parseInt(glyph[row] ?? "0", 32);
  return (bits >> (GLYPH_WIDTH - 1 - column) & 1) === 1;
}

/** The format in which a client requests its pixels. @see RFC 6143, 7.4 */
export interface PixelFormat {
  readonly bitsPerPixel: 8 | 16 | 32;
  readonly bigEndian: boolean;
  readonly trueColour: boolean;
  /** Largest value of red, green and blue. */
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

/** Parses the 16 bytes of a format; null if the server does not support it. */
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

/** As PIXEL_FORMAT of RFC 6143, section 7.4. */
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

/** Converts palette indexes to pixels of a format. */
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

/** The message with the colour map, for clients without true colour. */
export function colourMapMessage(): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(6 + 6 * PALETTE.length);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, 1);
  view.setUint16(4, PALETTE.length);
  PALETTE.flat().forEach((value, at) => view.setUint16(6 + 2 * at, value * 257));
  return bytes;
}

// The screen of a simulated guest: 80 columns by 25 rows of text, which is a picture of 640 by 400.
// Each row knows when it last changed, so that a client that asks for changes gets rows, not pictures.

import { GLYPH_HEIGHT, GLYPH_WIDTH, isLit } from "./font.ts";

const COLUMNS = 80;
const ROWS = 25;
const CELL_WIDTH = 8;
/** Pixels, the height of one row. */
export const CELL_HEIGHT = 16;

/** Pixels. */
export const SCREEN_WIDTH = COLUMNS * CELL_WIDTH;
/** Pixels. */
export const SCREEN_HEIGHT = ROWS * CELL_HEIGHT;

/** What the screen was booted into, which decides its background. */
export type ScreenKind = "cd" | "disk" | "nothing";

/** Colours of the picture as red, green, blue; a pixel is an index into this list. */
export const PALETTE: readonly (readonly [number, number, number])[] = [
  [0, 0, 0],
  [0, 0, 112],
  [0, 64, 40],
  [64, 0, 0],
  [208, 208, 208],
];
const BACKGROUND: Readonly<Record<ScreenKind, number>> = { cd: 1, disk: 2, nothing: 3 };
const INK = 4;

/** A picture made of text; everything that shows it watches `version`. */
export class Screen {
  #rows: string[] = [];
  #background = 0;
  #version = 1;
  /** The version at which each row last changed. */
  #changed: number[] = new Array(ROWS).fill(1);
  #waiting = Promise.withResolvers<void>();

  /** Grows with each change. */
  get version(): number {
    return this.#version;
  }

  /** Settles when the picture changes next. */
  get nextChange(): Promise<void> {
    return this.#waiting.promise;
  }

  /** Replaces everything. No lines at all leave the screen black. */
  show(lines: readonly string[], kind: ScreenKind): void {
    this.#background = lines.length === 0 ? 0 : BACKGROUND[kind];
    this.#rows = lines.map((line) => line.slice(0, COLUMNS));
    this.#touch(0, ROWS);
  }

  /** Adds text at the end, in a new row where a row is full, and scrolls. */
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

  /** Takes the last character of the last row away. */
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

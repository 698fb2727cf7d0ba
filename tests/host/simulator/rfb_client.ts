// A small RFB client: it shakes hands in any of the three versions, reads a whole picture, and types.
// It is written from RFC 6143 and shares with the server under test only the answer to a challenge,
// which has a test of its own.

import { vncAnswer } from "../../../src/simulator/console/handshake.ts";

export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly name: string;
}

export interface Rectangle {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly pixels: Uint8Array;
}

export class RfbClient implements Disposable {
  readonly #conn: Deno.TcpConn;
  #bytesPerPixel = 4;

  private constructor(conn: Deno.TcpConn) {
    this.#conn = conn;
  }

  static async connect(port: number): Promise<RfbClient> {
    return new RfbClient(await Deno.connect({ hostname: "127.0.0.1", port }));
  }

  [Symbol.dispose](): void {
    this.#conn.close();
  }

  /** Exactly these many bytes; an end before that is an error. */
  async read(length: number): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = new Uint8Array(length);
    for (let at = 0; at < length;) {
      const count = await this.#conn.read(bytes.subarray(at));
      if (count === null) throw new Error(`Connection ended after ${at} of ${length} bytes`);
      at += count;
    }
    return bytes;
  }

  async write(...bytes: number[]): Promise<void> {
    await this.#conn.write(new Uint8Array(bytes));
  }

  async text(length: number): Promise<string> {
    return new TextDecoder().decode(await this.read(length));
  }

  async #u32(): Promise<number> {
    return new DataView((await this.read(4)).buffer).getUint32(0);
  }

  /** Does the whole handshake. Throws the server's reason when it refuses. */
  async handshake(version: "3.3" | "3.7" | "3.8", password?: string): Promise<Picture> {
    await this.text(12);
    const minor = version.slice(2);
    await this.#conn.write(new TextEncoder().encode(`RFB 003.00${minor}\n`));
    const type = minor === "3" ? await this.#u32() : await this.#chooseType();
    if (type === 2) {
      await this.#conn.write(vncAnswer(password ?? "", await this.read(16)));
    }
    if (type === 2 || minor === "8") await this.#result(minor === "8");
    await this.write(1);
    const init = new DataView((await this.read(24)).buffer);
    const name = await this.text(init.getUint32(20));
    return { width: init.getUint16(0), height: init.getUint16(2), name };
  }

  async #chooseType(): Promise<number> {
    const [count = 0] = await this.read(1);
    const [type = 0] = await this.read(count);
    await this.write(type);
    return type;
  }

  async #result(withReason: boolean): Promise<void> {
    if (await this.#u32() === 0) return;
    throw new Error(withReason ? await this.text(await this.#u32()) : "refused");
  }

  /** Asks for true colour of 8 bits (3, 3, 2), 16 bits (5, 6, 5), or 32 bits. */
  async setPixelBits(bits: 8 | 16 | 32): Promise<void> {
    const max = { 8: [7, 7, 3], 16: [31, 63, 31], 32: [255, 255, 255] }[bits];
    const shift = { 8: [0, 3, 6], 16: [11, 5, 0], 32: [16, 8, 0] }[bits];
    const maxes = max.flatMap((value) => [0, value]);
    await this.write(0, 0, 0, 0, bits, bits, 0, 1, ...maxes, ...shift, 0, 0, 0);
    this.#bytesPerPixel = bits / 8;
  }

  /** Asks for raw pixels only. */
  async setEncodings(): Promise<void> {
    await this.write(2, 0, 0, 1, 0, 0, 0, 0);
  }

  async request(incremental: boolean, width = 640, height = 400): Promise<void> {
    await this.write(
      3,
      incremental ? 1 : 0,
      ...[0, 0, 0, 0],
      ...[width >> 8, width & 255, height >> 8, height & 255],
    );
  }

  /** The next update of the picture. */
  async update(): Promise<Rectangle[]> {
    const head = new DataView((await this.read(4)).buffer);
    if (head.getUint8(0) !== 0) throw new Error(`Unexpected message ${head.getUint8(0)}`);
    const rectangles: Rectangle[] = [];
    for (let left = head.getUint16(2); left > 0; left--) {
      const view = new DataView((await this.read(12)).buffer);
      const [x, y] = [view.getUint16(0), view.getUint16(2)];
      const [width, height] = [view.getUint16(4), view.getUint16(6)];
      if (view.getInt32(8) !== 0) throw new Error("Unexpected encoding");
      const pixels = await this.read(width * height * this.#bytesPerPixel);
      rectangles.push({ x, y, width, height, pixels });
    }
    return rectangles;
  }

  /** The whole picture as it is now. */
  async picture(): Promise<Uint8Array> {
    await this.request(false);
    const [rectangle] = await this.update();
    if (rectangle === undefined) throw new Error("Update without a rectangle");
    return rectangle.pixels;
  }

  /** Presses and releases keys; a newline is the return key. */
  async type(text: string): Promise<void> {
    for (const character of text) {
      const keysym = character === "\n" ? 0xff0d : character.charCodeAt(0);
      for (const down of [1, 0]) {
        await this.write(4, down, 0, 0, 0, 0, keysym >> 8, keysym & 255);
      }
    }
  }
}

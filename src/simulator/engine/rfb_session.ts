// One client of the simulated screen, after its handshake: it requests updates and sends keys, and gets rectangles of
// raw pixels. @see RFC 6143, 7.5 and 7.6

import { ByteReader } from "../console/byte_reader.ts";
import { writeAll } from "../../domain/bytes.ts";
import {
  CELL_HEIGHT,
  colourMapMessage,
  encodePixels,
  parsePixelFormat,
  type PixelFormat,
  Screen,
  SCREEN_HEIGHT,
  SCREEN_WIDTH,
  SERVER_FORMAT,
} from "../console/screen.ts";

/** Longest text that a client may paste, bytes; it is read and discarded. */
const CUT_TEXT_BYTES_MAX = 1 << 20;

/** What receives the events of a client. */
interface Inputs {
  readonly onKey: (keysym: number) => void;
  readonly onPointer: (x: number, y: number, buttons: number) => void;
}

interface Rectangle {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** Serves one client until either side ends. */
export class RfbSession {
  readonly #conn: Deno.Conn;
  readonly #reader: ByteReader;
  readonly #screen: Screen;
  readonly #inputs: Inputs;
  #format: PixelFormat = SERVER_FORMAT;
  /** The version of the screen that the client has. */
  #seen = 0;
  /** The rectangle whose change the client waits for. */
  #wanted: Rectangle | null = null;
  #open = true;
  readonly #closing = Promise.withResolvers<void>();
  /** Writes run one after another, since two at once would mix. */
  #writing: Promise<void> = Promise.resolve();

  constructor(conn: Deno.Conn, reader: ByteReader, screen: Screen, inputs: Inputs) {
    this.#conn = conn;
    this.#reader = reader;
    this.#screen = screen;
    this.#inputs = inputs;
  }

  async run(): Promise<void> {
    const watching = this.#watch();
    while (await this.#message());
    this.#open = false;
    this.#closing.resolve();
    await Promise.all([watching, this.#writing]);
  }

  /** Sends changes to a client that waits for them. */
  async #watch(): Promise<void> {
    while (this.#open) {
      const change = this.#screen.nextChange;
      this.#update();
      await Promise.race([change, this.#closing.promise]);
    }
  }

  /** Reads one message. False at the end of the connection, and for an unknown message. */
  async #message(): Promise<boolean> {
    switch (await this.#reader.byte()) {
      case 0:
        return await this.#setPixelFormat();
      case 2:
        return await this.#setEncodings();
      case 3:
        return await this.#request();
      case 4:
        return await this.#key();
      case 5:
        return await this.#pointer();
      case 6:
        return await this.#cutText();
      default:
        return false;
    }
  }

  async #setPixelFormat(): Promise<boolean> {
    const bytes = await this.#reader.read(19);
    const format = bytes === null ? null : parsePixelFormat(bytes.subarray(3));
    if (format === null) return false;
    this.#format = format;
    if (!format.trueColour) this.#send(colourMapMessage());
    return true;
  }

  /** Raw is always allowed, and the only encoding used here. */
  async #setEncodings(): Promise<boolean> {
    const head = await this.#view(3);
    return head !== null && await this.#reader.skip(4 * head.getUint16(1));
  }

  async #request(): Promise<boolean> {
    const body = await this.#view(9);
    if (body === null) return false;
    const x = Math.min(body.getUint16(1), SCREEN_WIDTH);
    const y = Math.min(body.getUint16(3), SCREEN_HEIGHT);
    const width = Math.min(body.getUint16(5), SCREEN_WIDTH - x);
    const height = Math.min(body.getUint16(7), SCREEN_HEIGHT - y);
    const rectangle = { x, y, width, height };
    if (body.getUint8(0) === 0) {
      this.#seen = this.#screen.version;
      this.#sendRectangles([rectangle]);
      return true;
    }
    this.#wanted = rectangle;
    this.#update();
    return true;
  }

  async #key(): Promise<boolean> {
    const body = await this.#view(7);
    if (body === null) return false;
    if (body.getUint8(0) !== 0) this.#inputs.onKey(body.getUint32(3));
    return true;
  }

  async #pointer(): Promise<boolean> {
    const body = await this.#view(5);
    if (body === null) return false;
    this.#inputs.onPointer(body.getUint16(1), body.getUint16(3), body.getUint8(0));
    return true;
  }

  async #cutText(): Promise<boolean> {
    const head = await this.#view(7);
    if (head === null || head.getUint32(3) > CUT_TEXT_BYTES_MAX) return false;
    return await this.#reader.skip(head.getUint32(3));
  }

  async #view(length: number): Promise<DataView | null> {
    const bytes = await this.#reader.read(length);
    return bytes === null ? null : new DataView(bytes.buffer);
  }

  /** Answers an incremental request as soon as something in its rectangle has changed. */
  #update(): void {
    const wanted = this.#wanted;
    if (wanted === null) return;
    const rectangles = this.#screen.changedSince(this.#seen).flatMap(([first, end]) => {
      const top = Math.max(wanted.y, first * CELL_HEIGHT);
      const bottom = Math.min(wanted.y + wanted.height, end * CELL_HEIGHT);
      return bottom <= top ? [] : [{ ...wanted, y: top, height: bottom - top }];
    });
    if (rectangles.length === 0) return;
    this.#wanted = null;
    this.#seen = this.#screen.version;
    this.#sendRectangles(rectangles);
  }

  #sendRectangles(rectangles: readonly Rectangle[]): void {
    const head = new DataView(new ArrayBuffer(4));
    head.setUint16(2, rectangles.length);
    this.#send(new Uint8Array(head.buffer));
    for (const { x, y, width, height } of rectangles) {
      const view = new DataView(new ArrayBuffer(12));
      [x, y, width, height].forEach((value, at) => view.setUint16(2 * at, value));
      this.#send(new Uint8Array(view.buffer));
      this.#send(encodePixels(this.#screen.pixels(x, y, width, height), this.#format));
    }
  }

  #send(bytes: Uint8Array): void {
    // If the client is gone, the next read notices.
    this.#writing = this.#writing.then(() => writeAll(this.#conn, bytes)).catch(() => {});
  }
}

// One kept-alive connection that speaks HTTP/1.1 itself: many requests may be under way on it, and
// the body of an answer is read only as fast as the test wants.

import type { JsonObject } from "../../src/domain/json.ts";

const READ_BYTES = 64 * 1024;
const LINE_END = "\r\n";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The first part of an answer. */
export interface Head {
  readonly status: number;
  /** Header names are in small letters. */
  readonly headers: ReadonlyMap<string, string>;
}

/** One connection to an agent. */
export class RawConnection {
  readonly #connection: Deno.TcpConn;
  readonly #host: string;
  #buffered = new Uint8Array(0);

  private constructor(connection: Deno.TcpConn, host: string) {
    this.#connection = connection;
    this.#host = host;
  }

  static async open(url: string): Promise<RawConnection> {
    const { hostname, port, host } = new URL(url);
    return new RawConnection(await Deno.connect({ hostname, port: Number(port) }), host);
  }

  close(): void {
    this.#connection.close();
  }

  /** Sends requests, one behind the other; their answers come in this order. */
  async send(requests: readonly { method: string; path: string; body?: JsonObject }[]) {
    const texts = requests.map(({ method, path, body }) => {
      const text = body === undefined ? "" : JSON.stringify(body);
      const lines = [`${method} ${path} HTTP/1.1`, `host: ${this.#host}`];
      if (body !== undefined) {
        lines.push("content-type: application/json");
        lines.push(`content-length: ${encoder.encode(text).length}`);
      }
      return lines.join(LINE_END) + LINE_END + LINE_END + text;
    });
    const bytes = encoder.encode(texts.join(""));
    for (let sent = 0; sent < bytes.length;) {
      sent += await this.#connection.write(bytes.subarray(sent));
    }
  }

  /** The head of the next answer. */
  async head(): Promise<Head> {
    const [first = "", ...lines] = (await this.#until(LINE_END + LINE_END)).split(LINE_END);
    const headers = lines.filter((line) => line !== "").map((line) => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
    });
    return { status: Number(first.split(" ")[1]), headers: new Map(headers) };
  }

  /** The body of the answer whose head was read, in the pieces in which it comes. */
  async *body({ headers }: Head): AsyncGenerator<Uint8Array> {
    if (headers.get("transfer-encoding") !== "chunked") {
      let left = Number(headers.get("content-length") ?? 0);
      while (left > 0) {
        const piece = await this.#atMost(left);
        left -= piece.length;
        yield piece;
      }
      return;
    }
    for (;;) {
      let left = Number.parseInt(await this.#until(LINE_END), 16);
      const last = left === 0;
      while (left > 0) {
        const piece = await this.#atMost(left);
        left -= piece.length;
        yield piece;
      }
      await this.#until(LINE_END);
      if (last) return;
    }
  }

  /** The whole of the next answer. */
  async answer(): Promise<Head & { readonly text: string }> {
    const head = await this.head();
    let text = "";
    for await (const piece of this.body(head)) text += decoder.decode(piece);
    return { ...head, text };
  }

  /** What was buffered, at most so many bytes of it, after a read when there is none. */
  async #atMost(bytes: number): Promise<Uint8Array> {
    if (this.#buffered.length === 0) await this.#read();
    const piece = this.#buffered.slice(0, bytes);
    this.#buffered = this.#buffered.slice(piece.length);
    return piece;
  }

  /** The text up to an end that is not part of it. */
  async #until(end: string): Promise<string> {
    for (;;) {
      // Heads and the lines of chunks are ASCII; a body that lies behind them is not decoded.
      const text = String.fromCharCode(...this.#buffered.subarray(0, 4096));
      const at = text.indexOf(end);
      if (at >= 0) {
        this.#buffered = this.#buffered.slice(at + end.length);
        return text.slice(0, at);
      }
      await this.#read();
    }
  }

  async #read(): Promise<void> {
    const piece = new Uint8Array(READ_BYTES);
    const count = await this.#connection.read(piece);
    if (count === null) throw new Error("The agent closed the connection");
    const joined = new Uint8Array(this.#buffered.length + count);
    joined.set(this.#buffered);
    joined.set(piece.subarray(0, count), this.#buffered.length);
    this.#buffered = joined;
  }
}

/** The objects of a JSON list, one after the other, so that the list need not be in memory. */
export async function* objectsOf(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<JsonObject> {
  const scanner = new ObjectScanner();
  const text = new TextDecoder();
  for await (const piece of pieces) yield* scanner.scan(text.decode(piece, { stream: true }));
  if (!scanner.ended) throw new Error("The list breaks off");
}

/** Finds the end of each object by its braces, those inside texts left out. */
class ObjectScanner {
  #open = "";
  #depth = 0;
  #inText = false;
  #escaped = false;
  ended = false;

  *scan(text: string): Generator<JsonObject> {
    let from = 0;
    for (let at = 0; at < text.length; at++) {
      const character = text[at];
      if (this.#inText) {
        if (this.#escaped) this.#escaped = false;
        else if (character === "\\") this.#escaped = true;
        else if (character === '"') this.#inText = false;
      } else if (character === '"') this.#inText = true;
      else if (character === "{") {
        if (this.#depth === 0) from = at;
        this.#depth += 1;
      } else if (character === "}") {
        this.#depth -= 1;
        if (this.#depth > 0) continue;
        yield JSON.parse(this.#open + text.slice(from, at + 1));
        this.#open = "";
        from = at + 1;
      } else if (character === "]" && this.#depth === 0) this.ended = true;
    }
    if (this.#depth > 0) this.#open += text.slice(from);
  }
}

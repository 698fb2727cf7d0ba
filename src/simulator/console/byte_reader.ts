// Reads exact numbers of bytes from a connection, and keeps what arrived beyond them.

const CHUNK_BYTES = 4096;

/** Never throws at the end of the connection: null means that it has ended. */
export class ByteReader {
  readonly #conn: Deno.Conn;
  #kept = new Uint8Array(0);

  constructor(conn: Deno.Conn) {
    this.#conn = conn;
  }

  /** The next `length` bytes, or null when the other side ended before that. */
  async read(length: number): Promise<Uint8Array<ArrayBuffer> | null> {
    while (this.#kept.length < length) {
      const chunk = new Uint8Array(CHUNK_BYTES);
      const count = await this.#conn.read(chunk);
      if (count === null) return null;
      const grown = new Uint8Array(this.#kept.length + count);
      grown.set(this.#kept);
      grown.set(chunk.subarray(0, count), this.#kept.length);
      this.#kept = grown;
    }
    const bytes = this.#kept.slice(0, length);
    this.#kept = this.#kept.slice(length);
    return bytes;
  }

  /** The next byte; null at the end. */
  async byte(): Promise<number | null> {
    return (await this.read(1))?.[0] ?? null;
  }

  /** Reads and discards. False when the connection ended before that. */
  async skip(length: number): Promise<boolean> {
    for (let left = length; left > 0;) {
      const part = Math.min(left, CHUNK_BYTES);
      if (await this.read(part) === null) return false;
      left -= part;
    }
    return true;
  }
}

// A kept-alive HTTP/1.1 connection that sends requests made beforehand: a fraction of the cost of
// fetch(), so that the load costs little of the cores that it shares with what is measured.

const READ_BYTES = 64 * 1024;
const CARRIAGE_RETURN = 13;

export interface Answer {
  readonly status: number;
  /** Valid until the next request of the connection. */
  readonly body: Uint8Array;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A whole request as bytes; with a body it is JSON. */
export function requestBytes(
  url: URL,
  method: "GET" | "POST",
  path: string,
  body?: unknown,
  idempotencyKey?: string,
) {
  const key = idempotencyKey === undefined ? "" : `idempotency-key: ${idempotencyKey}\r\n`;
  const head = `${method} ${path} HTTP/1.1\r\nhost: ${url.host}\r\n${key}`;
  if (body === undefined) return encoder.encode(`${head}\r\n`);
  const text = JSON.stringify(body);
  const { length } = encoder.encode(text);
  return encoder.encode(
    `${head}content-type: application/json\r\ncontent-length: ${length}\r\n\r\n${text}`,
  );
}

export class HttpConnection {
  readonly #connection: Deno.TcpConn;
  #buffer = new Uint8Array(READ_BYTES);

  private constructor(connection: Deno.TcpConn) {
    this.#connection = connection;
  }

  static async open(url: URL): Promise<HttpConnection> {
    const connection = await Deno.connect({ hostname: url.hostname, port: Number(url.port) });
    connection.setNoDelay(true);
    return new HttpConnection(connection);
  }

  close(): void {
    this.#connection.close();
  }

  /** Sends one request and reads its answer, which must say its length. */
  async send(request: Uint8Array): Promise<Answer> {
    let written = 0;
    while (written < request.length) {
      written += await this.#connection.write(request.subarray(written));
    }
    let filled = 0;
    let bodyStart = -1;
    while (bodyStart < 0) {
      filled = await this.#read(filled);
      bodyStart = endOfHead(this.#buffer, filled);
    }
    const head = decoder.decode(this.#buffer.subarray(0, bodyStart));
    const status = Number(head.slice(9, 12));
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
    if (length === undefined && status !== 204) {
      throw new Error(`Cannot read the answer: it does not say its length\n${head}`);
    }
    const end = bodyStart + Number(length ?? 0);
    while (filled < end) filled = await this.#read(filled);
    return { status, body: this.#buffer.subarray(bodyStart, end) };
  }

  /** As `send`, but the status has to be the wanted one, and the body is read as JSON. */
  async json(request: Uint8Array, wanted: number): Promise<Record<string, unknown>> {
    const { status, body } = await this.send(request);
    const text = decoder.decode(body);
    if (status !== wanted) throw new Error(`Answered ${status}, expected ${wanted}: ${text}`);
    return JSON.parse(text);
  }

  async #read(filled: number): Promise<number> {
    if (filled === this.#buffer.length) {
      const larger = new Uint8Array(this.#buffer.length * 2);
      larger.set(this.#buffer);
      this.#buffer = larger;
    }
    const count = await this.#connection.read(this.#buffer.subarray(filled));
    if (count === null) throw new Error("The connection was closed before the answer was whole");
    return filled + count;
  }
}

/** Where the body begins, or -1 while the head is not whole. */
function endOfHead(buffer: Uint8Array, filled: number): number {
  let at = buffer.indexOf(CARRIAGE_RETURN);
  while (at >= 0 && at + 3 < filled) {
    if (buffer[at + 2] === CARRIAGE_RETURN) return at + 4;
    at = buffer.indexOf(CARRIAGE_RETURN, at + 2);
  }
  return -1;
}

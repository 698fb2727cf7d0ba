// Requests as bytes, for what fetch() would never send.

export interface RawAnswer {
  /** 0 when the connection was closed without a response. */
  readonly status: number;
  readonly head: string;
  readonly text: string;
}

/** A request without a body. */
export function listed(lines: readonly string[]): string {
  return `${lines.join("\r\n")}\r\n\r\n`;
}

export interface RawOptions {
  /** Tells the agent that nothing more follows. */
  readonly halfClose?: boolean;
  /** Stops at the end of the first response, for requests that are never finished. */
  readonly firstOnly?: boolean;
}

/** Writes bytes to the port, then reads what is answered until the agent closes. */
export async function rawCall(
  port: number,
  request: string | Uint8Array,
  options: RawOptions = {},
): Promise<RawAnswer> {
  const connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const bytes = typeof request === "string" ? new TextEncoder().encode(request) : request;
  // Beside the reading: an agent that has answered early reads no further, and writing would wait.
  const written = writeAll(connection, bytes, options.halfClose ?? false);
  try {
    return answerOf(await readAll(connection, options.firstOnly ?? false));
  } finally {
    connection.close();
    await written;
  }
}

/** Deno.Conn.write may write a part only. The agent may close before it has read everything. */
async function writeAll(
  connection: Deno.TcpConn,
  bytes: Uint8Array,
  halfClose: boolean,
): Promise<void> {
  try {
    for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
    if (halfClose) await connection.closeWrite();
  } catch (error) {
    if (!isClosed(error)) throw error;
  }
}

async function readAll(connection: Deno.Conn, firstOnly: boolean): Promise<string> {
  const buffer = new Uint8Array(64 * 1024);
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const size = await connection.read(buffer);
      if (size === null) return text;
      text += decoder.decode(buffer.subarray(0, size), { stream: true });
      if (firstOnly && isWhole(answerOf(text))) return text;
    }
  } catch (error) {
    if (!isClosed(error)) throw error;
    return text;
  }
}

function isWhole({ head, text }: RawAnswer): boolean {
  const length = /^content-length: (\d+)$/im.exec(head)?.[1];
  return length !== undefined && new TextEncoder().encode(text).length >= Number(length);
}

function isClosed(error: unknown): boolean {
  const { BadResource, BrokenPipe, ConnectionReset, Interrupted, NotConnected } = Deno.errors;
  return [BadResource, BrokenPipe, ConnectionReset, Interrupted, NotConnected]
    .some((kind) => error instanceof kind);
}

function answerOf(text: string): RawAnswer {
  const [head = "", ...rest] = text.split("\r\n\r\n");
  const status = /^HTTP\/1\.[01] (\d{3})/.exec(head)?.[1];
  return { status: Number(status ?? 0), head, text: rest.join("\r\n\r\n") };
}

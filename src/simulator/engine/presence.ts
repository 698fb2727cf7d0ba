// Checks whether the process of a machine is alive: it answers on its own port with the id of its start.
// A pid is not enough: pids are reused, and a dead process may keep its pid as a zombie. Once the
// process has ended, for any reason, nothing answers on the port.

import { writeAll } from "../console/byte_reader.ts";

const HOSTNAME = "127.0.0.1";
/** Longest wait for an answer, milliseconds: a slow process must not count as dead. */
const ANSWER_MS = 10_000;
/** Most bytes read of an answer. */
const ANSWER_BYTES_MAX = 64;

/** Answers every connection with a word while this process lives. @returns the port */
export function announcePresence(word: string): number {
  const listener = Deno.listen({ hostname: HOSTNAME, port: 0 });
  const answer = async () => {
    for await (const conn of listener) {
      await writeAll(conn, new TextEncoder().encode(word)).catch(() => {});
      conn.close();
    }
  };
  answer().catch(() => {});
  return listener.addr.port;
}

/** Whether the process that announced this word on this port is alive. */
export async function isPresent(port: number, word: string): Promise<boolean> {
  let conn: Deno.TcpConn;
  try {
    conn = await Deno.connect({ hostname: HOSTNAME, port });
  } catch (error) {
    // Reset, or no longer connected: it died between connection and answer.
    const { ConnectionRefused, ConnectionReset, NotConnected } = Deno.errors;
    const gone = [ConnectionRefused, ConnectionReset, NotConnected];
    if (gone.some((kind) => error instanceof kind)) return false;
    throw error;
  }
  const timer = setTimeout(() => conn.close(), ANSWER_MS);
  try {
    const bytes = new Uint8Array(ANSWER_BYTES_MAX);
    let length = 0;
    while (length < bytes.length) {
      const count = await conn.read(bytes.subarray(length));
      if (count === null) break;
      length += count;
    }
    return new TextDecoder().decode(bytes.subarray(0, length)) === word;
  } catch (error) {
    // It died during the check, or is silent: only the end of the connection proves its death.
    return error instanceof Deno.errors.BadResource || error instanceof Deno.errors.Interrupted;
  } finally {
    clearTimeout(timer);
    try {
      conn.close();
    } catch {
      // The timer has closed it.
    }
  }
}

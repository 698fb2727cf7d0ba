// Carries bytes between two connections until both are closed: `outer` leads to a caller, `inner` to the
// server. Neither side is read before the other has taken the last piece, so a relay holds one piece per
// direction, however fast one side sends and however slowly the other reads.

import { writeAll } from "../../domain/bytes.ts";
import { within } from "../../runtime/wait.ts";
import type { RawBytes } from "./runtime_connection.ts";

/** Bytes of one piece; a TLS record is no longer. */
const PIECE_BYTES = 16 * 1024;
/**
 * How long a caller may take to close its side after the last byte, milliseconds. Closing a connection with
 * unread bytes resets it, and the caller may lose what it was sent.
 */
const LINGER_MS = 2_000;

/** Two connections whose bytes are carried across in both directions. */
export interface ConnectionRelay {
  /** Settles when everything from the inner connection was sent to the outer one. Never rejects. */
  readonly delivered: Promise<void>;
  /** Settles when both are closed. Never rejects. */
  readonly finished: Promise<void>;
  cut(): void;
  /** Closes the inner connection and hands the outer one over. */
  takeOver(): RawBytes;
}

/**
 * Starts a relay. The end of one side is passed on; a broken connection closes the other.
 * @param moved called whenever the outer connection has taken a piece
 * @param allowed asked before this many bytes are sent to it; on false, both are closed
 */
export function relayConnections(
  outer: Deno.Conn,
  inner: Deno.Conn,
  moved: () => void,
  allowed: (bytes: number) => boolean = () => true,
): ConnectionRelay {
  withoutDelay(outer);
  withoutDelay(inner);
  let taken: HandOver | undefined;
  const cut = () => {
    closeConnection(outer);
    closeConnection(inner);
    taken?.end();
  };
  let writing: Promise<void> = Promise.resolve();
  const send = async (bytes: Uint8Array) => {
    await (writing = writeAll(outer, bytes));
    moved();
  };
  const give = (piece: Uint8Array) => taken?.give(piece) ?? writeAll(inner, piece);
  const incoming = carry(outer, give, () => true).then((end) => {
    if (taken !== undefined) return taken.end();
    if (end === "source broke") return cut();
    if (end === "target broke") return drained(outer);
    return endOf(inner);
  });
  const take = async (piece: Uint8Array) => {
    if (taken === undefined) await send(piece);
  };
  const delivered = carry(inner, take, allowed).then((end) => {
    if (taken !== undefined) return;
    if (end === "target broke" || end === "not allowed") return cut();
    return endOf(outer);
  });
  const finished = delivered
    .then(() => taken === undefined ? within(LINGER_MS, incoming) : incoming).then(cut);
  const takeOver = () => {
    const handOver = taken = openHandOver();
    closeConnection(inner);
    return {
      read: handOver.read,
      // An answer to an earlier request may still be sent.
      write: (bytes: Uint8Array) => writing.catch(() => {}).then(() => send(bytes)),
      close: cut,
    };
  };
  return { delivered, finished, cut, takeOver };
}

/** Hands pieces from a writer to a reader. */
interface HandOver {
  /** Settles when all of the piece was read, or the reader has gone. */
  give(piece: Uint8Array): Promise<void>;
  /** Ends the hand-over; either side may call it. */
  end(): void;
  /** Settles with null once the other side has ended. */
  read(buffer: Uint8Array): Promise<number | null>;
}

function openHandOver(): HandOver {
  let left: Uint8Array = new Uint8Array(0);
  let ended = false;
  let given = () => {};
  let taken = () => {};
  return {
    async give(piece) {
      if (ended) return;
      left = piece;
      given();
      await new Promise<void>((resolve) => taken = resolve);
    },
    end() {
      ended = true;
      given();
      taken();
    },
    async read(buffer) {
      if (left.length === 0 && !ended) await new Promise<void>((resolve) => given = resolve);
      const size = Math.min(left.length, buffer.length);
      if (size === 0) return null;
      buffer.set(left.subarray(0, size));
      left = left.subarray(size);
      if (left.length === 0) taken();
      return size;
    },
  };
}

/** A relay passes bytes on at once; waiting for more would only add delay. */
function withoutDelay(connection: Deno.Conn): void {
  if (!("setNoDelay" in connection) || typeof connection.setNoDelay !== "function") return;
  try {
    connection.setNoDelay(true);
  } catch {
    // Some systems refuse this for a connection that has just closed; the next read notices.
  }
}

type CarryEnd = "ended" | "source broke" | "target broke" | "not allowed";

/**
 * Never rejects. Ends when the source ends, when either side breaks, or before bytes that are not allowed.
 */
async function carry(
  source: Deno.Conn,
  give: (piece: Uint8Array) => Promise<void>,
  allowed: (bytes: number) => boolean,
): Promise<CarryEnd> {
  const buffer = new Uint8Array(PIECE_BYTES);
  for (;;) {
    let size: number | null;
    try {
      size = await source.read(buffer);
    } catch {
      return "source broke";
    }
    if (size === null) return "ended";
    if (!allowed(size)) return "not allowed";
    try {
      await give(buffer.subarray(0, size));
    } catch {
      return "target broke";
    }
  }
}

/** Drops what a caller still sends, until it ends or is closed. */
async function drained(source: Deno.Conn): Promise<void> {
  const buffer = new Uint8Array(PIECE_BYTES);
  try {
    while (await source.read(buffer) !== null);
  } catch {
    // It was closed, which ends this too.
  }
}

/** Passes on that the other side will send no more. */
async function endOf(target: Deno.Conn): Promise<void> {
  try {
    await target.closeWrite();
  } catch {
    // The peer has closed it already.
  }
}

/** Closes a connection, even one that is closed already. @throws any other error of the connection */
export function closeConnection(connection: { close(): void }): void {
  try {
    connection.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BadResource)) throw error;
  }
}

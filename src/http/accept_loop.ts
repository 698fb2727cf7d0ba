// A listener that goes on listening. Accepting fails when the process is out of file descriptors, and
// any program of the host can bring that about; a certificate is exchanged by listening anew at the
// same address, which leaves the connections that there are alone.

import type { Log } from "../log.ts";
import { pause, untilDone } from "../loop.ts";

/** Milliseconds without accepting, in which those who hold the descriptors may let some go. */
const ACCEPT_AGAIN_MS = 250;
/** Milliseconds between two attempts to listen where the last listener has just been closed. */
const LISTEN_AGAIN_FIRST_MS = 5;
const LISTEN_AGAIN_LONGEST_MS = 5_000;

/** Makes a listener at the address where the last one was. */
export type OpenListener = () => Deno.Listener | Promise<Deno.Listener>;

/** A listener that is there until it is closed. */
export interface AcceptLoop {
  /** Listens anew by another function, which must have been proved to work elsewhere. */
  replace(open: OpenListener): Promise<void>;
  /** Takes no more connections. */
  close(): Promise<void>;
}

/**
 * Accepts connections until it is closed.
 * @param take is given each connection, and closes it in the end
 */
export function keepAccepting(
  first: Deno.Listener,
  take: (connection: Deno.Conn) => void,
  log: Log,
): AcceptLoop {
  let listener = first;
  const closing = new AbortController();
  const { signal } = closing;
  let replacing: { readonly open: OpenListener; readonly done: () => void } | undefined;
  const listenAnew = async (open: OpenListener, done: () => void) => {
    const next = await untilDone(async () => await open(), {
      firstMs: LISTEN_AGAIN_FIRST_MS,
      longestMs: LISTEN_AGAIN_LONGEST_MS,
      signal,
      onFailure: (error) => log.error("not listening again", { error }),
    });
    if (next !== undefined) listener = next;
    done();
  };
  const watch = async () => {
    let failing = false;
    while (!signal.aborted) {
      try {
        take(await listener.accept());
        failing = false;
      } catch (error) {
        if (signal.aborted) return;
        const wish = replacing;
        replacing = undefined;
        if (wish !== undefined) {
          await listenAnew(wish.open, wish.done);
          continue;
        }
        if (!failing) log.error("connections not accepted", { error });
        failing = true;
        await pause(ACCEPT_AGAIN_MS, signal);
      }
    }
  };
  const watching = watch();
  return {
    async replace(open) {
      const { promise, resolve } = Promise.withResolvers<void>();
      replacing = { open, done: resolve };
      closeListener(listener);
      await promise;
    },
    async close() {
      closing.abort();
      closeListener(listener);
      await watching;
      closeListener(listener);
    },
  };
}

function closeListener(listener: Deno.Listener): void {
  try {
    listener.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BadResource)) throw error;
  }
}

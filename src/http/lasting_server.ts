// A server that outlives its listener. Deno's ends for good when it once cannot accept a connection,
// as when the process is out of file descriptors, and any program of the host can bring that about.

import type { Log } from "../log.ts";
import { pause, untilDone } from "../loop.ts";

/** Milliseconds without a listener, in which those who hold the descriptors may let some go. */
const LISTEN_AGAIN_FIRST_MS = 250;
const LISTEN_AGAIN_LONGEST_MS = 5_000;

/** A server that is started again until it is shut down. */
export interface LastingServer {
  /** Starts it anew by another function, which must have been proved to work elsewhere. */
  replace(by: () => Deno.HttpServer | Promise<Deno.HttpServer>): Promise<void>;
  /** Takes no more requests, and resolves when those under way have been answered. */
  shutdown(): Promise<void>;
}

/**
 * Keeps a server going.
 * @param again starts it anew at the same address
 */
export function keepServing(
  first: Deno.HttpServer,
  again: () => Deno.HttpServer | Promise<Deno.HttpServer>,
  log: Log,
): LastingServer {
  let server: Deno.HttpServer | undefined = first;
  let start = again;
  let replaced: (() => void) | undefined;
  const closing = new AbortController();
  const { signal } = closing;
  const startAgain = async () => {
    server = await untilDone(async () => await start(), {
      firstMs: LISTEN_AGAIN_FIRST_MS,
      longestMs: LISTEN_AGAIN_LONGEST_MS,
      signal,
      onFailure: (error) => log.error("not listening again", { error }),
    });
    replaced?.();
    replaced = undefined;
  };
  const watch = async () => {
    while (server !== undefined) {
      try {
        await server.finished;
        if (replaced === undefined) return;
      } catch (error) {
        server = undefined;
        log.error("listener lost", { error });
        await pause(LISTEN_AGAIN_FIRST_MS, signal);
      }
      await startAgain();
    }
  };
  const watching = watch();
  return {
    async replace(by) {
      start = by;
      const { promise, resolve } = Promise.withResolvers<void>();
      replaced = resolve;
      // Answers under way are given to their end first.
      await server?.shutdown();
      await promise;
    },
    async shutdown() {
      closing.abort();
      await server?.shutdown();
      await watching;
    },
  };
}

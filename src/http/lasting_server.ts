// A server that outlives its listener. Deno's ends for good when it once cannot accept a connection,
// as when the process is out of file descriptors, and any program of the host can bring that about.

import type { Log } from "../log.ts";
import { pause, untilDone } from "../loop.ts";

/** Milliseconds without a listener, in which those who hold the descriptors may let some go. */
const LISTEN_AGAIN_FIRST_MS = 250;
const LISTEN_AGAIN_LONGEST_MS = 5_000;

/** A server that is started again until it is shut down. */
export interface LastingServer {
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
  const closing = new AbortController();
  const { signal } = closing;
  const watch = async () => {
    while (server !== undefined) {
      try {
        return await server.finished;
      } catch (error) {
        server = undefined;
        log.error("listener lost", { error });
        await pause(LISTEN_AGAIN_FIRST_MS, signal);
        server = await untilDone(async () => await again(), {
          firstMs: LISTEN_AGAIN_FIRST_MS,
          longestMs: LISTEN_AGAIN_LONGEST_MS,
          signal,
          onFailure: (error) => log.error("not listening again", { error }),
        });
      }
    }
  };
  const watching = watch();
  return {
    async shutdown() {
      closing.abort();
      await server?.shutdown();
      await watching;
    },
  };
}

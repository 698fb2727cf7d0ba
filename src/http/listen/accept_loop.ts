// Keeps listening whatever happens. Accepting fails while file descriptors have run out, which any program on
// the host can cause.

import type { Log } from "../../metrics/log.ts";
import { pause } from "../../runtime/waiting.ts";
import { closeConnection } from "./connection_relay.ts";

/** Milliseconds between two log lines about connections that fail. */
const LOG_EVERY_MS = 10_000;
/** Milliseconds between attempts; descriptors may become free meanwhile. */
const ACCEPT_AGAIN_MS = 250;

/**
 * Whether accepting failed because the caller reset its connection: the listener is fine, and the next
 * connection may be waiting.
 */
export function isCallerGone(error: unknown): boolean {
  const { ConnectionAborted, ConnectionReset, NotConnected } = Deno.errors;
  return [ConnectionAborted, ConnectionReset, NotConnected].some((gone) => error instanceof gone);
}

/**
 * Logs connections that fail, at most every ten seconds: without descriptors, all of them may fail for a long
 * time.
 */
export function openConnectionLog(
  log: Pick<Log, "error">,
  message: string,
  nowMs: () => number = () => performance.now(),
): (error: unknown) => void {
  let loggedAtMs = Number.NEGATIVE_INFINITY;
  return (error) => {
    if (nowMs() - loggedAtMs < LOG_EVERY_MS) return;
    loggedAtMs = nowMs();
    log.error(message, { error });
  };
}

/** A running loop. Only close() ends it: failures are logged and retried. */
interface AcceptLoop {
  close(): Promise<void>;
}

/**
 * Accepts connections until it is closed.
 * @param take gets each connection, and closes it in the end
 */
export function keepAccepting(
  listener: Deno.Listener,
  take: (connection: Deno.Conn) => void,
  log: Log,
): AcceptLoop {
  const closing = new AbortController();
  const { signal } = closing;
  const logFailure = openConnectionLog(log, "connections not accepted");
  const watch = async () => {
    while (!signal.aborted) {
      try {
        take(await listener.accept());
      } catch (error) {
        if (signal.aborted) return;
        if (isCallerGone(error)) continue;
        logFailure(error);
        await pause(ACCEPT_AGAIN_MS, signal);
      }
    }
  };
  const watching = watch();
  return {
    async close() {
      closing.abort();
      closeConnection(listener);
      await watching;
    },
  };
}

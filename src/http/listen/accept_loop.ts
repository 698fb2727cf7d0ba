// A listener that goes on listening. Accepting fails when the process is out of file descriptors, and
// any program of the host can bring that about.

import type { Log } from "../../metrics/log.ts";
import { pause } from "../../program/loop.ts";
import { closeConnection } from "./connection_relay.ts";

/** Milliseconds between two lines of the log about connections that fail, as all do for a while. */
const TELL_EVERY_MS = 10_000;
/** Milliseconds without accepting, in which those who hold the descriptors may let some go. */
const ACCEPT_AGAIN_MS = 250;

/**
 * Whether accepting failed because a caller had reset its connection before it was taken: nothing is
 * amiss then, and the next one is waiting.
 */
export function isCallerGone(error: unknown): boolean {
  const { ConnectionAborted, ConnectionReset, NotConnected } = Deno.errors;
  return [ConnectionAborted, ConnectionReset, NotConnected].some((gone) => error instanceof gone);
}

/**
 * Tells of connections that fail, at most every ten seconds: without descriptors all of them fail, or
 * one and the other, for as long as some program of the host likes.
 */
export function openConnectionLog(
  log: Pick<Log, "error">,
  message: string,
  nowMs: () => number = () => performance.now(),
): (error: unknown) => void {
  let toldAtMs = Number.NEGATIVE_INFINITY;
  return (error) => {
    if (nowMs() - toldAtMs < TELL_EVERY_MS) return;
    toldAtMs = nowMs();
    log.error(message, { error });
  };
}

/** A listener that is there until it is closed. */
export interface AcceptLoop {
  /** Takes no more connections. */
  close(): Promise<void>;
}

/**
 * Accepts connections until it is closed.
 * @param take is given each connection, and closes it in the end
 */
export function keepAccepting(
  listener: Deno.Listener,
  take: (connection: Deno.Conn) => void,
  log: Log,
): AcceptLoop {
  const closing = new AbortController();
  const { signal } = closing;
  const tellFailure = openConnectionLog(log, "connections not accepted");
  const watch = async () => {
    while (!signal.aborted) {
      try {
        take(await listener.accept());
      } catch (error) {
        if (signal.aborted) return;
        if (isCallerGone(error)) continue;
        tellFailure(error);
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

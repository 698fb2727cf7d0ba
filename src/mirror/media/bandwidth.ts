// A bound on what all downloads together take from the network, in bytes a second. A part that was
// received is paid for before the next one is asked for; the server is slowed by not being read.

import type { Wait } from "../web/time_limits.ts";

/** Milliseconds of unused bandwidth that may be made up for. */
const BURST_MS = 1_000;

/** The bandwidth of the downloads. */
export interface Bandwidth {
  /**
   * Pays for bytes that were received.
   * @param onWait told before that takes a wait
   * @returns whether it took one
   */
  take(bytes: number, signal: AbortSignal, onWait: () => void): Promise<boolean>;
}

/**
 * Opens it.
 * @param bytesPerSecond 0 for no bound
 */
export function openBandwidth(
  bytesPerSecond: number,
  { wait, monotonicMs }: { readonly wait: Wait; readonly monotonicMs: () => number },
): Bandwidth {
  /** When everything taken so far is paid for. */
  let paidMs = monotonicMs() - BURST_MS;
  return {
    async take(bytes, signal, onWait) {
      if (bytesPerSecond === 0) return false;
      const nowMs = monotonicMs();
      paidMs = Math.max(paidMs, nowMs - BURST_MS) + bytes * 1000 / bytesPerSecond;
      if (paidMs <= nowMs) return false;
      onWait();
      await wait(paidMs - nowMs, signal);
      return true;
    },
  };
}

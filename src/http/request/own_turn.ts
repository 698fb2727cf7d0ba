// Turns of the event loop for the pieces of large answers. Connections that have room for pieces ask for them
// all at once; in the same turn, a hundred of them would keep everybody else waiting for many seconds.

/**
 * Milliseconds after which the runtime looks at its sockets. While there is always something to do, it does
 * so in every 61st turn only; it does so at once when it has to wait, be it for no time.
 */
const DEAF_MS_MAX = 20;

/** The turn that was promised last: there is one event loop, and one order. */
let lastTurn: Promise<void> = Promise.resolve();
let lookedAtMs = 0;

/** A turn for one piece, after those that were asked for before. */
export function ownTurn(): Promise<void> {
  return lastTurn = lastTurn.then(nextTurn);
}

async function nextTurn(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  if (performance.now() - lookedAtMs < DEAF_MS_MAX) {
    setImmediate(resolve);
    return await promise;
  }
  setTimeout(resolve, 0);
  await promise;
  lookedAtMs = performance.now();
}

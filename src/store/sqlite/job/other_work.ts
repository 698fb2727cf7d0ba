// What takes long is done in parts, with other work of the process let through in between.

/** One turn of the event loop. */
export function otherWork(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

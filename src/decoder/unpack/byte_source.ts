// Bytes that arrive in parts of any size, taken in the sizes that a format asks for.

/** Takes bytes in their order. */
export interface ByteSource {
  /** Whether nothing is left. */
  ended(): Promise<boolean>;
  /** Exactly so many bytes. @throws {Error} when fewer are left */
  take(count: number): Promise<Uint8Array>;
  /** So many bytes in parts as they come. @throws {Error} when fewer are left */
  parts(count: number): AsyncGenerator<Uint8Array>;
  /** Everything that is left, in parts as they come. */
  rest(): AsyncGenerator<Uint8Array>;
}

/** Opens it; nothing is read before the first call. */
export function openByteSource(parts: AsyncIterable<Uint8Array>): ByteSource {
  const iterator = parts[Symbol.asyncIterator]();
  let held: Uint8Array = new Uint8Array();
  /** Makes sure that something is held, unless nothing is left. */
  const fill = async (): Promise<boolean> => {
    while (held.byteLength === 0) {
      const next = await iterator.next();
      if (next.done === true) return false;
      held = next.value;
    }
    return true;
  };
  async function* some(count: number): AsyncGenerator<Uint8Array> {
    for (let left = count; left > 0;) {
      if (!await fill()) throw new Error("it is cut off");
      const part = held.subarray(0, left);
      held = held.subarray(part.byteLength);
      left -= part.byteLength;
      yield part;
    }
  }
  return {
    ended: async () => !await fill(),
    async take(count) {
      const whole = new Uint8Array(count);
      let done = 0;
      for await (const part of some(count)) {
        whole.set(part, done);
        done += part.byteLength;
      }
      return whole;
    },
    parts: some,
    async *rest() {
      while (await fill()) {
        const part = held;
        held = new Uint8Array();
        yield part;
      }
    },
  };
}

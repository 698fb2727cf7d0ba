// Lines of text over a byte stream: the framing of the protocol, used on both sides of the wall.
// A built-in RangeError tells of a line that is too long, because guests load nothing of domain/.

const READ_BYTES = 64 * 1024;
const LINE_BREAK = 10;

/** What bytes are read from, such as a connection. */
export interface ByteSource {
  read(buffer: Uint8Array<ArrayBuffer>): Promise<number | null>;
}

/** What bytes are written to, such as a connection. */
export interface ByteSink {
  write(bytes: Uint8Array): Promise<number>;
}

/**
 * Yields the lines of a stream without their line breaks. A last line without one is dropped: its
 * writer died while writing it. `bytesMax` may be asked anew for every line.
 * @throws {RangeError} for a line longer than `bytesMax`
 * @throws {TypeError} for bytes that are not UTF-8
 */
export function readLines(
  source: ByteSource,
  bytesMax: number | (() => number),
): AsyncGenerator<string> {
  const limit = typeof bytesMax === "number" ? () => bytesMax : bytesMax;
  // Made at once: a guest loses the name TextDecoder before it reads its first message.
  return decodeLines(source, limit, new TextDecoder("utf-8", { fatal: true }));
}

async function* decodeLines(
  source: ByteSource,
  limit: () => number,
  decoder: TextDecoder,
): AsyncGenerator<string> {
  const buffer = new Uint8Array(READ_BYTES);
  const held = openHeldBytes();
  // Ends with the stream.
  for (;;) {
    const count = await source.read(buffer);
    if (count === null) return;
    let rest = buffer.subarray(0, count);
    for (let at = rest.indexOf(LINE_BREAK); at !== -1; at = rest.indexOf(LINE_BREAK)) {
      if (held.length + at > limit()) throw lineTooLong(limit());
      yield decoder.decode(held.end(rest.subarray(0, at)));
      rest = rest.subarray(at + 1);
    }
    if (held.length + rest.length > limit()) throw lineTooLong(limit());
    // The buffer is read into again: what is kept is copied.
    held.add(rest);
  }
}

/** The bytes of a line that has not ended. */
interface HeldBytes {
  readonly length: number;
  add(part: Uint8Array): void;
  /** The whole line, good until the next call; afterwards nothing is held. */
  end(last: Uint8Array): Uint8Array;
}

/**
 * One array that grows, not a list of pieces: a writer that sends byte by byte would have its reader
 * keep an object for each.
 */
function openHeldBytes(): HeldBytes {
  let held = new Uint8Array(0);
  let length = 0;
  const add = (part: Uint8Array) => {
    if (length + part.length > held.length) {
      const grown = new Uint8Array(Math.max(2 * held.length, length + part.length));
      grown.set(held.subarray(0, length));
      held = grown;
    }
    held.set(part, length);
    length += part.length;
  };
  return {
    get length() {
      return length;
    },
    add,
    end(last) {
      if (length === 0) return last;
      add(last);
      const whole = held.subarray(0, length);
      // Not used again: one long line must not cost its memory for as long as the stream lasts.
      held = new Uint8Array(0);
      length = 0;
      return whole;
    },
  };
}

/** Writes all the bytes; a single write of a connection may take only some of them. */
export async function writeAll(sink: ByteSink, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.length;) done += await sink.write(bytes.subarray(done));
}

/** What a writer does about a reader that does not read. */
export interface UnreadLimit {
  /** Characters of what has not been taken. */
  readonly charsMax: number;
  /** Called for every line above that, which is dropped. */
  readonly exceeded: () => void;
}

/**
 * Opens the writing of lines. Those that are told while a write is under way go out together in the
 * next one. Nothing is thrown or told when the sink is closed: its reader learns of that.
 */
export function openLineWriter(sink: ByteSink, unread?: UnreadLimit): (line: string) => void {
  const encoder = new TextEncoder();
  const done = Promise.resolve();
  let queued = "";
  let underWay = 0;
  let writing = false;
  const flush = async () => {
    while (queued !== "") {
      const bytes = encoder.encode(queued);
      underWay = queued.length;
      queued = "";
      await writeAll(sink, bytes).catch(() => {});
      underWay = 0;
    }
    writing = false;
  };
  return (line) => {
    if (unread !== undefined && queued.length + underWay + line.length > unread.charsMax) {
      return unread.exceeded();
    }
    // Begins later, so that a caller with its stack nearly used up starts nothing here.
    if (!writing) done.then(flush);
    writing = true;
    queued += `${line}\n`;
  };
}

function lineTooLong(bytesMax: number): RangeError {
  return new RangeError(`Cannot read a line: it is longer than ${bytesMax} bytes`);
}

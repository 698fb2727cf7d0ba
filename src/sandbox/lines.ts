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
  let held: Uint8Array[] = [];
  let heldBytes = 0;
  // Ends with the stream.
  for (;;) {
    const count = await source.read(buffer);
    if (count === null) return;
    let rest = buffer.subarray(0, count);
    for (let at = rest.indexOf(LINE_BREAK); at !== -1; at = rest.indexOf(LINE_BREAK)) {
      if (heldBytes + at > limit()) throw lineTooLong(limit());
      yield decoder.decode(joined(held, rest.subarray(0, at), heldBytes + at));
      held = [];
      heldBytes = 0;
      rest = rest.subarray(at + 1);
    }
    heldBytes += rest.length;
    if (heldBytes > limit()) throw lineTooLong(limit());
    // The buffer is read into again: what is kept is copied.
    if (rest.length > 0) held.push(rest.slice());
  }
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

function joined(held: readonly Uint8Array[], last: Uint8Array, length: number): Uint8Array {
  if (held.length === 0) return last;
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of held) {
    whole.set(part, at);
    at += part.length;
  }
  whole.set(last, at);
  return whole;
}

function lineTooLong(bytesMax: number): RangeError {
  return new RangeError(`Cannot read a line: it is longer than ${bytesMax} bytes`);
}

// Lines of text over a byte stream: the framing of the protocol, used on both sides of the wall.
// A line that is too long is a built-in RangeError, because guests load nothing of domain/. A
// guest reads and writes by methods that no task can have replaced; see language.ts.

import { type Language, takeLanguage } from "./language.ts";

const LINE_READ_BYTES = 64 * 1024;
const LINE_BREAK = 10;

/** What bytes are read from, such as a connection. */
export interface ByteSource {
  read(buffer: Uint8Array<ArrayBuffer>): Promise<number | null>;
}

/** What bytes are written to, such as a connection. */
interface ByteSink {
  write(bytes: Uint8Array): Promise<number>;
}

/**
 * Yields the lines of a stream without their line breaks. A last line without one is dropped: its writer
 * died while writing it. `bytesMax` is asked again for every line if it is a function. While a line is
 * incomplete, `mayGoOn` gets the number of bytes held; nothing more is read until its promise resolves.
 * @throws {RangeError} for a line longer than `bytesMax`
 * @throws {TypeError} for bytes that are not UTF-8
 */
export async function* readLines(
  source: ByteSource,
  bytesMax: number | (() => number),
  mayGoOn: (heldBytes: number) => Promise<void> | undefined = () => undefined,
): AsyncGenerator<string> {
  const lines = openLineBuffer(bytesMax);
  // The loop ends with the stream.
  for (;;) {
    const count = await source.read(lines.buffer);
    if (count === null) return;
    lines.fill(count);
    for (let line = lines.next(); line !== undefined; line = lines.next()) yield line;
    const wait = mayGoOn(lines.held());
    if (wait !== undefined) await wait;
  }
}

/** Cuts what is read into lines. */
interface LineBuffer {
  /** What the next bytes are read into. */
  readonly buffer: Uint8Array<ArrayBuffer>;
  /** Call after each read: the first `count` bytes of the buffer are new. */
  fill(count: number): void;
  /** The next line of those; undefined when there is only the beginning of one, which is kept. */
  next(): string | undefined;
  /** Bytes of a line that has not ended. */
  held(): number;
}

/**
 * Opens a buffer that cuts bytes into lines, with the methods of `language` alone. Throws what readLines()
 * throws.
 */
export function openLineBuffer(
  bytesMax: number | (() => number),
  language: Language = takeLanguage(),
): LineBuffer {
  const limit = typeof bytesMax === "number" ? () => bytesMax : bytesMax;
  const { bytesIndexOf, bytesOf } = language;
  // Made at once: a guest loses the name TextDecoder before it reads its first message.
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const decode = decoder.decode.bind(decoder);
  const memory = new ArrayBuffer(LINE_READ_BYTES);
  const buffer = new Uint8Array(memory);
  // The platform asks a buffer for its length, and what answers must not be given the buffer.
  Object.defineProperty(buffer, "length", { value: LINE_READ_BYTES });
  const held = openHeldBytes(language);
  let filled = bytesOf(memory, 0, 0);
  let end = 0;
  let start = 0;
  return {
    buffer,
    fill(count) {
      filled = bytesOf(memory, 0, count);
      end = count;
      start = 0;
    },
    next() {
      if (start === end) return undefined;
      const at = bytesIndexOf(filled, LINE_BREAK, start);
      const length = (at === -1 ? end : at) - start;
      if (held.length() + length > limit()) throw lineTooLong(limit());
      const part = bytesOf(memory, start, length);
      start = at === -1 ? end : at + 1;
      if (at !== -1) return decode(held.end(part, length));
      // The buffer is read into again: what is kept is copied.
      held.add(part, length);
      return undefined;
    },
    held: held.length,
  };
}

/** The bytes of a line that has not ended. */
interface HeldBytes {
  length(): number;
  add(part: Uint8Array, length: number): void;
  /** The whole line, good until the next call; afterwards nothing is held. */
  end(last: Uint8Array, length: number): Uint8Array;
}

/**
 * One array that grows, not a list of pieces: a writer that sends byte by byte would have its reader
 * keep an object for each.
 */
function openHeldBytes({ bytesOf, copy }: Language): HeldBytes {
  let memory = new ArrayBuffer(0);
  let room = 0;
  let held = bytesOf(memory, 0, 0);
  let length = 0;
  const add = (part: Uint8Array, partLength: number) => {
    if (length + partLength > room) {
      room = 2 * room > length + partLength ? 2 * room : length + partLength;
      memory = new ArrayBuffer(room);
      const grown = bytesOf(memory, 0, room);
      copy(grown, held, 0);
      held = grown;
    }
    copy(held, part, length);
    length += partLength;
  };
  return {
    length: () => length,
    add,
    end(last, lastLength) {
      if (length === 0) return last;
      add(last, lastLength);
      const whole = bytesOf(memory, 0, length);
      // Not used again: one long line must not cost its memory for as long as the stream lasts.
      memory = new ArrayBuffer(0);
      held = bytesOf(memory, 0, 0);
      room = 0;
      length = 0;
      return whole;
    },
  };
}

/** Writes all the bytes; a single write of a connection may take only some of them. */
export async function writeAll(
  sink: ByteSink,
  bytes: Uint8Array<ArrayBuffer>,
  { bytesOf, partOf }: Language = takeLanguage(),
): Promise<void> {
  const { buffer, from, length } = partOf(bytes);
  for (let done = 0; done < length;) {
    done += await sink.write(bytesOf(buffer, from + done, length - done));
  }
}

/** What a writer does when its reader does not read. */
interface UnreadLimit {
  /** Characters of what has not been taken. */
  readonly charsMax: number;
  /** Called for every line above that, which is dropped. */
  readonly exceeded: () => void;
}

/**
 * Opens a writer of lines. Those that are written while a write is under way go out together in
 * the next one. Nothing is thrown when the sink is closed: its reader learns of that.
 */
export function openLineWriter(
  sink: ByteSink,
  unread?: UnreadLimit,
  language: Language = takeLanguage(),
): (line: string) => void {
  const encoder = new TextEncoder();
  const encode = encoder.encode.bind(encoder);
  const bound = { write: sink.write.bind(sink) };
  const done = Promise.resolve();
  let queued = "";
  let underWay = 0;
  let writing = false;
  const flush = async () => {
    while (queued !== "") {
      const bytes = encode(queued);
      underWay = queued.length;
      queued = "";
      try {
        await writeAll(bound, bytes, language);
      } catch {
        // The other end has closed.
      }
      underWay = 0;
    }
    writing = false;
  };
  return (line) => {
    if (unread !== undefined && queued.length + underWay + line.length > unread.charsMax) {
      return unread.exceeded();
    }
    // Begins later, so that a caller with its stack nearly used up starts nothing here.
    if (!writing) language.then(done, flush);
    writing = true;
    queued += `${line}\n`;
  };
}

function lineTooLong(bytesMax: number): RangeError {
  return new RangeError(`Cannot read a line: it is longer than ${bytesMax} bytes`);
}

// Hashes downloads and local files in parts, whatever their size: always SHA-256, and SHA-512 in the same
// pass on request. One decoder hashes all downloads, since each may take hours and mostly waits for its
// server.

import { whileOpen } from "../../runtime/run.ts";
import type { Decoders } from "../../decoder/pool.ts";
import { PART_BYTES_MAX } from "../../decoder/decoder_message.ts";
import { PACKET, PACKET_HEAD_BYTES } from "../../decoder/work/hashes.ts";
import { type DigestAlgorithm, isDigestValue } from "../../domain/digest.ts";
import { AgentError } from "../../domain/error.ts";
import { isJsonObject, type JsonValue, kindOf } from "../../domain/json.ts";

/** Bytes read from a file at a time. */
export const PART_BYTES = 256 * 1024;
/** Bytes queued for the decoder; a caller with more waits. */
const QUEUE_BYTES_MAX = 1024 * 1024;
/** Longest line that a decoder answers, characters: two digests and their names. */
const LINE_CHARS_MAX = 1024;
const WORK_NAME = "hash files";

/** Hashes in lower-case hex. */
export interface Hashes {
  readonly sha256: string;
  /** Missing unless requested: it doubles the cost. */
  readonly sha512?: string;
}

/** Takes the bytes of one file in parts. Disposal before the end abandons the hash. */
export interface Hasher extends Disposable {
  readonly size: number;
  /**
   * Takes a part; the caller may reuse its buffer at once. Resolves when there is room for the next
   * one.
   * @param hold called before a wait
   * @returns whether it waited
   * @throws {AgentError} `internal` when the decoder has ended
   */
  update(part: Uint8Array, hold?: () => void): Promise<boolean>;
  /** Call once. @throws {AgentError} as update() */
  finish(): Promise<Hashes>;
}

/** Hashes files in a decoder process, outside the agent. */
export interface Hashing {
  /** @param wanted algorithms besides SHA-256, which identifies every file */
  open(wanted?: readonly DigestAlgorithm[]): Hasher;
}

/** Opens hashing. A decoder runs only while a hasher is open. */
export function openHashing(decoders: Decoders): Hashing {
  let session: Session | undefined;
  return {
    open(wanted = []) {
      if (session === undefined || session.ended) session = new Session(decoders);
      return session.open(wanted.includes("sha512"));
    },
  };
}

/** One run of a decoder, from the first open hasher to the last. */
class Session {
  ended = false;
  readonly #packets: Uint8Array[] = [];
  #queued = 0;
  #next = 1;
  readonly #open = new Map<number, PromiseWithResolvers<Hashes>>();
  /** Wakes the sender: there is something to send, or the run ends. */
  #more = () => {};
  #room = Promise.withResolvers<void>();
  #failure: unknown;

  readonly #decoders: Decoders;
  #begun = false;

  constructor(decoders: Decoders) {
    this.#decoders = decoders;
  }

  open(both: boolean): Hasher {
    const stream = this.#next++;
    const answer = Promise.withResolvers<Hashes>();
    answer.promise.catch(() => {});
    this.#open.set(stream, answer);
    let size = 0;
    let begun = false;
    // The decoder starts with the first bytes: a download that receives none needs no decoder.
    const send = (what: number, bytes: Uint8Array) => {
      if (!begun) this.#send(stream, PACKET.begin, Uint8Array.of(Number(both)));
      begun = true;
      this.#send(stream, what, bytes);
    };
    const room = async (hold: () => void) => {
      const full = () => this.#queued > QUEUE_BYTES_MAX && !this.ended;
      const waits = full();
      if (waits) hold();
      while (full()) await this.#room.promise;
      if (this.#failure !== undefined) throw this.#failure;
      return waits;
    };
    return {
      get size() {
        return size;
      },
      update: async (part, hold = () => {}) => {
        size += part.byteLength;
        for (let at = 0; at < part.byteLength; at += PACKET_BYTES_MAX) {
          send(PACKET.bytes, part.subarray(at, at + PACKET_BYTES_MAX));
        }
        return await room(hold);
      },
      finish: async () => {
        send(PACKET.end, new Uint8Array());
        try {
          return await answer.promise;
        } finally {
          this.#close(stream);
        }
      },
      [Symbol.dispose]: () => {
        if (!this.#open.has(stream)) return;
        if (begun) send(PACKET.drop, new Uint8Array());
        this.#close(stream);
      },
    };
  }

  #close(stream: number): void {
    this.#open.delete(stream);
    if (this.#open.size > 0) return;
    this.ended = true;
    this.#more();
  }

  #send(stream: number, what: number, bytes: Uint8Array): void {
    if (this.ended) return;
    this.#begin();
    const packet = new Uint8Array(PACKET_HEAD_BYTES + bytes.byteLength);
    const view = new DataView(packet.buffer);
    view.setUint32(0, stream);
    view.setUint8(4, what);
    view.setUint32(5, bytes.byteLength);
    packet.set(bytes, PACKET_HEAD_BYTES);
    this.#packets.push(packet);
    this.#queued += packet.byteLength;
    this.#more();
  }

  #begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    const options = { what: WORK_NAME, code: "internal", origin: "hashes", ahead: true } as const;
    this.#run(this.#decoders.stream("hashes", {}, this.#input(), options).output);
  }

  async *#input(): AsyncGenerator<Uint8Array> {
    for (;;) {
      const packet = this.#packets.shift();
      if (packet !== undefined) {
        yield packet;
        this.#queued -= packet.byteLength;
        if (this.#queued <= QUEUE_BYTES_MAX) this.#makeRoom();
        continue;
      }
      if (this.ended) return;
      await new Promise<void>((resolve) => this.#more = resolve);
    }
  }

  #makeRoom(): void {
    this.#room.resolve();
    this.#room = Promise.withResolvers();
  }

  async #run(output: AsyncIterable<Uint8Array>): Promise<void> {
    try {
      let rest = "";
      const decoder = new TextDecoder();
      for await (const part of output) {
        const lines = (rest + decoder.decode(part, { stream: true })).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) this.#take(line);
        if (rest.length > LINE_CHARS_MAX) {
          throw strangeAnswer(`sent a line of more than ${LINE_CHARS_MAX} characters`);
        }
      }
      if (this.#open.size === 0) return;
      throw new AgentError("internal", `Cannot ${WORK_NAME}: the decoder ended early`);
    } catch (error) {
      this.#failure = error;
      this.ended = true;
      for (const { reject } of this.#open.values()) reject(error);
      this.#more();
      this.#makeRoom();
    }
  }

  #take(line: string): void {
    const value: unknown = JSON.parse(line);
    const { stream, ...hashes } = isJsonObject(value) ? value : {};
    const sha512 = hashes.sha512;
    const both = typeof sha512 === "string" && isDigestValue("sha512", sha512) ? { sha512 } : {};
    this.#open.get(Number(stream))?.resolve({ sha256: sha256In(hashes), ...both });
  }
}

/** Bytes of the file that fit in one frame beside the head. */
const PACKET_BYTES_MAX = PART_BYTES_MAX - PACKET_HEAD_BYTES;

/** The SHA-256 of a decoder's answer. @throws {AgentError} `internal` when there is none */
export function sha256In(answer: JsonValue): string {
  const value = isJsonObject(answer) ? answer.sha256 : undefined;
  if (typeof value === "string" && isDigestValue("sha256", value)) return value;
  throw strangeAnswer(`answered with a sha256 that is ${kindOf(value)}`);
}

function strangeAnswer(did: string): AgentError {
  const message = `Cannot ${WORK_NAME}: the decoder ${did}, expected 64 hexadecimal digits`;
  return new AgentError("internal", message);
}

/** How a caller follows the hashing of a file, and stops it. */
export interface HashFileOptions {
  readonly signal?: AbortSignal;
  /** Bytes done and total bytes. */
  readonly onProgress?: (done: number, total: number) => void;
}

/**
 * Feeds a whole file to a hasher, for example before a download resumes.
 * @throws the reason of the signal, or the error of the file system
 */
export async function hashInto(
  hasher: Hasher,
  path: string,
  { signal, onProgress }: HashFileOptions = {},
): Promise<void> {
  await whileOpen(await Deno.open(path, { read: true }), async (file) => {
    const total = (await file.stat()).size;
    const buffer = new Uint8Array(PART_BYTES);
    let done = 0;
    // Ends with the file: read() returns null.
    for (;;) {
      signal?.throwIfAborted();
      const count = await file.read(buffer);
      if (count === null) return;
      await hasher.update(buffer.subarray(0, count));
      done += count;
      onProgress?.(done, total);
    }
  });
}

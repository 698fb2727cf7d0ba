// What the agent and a decoder send each other. A frame is a byte with its kind, four bytes of length, and the payload; its
// cost is linear however the bytes arrive. One that is too long is a built-in RangeError: decoders load nothing of the
// agent. The JSON messages in frames have an untrusting parser: a decoder that has read hostile bytes is as hostile as a
// guest.

import { AgentError, type ErrorCode } from "../domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue, measureJson } from "../domain/json.ts";
import { GUEST_PERMISSIONS, type GuestCheck } from "../wall/protocol.ts";

/** Bytes of the JSON text of a request. */
export const REQUEST_BYTES_MAX = 1024 * 1024;
/** Bytes of the JSON text of a readiness report. */
export const READY_BYTES_MAX = 8 * 1024;
/** Characters of the message of an error. */
export const MESSAGE_CHARS_MAX = 2000;

/**
 * Values of an answer, which take many times their text once parsed. A list of builds may have five
 * times the values of its document, since absent fields are null.
 */
const ANSWER_VALUES_MAX = 500_000;
/** Depth of an answer: that of a document, plus its envelope. */
const ANSWER_DEPTH_MAX = 100;

/** Error codes that a decoder may return. */
export const ANSWER_CODES = [
  "conflict",
  "digest_mismatch",
  "internal",
  "invalid_argument",
  "malformed",
  "not_found",
  "too_large",
  "upstream",
] as const satisfies readonly ErrorCode[];

/** Result of a piece of work. */
export type DecoderAnswer =
  | { readonly ok: true; readonly value: JsonValue }
  | {
    readonly ok: false;
    readonly code: typeof ANSWER_CODES[number];
    readonly message: string;
  };

/**
 * Parses a decoder's report of its permissions.
 * @throws {TypeError} or {SyntaxError} for an invalid report
 */
export function parseReady(frame: DecoderFrame): GuestCheck[] {
  const message = jsonOf(frame);
  const checks = isJsonObject(message) ? message.checks : undefined;
  if (!Array.isArray(checks) || checks.length > GUEST_PERMISSIONS.length) {
    throw new TypeError("its first frame is not a report of its permissions");
  }
  return checks.map((check: unknown) => {
    if (
      isJsonObject(check) && typeof check.check === "string" && typeof check.ok === "boolean" &&
      typeof check.detail === "string"
    ) return { check: check.check, ok: check.ok, detail: check.detail };
    throw new TypeError("its report has a member that is not a check");
  });
}

/**
 * Parses an answer.
 * @throws {AgentError} the work's own error
 * @throws {TypeError} or {SyntaxError} for an invalid answer
 */
export function parseAnswer(frame: DecoderFrame): JsonValue {
  const { values, depth } = measureJson(frame.payload);
  if (values > ANSWER_VALUES_MAX) {
    throw new TypeError(`its answer has more than ${ANSWER_VALUES_MAX} values`);
  }
  if (depth > ANSWER_DEPTH_MAX) {
    throw new TypeError(`its answer is nested deeper than ${ANSWER_DEPTH_MAX}`);
  }
  const message = jsonOf(frame);
  if (!isJsonObject(message)) throw new TypeError("its answer is not an object");
  const { ok, value, code, message: words } = message;
  if (ok === true && value !== undefined) return value as JsonValue;
  const known = ANSWER_CODES.find((one) => one === code);
  if (ok !== false || known === undefined || typeof words !== "string") {
    throw new TypeError("its answer is neither a value nor an error");
  }
  if (words.length > MESSAGE_CHARS_MAX) throw new TypeError("the message of its error is too long");
  throw new AgentError(known, words);
}

/** Kinds of frames. The first three come from the agent, the others from a decoder. */
export const FRAME = {
  /** JSON: a piece of work begins. */
  work: 1,
  /** Bytes of its input. */
  input: 2,
  /** Empty: its input has ended. */
  inputEnd: 3,
  /** JSON: the decoder has given up its permissions. */
  ready: 4,
  /** Bytes of its output. */
  output: 5,
  /** JSON: the piece of work has ended. */
  answer: 6,
} as const;
/** The first byte of a frame. */
type FrameKind = typeof FRAME[keyof typeof FRAME];

/** A frame as received: its kind may be unknown. */
export interface DecoderFrame {
  readonly kind: number;
  readonly payload: Uint8Array<ArrayBuffer>;
}

/** Bytes of one frame of input or output; longer parts are split. */
export const PART_BYTES_MAX = 64 * 1024;
const HEAD_BYTES = 5;

/** One byte for the kind, four for the length, then the content. */
export function frameBytes(kind: FrameKind, payload: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(HEAD_BYTES + payload.length);
  bytes[0] = kind;
  new DataView(bytes.buffer).setUint32(1, payload.length);
  bytes.set(payload, HEAD_BYTES);
  return bytes;
}

/** A value as a frame of JSON. */
export function jsonFrame(kind: FrameKind, value: unknown): Uint8Array<ArrayBuffer> {
  return frameBytes(kind, new TextEncoder().encode(JSON.stringify(value)));
}

/** The value in a frame of JSON. @throws {SyntaxError} or {TypeError} for bytes that are not JSON in UTF-8 */
export function jsonOf({ payload }: DecoderFrame): unknown {
  return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(payload));
}

/** Splits a part into pieces that fit into frames. */
export function* partsOf(part: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < part.length; at += PART_BYTES_MAX) {
    yield part.subarray(at, at + PART_BYTES_MAX);
  }
}

/**
 * Reads frames from a stream of bytes. It ends with the stream; an incomplete last frame is
 * dropped, since its writer died. Each payload is a separate copy.
 * @param bytesMax the limit for a kind of frame; undefined for a kind that is not allowed
 * @throws {RangeError} for a frame of an unexpected kind, or beyond its limit
 */
export async function* readFrames(
  chunks: AsyncIterable<Uint8Array>,
  bytesMax: (kind: number) => number | undefined,
): AsyncGenerator<DecoderFrame> {
  const head = new Uint8Array(HEAD_BYTES);
  let headLength = 0;
  let payload: Uint8Array<ArrayBuffer> | undefined;
  let length = 0;
  for await (const chunk of chunks) {
    let at = 0;
    while (at < chunk.length) {
      if (payload === undefined) {
        const taken = chunk.subarray(at, at + HEAD_BYTES - headLength);
        head.set(taken, headLength);
        headLength += taken.length;
        at += taken.length;
        if (headLength < HEAD_BYTES) break;
        payload = new Uint8Array(payloadLength(head, bytesMax));
        length = 0;
      }
      const taken = chunk.subarray(at, at + payload.length - length);
      payload.set(taken, length);
      length += taken.length;
      at += taken.length;
      if (length < payload.length) break;
      yield { kind: head[0] ?? 0, payload };
      payload = undefined;
      headLength = 0;
    }
  }
}

function payloadLength(head: Uint8Array, bytesMax: (kind: number) => number | undefined): number {
  const kind = head[0] ?? 0;
  const max = bytesMax(kind);
  if (max === undefined) throw new RangeError(`Cannot read a frame: ${kind} is not expected here`);
  const length = new DataView(head.buffer).getUint32(1);
  if (length <= max) return length;
  throw new RangeError(`Cannot read a frame: it has ${length} bytes, expected at most ${max}`);
}

/** What the time limit applies to: the whole work, or the time since the last progress. */
type WorkDeadline = "whole" | "progress";

/** The limits of one kind of work. */
export interface WorkLimits {
  /** Time in which the agent waits for nothing but the decoder, milliseconds. */
  readonly deadlineMs: number;
  readonly deadline: WorkDeadline;
  /** Bytes of the JSON text of its answer. */
  readonly answerBytesMax: number;
}

/** The closed list of what decoders do, with the limits of each kind of work. */
export const WORKS = {
  /** The digests of many streams: see hashes.ts. */
  hashes: { deadlineMs: 30_000, deadline: "progress", answerBytesMax: 1024 },
  /** Decompression: request `{compression, what}`; output the file; answer `{sha256}`. */
  unpack: { deadlineMs: 30_000, deadline: "progress", answerBytesMax: 1024 },
  /** A vendor's checksum document: request `{format, algorithm, filename}`; answer the hashes. */
  checksums: { deadlineMs: 10_000, deadline: "whole", answerBytesMax: 1024 },
  /** Documents of the image index: see index_documents.ts. */
  index: { deadlineMs: 10_000, deadline: "whole", answerBytesMax: 32 * 1024 * 1024 },
  /** The OpenPGP signature of a text: see signature.ts. An answer may repeat the text. */
  signature: { deadlineMs: 10_000, deadline: "whole", answerBytesMax: 8 * 1024 * 1024 },
  /** The OpenPGP signature of a file. */
  file_signature: { deadlineMs: 30_000, deadline: "progress", answerBytesMax: 16 * 1024 },
  /** Problems of task sources: the input is a JSON list of texts, see
   * task_sources.ts. */
  task_sources: { deadlineMs: 10_000, deadline: "whole", answerBytesMax: 4 * 1024 * 1024 },
} as const satisfies Record<string, WorkLimits>;

/** The name of a kind of work. */
export type WorkName = keyof typeof WORKS;

/** Whether a text names a kind of work. */
export function isWorkName(name: unknown): name is WorkName {
  return typeof name === "string" && Object.hasOwn(WORKS, name);
}

/**
 * One kind of work. Errors with a `code` and a message are returned to the agent as such; any other error is
 * a defect and returned as `internal`. A part of the output may be reused once it was taken.
 */
export type DecoderWork = (
  request: JsonObject,
  input: AsyncIterable<Uint8Array>,
  output: (part: Uint8Array) => Promise<void>,
) => Promise<JsonValue>;

/** Whether an error means out of memory, which ends the process; the agent words that error. */
export function isOutOfMemory(error: unknown): boolean {
  return error instanceof RangeError && /allocation failed/.test(error.message);
}

// The closed list of what decoders do, and the limits of each kind of work. Both sides import it.

import type { JsonObject, JsonValue } from "../../domain/json.ts";

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

/** Each kind of work by its name. */
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

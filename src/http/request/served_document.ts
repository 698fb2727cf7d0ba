// One document as finished answers: one for each encoding, and one 304 for each entity tag. They are made on
// the first request and kept; each request gets a clone, which shares the bytes.

import type { IndexDocument } from "../../store/store.ts";

/** Compressing fewer bytes gains nothing. */
const COMPRESSED_BYTES_MIN = 1024;
/** Of 0 to 11: above it, brotli takes several times as long to save another tenth. */
const BROTLI_QUALITY = 9;
/** Memory of an answer besides its body, bytes. */
const ANSWER_BYTES = 1024;

/** The encodings in which a document can be served, the smallest first. */
export const ENCODINGS = ["br", "gzip", "identity"] as const;
export type Encoding = typeof ENCODINGS[number];

/** A document ready to be served. */
export interface ServedDocument {
  /** Entity tags with their quotes; strong, so each encoding has its own. */
  readonly etags: Readonly<Record<Encoding, string>>;
  /** Milliseconds since 1970, whole seconds. */
  readonly lastModifiedMs: number;
  /** Whether it is compressed only for callers who refuse identity. */
  readonly small: boolean;
  /** Bytes of memory that it takes now, compressed copies included. */
  readonly bytes: number;
  /** A new answer to send; the first one in an encoding takes a while. */
  response(encoding: Encoding): Promise<Response>;
  /** The same, when it is made already. */
  held(encoding: Encoding): Response | undefined;
  /** A new 304 for one of the entity tags. */
  notModified(encoding: Encoding): Response;
}

/**
 * Makes a document ready; it is compressed on the first request.
 * @param grown called with further bytes of memory
 */
export function serve(
  document: IndexDocument,
  grown: (bytes: number) => void = () => {},
): ServedDocument {
  const { body, sha256 } = document;
  const upstreamMs = Date.parse(document.last_modified ?? "");
  const ms = Number.isNaN(upstreamMs) ? Date.parse(document.fetched_at) : upstreamMs;
  const lastModifiedMs = Math.floor(ms / 1000) * 1000;
  const etags = { identity: `"${sha256}"`, gzip: `"${sha256}-gzip"`, br: `"${sha256}-br"` };
  let bytes = body.byteLength + ANSWER_BYTES;
  const answers = new Map<Encoding, Response>();
  const pending = new Map<Encoding, Promise<Response>>();
  const unmodified = new Map<Encoding, Response>();

  const make = async (encoding: Encoding): Promise<Response> => {
    const content = encoding === "identity" ? body : await compress(body, encoding);
    const headers = validators(etags[encoding], lastModifiedMs);
    headers.set("content-type", "application/json");
    headers.set("content-length", String(content.byteLength));
    if (encoding !== "identity") {
      headers.set("content-encoding", encoding);
      bytes += content.byteLength + ANSWER_BYTES;
      grown(content.byteLength + ANSWER_BYTES);
    }
    // Documents of the store are never in shared memory.
    const answer = new Response(content as Uint8Array<ArrayBuffer>, { headers });
    answers.set(encoding, answer);
    return answer;
  };
  return {
    etags,
    lastModifiedMs,
    small: body.byteLength < COMPRESSED_BYTES_MIN,
    get bytes() {
      return bytes;
    },
    held: (encoding) => answers.get(encoding)?.clone(),
    async response(encoding) {
      const held = answers.get(encoding);
      if (held !== undefined) return held.clone();
      // Concurrent requests wait for the same copy.
      const made = pending.get(encoding) ??
        make(encoding).finally(() => pending.delete(encoding));
      pending.set(encoding, made);
      return (await made).clone();
    },
    notModified(encoding) {
      let answer = unmodified.get(encoding);
      if (answer === undefined) {
        const headers = validators(etags[encoding], lastModifiedMs);
        answer = new Response(null, { status: 304, headers });
        unmodified.set(encoding, answer);
      }
      return answer.clone();
    },
  };
}

/**
 * Headers of a 200 and a 304. `no-cache` lets caches keep a document but revalidate it; `no-transform` keeps
 * the server from compressing it again.
 */
function validators(etag: string, lastModifiedMs: number): Headers {
  return new Headers({
    etag,
    "last-modified": new Date(lastModifiedMs).toUTCString(),
    "cache-control": "no-cache, no-transform",
    vary: "accept-encoding",
    "x-content-type-options": "nosniff",
  });
}

async function compress(body: Uint8Array, encoding: "gzip" | "br"): Promise<Uint8Array> {
  if (encoding === "br") return await brotli(body);
  const part = new Blob([body as Uint8Array<ArrayBuffer>]);
  return await new Response(part.stream().pipeThrough(new CompressionStream("gzip"))).bytes();
}

/** Off the event loop. */
async function brotli(body: Uint8Array): Promise<Uint8Array> {
  const { brotliCompress, constants } = await import("node:zlib");
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY,
    [constants.BROTLI_PARAM_SIZE_HINT]: body.byteLength,
  };
  return await new Promise((resolve, reject) => {
    brotliCompress(body, { params }, (error, content) => {
      if (error === null) resolve(new Uint8Array(content));
      else reject(error);
    });
  });
}

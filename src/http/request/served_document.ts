// One document as finished answers: one for each encoding, and one 304 for each entity tag. They are made on
// the first request and kept; each request gets a clone, which shares the bytes.

import type { IndexDocument } from "../../store/store.ts";
import { PART_BYTES } from "../../store/stored_text.ts";

/** Compressing fewer bytes gains nothing. */
const COMPRESSED_BYTES_MIN = 1024;
/** Of 0 to 11: above it, brotli takes several times as long to save another tenth. */
const BROTLI_QUALITY = 9;
/** Memory of an answer besides its body, bytes. */
const ANSWER_BYTES = 1024;

/** The encodings in which a document can be served, the smallest first. */
export const ENCODINGS = ["br", "gzip", "identity"] as const;
/** A value of `Content-Encoding`; `identity` is sent as no header. */
export type Encoding = typeof ENCODINGS[number];

/** A document in one encoding. */
export interface DocumentContent {
  readonly headers: Headers;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Follows the memory of a document. */
interface DocumentMemory {
  /** The document takes further bytes. */
  grown(bytes: number): void;
  /** The last user has ended. */
  unused(): void;
}

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
  /** The same, when it is made already and not large. */
  held(encoding: Encoding): Response | undefined;
  /** The content to send in pieces, so that the end of sending is known; undefined when it is not large. */
  large(encoding: Encoding): Promise<DocumentContent | undefined>;
  /** Adds a user of the memory. @returns ends the use; may be called twice */
  hold(): () => void;
  /** A new 304 for one of the entity tags. */
  notModified(encoding: Encoding): Response;
}

/**
 * Makes a document ready; it is compressed on the first request.
 * @param memory follows the memory that it takes
 */
export function serve(
  document: IndexDocument,
  memory?: DocumentMemory,
): ServedDocument {
  const { body, sha256 } = document;
  const upstreamMs = Date.parse(document.last_modified ?? "");
  const ms = Number.isNaN(upstreamMs) ? Date.parse(document.fetched_at) : upstreamMs;
  const lastModifiedMs = Math.floor(ms / 1000) * 1000;
  const etags = { identity: `"${sha256}"`, gzip: `"${sha256}-gzip"`, br: `"${sha256}-br"` };
  const validated = (encoding: Encoding) => validators(etags[encoding], lastModifiedMs);
  const contents = openContents(body, validated, memory);
  const answers = new Map<Encoding, Response>();
  const unmodified = new Map<Encoding, Response>();
  return {
    etags,
    lastModifiedMs,
    small: body.byteLength < COMPRESSED_BYTES_MIN,
    get bytes() {
      return contents.size;
    },
    held: (encoding) => answers.get(encoding)?.clone(),
    async response(encoding) {
      const { bytes, headers } = await contents.in(encoding);
      if (isLarge(bytes)) return new Response(bytes, { headers });
      const answer = answers.get(encoding) ?? new Response(bytes, { headers });
      answers.set(encoding, answer);
      return answer.clone();
    },
    async large(encoding) {
      const content = await contents.in(encoding);
      return isLarge(content.bytes) ? content : undefined;
    },
    hold: openUsers(() => memory?.unused()),
    notModified(encoding) {
      let answer = unmodified.get(encoding);
      if (answer === undefined) {
        answer = new Response(null, { status: 304, headers: validated(encoding) });
        unmodified.set(encoding, answer);
      }
      return answer.clone();
    },
  };
}

/** A document in each encoding, made on the first request for it. */
function openContents(
  body: Uint8Array,
  validated: (encoding: Encoding) => Headers,
  memory: DocumentMemory | undefined,
) {
  let size = body.byteLength + ANSWER_BYTES;
  const made = new Map<Encoding, Promise<DocumentContent>>();
  const make = async (encoding: Encoding): Promise<DocumentContent> => {
    const content = encoding === "identity" ? body : await compress(body, encoding);
    const headers = validated(encoding);
    headers.set("content-type", "application/json");
    headers.set("content-length", String(content.byteLength));
    if (encoding !== "identity") {
      headers.set("content-encoding", encoding);
      size += content.byteLength + ANSWER_BYTES;
      memory?.grown(content.byteLength + ANSWER_BYTES);
    }
    // Documents of the store are never in shared memory.
    return { headers, bytes: content as Uint8Array<ArrayBuffer> };
  };
  return {
    get size() {
      return size;
    },
    /** Concurrent requests wait for the same copy. */
    in(encoding: Encoding): Promise<DocumentContent> {
      const content = made.get(encoding) ?? make(encoding);
      made.set(encoding, content);
      // The next request tries again.
      content.catch(() => made.delete(encoding));
      return content;
    },
  };
}

/** Counts users. @param unused called when the last one has ended */
function openUsers(unused: () => void): () => () => void {
  let users = 0;
  return () => {
    users += 1;
    let using = true;
    return () => {
      if (!using) return;
      using = false;
      users -= 1;
      if (users === 0) unused();
    };
  };
}

/** Larger than one piece of an answer. */
function isLarge(bytes: Uint8Array): boolean {
  return bytes.byteLength > PART_BYTES;
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

// Documents of the index in memory, each as a finished answer in two encodings. Reading the store
// and compressing for every request would halve the rate; the memory is bounded, and everything is
// read again after a sync.

import type { Instant } from "../domain/instant.ts";
import type { IndexDocument, IndexStore } from "../store/store.ts";

/** Bytes of documents kept in memory, compressed copies included. */
const CACHED_BYTES_MAX = 64 * 1024 * 1024;
/** Below so many bytes compression gains nothing. */
const GZIP_BYTES_MIN = 1024;

/** The encodings in which a document is kept. */
export type Encoding = "identity" | "gzip";

/** A document ready to be served. */
export interface ServedDocument {
  /** Entity tags with their quotes; strong, so each encoding has its own. */
  readonly etags: Readonly<Record<Encoding, string>>;
  /** Milliseconds since 1970, whole seconds. */
  readonly lastModifiedMs: number;
  readonly bytes: number;
  /** A response of one's own, to be sent once. */
  response(encoding: Encoding): Promise<Response>;
}

/** How fresh the tree is. */
export interface Freshness {
  /** When the tree was last compared with its upstream; undefined when it never was. */
  readonly at: Instant | undefined;
  /** Whether the latest attempt to do so failed. */
  readonly failed: boolean;
}

/** The documents of the tree, ready to be served. */
export interface DocumentCache {
  get(path: string): Promise<ServedDocument | undefined>;
  freshness(): Promise<Freshness>;
}

/** @param generation grows with every sync that is recorded */
export function openDocumentCache(index: IndexStore, generation: () => number): DocumentCache {
  const documents = new Map<string, ServedDocument>();
  let bytes = 0;
  let seen = -1;
  let fresh: Promise<Freshness> | undefined;
  let comparedAt: Instant | undefined;

  const renew = (): number => {
    const present = generation();
    if (present !== seen) {
      documents.clear();
      bytes = 0;
      fresh = undefined;
      seen = present;
    }
    return present;
  };
  const keep = (path: string, document: ServedDocument) => {
    documents.set(path, document);
    bytes += document.bytes;
    for (const [oldest, { bytes: freed }] of documents) {
      if (bytes <= CACHED_BYTES_MAX) break;
      documents.delete(oldest);
      bytes -= freed;
    }
  };
  return {
    async get(path) {
      const present = renew();
      const held = documents.get(path);
      if (held !== undefined) {
        // The most recently asked stand last; the first to go is the one not asked for longest.
        documents.delete(path);
        documents.set(path, held);
        return held;
      }
      const document = await index.get(path);
      if (document === undefined) return undefined;
      const served = serve(document);
      // What was read before a sync must not be kept after it.
      if (present === generation() && !documents.has(path)) keep(path, served);
      return served;
    },
    async freshness() {
      renew();
      fresh ??= readFreshness(index, comparedAt);
      const answer = await fresh;
      comparedAt = answer.at;
      return answer;
    },
  };
}

/** After a failed sync, the newest document tells the earliest time of the last good one. */
async function readFreshness(index: IndexStore, known: Instant | undefined): Promise<Freshness> {
  const sync = await index.lastSync();
  if (sync === undefined) return { at: undefined, failed: false };
  if (sync.outcome !== "failed") return { at: sync.finished_at, failed: false };
  if (known !== undefined) return { at: known, failed: true };
  const fetched = (await index.list()).map((document) => document.fetched_at).sort();
  return { at: fetched.at(-1), failed: true };
}

/** Makes a document ready; nothing is compressed before it is asked for. */
export function serve(document: IndexDocument): ServedDocument {
  const { body, sha256 } = document;
  const upstreamMs = Date.parse(document.last_modified ?? "");
  const ms = Number.isNaN(upstreamMs) ? Date.parse(document.fetched_at) : upstreamMs;
  const lastModifiedMs = Math.floor(ms / 1000) * 1000;
  const etags = { identity: `"${sha256}"`, gzip: `"${sha256}-gzip"` };
  const made = new Map<Encoding, Promise<Response>>();
  const make = async (encoding: Encoding): Promise<Response> => {
    const bytes = encoding === "gzip" ? await gzip(body) : body;
    const headers = new Headers({
      ...validators(etags[encoding], lastModifiedMs),
      "content-type": "application/json",
      "content-length": String(bytes.byteLength),
    });
    if (encoding === "gzip") headers.set("content-encoding", "gzip");
    // Documents of the store never lie in shared memory.
    return new Response(bytes as Uint8Array<ArrayBuffer>, { headers });
  };
  return {
    etags,
    lastModifiedMs,
    // The compressed copy has about a tenth of the size.
    bytes: body.byteLength + Math.ceil(body.byteLength / 8),
    async response(wanted) {
      const encoding = body.byteLength < GZIP_BYTES_MIN ? "identity" : wanted;
      const held = made.get(encoding) ?? make(encoding);
      made.set(encoding, held);
      return (await held).clone();
    },
  };
}

/** Headers that a 200 and a 304 share. `no-transform` keeps the server from weakening the tag. */
export function validators(etag: string, lastModifiedMs: number): Record<string, string> {
  return {
    etag,
    "last-modified": new Date(lastModifiedMs).toUTCString(),
    "cache-control": "no-cache, no-transform",
    vary: "accept-encoding",
  };
}

async function gzip(body: Uint8Array): Promise<Uint8Array> {
  const part = new Blob([body as Uint8Array<ArrayBuffer>]);
  return await new Response(part.stream().pipeThrough(new CompressionStream("gzip"))).bytes();
}

// One document as finished answers: one for each encoding, and one 304 for each entity tag. They are made on the
// first request and kept; each request gets a clone, which shares the bytes. Which one it gets depends on what the
// caller has already, and on the encoding that it prefers.

import { AgentError } from "../../domain/error.ts";
import type { IndexDocument } from "../../store/store.ts";
import { PART_BYTES } from "../../store/stored_text.ts";

/** Shorter documents are not worth compressing. */
const COMPRESSED_BYTES_MIN = 1024;
/** Of 0 to 11: higher levels take several times as long to save another tenth. */
const BROTLI_QUALITY = 9;
/** Memory of an answer besides its body, bytes. */
const ANSWER_BYTES = 1024;

/** The encodings in which a document can be served, smallest first. */
const ENCODINGS = ["br", "gzip", "identity"] as const;
/** A value of `Content-Encoding`; `identity` is sent as no header. */
type Encoding = typeof ENCODINGS[number];

/** A document in one encoding. */
export interface DocumentContent {
  readonly headers: Headers;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Accounts for the memory of a document. */
interface DocumentMemory {
  grown(bytes: number): void;
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
  /** A new response; the first one in an encoding takes a while. */
  response(encoding: Encoding): Promise<Response>;
  /** The response, if it is ready and not large. */
  held(encoding: Encoding): Response | undefined;
  /**
   * The content to send in pieces, so that it is known when the last one is sent; undefined when it is not
   * large.
   */
  large(encoding: Encoding): Promise<DocumentContent | undefined>;
  /** Adds a user of the memory. @returns ends the use; may be called twice */
  hold(): () => void;
  /** A new 304 for one of the entity tags. */
  notModified(encoding: Encoding): Response;
}

/**
 * Prepares a document for serving; it is compressed on the first request.
 * @param memory accounts for the memory that it takes
 * @param own headers of each answer that are not the same for all documents
 */
export function serve(
  document: IndexDocument,
  memory?: DocumentMemory,
  own: Readonly<Record<string, string>> = {},
): ServedDocument {
  const { body, sha256 } = document;
  const upstreamMs = Date.parse(document.last_modified ?? "");
  const ms = Number.isNaN(upstreamMs) ? Date.parse(document.fetched_at) : upstreamMs;
  const lastModifiedMs = Math.floor(ms / 1000) * 1000;
  const etags = { identity: `"${sha256}"`, gzip: `"${sha256}-gzip"`, br: `"${sha256}-br"` };
  const validated = (encoding: Encoding) => {
    const headers = validators(etags[encoding], lastModifiedMs);
    for (const [name, value] of Object.entries(own)) headers.set(name, value);
    return headers;
  };
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
    if (!headers.has("content-type")) headers.set("content-type", "application/json");
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

/** Compresses off the event loop. */
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

/** RFC 9110 section 5.6.7: the current form, and two obsolete ones. */
const HTTP_DATES = [
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/,
  /^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, \d\d-[A-Z][a-z]{2}-\d\d \d\d:\d\d:\d\d GMT$/,
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}$/,
] as const;
const ASCTIME = HTTP_DATES[2];
/** One entity tag of a list; tags may hold commas and backslashes, but no quotes. */
const ENTITY_TAG = /[\t ,]*((?:W\/)?"[\x21\x23-\x7e\x80-\xff]*")[\t ]*(?:,|$)/y;
/** A weight from 0 to 1 with at most three decimals. */
const WEIGHT = /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/;
/** The default weight of identity: acceptable, but the last choice. */
const LEAST_WEIGHT = 0.0001;

/** The headers that select an answer; null for one that was not sent. */
interface DocumentConditions {
  readonly match: string | null;
  readonly unmodifiedSince: string | null;
  readonly noneMatch: string | null;
  readonly modifiedSince: string | null;
  readonly acceptEncoding: string | null;
}

/** Reads the conditional headers and `Accept-Encoding`, all unparsed. */
export function documentConditions(headers: Headers): DocumentConditions {
  return {
    match: headers.get("if-match"),
    unmodifiedSince: headers.get("if-unmodified-since"),
    noneMatch: headers.get("if-none-match"),
    modifiedSince: headers.get("if-modified-since"),
    acceptEncoding: headers.get("accept-encoding"),
  };
}

/**
 * The answer to a request for a document: the document, or a 304.
 * @returns undefined when the answer is not ready; see {@linkcode answerDocument}
 */
export function heldAnswer(
  conditions: DocumentConditions,
  document: ServedDocument,
): Response | undefined {
  if (changeSince(conditions, document) !== undefined) return undefined;
  const matched = matchedEncoding(conditions, document);
  if (matched !== undefined) return document.notModified(matched);
  return document.held(preferredEncoding(conditions.acceptEncoding, document.small));
}

/**
 * The answer to a request for a document: the document, or a 304.
 * @param inPieces sends a large document; without it, the document is handed over whole
 * @throws {AgentError} `precondition_failed`
 */
export async function answerDocument(
  headers: Headers,
  document: ServedDocument,
  inPieces?: (content: DocumentContent) => Promise<Response>,
): Promise<Response> {
  const conditions = documentConditions(headers);
  const change = changeSince(conditions, document);
  if (change !== undefined) {
    throw new AgentError("precondition_failed", `Cannot send the document: ${change}`);
  }
  const matched = matchedEncoding(conditions, document);
  if (matched !== undefined) return document.notModified(matched);
  const encoding = preferredEncoding(conditions.acceptEncoding, document.small);
  const large = inPieces && await document.large(encoding);
  return large ? await inPieces(large) : await document.response(encoding);
}

/**
 * How the document differs from the one that the caller wants; undefined when it does not. `If-Match` takes precedence,
 * and its entity tags are compared strongly (RFC 9110, sections 13.1.1 and 13.1.4).
 */
function changeSince(
  { match, unmodifiedSince, acceptEncoding }: DocumentConditions,
  { etags, lastModifiedMs, small }: ServedDocument,
): string | undefined {
  if (match !== null) {
    const etag = etags[preferredEncoding(acceptEncoding, small)];
    const isSame = match.trim() === "*" || entityTags(match).includes(etag);
    return isSame ? undefined : `its entity tag is ${etag}, expected one of If-Match`;
  }
  // A text that is not a date is ignored.
  if (unmodifiedSince === null || !(lastModifiedMs > httpDateMs(unmodifiedSince))) return undefined;
  const modified = new Date(lastModifiedMs).toUTCString();
  return `it was modified on ${modified}, expected no change since ${unmodifiedSince}`;
}

/**
 * The encoding in which the caller already has the document. `If-None-Match` takes precedence; entity tags
 * are compared weakly (RFC 9110 section 13.1.2). The tag of any encoding matches, since the caller then has
 * the document either way.
 */
export function matchedEncoding(
  { noneMatch, modifiedSince, acceptEncoding }: DocumentConditions,
  { etags, lastModifiedMs, small }: ServedDocument,
): Encoding | undefined {
  if (noneMatch !== null) {
    // Nearly every caller sends the one tag that it got.
    const only = ENCODINGS.find((encoding) => etags[encoding] === noneMatch);
    if (only !== undefined) return only;
    if (noneMatch.trim() === "*") return preferredEncoding(acceptEncoding, small);
    const sent = entityTags(noneMatch).map((tag) => tag.replace(/^W\//, ""));
    const matched = ENCODINGS.filter((encoding) => sent.includes(etags[encoding]));
    if (matched.length < 2) return matched[0];
    const preferred = preferredEncoding(acceptEncoding, small);
    return matched.includes(preferred) ? preferred : matched[0];
  }
  if (modifiedSince === null || !(lastModifiedMs <= httpDateMs(modifiedSince))) return undefined;
  return preferredEncoding(acceptEncoding, small);
}

/** The tags of a list as they were sent, up to the first malformed one. */
function entityTags(list: string): readonly string[] {
  const tags: string[] = [];
  ENTITY_TAG.lastIndex = 0;
  for (let found = ENTITY_TAG.exec(list); found !== null; found = ENTITY_TAG.exec(list)) {
    tags.push(found[1] ?? "");
  }
  return tags;
}

/** Milliseconds since 1970; NaN for anything but an HTTP date. */
function httpDateMs(text: string): number {
  if (!HTTP_DATES.some((form) => form.test(text))) return Number.NaN;
  // The form without a zone is UTC too.
  return Date.parse(ASCTIME.test(text) ? `${text} GMT` : text);
}

/**
 * The encoding with the highest weight in `Accept-Encoding`; among equals the smallest. If none is
 * acceptable, the document is sent uncompressed: a refusal would help nobody.
 * @param header null when not sent; nothing is compressed then
 * @param small whether to compress only where identity is refused
 * @see RFC 9110, section 12.5.3
 */
export function preferredEncoding(header: string | null, small: boolean): Encoding {
  if (header === null || header === "" || header === "identity") return "identity";
  const weights = new Map<string, number>();
  for (const item of header.split(",")) {
    const [coding = "", ...parameters] = item.split(";").map((part) => part.trim().toLowerCase());
    const weight = parameters.find((parameter) => parameter.startsWith("q="))?.slice(2) ?? "1";
    weights.set(coding === "x-gzip" ? "gzip" : coding, WEIGHT.test(weight) ? Number(weight) : 0);
  }
  const others = weights.get("*");
  const identity = weights.get("identity") ?? (others === 0 ? 0 : LEAST_WEIGHT);
  if (small && identity > 0) return "identity";
  const weightOf = (encoding: Encoding) =>
    encoding === "identity" ? identity : weights.get(encoding) ?? others ?? 0;
  let best: Encoding = "identity";
  let most = 0;
  for (const encoding of ENCODINGS) {
    if (weightOf(encoding) > most) [best, most] = [encoding, weightOf(encoding)];
  }
  return best;
}

// Conditional requests and encodings: what a caller has already, and the encoding it prefers.

import {
  type DocumentContent,
  type Encoding,
  ENCODINGS,
  type ServedDocument,
} from "./served_document.ts";

/** RFC 9110 section 5.6.7: the current form, and two obsolete ones. */
const HTTP_DATES = [
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/,
  /^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, \d\d-[A-Z][a-z]{2}-\d\d \d\d:\d\d:\d\d GMT$/,
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}$/,
] as const;
const ASCTIME = HTTP_DATES[2];
/** One entity tag of a list; tags may hold commas and backslashes, but no quotes. */
const ENTITY_TAG = /[\t ,]*(?:W\/)?("[\x21\x23-\x7e\x80-\xff]*")[\t ]*(?:,|$)/y;
/** A weight from 0 to 1 with at most three decimals. */
const WEIGHT = /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/;
/** The weight of identity by default: admitted, and the last choice. */
const LEAST_WEIGHT = 0.0001;

/** The headers that select an answer; null for one that was not sent. */
export interface DocumentConditions {
  readonly noneMatch: string | null;
  readonly modifiedSince: string | null;
  readonly acceptEncoding: string | null;
}

/** Reads `If-None-Match`, `If-Modified-Since` and `Accept-Encoding`, all unparsed. */
export function documentConditions(headers: Headers): DocumentConditions {
  return {
    noneMatch: headers.get("if-none-match"),
    modifiedSince: headers.get("if-modified-since"),
    acceptEncoding: headers.get("accept-encoding"),
  };
}

/**
 * The answer to a request for a document: the document, or a 304.
 * @returns undefined when the answer has to be made first; see {@linkcode answerDocument}
 */
export function heldAnswer(
  conditions: DocumentConditions,
  document: ServedDocument,
): Response | undefined {
  const matched = matchedEncoding(conditions, document);
  if (matched !== undefined) return document.notModified(matched);
  return document.held(preferredEncoding(conditions.acceptEncoding, document.small));
}

/**
 * The answer to a request for a document: the document, or a 304.
 * @param inPieces sends a large document; without it, all is handed over at once
 */
export async function answerDocument(
  headers: Headers,
  document: ServedDocument,
  inPieces?: (content: DocumentContent) => Promise<Response>,
): Promise<Response> {
  const conditions = documentConditions(headers);
  const matched = matchedEncoding(conditions, document);
  if (matched !== undefined) return document.notModified(matched);
  const encoding = preferredEncoding(conditions.acceptEncoding, document.small);
  const large = inPieces && await document.large(encoding);
  return large ? await inPieces(large) : await document.response(encoding);
}

/**
 * The encoding in which a caller has the document already. `If-None-Match` takes precedence; entity tags are
 * compared weakly (RFC 9110 section 13.1.2). The tag of any encoding matches, since the caller then has the
 * document.
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
    const sent = entityTags(noneMatch);
    const matched = ENCODINGS.filter((encoding) => sent.includes(etags[encoding]));
    if (matched.length < 2) return matched[0];
    const preferred = preferredEncoding(acceptEncoding, small);
    return matched.includes(preferred) ? preferred : matched[0];
  }
  if (modifiedSince === null || !(lastModifiedMs <= httpDateMs(modifiedSince))) return undefined;
  return preferredEncoding(acceptEncoding, small);
}

/** The tags of a list with their quotes, without `W/`, up to the first malformed one. */
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
 * The encoding with the highest weight in `Accept-Encoding`; of equal ones the smallest. Where none is
 * admitted, the document is sent uncompressed: a refusal would help nobody.
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

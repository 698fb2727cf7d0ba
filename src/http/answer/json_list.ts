// Sends lists of stored texts as JSON arrays. A page is read once the caller has received the previous one.

import type { Context } from "hono";
import type { TextPage } from "../../store/stored_text.ts";
import type { HttpEnv } from "../served_agent.ts";
import {
  type AnswerOptions,
  answerPieces,
  closeText,
  type Piece,
  piecesOf,
  type Shown,
} from "./text_answer.ts";

/** Entries of the first page, and of the largest; a page has as many as fit into a piece. */
const PAGE_FIRST = 64;
const PAGE_MAX = 512;
/** How much larger than the last page the next one tries to be. */
const PAGE_GROWTH = 1.25;

type ListPage = Pick<TextPage, "texts" | "entries" | "last">;

/** Reads the next page of a list, of at most `size` entries. */
export type NextPage = (size: number) => Promise<ListPage>;

interface ListOptions extends Omit<AnswerOptions, "bytes"> {
  readonly shown: Shown;
}

/**
 * Answers with a list. Headers set before are kept; HEAD reads the first page only.
 * @throws errors of the first page; a later error breaks the connection
 */
export function listResponse(
  c: Context<HttpEnv>,
  next: NextPage,
  options: ListOptions,
): Promise<Response> {
  return answerPieces(c, listPieces(next, options.shown), options);
}

const encoder = new TextEncoder();
const OPEN = encoder.encode("[");
const COMMA = encoder.encode(",");
const CLOSE = encoder.encode("]");

/** Pieces end with pages, so a page is sent before the next one is read. */
async function* listPieces(
  next: NextPage,
  shown: Shown,
): AsyncGenerator<Piece, void> {
  let size = PAGE_FIRST;
  let begun = false;
  for (;;) {
    const page = await next(size);
    size = Math.min(Math.max(Math.ceil(page.entries * PAGE_GROWTH), PAGE_FIRST), PAGE_MAX);
    // An entry may have been removed since the page was found.
    if (page.texts.length === 0 && !page.last) continue;
    try {
      for await (const { bytes, last } of piecesOf(pageBytes(page, begun, shown))) {
        yield { bytes, last: last && page.last };
      }
    } finally {
      for (const text of page.texts) closeText(text);
    }
    if (page.last) return;
    begun = true;
  }
}

async function* pageBytes(
  { texts, last }: ListPage,
  begun: boolean,
  shown: Shown,
): AsyncGenerator<Uint8Array, void> {
  if (!begun) yield OPEN;
  for (const [index, text] of texts.entries()) {
    if (begun || index > 0) yield COMMA;
    for await (const bytes of shown(text)) yield bytes;
  }
  if (last) yield CLOSE;
}

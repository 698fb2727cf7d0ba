// Lists as JSON arrays that are written piece by piece: a page is read when the caller has taken the
// one before it, so that a list of any length needs the memory of one page. What fits into the first
// page is answered in one piece.
//
// A request whose answer is still being read stays counted among those under way. It ends with the
// list, by the caller going away, by a failure, or when the caller takes nothing for too long.

import type { Context } from "hono";
import { AgentError, messageOf } from "../domain/error.ts";
import type { JsonValue } from "../domain/json.ts";
import type { Log } from "../log.ts";
import type { HttpEnv } from "./app_deps.ts";

/** Entries of the first page; large ones may have megabytes each. */
const FIRST_PAGE = 16;
/** Characters that a page should have: the next one is made smaller or larger to that end. */
const PAGE_CHARS = 256 * 1024;
/** Milliseconds in which a caller has to take a page. */
const STALL_MS = 30_000;

/** A part of a list. */
export interface ListPage {
  readonly entries: readonly JsonValue[];
  /** Whether nothing comes after it. */
  readonly last: boolean;
}

/** Reads the next page of a list, of at most `size` entries. */
export type NextPage = (size: number) => Promise<ListPage>;

/** How a list is written. */
export interface ListOptions {
  /** Told when an answer breaks off after it has begun. */
  readonly log: Log;
  /** Entries of one page at most. */
  readonly pageMax: number;
  /** Milliseconds in which a caller has to take a page. */
  readonly stallMs?: number;
}

/**
 * Answers a list. Headers that are set before are kept; HEAD reads the first page only.
 * @throws what the reading of the first page throws; a later failure breaks the connection
 */
export async function listResponse(
  c: Context<HttpEnv>,
  next: NextPage,
  options: ListOptions,
): Promise<Response> {
  const pages = sizedPages(next, options.pageMax);
  const first = await pages();
  c.header("content-type", "application/json");
  if (first.last) return c.body(`[${first.text}]`);
  if (c.req.method === "HEAD") return c.body(null);
  const { log, stallMs = STALL_MS } = options;
  const broken = breakOff(c.get("request_id"), log);
  const source = new ListSource(first, pages, { ended: c.get("keep")(), broken, stallMs });
  // Nothing is read ahead of the caller.
  const stream = new ReadableStream(source, { highWaterMark: 0 });
  return c.body(stream);
}

/** Makes the error that breaks the caller's connection, and tells of it: not every Deno does. */
function breakOff(request_id: string, log: Log): SourceOptions["broken"] {
  return (reason, cause) => {
    const message = `Cannot finish the answer to request ${request_id}: ${reason}`;
    const stack = cause instanceof Error ? cause.stack : undefined;
    log.warn("answer broken off", { request_id, reason, stack });
    return new AgentError("aborted", message, { cause });
  };
}

/** A page as the inside of an array. */
interface TextPage {
  readonly text: string;
  readonly last: boolean;
}

/** Pages of about the same length, whatever the length of the entries. */
function sizedPages(next: NextPage, pageMax: number): () => Promise<TextPage> {
  let size = Math.min(FIRST_PAGE, pageMax);
  return async () => {
    const { entries, last } = await next(size);
    const text = entries.map((entry) => JSON.stringify(entry)).join(",");
    const fitting = Math.floor(size * PAGE_CHARS / Math.max(text.length, 1));
    size = Math.min(Math.max(fitting, 1), pageMax);
    return { text, last };
  };
}

interface SourceOptions {
  /** Called once when nothing more is read. */
  readonly ended: () => void;
  /** Makes the error that the caller's connection is broken with. */
  readonly broken: (reason: string, cause?: unknown) => AgentError;
  readonly stallMs: number;
}

/** The bytes of a list of which the first page was read already. */
class ListSource implements UnderlyingDefaultSource<Uint8Array> {
  readonly #pages: () => Promise<TextPage>;
  readonly #options: SourceOptions;
  readonly #encoder = new TextEncoder();
  #read: TextPage | undefined;
  #begun = false;
  #over = false;
  #stalled: ReturnType<typeof setTimeout> | undefined;

  constructor(first: TextPage, pages: () => Promise<TextPage>, options: SourceOptions) {
    this.#read = first;
    this.#pages = pages;
    this.#options = options;
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#expectPull(controller);
  }

  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    clearTimeout(this.#stalled);
    try {
      const page = this.#read ?? await this.#pages();
      this.#read = undefined;
      // The caller may have gone meanwhile.
      if (this.#over) return;
      controller.enqueue(this.#encoder.encode(this.#framed(page)));
      if (page.last) {
        this.#end();
        controller.close();
      } else this.#expectPull(controller);
    } catch (error) {
      this.#end();
      // Rejecting breaks the connection: what was sent must not look like a whole list.
      throw this.#options.broken(messageOf(error), error);
    }
  }

  cancel(): void {
    this.#end();
  }

  #framed({ text, last }: TextPage): string {
    const open = this.#begun ? (text === "" ? "" : ",") : "[";
    this.#begun = true;
    return open + text + (last ? "]" : "");
  }

  #expectPull(controller: ReadableStreamDefaultController<Uint8Array>): void {
    const { stallMs, broken } = this.#options;
    this.#stalled = setTimeout(() => {
      this.#end();
      controller.error(broken(`nothing of it was taken for ${stallMs} ms`));
    }, stallMs);
  }

  #end(): void {
    clearTimeout(this.#stalled);
    if (this.#over) return;
    this.#over = true;
    this.#options.ended();
  }
}

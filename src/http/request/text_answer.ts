// Answers that are JSON texts of the store, written piece by piece: a piece is read when the caller has
// taken the one before it, so that an answer of any length needs the memory of one piece. What fits
// into the first piece is answered as one.
//
// A request whose answer is still being read stays counted among those under way. It ends with the
// answer, by the caller going away, by a failure, or when the caller takes nothing for too long.

import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { AgentError, messageOf } from "../../domain/error.ts";
import type { MemoryBudget, Reservation } from "../../domain/memory_budget.ts";
import type { Log } from "../../metrics/log.ts";
import { PART_BYTES, type StoredText } from "../../store/stored_text.ts";
import type { HttpContext, HttpEnv } from "../context.ts";
import { JsonMasking } from "../../domain/json_masking.ts";
import { seesSecrets } from "./caller.ts";

/** Bytes of a text that waits for no memory: as many requests as may be under way hold 16 MiB of such. */
const SMALL_ANSWER_BYTES = 64 * 1024;
/** Bytes from which a piece is sent; smaller ones are sent together. */
const PIECE_BYTES = PART_BYTES / 2;
/** Milliseconds in which a caller has to take a piece. */
const STALL_MS = 30_000;

/** How an answer is written. */
export interface AnswerOptions {
  /** Told when an answer breaks off after it has begun. */
  readonly log: Log;
  readonly budget: MemoryBudget;
  /** Milliseconds in which a caller has to take a piece. */
  readonly stallMs?: number;
  readonly status?: ContentfulStatusCode;
  /** Bytes of the whole answer, where they are known. */
  readonly bytes?: number;
  /** Whether the answer is so small that it is answered however many large ones are under way. */
  readonly small?: boolean;
}

/** Turns a text into the bytes that a caller is sent. */
export type Shown = (text: StoredText) => AsyncGenerator<Uint8Array, void>;

/** Some bytes of an answer, and whether nothing comes after them. */
export interface Piece {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly last: boolean;
}

/**
 * Answers what pieces there are. Headers that are set before are kept; HEAD reads the first piece only.
 * @throws what the reading of the first piece throws; a later failure breaks the connection
 */
export async function answerPieces(
  c: Context<HttpEnv>,
  pieces: AsyncGenerator<Piece, void>,
  options: AnswerOptions,
): Promise<Response> {
  const { log, budget, stallMs = STALL_MS, status = 200, bytes, small = false } = options;
  // Beside the piece that waits for the caller, one is being made.
  const held = small ? undefined : await budget.reserve("answers", 2 * PART_BYTES, "answer");
  try {
    const { value: first } = await pieces.next();
    if (first === undefined) throw new Error("Cannot answer: there is not one piece");
    c.header("content-type", "application/json");
    if (!first.last && bytes !== undefined) c.header("content-length", String(bytes));
    if (first.last || c.req.method === "HEAD") {
      await pieces.return();
      held?.release();
      return first.last ? c.body(first.bytes, status) : c.body(null, status);
    }
    // What is large is sent as it is: packing it would cost more than it is worth on a host.
    c.header("cache-control", "no-transform");
    const broken = breakOff(c.get("request_id"), log);
    const ended = endOf(c.get("keep")(), held);
    const source = new PieceSource(first, pieces, { ended, broken, stallMs });
    // Nothing is read ahead of the caller.
    return c.body(new ReadableStream(source, { highWaterMark: 0 }), status);
  } catch (error) {
    held?.release();
    await pieces.return();
    throw error;
  }
}

/** Answers one text, as far as the caller may see it. Its parts are closed, refused or not. */
export async function answerText(
  c: Context<HttpEnv>,
  text: StoredText,
  options: Omit<AnswerOptions, "bytes" | "small"> & { readonly shown: Shown },
): Promise<Response> {
  const length = options.shown === textBytes ? { bytes: text.bytes } : {};
  const small = text.bytes <= SMALL_ANSWER_BYTES;
  try {
    return await answerPieces(c, piecesOf(options.shown(text)), { ...options, ...length, small });
  } catch (error) {
    // Pieces that nobody has asked for close nothing.
    closeText(text);
    throw error;
  }
}

/** The bytes of a text, whose parts are closed behind them, also when nobody takes them all. */
export async function* textBytes(text: StoredText): AsyncGenerator<Uint8Array, void> {
  try {
    for (const part of text.parts) {
      if (part instanceof Uint8Array) yield part;
      else {
        for (let at = 0; at < part.bytes; at += PART_BYTES) {
          yield await part.read(at, Math.min(PART_BYTES, part.bytes - at));
        }
        part.close();
      }
    }
  } finally {
    closeText(text);
  }
}

/** Closes the parts of a text that is not sent. */
export function closeText({ parts }: StoredText): void {
  for (const part of parts) if (!(part instanceof Uint8Array)) part.close();
}

/** Bytes as pieces, small ones together. */
export async function* piecesOf(
  source: AsyncGenerator<Uint8Array, void>,
): AsyncGenerator<Piece, void> {
  let waiting: Uint8Array[] = [];
  let size = 0;
  for await (const bytes of source) {
    if (size >= PIECE_BYTES) {
      yield { bytes: joined(waiting, size), last: false };
      waiting = [];
      size = 0;
    }
    waiting.push(bytes);
    size += bytes.length;
  }
  yield { bytes: joined(waiting, size), last: true };
}

/** Parts as one. */
export function joined(parts: readonly Uint8Array[], size: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
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

function endOf(release: () => void, held: Reservation | undefined): () => void {
  return () => {
    release();
    held?.release();
  };
}

interface SourceOptions {
  /** Called once when nothing more is read. */
  readonly ended: () => void;
  /** Makes the error that the caller's connection is broken with. */
  readonly broken: (reason: string, cause?: unknown) => AgentError;
  readonly stallMs: number;
}

/** The bytes of an answer of which the first piece was read already. */
class PieceSource implements UnderlyingDefaultSource<Uint8Array> {
  readonly #pieces: AsyncGenerator<Piece, void>;
  readonly #options: SourceOptions;
  #read: Piece | undefined;
  #over = false;
  #stalled: ReturnType<typeof setTimeout> | undefined;

  constructor(first: Piece, pieces: AsyncGenerator<Piece, void>, options: SourceOptions) {
    this.#read = first;
    this.#pieces = pieces;
    this.#options = options;
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#expectPull(controller);
  }

  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    clearTimeout(this.#stalled);
    try {
      await ownTurn();
      const piece = this.#over ? undefined : this.#read ?? (await this.#pieces.next()).value;
      this.#read = undefined;
      // The caller may have gone meanwhile.
      if (this.#over) return;
      if (piece === undefined) throw new Error("Cannot go on: the last piece was not the last");
      controller.enqueue(piece.bytes);
      if (piece.last) {
        this.#end();
        controller.close();
      } else this.#expectPull(controller);
    } catch (error) {
      this.#end();
      // Rejecting breaks the connection: what was sent must not look like a whole answer.
      throw this.#options.broken(messageOf(error), error);
    }
  }

  cancel(): void {
    this.#end();
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
    // Closes what was being read; nobody waits for it, and it throws nothing.
    this.#pieces.return().catch(() => {});
  }
}

// Turns of the event loop for the pieces of large answers. Connections that have room for pieces ask for them
// all at once; in the same turn, a hundred of them would keep everybody else waiting for many seconds.

/**
 * Milliseconds after which the runtime looks at its sockets. While there is always something to do, it does
 * so in every 61st turn only; it does so at once when it has to wait, be it for no time.
 */
const DEAF_MS_MAX = 20;

/** The turn that was promised last: there is one event loop, and one order. */
let lastTurn: Promise<void> = Promise.resolve();
let lookedAtMs = 0;

/** A turn for one piece, after those that were asked for before. */
function ownTurn(): Promise<void> {
  return lastTurn = lastTurn.then(nextTurn);
}

async function nextTurn(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  if (performance.now() - lookedAtMs < DEAF_MS_MAX) {
    setImmediate(resolve);
    return await promise;
  }
  setTimeout(resolve, 0);
  await promise;
  lookedAtMs = performance.now();
}

// What a caller may see of stored texts: administrators all of it, others without its secrets.

/** The member of a job of which every value is a secret. */
const SECRET_MEMBER = { job: "params", other: undefined } as const;
/** A field of a job that is a secret as a whole: who receives callbacks often wants a token in their address. */
const SECRET_FIELD = { job: ["callback_url"], other: [] } as const;

/** How texts are shown to the caller of a request. */
export function shownTo(c: Context<HttpEnv>, kind: keyof typeof SECRET_MEMBER): Shown {
  return seesSecrets(c.get("caller")) ? textBytes : (text) => maskedBytes(text, kind);
}

/** Answers one job. */
export function answerJob(
  c: Context<HttpEnv>,
  text: StoredText,
  context: Pick<HttpContext, "log" | "budget">,
): Promise<Response> {
  return answerText(c, text, { ...context, shown: shownTo(c, "job") });
}

async function* maskedBytes(
  text: StoredText,
  kind: keyof typeof SECRET_MEMBER,
): AsyncGenerator<Uint8Array, void> {
  const names = new Set([...SECRET_FIELD[kind], ...namesIn(text.secrets)]);
  const member = SECRET_MEMBER[kind];
  const masking = new JsonMasking({ names, ...(member === undefined ? {} : { member }) });
  for await (const bytes of textBytes(text)) {
    // Of what is masked little is left: many parts may make one piece.
    if (text.bytes > PART_BYTES) await ownTurn();
    yield masking.write(bytes);
  }
}

function namesIn(secrets: string | null): string[] {
  // The text is JSON of this store's making.
  const names: unknown = secrets === null ? [] : JSON.parse(secrets);
  return Array.isArray(names) ? names.filter((name) => typeof name === "string") : [];
}

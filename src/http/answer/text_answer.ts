// Sends JSON texts of the store piece by piece: a piece is read once the caller has received the previous
// one, so an answer of any length needs the memory of one piece. A short answer is one piece.
//
// A request counts as active until its answer is read. It ends with the answer, when the caller goes away, by
// an error, or when the caller takes nothing for too long.

import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { joined } from "../../domain/bytes.ts";
import { AgentError, messageOf } from "../../domain/error.ts";
import { MS_PER_SECOND } from "../../domain/instant.ts";
import type { MemoryBudget, Reservation } from "../../domain/memory_budget.ts";
import type { Log } from "../../metrics/log.ts";
import { PART_BYTES, type Showing, type StoredText } from "../../store/stored_text.ts";
import type { HttpEnv, ServedAgent } from "../served_agent.ts";
import { JsonMasking } from "../../domain/masking.ts";
import { seesSecrets } from "../caller.ts";
import { CONVENTIONS } from "../request/compat.ts";
import type { JobUuid, WorkflowUuid } from "../../domain/id.ts";
import type { Wording } from "../../domain/job/wire.ts";
import { SYSTEM_TIMERS, type Timers } from "../../runtime/timers.ts";

/** Texts up to this size reserve no memory; all concurrent requests together hold at most 16 MiB of them. */
const SMALL_ANSWER_BYTES = 64 * 1024;
/** Size of a piece, bytes; smaller ones are combined. */
const PIECE_BYTES = PART_BYTES / 2;
/** How long a caller may take to accept a piece, milliseconds. */
export const STALL_MS = 30_000;

/** How an answer is written. */
export interface AnswerOptions {
  /** Logs an answer that breaks off. */
  readonly log: Log;
  readonly budget: MemoryBudget;
  /** The clock of callers that accept no piece; the system's unless given. */
  readonly timers?: Timers;
  readonly status?: ContentfulStatusCode;
  /** Bytes of the whole answer, if known. */
  readonly bytes?: number;
  /** Whether the answer is small enough to need no reservation. */
  readonly small?: boolean;
}

/** Converts a text to the bytes that a caller may see. */
export type Shown = (text: StoredText) => AsyncGenerator<Uint8Array, void>;

/** A part of an answer, sent as one. */
export interface Piece {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly last: boolean;
}

/**
 * Answers with pieces. Headers set before are kept; HEAD reads the first piece only.
 * @throws errors of the first piece; a later error breaks the connection
 */
export async function answerPieces(
  c: Context<HttpEnv>,
  pieces: AsyncGenerator<Piece, void>,
  options: AnswerOptions,
): Promise<Response> {
  const { log, budget, timers = SYSTEM_TIMERS, status = 200, bytes, small = false } = options;
  // One piece waits for the caller while the next is made.
  const held = small ? undefined : await budget.reserve("answers", 2 * PART_BYTES, "answer");
  try {
    const { value: first } = await pieces.next();
    if (first === undefined) throw new Error("Cannot answer: the text has no pieces");
    c.header("content-type", "application/json");
    if (!first.last && bytes !== undefined) c.header("content-length", String(bytes));
    if (first.last || c.req.method === "HEAD") {
      await pieces.return();
      held?.release();
      return first.last ? c.body(first.bytes, status) : c.body(null, status);
    }
    // Large answers are not compressed: on a host that costs more than it saves.
    c.header("cache-control", "no-transform");
    const broken = breakOff(c.get("request_id"), log);
    const ended = endOf(c.get("keep")(), held);
    const source = new PieceSource(first, pieces, { ended, broken, timers });
    // No reading ahead of the caller.
    return c.body(new ReadableStream(source, { highWaterMark: 0 }), status);
  } catch (error) {
    held?.release();
    await pieces.return();
    throw error;
  }
}

interface TextOptions extends Omit<AnswerOptions, "bytes" | "small"> {
  readonly shown: Shown;
  /** Headers of the answer; those set on the context before may be lost. */
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Answers with one text, as the caller may see it. Its parts are closed in any case.
 * @throws {AgentError} as answerPieces() does; the text is then closed too
 */
export async function answerText(
  c: Context<HttpEnv>,
  text: StoredText,
  options: TextOptions,
): Promise<Response> {
  const whole = options.shown === textBytes ? bytesAtHand(text) : undefined;
  if (whole !== undefined) {
    // Not by the context: it keeps headers in an object, which the runtime sorts and reads again.
    const headers = { ...options.headers, "content-type": "application/json" };
    return new Response(whole, { status: options.status ?? 200, headers });
  }
  const length = options.shown === textBytes ? { bytes: text.bytes } : {};
  for (const [name, value] of Object.entries(options.headers ?? {})) c.header(name, value);
  setAge(c, text.staleMs);
  const small = text.bytes <= SMALL_ANSWER_BYTES;
  try {
    return await answerPieces(c, piecesOf(options.shown(text)), { ...options, ...length, small });
  } catch (error) {
    // A generator that was never started closes nothing.
    closeText(text);
    throw error;
  }
}

/** The bytes of a current text of one piece that is in memory; undefined for others, which are read in pieces. */
function bytesAtHand({ parts, bytes, staleMs }: StoredText): Uint8Array<ArrayBuffer> | undefined {
  if (bytes > PIECE_BYTES || staleMs !== undefined) return undefined;
  const read = parts.filter((part) => part instanceof Uint8Array);
  return read.length === parts.length ? joined(read, bytes) : undefined;
}

/** Marks an answer as what is known while the database is away. */
export function markStale(c: Context<HttpEnv>): void {
  c.header("x-stale", "database");
}

/** The same for an answer that was current some time ago; does nothing for a current one. */
export function setAge(c: Context<HttpEnv>, staleMs: number | undefined): void {
  if (staleMs === undefined) return;
  c.header("age", String(Math.round(staleMs / MS_PER_SECOND)));
  markStale(c);
}

/** The bytes of a text. Its parts are closed, even if not all are read. */
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

/** Makes the error that breaks the caller's connection, and logs it, which not every version of Deno does. */
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
  /** Called once, when nothing more will be read. */
  readonly ended: () => void;
  /** Makes the error that breaks the caller's connection. */
  readonly broken: (reason: string, cause?: unknown) => AgentError;
  readonly timers: Timers;
}

/** The bytes of an answer whose first piece was read already. */
class PieceSource implements UnderlyingDefaultSource<Uint8Array> {
  readonly #pieces: AsyncGenerator<Piece, void>;
  readonly #options: SourceOptions;
  #read: Piece | undefined;
  #over = false;
  #cancelTimer: (() => void) | undefined;

  constructor(first: Piece, pieces: AsyncGenerator<Piece, void>, options: SourceOptions) {
    this.#read = first;
    this.#pieces = pieces;
    this.#options = options;
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#expectPull(controller);
  }

  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    this.#cancelTimer?.();
    try {
      await ownTurn();
      const piece = this.#over ? undefined : this.#read ?? (await this.#pieces.next()).value;
      this.#read = undefined;
      // The caller may have left while it was read.
      if (this.#over) return;
      if (piece === undefined) {
        throw new Error("Cannot send the answer: it ended before its last piece");
      }
      controller.enqueue(piece.bytes);
      if (piece.last) {
        this.#end();
        controller.close();
      } else this.#expectPull(controller);
    } catch (error) {
      this.#end();
      // Rejecting breaks the connection, so that a partial answer does not look whole.
      throw this.#options.broken(messageOf(error), error);
    }
  }

  cancel(): void {
    this.#end();
  }

  #expectPull(controller: ReadableStreamDefaultController<Uint8Array>): void {
    const { timers, broken } = this.#options;
    this.#cancelTimer = timers.start(STALL_MS, () => {
      this.#end();
      controller.error(broken(`the caller read nothing for ${STALL_MS} ms`));
    });
  }

  #end(): void {
    this.#cancelTimer?.();
    if (this.#over) return;
    this.#over = true;
    this.#options.ended();
    // Closes what was being read.
    this.#pieces.return().catch(() => {});
  }
}

/**
 * Milliseconds after which the runtime polls its sockets. While busy it does so only in every 61st turn; it
 * does so at once when it waits, even for no time.
 */
const POLL_GAP_MS_MAX = 20;

/** The last promised turn: there is one event loop, and one order. */
let lastTurn: Promise<void> = Promise.resolve();
let lookedAtMs = 0;

/**
 * A turn of the event loop for one piece, after all requested before. Connections with room all ask
 * for pieces at once; served in one turn, a hundred of them would block every other request for
 * seconds.
 */
function ownTurn(): Promise<void> {
  return lastTurn = lastTurn.then(nextTurn);
}

async function nextTurn(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  if (performance.now() - lookedAtMs < POLL_GAP_MS_MAX) {
    setImmediate(resolve);
    return await promise;
  }
  setTimeout(resolve, 0);
  await promise;
  lookedAtMs = performance.now();
}

/** The member of a job of which every value is a secret. */
const SECRET_MEMBER = { job: "params", other: undefined } as const;
/** Fields that are secret as a whole: the URL of a callback often contains a token. */
const SECRET_FIELD = { job: ["callback_url"], other: [] } as const;

/**
 * How texts are shown to the caller of a request: to administrators whole, to others without
 * secrets.
 */
export function shownTo(c: Context<HttpEnv>, kind: keyof typeof SECRET_MEMBER): Shown {
  return seesSecrets(c.get("caller")) ? textBytes : (text) => maskedBytes(text, kind);
}

/** A job as the store has read it for a caller. */
interface JobAnswered {
  readonly text: StoredText;
  /** What it was read with: whether its secrets are masked. */
  readonly showing: Showing;
  readonly status?: ContentfulStatusCode;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Sends a stored job as it is read, in parts. */
export function answerJob(
  c: Context<HttpEnv>,
  { text, showing, ...answered }: JobAnswered,
  { log, budget }: Pick<ServedAgent, "log" | "budget">,
): Promise<Response> {
  const shown = showing.masksSecrets ? maskedJob : textBytes;
  return answerText(c, text, { log, budget, shown, ...answered });
}

/**
 * Puts the uuid of the resource into the header `request-id`, where clients of node-workflow expect it,
 * unless the client sent an id.
 */
export function answerNames(
  uuid: WorkflowUuid | JobUuid,
  wording: Wording,
): Readonly<Record<string, string>> {
  return CONVENTIONS[wording].namesAnswers ? { "request-id": uuid } : {};
}

const maskedJob: Shown = (text) => maskedBytes(text, "job");

async function* maskedBytes(
  text: StoredText,
  kind: keyof typeof SECRET_MEMBER,
): AsyncGenerator<Uint8Array, void> {
  const names = new Set([...SECRET_FIELD[kind], ...namesIn(text.secrets)]);
  const member = SECRET_MEMBER[kind];
  const masking = new JsonMasking({ names, ...(member === undefined ? {} : { member }) });
  for await (const bytes of textBytes(text)) {
    // Masking removes most of the text, so one piece may take many parts.
    if (text.bytes > PART_BYTES) await ownTurn();
    yield masking.write(bytes);
  }
}

function namesIn(secrets: string | null): string[] {
  // The store wrote this JSON.
  const names: unknown = secrets === null ? [] : JSON.parse(secrets);
  return Array.isArray(names) ? names.filter((name) => typeof name === "string") : [];
}

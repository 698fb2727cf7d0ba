// The memory budget of the agent. Memory for a document, as text or as a parsed value, is reserved before the
// document is read and released afterwards. When an account is used up, reservations wait their turn, first
// come, first served, and are refused when they have waited too long: the caller is asked to try again later.
//
// There are several accounts, so that large documents of one kind do not delay another: a cancel never waits
// behind the bodies of workflows. A caller that needs two accounts reserves in the order below, so that no
// two callers wait for each other. All accounts together, except for bytes outside of V8's heap, fit into the
// agent's heap together with what an idle agent needs.

import { AgentError } from "./error.ts";

const MIB = 1024 * 1024;

/** The accounts, and the bytes that all holders of one may have together. */
export const ACCOUNTS = {
  /** Request bodies while they arrive, and until they are parsed. */
  bodies: 32 * MIB,
  /** Values that bodies were parsed into, until their requests are answered. */
  values: 56 * MIB,
  /** Small bodies; they wait only for each other. */
  smallBodies: 16 * MIB,
  /** The values that small bodies are parsed into. */
  smallValues: 16 * MIB,
  /** Jobs being created: of large workflows, or by a retry. */
  jobs: 40 * MIB,
  /** Large jobs that run, from before their first task until they leave their slots. */
  runs: 56 * MIB,
  /** Messages of guests, from their first byte until they are handled. */
  guests: 32 * MIB,
  /** Arguments of capability calls and log lines, until the call ends. */
  calls: 16 * MIB,
  /** Bodies of callbacks that are too large for `smallBodies`. */
  callbacks: 16 * MIB,
  /** Index documents: in the cache, or still being sent to a caller. */
  documents: 96 * MIB,
  /** Pieces of stored texts and of large documents on their way to callers. */
  answers: 48 * MIB,
} as const;

/** The name of a part of the budget; each part has its own bytes, so one kind of document cannot starve another. */
export type Account = keyof typeof ACCOUNTS;

/** Milliseconds to wait for a turn by default. */
const TURN_MS = 10_000;
/** Seconds after which a refused caller may try again. */
const RETRY_AFTER_SECONDS = 2;

/** How long a reservation waits for its turn, and what ends the wait. */
export interface ReserveOptions {
  /** Milliseconds after which it is refused; `Infinity` for a caller that cannot be refused. */
  readonly turnMs?: number;
  readonly signal?: AbortSignal;
}

/** Bytes of the budget that a document holds until it releases them. */
export interface Reservation {
  /** Bytes that it counts for now. */
  readonly bytes: number;
  /**
   * Changes the reserved bytes without waiting: less when more is known about a document; more only for memory that
   * is in use already.
   */
  resize(bytes: number): void;
  /** Releases the bytes. May be called twice. */
  release(): void;
}

/** The budget, for parts of the agent that hold documents. */
export interface MemoryBudget {
  /**
   * Reserves memory, in turn. A reservation larger than its account gets all of it, when nobody else has any.
   * @param what follows "Cannot" in the refusal
   * @throws {AgentError} `overloaded` when its turn does not come in time; `aborted` by the signal
   */
  reserve(
    account: Account,
    bytes: number,
    what: string,
    options?: ReserveOptions,
  ): Promise<Reservation>;
  /** Reserves memory only if it is free and nobody waits for it. */
  tryReserve(account: Account, bytes: number): Reservation | undefined;
  used(account: Account): number;
}

/** Opens the accounts. @param sizes bytes of each; the agent's own by default */
export function openMemoryBudget(
  sizes: Readonly<Partial<Record<Account, number>>> = {},
): MemoryBudget {
  const books = new Map<Account, Book>();
  const bookOf = (account: Account): Book => {
    const found = books.get(account);
    if (found !== undefined) return found;
    const book = new Book(sizes[account] ?? ACCOUNTS[account]);
    books.set(account, book);
    return book;
  };
  return {
    reserve: (account, bytes, what, options = {}) => bookOf(account).reserve(bytes, what, options),
    tryReserve: (account, bytes) => bookOf(account).tryReserve(bytes),
    used: (account) => bookOf(account).used,
  };
}

interface Waiting {
  readonly bytes: number;
  readonly grant: (held: Reservation) => void;
}

class Book {
  readonly #size: number;
  readonly #queue = new Set<Waiting>();
  used = 0;

  constructor(size: number) {
    this.#size = size;
  }

  tryReserve(wanted: number): Reservation | undefined {
    const bytes = Math.min(wanted, this.#size);
    return this.#queue.size === 0 && this.#fits(bytes) ? this.#hold(bytes) : undefined;
  }

  reserve(wanted: number, what: string, options: ReserveOptions): Promise<Reservation> {
    const { turnMs = TURN_MS, signal } = options;
    if (signal?.aborted) return Promise.reject(canceled(what));
    const held = this.tryReserve(wanted);
    if (held !== undefined) return Promise.resolve(held);
    const { promise, resolve, reject } = Promise.withResolvers<Reservation>();
    const bytes = Math.min(wanted, this.#size);
    const settle = () => {
      this.#queue.delete(waiting);
      clearTimeout(timer);
      signal?.removeEventListener("abort", aborted);
    };
    const waiting: Waiting = {
      bytes,
      grant: (held) => {
        settle();
        resolve(held);
      },
    };
    const refuse = (error: AgentError) => {
      settle();
      reject(error);
      // Later, smaller reservations may fit now.
      this.#serve();
    };
    const aborted = () => refuse(canceled(what));
    const timer = Number.isFinite(turnMs)
      ? setTimeout(() => refuse(usedUp(what, turnMs)), turnMs)
      : undefined;
    signal?.addEventListener("abort", aborted);
    this.#queue.add(waiting);
    return promise;
  }

  #fits(bytes: number): boolean {
    return this.used + bytes <= this.#size;
  }

  #hold(wanted: number): Reservation {
    let released = false;
    this.used += wanted;
    // `bytes` has no getter: V8 would keep its function in the old space.
    const held = {
      bytes: wanted,
      resize: (to: number) => {
        if (released) return;
        this.used += to - held.bytes;
        held.bytes = to;
        this.#serve();
      },
      release: () => {
        if (released) return;
        released = true;
        this.used -= held.bytes;
        held.bytes = 0;
        this.#serve();
      },
    };
    return held;
  }

  /** Gives free memory to the callers that have waited longest. */
  #serve(): void {
    for (const waiting of this.#queue) {
      if (!this.#fits(waiting.bytes)) return;
      waiting.grant(this.#hold(waiting.bytes));
    }
  }
}

function usedUp(what: string, turnMs: number): AgentError {
  const message = `Cannot ${what} now: no memory for documents became free within ` +
    `${turnMs / 1000} s`;
  return new AgentError("overloaded", message, { retryAfterSeconds: RETRY_AFTER_SECONDS });
}

function canceled(what: string): AgentError {
  return new AgentError("aborted", `Cannot ${what}: it was canceled while it waited for memory`);
}

/** Memory that one request has reserved. */
export class RequestMemory {
  readonly #budget: MemoryBudget;
  readonly #held: Reservation[] = [];

  constructor(budget: MemoryBudget) {
    this.#budget = budget;
  }

  /** @throws {AgentError} `overloaded` when its turn does not come */
  async reserve(account: Account, bytes: number, what: string): Promise<Reservation> {
    const held = await this.#budget.reserve(account, bytes, what);
    this.#held.push(held);
    return held;
  }

  release(): void {
    for (const held of this.#held) held.release();
  }
}

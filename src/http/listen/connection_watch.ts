// All open connections, and how long each may keep the agent waiting:
//
//   quiet     --- a request arrives ---->  at work  --- its answer is ready -->  answering
//     ^                                                                              |
//     +------------------------------ the answer was taken --------------------------+
//
// A quiet connection waits for the head of a request, an answering one for its caller to take the answer. When
// there are too many, the one that has kept the agent waiting longest is cut, so that slow callers cannot lock
// others out. Deno does not release a connection that it is writing to: one that was cut then is held, still
// counts, and keeps a remote peer that has many of them from opening more.

/** How many connections there may be, and how long each may keep the agent waiting. */
export interface ConnectionLimits {
  readonly connectionsMax: number;
  /** Seconds for a new connection to send the head of its first request. */
  readonly headSeconds: number;
  /** Seconds between an answer and the head of the next request. */
  readonly idleSeconds: number;
  /** Seconds for a caller to take a whole answer. */
  readonly answerSeconds: number;
}

/** One peer may hold one in this many of all connections; then it gets no more. */
const HELD_SHARE = 16;

/** Milliseconds between two checks of the limits, which are therefore no more exact than this. */
const SWEEP_MS = 1000;

/** What the server reports of one connection, so that it can be cut when it is idle too long. */
export interface WatchedConnection {
  /** Whether it has ever sent a request. */
  isUsed(): boolean;
  requested(): void;
  /** Its answer is ready for the caller to take. */
  answered(): void;
  /** The answer was taken, or the caller has gone. */
  taken(): void;
  /** The caller has taken more of its answers. */
  moved(): void;
  /** The caller has taken part of an endless answer: its time starts again. */
  streamed(): void;
  /** The connection is closed, or is now a WebSocket, which the console bounds. */
  closed(): void;
}

interface ConnectionRecord {
  readonly cut: () => void;
  /** The caller's network; see peerNetwork(). Undefined for this host. */
  readonly peer: string | undefined;
  sinceMs: number;
  /** Grows with sinceMs, and orders what began to wait in the same millisecond. */
  turn: number;
  /** When the last answer was ready. */
  takenAtMs: number;
  /** Requests in progress; more than one with HTTP/2. */
  atWork: number;
  /** Answers that are not taken yet. */
  answering: number;
  used: boolean;
}

function isQuiet({ atWork, answering }: ConnectionRecord): boolean {
  return atWork === 0 && answering === 0;
}

function isAnswering({ atWork, answering }: ConnectionRecord): boolean {
  return atWork === 0 && answering > 0;
}

/**
 * The connections of one agent. A request changes only the record of its connection. Sets in the order of waiting would
 * leave old tables behind with every few requests, each of which holds the next one until a collection of the whole heap.
 */
export class WatchedConnections {
  readonly #limits: ConnectionLimits;
  readonly #nowMs: () => number;
  readonly #all = new Set<ConnectionRecord>();
  #turns = 0;
  /** Cut since the last check; most are closed by the next one. */
  #cutting = new Set<ConnectionRecord>();
  /** Cut, and not closed in time. */
  readonly #held = new Set<ConnectionRecord>();
  readonly #sweeping: ReturnType<typeof setInterval>;

  /** @param nowMs a clock that never goes back */
  constructor(limits: ConnectionLimits, nowMs: () => number = () => performance.now()) {
    this.#limits = limits;
    this.#nowMs = nowMs;
    this.#sweeping = setInterval(() => this.sweep(), SWEEP_MS);
    Deno.unrefTimer(this.#sweeping);
  }

  /** Open connections, including those that could not be closed. */
  get count(): number {
    return this.#all.size + this.#held.size;
  }

  /**
   * Adds a new connection.
   * @param cut closes it at once
   * @param peer see peerNetwork(); undefined for this host
   * @returns undefined when there are too many and all of them are at work, or when this peer holds too many
   */
  open(cut: () => void, peer?: string): WatchedConnection | undefined {
    if (this.#holdsMany(peer)) return undefined;
    if (this.count >= this.#limits.connectionsMax && !this.#makeRoom()) return undefined;
    const entry: ConnectionRecord = {
      cut,
      peer,
      sinceMs: this.#nowMs(),
      turn: ++this.#turns,
      takenAtMs: Number.NEGATIVE_INFINITY,
      atWork: 0,
      answering: 0,
      used: false,
    };
    this.#all.add(entry);
    return {
      isUsed: () => entry.used,
      requested: () => {
        entry.atWork += 1;
        entry.used = true;
      },
      answered: () => {
        entry.atWork -= 1;
        entry.answering += 1;
        this.#waits(entry);
      },
      taken: () => {
        entry.answering -= 1;
        this.#waits(entry);
        entry.takenAtMs = entry.sinceMs;
      },
      moved: () => this.#keep(entry),
      streamed: () => {
        if (isAnswering(entry)) this.#waits(entry);
      },
      closed: () => this.#forget(entry),
    };
  }

  /** An entry that is not at work begins to wait. */
  #waits(entry: ConnectionRecord): void {
    if (entry.atWork > 0) return;
    entry.sinceMs = this.#nowMs();
    entry.turn = ++this.#turns;
  }

  /** Restarts the wait of a quiet entry, whose caller is still reading its answer. */
  #keep(entry: ConnectionRecord): void {
    if (!isQuiet(entry)) return;
    if (this.#nowMs() - entry.takenAtMs > this.#limits.answerSeconds * 1000) return;
    this.#waits(entry);
  }

  #holdsMany(peer: string | undefined): boolean {
    if (peer === undefined) return false;
    let held = 0;
    for (const entry of this.#held) held += entry.peer === peer ? 1 : 0;
    return held >= Math.max(Math.floor(this.#limits.connectionsMax / HELD_SHARE), 1);
  }

  #forget(entry: ConnectionRecord): void {
    this.#cutting.delete(entry);
    this.#held.delete(entry);
    this.#all.delete(entry);
  }

  #makeRoom(): boolean {
    const longest = this.#longest(isQuiet) ?? this.#longest(isAnswering);
    if (longest === undefined) return false;
    this.#cut(longest);
    return true;
  }

  #longest(waits: (entry: ConnectionRecord) => boolean): ConnectionRecord | undefined {
    let longest: ConnectionRecord | undefined;
    for (const entry of this.#all) {
      if (waits(entry) && entry.turn < (longest?.turn ?? Number.POSITIVE_INFINITY)) longest = entry;
    }
    return longest;
  }

  #cut(entry: ConnectionRecord): void {
    this.#forget(entry);
    this.#cutting.add(entry);
    entry.cut();
  }

  /** Closes connections that have kept the agent waiting too long. */
  sweep(): void {
    for (const entry of this.#cutting) this.#held.add(entry);
    this.#cutting = new Set();
    const nowMs = this.#nowMs();
    const { headSeconds, idleSeconds, answerSeconds } = this.#limits;
    for (const entry of [...this.#all]) {
      if (entry.atWork > 0) continue;
      const quietSeconds = entry.used ? idleSeconds : headSeconds;
      const seconds = isQuiet(entry) ? quietSeconds : answerSeconds;
      if (nowMs - entry.sinceMs > seconds * 1000) this.#cut(entry);
    }
  }

  /** Closes all of them at once, and ends the watch. */
  close(): void {
    clearInterval(this.#sweeping);
    for (const entry of [...this.#all]) this.#cut(entry);
  }
}

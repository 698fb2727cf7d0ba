// Every open connection, and how long it may keep the agent waiting. A connection is in one of three
// states:
//
//   quiet     --- a request has come --->  at work  --- its answer is made --->  answering
//     ^                                                                              |
//     +------------------------------ the answer was taken --------------------------+
//
// Quiet ones wait for the head of a request: the first one for `headSeconds`, later ones for
// `idleSeconds`, and a head that comes drop by drop does not make it longer. Those that are answering
// wait for the caller to take the answer; where the agent carries the bytes itself, what it has not
// carried yet keeps a quiet one, for as long as an answer may take. At work it is the agent that takes
// its time, or the body that comes, which json_body.ts bounds. When there are too many, the one that
// has kept the agent waiting longest makes room, so that slow callers cannot keep others out.
//
// Deno lets go of no connection while a write to it is under way, and a write to a caller that reads
// nothing is under way for as long as that caller likes. Only connections whose bytes the agent carries
// itself come to that. Once cut they are held: they go on counting, and a peer beyond this host (an
// address, or a network of IPv6) that has many of them gets no other until it lets go of some.

/** How many connections there may be, and how long they may keep the agent waiting. */
export interface ConnectionLimits {
  readonly connectionsMax: number;
  /** Seconds for a new connection to send the head of its first request. */
  readonly headSeconds: number;
  /** Seconds between an answer and the head of the next request. */
  readonly idleSeconds: number;
  /** Seconds for a caller to take a whole answer. */
  readonly answerSeconds: number;
}

/** The limits when nothing is configured. */
export const DEFAULT_CONNECTION_LIMITS: ConnectionLimits = {
  connectionsMax: 1024,
  headSeconds: 15,
  idleSeconds: 75,
  answerSeconds: 600,
};

/** Held connections of one peer, of so many that there may be in all, after which it gets no more. */
const HELD_SHARE = 16;

/** How often the limits are looked at, milliseconds: no limit is kept more exactly than this. */
const SWEEP_MS = 1000;

/** One open connection. */
export interface WatchedConnection {
  /** Whether it has ever sent a request. */
  readonly used: boolean;
  /** A request has come. */
  requested(): void;
  /** Its answer is made; what is left is for the caller to take it. */
  answered(): void;
  /** The answer was taken, or the caller is gone. */
  taken(): void;
  /** The caller has taken more of answers that are on their way to it. */
  moved(): void;
  /** The connection is closed, or is a WebSocket from now on, which the console bounds. */
  closed(): void;
}

interface ConnectionRecord {
  readonly cut: () => void;
  /** Of the caller; see peerNetwork(). Undefined of this host. */
  readonly peer: string | undefined;
  sinceMs: number;
  /** When the last answer was handed over. */
  takenAtMs: number;
  /** Requests that the agent is at work on; more than one with HTTP/2. */
  atWork: number;
  /** Answers that are not taken yet. */
  answering: number;
  used: boolean;
}

/** The connections of one agent. */
export class WatchedConnections {
  readonly #limits: ConnectionLimits;
  readonly #nowMs: () => number;
  readonly #all = new Set<ConnectionRecord>();
  /** In the order in which they fell silent. */
  readonly #quiet = new Set<ConnectionRecord>();
  /** In the order in which their answers were made. */
  readonly #answering = new Set<ConnectionRecord>();
  /** Cut since the last look; most of them are closed by the next one. */
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

  /** Connections that are open, those included that could not be closed. */
  get count(): number {
    return this.#all.size + this.#held.size;
  }

  /**
   * Takes a new connection.
   * @param cut closes it at once
   * @param peer of the caller, as peerNetwork() names it; undefined of this host
   * @returns undefined when there are too many and the agent is at work for each of them, or too many
   * held ones of this peer
   */
  open(cut: () => void, peer?: string): WatchedConnection | undefined {
    if (this.#holdsMany(peer)) return undefined;
    if (this.count >= this.#limits.connectionsMax && !this.#makeRoom()) return undefined;
    const entry: ConnectionRecord = {
      cut,
      peer,
      sinceMs: this.#nowMs(),
      takenAtMs: Number.NEGATIVE_INFINITY,
      atWork: 0,
      answering: 0,
      used: false,
    };
    this.#all.add(entry);
    this.#quiet.add(entry);
    return {
      get used() {
        return entry.used;
      },
      requested: () => {
        entry.atWork += 1;
        entry.used = true;
        this.#quiet.delete(entry);
        this.#answering.delete(entry);
      },
      answered: () => {
        entry.atWork -= 1;
        entry.answering += 1;
        this.#place(entry);
      },
      taken: () => {
        entry.answering -= 1;
        this.#place(entry);
        entry.takenAtMs = entry.sinceMs;
      },
      moved: () => this.#keep(entry),
      closed: () => this.#forget(entry),
    };
  }

  /** Puts an entry, which has just changed, where its state belongs. */
  #place(entry: ConnectionRecord): void {
    this.#quiet.delete(entry);
    this.#answering.delete(entry);
    if (entry.atWork > 0 || !this.#all.has(entry)) return;
    entry.sinceMs = this.#nowMs();
    (entry.answering > 0 ? this.#answering : this.#quiet).add(entry);
  }

  /** Begins the silence of a quiet entry anew, because its caller still takes what it was answered. */
  #keep(entry: ConnectionRecord): void {
    if (!this.#quiet.has(entry)) return;
    const nowMs = this.#nowMs();
    if (nowMs - entry.takenAtMs > this.#limits.answerSeconds * 1000) return;
    entry.sinceMs = nowMs;
    this.#quiet.delete(entry);
    this.#quiet.add(entry);
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
    this.#quiet.delete(entry);
    this.#answering.delete(entry);
  }

  #makeRoom(): boolean {
    const [quiet] = this.#quiet;
    const [answering] = this.#answering;
    const longest = quiet ?? answering;
    if (longest === undefined) return false;
    this.#cut(longest);
    return true;
  }

  #cut(entry: ConnectionRecord): void {
    this.#forget(entry);
    this.#cutting.add(entry);
    entry.cut();
  }

  /** Closes the connections that have kept the agent waiting for too long. */
  sweep(): void {
    for (const entry of this.#cutting) this.#held.add(entry);
    this.#cutting = new Set();
    const nowMs = this.#nowMs();
    const { headSeconds, idleSeconds, answerSeconds } = this.#limits;
    for (const entry of [...this.#quiet]) {
      const seconds = entry.used ? idleSeconds : headSeconds;
      if (nowMs - entry.sinceMs > seconds * 1000) this.#cut(entry);
    }
    for (const entry of [...this.#answering]) {
      if (nowMs - entry.sinceMs > answerSeconds * 1000) this.#cut(entry);
    }
  }

  /** Closes all of them at once, and ends the watch. */
  close(): void {
    clearInterval(this.#sweeping);
    for (const entry of [...this.#all]) this.#cut(entry);
  }
}

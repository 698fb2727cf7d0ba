// Tickets for consoles. A browser cannot send a header with a WebSocket, and a token does not belong in a
// URL. A ticket may be in one: it opens the console of one machine, once, within seconds. Only digests are
// kept, in memory: a ticket does not outlive the agent.

import { timingSafeEqual } from "@std/crypto/timing-safe-equal";
import { AgentError } from "../../domain/error.ts";
import { isUuid, type MachineUuid } from "../../domain/id.ts";
import { secretDigest, secretText } from "../../domain/token.ts";
import type { HttpLimits } from "../limits.ts";
import type { Caller } from "../caller.ts";

/** Random bytes in a ticket. */
const TICKET_BYTES = 32;
/** Prefix of every ticket, so that leaked ones can be searched for. */
const PREFIX = "zwc_";
/** The form of a ticket. */
export const TICKET = /^zwc_[A-Za-z0-9_-]{43}$/;
const CONSOLE_PATH = /^\/agent\/v1\/machines\/([^/]+)\/console$/;

/** The key of a ticket in the query. */
export const TICKET_KEY = "ticket";

/** The tickets that are issued and not used yet. */
export interface ConsoleTickets {
  /**
   * Makes a ticket for a machine's console.
   * @param maker the caller that requests it
   * @throws {AgentError} `overloaded` when too many are unused
   */
  issue(uuid: MachineUuid, maker: Caller): Promise<string>;
  /**
   * Uses a ticket up.
   * @returns who requested it; undefined when it is unknown, used, expired, or another machine's
   */
  take(ticket: string, uuid: MachineUuid): Promise<Caller | undefined>;
}

interface KeptTicket {
  /** Only the SHA-256 of the ticket is kept. */
  readonly digest: Uint8Array;
  readonly uuid: MachineUuid;
  readonly maker: Caller;
  /** Milliseconds of a monotonic clock. */
  readonly endMs: number;
}

/** How long a ticket is valid, and how many may be unused at once. */
type TicketLimits = Pick<HttpLimits, "consoleTicketSeconds" | "consoleTicketsMax">;

/**
 * @param nowMs a monotonic clock, milliseconds
 */
export function openConsoleTickets(
  { consoleTicketSeconds, consoleTicketsMax }: TicketLimits,
  nowMs: () => number,
): ConsoleTickets {
  // In the order in which they expire.
  let kept: readonly KeptTicket[] = [];
  const forgetEnded = () => {
    const now = nowMs();
    kept = kept.filter(({ endMs }) => endMs > now);
  };
  return {
    async issue(uuid, maker) {
      const ticket = PREFIX + secretText(crypto.getRandomValues(new Uint8Array(TICKET_BYTES)));
      const digest = await secretDigest(ticket);
      forgetEnded();
      const [first] = kept;
      if (first !== undefined && kept.length >= consoleTicketsMax) {
        throw overloaded(uuid, kept.length, first.endMs - nowMs());
      }
      kept = [...kept, { digest, uuid, maker, endMs: nowMs() + consoleTicketSeconds * 1000 }];
      return ticket;
    },
    async take(ticket, uuid) {
      // Text in the wrong form is refused without a comparison: the form is not a secret.
      if (!TICKET.test(ticket)) return undefined;
      const digest = await secretDigest(ticket);
      forgetEnded();
      // Nothing awaits from here on, so only one of two callers with the same ticket finds it.
      const found = kept.filter((one) => isSame(one, digest, uuid));
      kept = kept.filter((one) => !found.includes(one));
      return found[0]?.maker;
    },
  };
}

/** Compares in constant time, which reveals nothing of any ticket. */
function isSame(one: KeptTicket, digest: Uint8Array, uuid: MachineUuid): boolean {
  return timingSafeEqual(one.digest, digest) && one.uuid === uuid;
}

function overloaded(uuid: MachineUuid, count: number, endMs: number): AgentError {
  const message = `Cannot make a ticket for the console of machine ${uuid}: ${count} are unused, ` +
    "the maximum";
  return new AgentError("overloaded", message, { retryAfterSeconds: Math.ceil(endMs / 1000) });
}

/** Whether a request is for a WebSocket; HEAD is answered like a plain GET. */
export function wantsSocket({ method, headers }: Request): boolean {
  return method === "GET" && headers.get("upgrade")?.toLowerCase() === "websocket";
}

/** A ticket of a request, and the machine of its console. */
export interface ShownTicket {
  readonly ticket: string;
  readonly uuid: MachineUuid;
}

/**
 * The ticket in a request for a console's WebSocket; undefined for any other request. A plain GET does not
 * use a ticket up.
 * @param path decoded
 */
export function shownTicket(request: Request, path: string): ShownTicket | undefined {
  const uuid = CONSOLE_PATH.exec(path)?.[1]?.toLowerCase();
  if (uuid === undefined || !wantsSocket(request) || !request.url.includes("?")) return undefined;
  const tickets = new URL(request.url).searchParams.getAll(TICKET_KEY);
  if (tickets.length === 0 || !isUuid(uuid)) return undefined;
  // A request with two tickets has none.
  return { ticket: tickets.length === 1 ? tickets[0] ?? "" : "", uuid: uuid as MachineUuid };
}

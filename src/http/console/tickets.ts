// Tickets for consoles. A browser cannot send a header with a WebSocket, and a token does not belong
// into an address; a ticket may stand there, since it opens the console of one machine once, within
// seconds. Only digests are kept, in memory: a ticket does not outlive the agent.

import { timingSafeEqual } from "@std/crypto/timing-safe-equal";
import { AgentError } from "../../domain/error.ts";
import { isUuid, type MachineUuid } from "../../domain/id.ts";
import type { HttpLimits } from "../context.ts";
import type { Caller } from "../request/caller.ts";

/** Random bytes in a ticket: nobody guesses one. */
const TICKET_BYTES = 32;
/** How every ticket begins, so that one that was left somewhere can be searched for. */
const PREFIX = "zwc_";
const TICKET = /^zwc_[A-Za-z0-9_-]{43}$/;
const CONSOLE_PATH = /^\/agent\/v1\/machines\/([^/]+)\/console$/;

/** The part of the query that holds a ticket. */
export const TICKET_KEY = "ticket";

/** The tickets that were given out and not used yet. */
export interface ConsoleTickets {
  /**
   * Makes a ticket for a machine's console.
   * @param maker who asks for it
   * @throws {AgentError} `overloaded` while as many are out as there may be
   */
  issue(uuid: MachineUuid, maker: Caller): Promise<string>;
  /**
   * Takes a ticket, which is worth nothing from then on.
   * @returns who asked for it; undefined when it is none, was used, has expired, or is another machine's
   */
  take(ticket: string, uuid: MachineUuid): Promise<Caller | undefined>;
}

/** What is kept of a ticket. */
interface KeptTicket {
  /** SHA-256 of its text. */
  readonly digest: Uint8Array;
  readonly uuid: MachineUuid;
  readonly maker: Caller;
  /** By a clock that never goes back. */
  readonly endMs: number;
}

/** How long tickets are good, and how many there are. */
export type TicketLimits = Pick<HttpLimits, "consoleTicketSeconds" | "consoleTicketsMax">;

/**
 * Opens an empty book of tickets.
 * @param nowMs A clock that never goes back, milliseconds
 */
export function openConsoleTickets(
  { consoleTicketSeconds, consoleTicketsMax }: TicketLimits,
  nowMs: () => number,
): ConsoleTickets {
  // In the order in which they end.
  let kept: readonly KeptTicket[] = [];
  const forgetEnded = () => {
    const now = nowMs();
    kept = kept.filter(({ endMs }) => endMs > now);
  };
  return {
    async issue(uuid, maker) {
      const ticket = ticketText(crypto.getRandomValues(new Uint8Array(TICKET_BYTES)));
      const digest = await digestOf(ticket);
      forgetEnded();
      const [first] = kept;
      if (first !== undefined && kept.length >= consoleTicketsMax) {
        throw overloaded(uuid, kept.length, first.endMs - nowMs());
      }
      kept = [...kept, { digest, uuid, maker, endMs: nowMs() + consoleTicketSeconds * 1000 }];
      return ticket;
    },
    async take(ticket, uuid) {
      // Of a text that cannot be a ticket only the form is looked at, which is no secret.
      if (!TICKET.test(ticket)) return undefined;
      const digest = await digestOf(ticket);
      forgetEnded();
      // Nothing waits from here on: of two that show the same ticket, one finds it.
      const found = kept.filter((one) => isSame(one, digest, uuid));
      kept = kept.filter((one) => !found.includes(one));
      return found[0]?.maker;
    },
  };
}

/** Every digest is compared to its end: how long it takes tells nothing of any ticket. */
function isSame(one: KeptTicket, digest: Uint8Array, uuid: MachineUuid): boolean {
  return timingSafeEqual(one.digest, digest) && one.uuid === uuid;
}

function overloaded(uuid: MachineUuid, count: number, endMs: number): AgentError {
  const message =
    `Cannot make a ticket for the console of machine ${uuid}: ${count} are not used ` +
    "yet, the most there may be";
  return new AgentError("overloaded", message, { retryAfterSeconds: Math.ceil(endMs / 1000) });
}

function ticketText(random: Uint8Array): string {
  const base64 = btoa(String.fromCharCode(...random));
  return PREFIX + base64.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function digestOf(text: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
}

/** Whether a request is for a WebSocket; HEAD is answered as a GET that wants none. */
export function wantsSocket({ method, headers }: Request): boolean {
  return method === "GET" && headers.get("upgrade")?.toLowerCase() === "websocket";
}

/** A ticket that was shown, and the machine for whose console. */
export interface ShownTicket {
  readonly ticket: string;
  readonly uuid: MachineUuid;
}

/**
 * The ticket that a request for a console's WebSocket shows; undefined where none is shown, and where
 * none counts. A plain GET leaves it alone, so that nothing that only looks at an address uses it up.
 * @param path The request's path, decoded
 */
export function shownTicket(request: Request, path: string): ShownTicket | undefined {
  const uuid = CONSOLE_PATH.exec(path)?.[1]?.toLowerCase();
  if (uuid === undefined || !wantsSocket(request) || !request.url.includes("?")) return undefined;
  const tickets = new URL(request.url).searchParams.getAll(TICKET_KEY);
  if (tickets.length === 0 || !isUuid(uuid)) return undefined;
  // Two of them are none.
  return { ticket: tickets.length === 1 ? tickets[0] ?? "" : "", uuid: uuid as MachineUuid };
}

// POST /agent/v1/machines/:uuid/console-tickets: a ticket with which a viewer that cannot send a token, such
// as a page in a browser, opens a machine's console once.

import type { Context } from "hono";
import { INSTANT, type ShapeOf, TEXT, URI, whole } from "../../../domain/description/answer.ts";
import { parse } from "../../../domain/description/description.ts";
import { object } from "../../../domain/description/object.ts";
import { type MachineUuid, parsePathUuid } from "../../../domain/id.ts";
import { instantAfter } from "../../../domain/instant.ts";
import { requireConsole } from "../../../domain/machine/action.ts";
import { type ConsoleTickets, TICKET, TICKET_KEY } from "../../console/tickets.ts";
import { readJson, smallBody } from "../../request/body.ts";
import type { HttpEnv } from "../../served_agent.ts";
import { callerOf, type ConsoleContext, consoleUrl, machineOf } from "./console.ts";

/** The body of a request for a ticket, which has no options. */
export const ticketRequest = object({});

/** The answer of `POST .../console-tickets`. The ticket is a secret, and logs mask it. */
export const CONSOLE_TICKET = whole("A ticket that opens a console once.", {
  ticket: { ...TEXT, pattern: TICKET.source },
  url: { ...URI, description: "The WebSocket, with the ticket." },
  expires_at: INSTANT,
});

/**
 * Answers with a ticket and its URL. Everything is checked before that, since a page could not show a later
 * refusal.
 * @throws {AgentError} `not_found` when there is no such machine
 */
export async function postTicket(
  c: Context<HttpEnv>,
  context: ConsoleContext,
  tickets: ConsoleTickets,
): Promise<Response> {
  const { limits, now } = context;
  const uuid = parsePathUuid<MachineUuid>(c.req.param("uuid") ?? "", "machine");
  parse(ticketRequest, await readJson(c, smallBody(limits)), "", "request for a ticket");
  requireConsole(uuid, await machineOf(c, uuid, context));
  const expires_at = instantAfter(now(), limits.consoleTicketSeconds * 1000);
  const ticket = await tickets.issue(uuid, callerOf(c));
  const url = `${consoleUrl(c, uuid)}?${TICKET_KEY}=${ticket}`;
  c.header("cache-control", "no-store");
  const answer: ShapeOf<typeof CONSOLE_TICKET> = { ticket, url, expires_at };
  return c.json(answer, 201);
}

// POST /agent/v1/machines/:uuid/console-tickets: lets one viewer that cannot send a token, such as a page
// in a browser, open the console of a machine once.

import type { Context } from "hono";
import { AgentError } from "../../domain/error.ts";
import { openFindings, readObject, refuseFindings } from "../../domain/field_check.ts";
import { type MachineUuid, parsePathUuid } from "../../domain/id.ts";
import { instantAfter } from "../../domain/instant.ts";
import { requireConsole } from "../../domain/machine/action.ts";
import type { AppDeps, HttpEnv } from "../app_deps.ts";
import { type ConsoleTickets, TICKET_KEY } from "../console/tickets.ts";
import { readJson, smallBody } from "../request/json_body.ts";
import { callerOf, consoleUrl } from "./machine_console.ts";

/** Answers a ticket, and the address in which it stands. A page could not show why it was refused later. */
export async function postTicket(
  c: Context<HttpEnv>,
  { machines, limits, now }: AppDeps,
  tickets: ConsoleTickets,
): Promise<Response> {
  const uuid = parsePathUuid<MachineUuid>(c.req.param("uuid") ?? "", "machine");
  const findings = openFindings();
  readObject(
    await readJson(c, smallBody(limits)),
    "",
    { checks: {}, required: [] },
    findings,
  );
  refuseFindings(findings, "request for a ticket");
  const machine = await machines.vmadm.get(uuid);
  if (machine === null) throw new AgentError("not_found", `Cannot find machine ${uuid}`);
  requireConsole(uuid, machine);
  const expires_at = instantAfter(now(), limits.consoleTicketSeconds * 1000);
  const ticket = await tickets.issue(uuid, callerOf(c));
  const url = `${consoleUrl(c, uuid)}?${TICKET_KEY}=${ticket}`;
  c.header("cache-control", "no-store");
  return c.json({ ticket, url, expires_at }, 201);
}

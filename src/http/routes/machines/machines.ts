// /agent/v1/machines: creates, shows and changes machines. Every change is a job of a built-in workflow. Answers
// show what vmadm reports, and what the machine's jobs add.

import {
  COUNT,
  NUMBER,
  objectOf,
  orNull,
  type ShapeOf,
  shapeRef,
  TEXT,
  URI_REFERENCE,
  whole,
} from "../../../domain/description/answer.ts";
import { type Context, Hono } from "hono";
import { AgentError } from "../../../domain/error.ts";
import { type MachineUuid, parsePathUuid } from "../../../domain/id.ts";
import { isJsonObject, type JsonObject } from "../../../domain/json.ts";
import { dryRun } from "../../../machines/dry_run.ts";
import { readMachineBody } from "../../../machines/provision_job.ts";
import {
  type MachineAction,
  machineNotFound,
  parseActionOptions,
  requireConsole,
} from "../../../domain/machine/action.ts";
import type { HttpEnv, ServedAgent } from "../../served_agent.ts";
import type { MachineReader } from "../../machine_access.ts";
import { forwardRead } from "../../request/forwarding.ts";
import type { ConsoleTickets } from "../../console/tickets.ts";
import { markStale } from "../../answer/text_answer.ts";
import { readJson, wholeBody } from "../../request/body.ts";
import { askedBy } from "../../caller.ts";
import { listMachines } from "./list.ts";
import { here, machineOnWire, shownMachine } from "./machine_on_wire.ts";
import { type ConsoleContext, consolePath, openConsoles } from "./console.ts";
import { postTicket } from "./console_ticket.ts";
import { openMachineReading, placeOfJob } from "../../../machines/listing.ts";
import { historyOf } from "../../../machines/history.ts";
import type { MachineJobs, MachineStart } from "../../../machines/machine_jobs.ts";
import { IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED } from "../../../domain/job/idempotency.ts";
import { MACHINE_FIELDS } from "../../../domain/machine/shown.ts";
import { BRANDS } from "../../../domain/policy.ts";

type MachinesContext = Pick<
  ServedAgent,
  "store" | "limits" | "wording" | "machines" | "hostUuid" | "peers"
>;

/** Routes of machines. @see docs/machines.md */
export function machineRoutes(
  context: MachinesContext & ConsoleContext,
  machineJobs: MachineJobs,
  tickets: ConsoleTickets,
): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  const readMachines = openMachineReading(context.machines.vmadm, () => performance.now());
  app.get("/agent/v1/machines", (c) => listMachines(c, context, readMachines));
  app.post("/agent/v1/machines", (c) => postMachine(c, context, machineJobs));
  app.get("/agent/v1/machines/:uuid", (c) => getMachine(c, context));
  app.delete("/agent/v1/machines/:uuid", (c) => deleteMachine(c, context, machineJobs));
  for (const action of ["boot", "stop", "reboot", "eject"] as const) {
    app.post(
      `/agent/v1/machines/:uuid/${action}`,
      (c) => postAction(c, action, context, machineJobs),
    );
  }
  app.get("/agent/v1/machines/:uuid/vnc", (c) => getVnc(c, context));
  app.get("/agent/v1/machines/:uuid/console", openConsoles(context));
  app.post("/agent/v1/machines/:uuid/console-tickets", (c) => postTicket(c, context, tickets));
  return app;
}

/** The uuid in a path. @throws {AgentError} `not_found` for a text that is not a uuid */
function machineUuidOf(c: Context<HttpEnv>): MachineUuid {
  return parsePathUuid<MachineUuid>(c.req.param("uuid") ?? "", "machine");
}

async function postMachine(
  c: Context<HttpEnv>,
  context: MachinesContext,
  machineJobs: MachineJobs,
): Promise<Response> {
  const body = await readJson(c, wholeBody(context.limits));
  if (isJsonObject(body) && body.dry_run === true) return await postDryRun(c, body, context);
  const asked = await askedBy(
    c.get("caller"),
    { key: c.req.header(IDEMPOTENCY_KEY), asked: body },
    context,
  );
  return started(c, await machineJobs.start(body, asked));
}

async function postDryRun(
  c: Context<HttpEnv>,
  body: JsonObject,
  context: MachinesContext,
): Promise<Response> {
  const { store, machines, hostUuid } = context;
  const { policy } = machines;
  const { request, other } = await readMachineBody(body, { store, policy, hostUuid });
  if (other !== undefined) return await forwardRead(c, body, other, context);
  return c.json(await dryRun(request, { ...machines, store }));
}

async function postAction(
  c: Context<HttpEnv>,
  action: MachineAction,
  context: MachinesContext,
  machineJobs: MachineJobs,
): Promise<Response> {
  const uuid = machineUuidOf(c);
  const options = parseActionOptions(action, await readJson(c, wholeBody(context.limits)));
  // A key identifies one action on one machine.
  const key = c.req.header(IDEMPOTENCY_KEY);
  const asked = await askedBy(c.get("caller"), { key, asked: { action, uuid, options } }, context);
  return started(c, await machineJobs.act(action, uuid, options, asked));
}

/** A delete has no options, so any body but `{}` is refused. */
function deleteMachine(
  c: Context<HttpEnv>,
  context: MachinesContext,
  machineJobs: MachineJobs,
): Promise<Response> {
  return postAction(c, "delete", context, machineJobs);
}

function started(c: Context<HttpEnv>, { started, replayed }: MachineStart): Response {
  if (replayed) c.header(IDEMPOTENCY_REPLAYED, "true");
  c.header("location", `/jobs/${started.job_uuid}`);
  return c.json(started, 202);
}

const PORT = { ...COUNT, minimum: 1, maximum: 65_535 };
const DISPLAY = { ...NUMBER, description: "The number of the display: the port minus 5900." };

/** `vnc` of a single machine: an address of the managed host, not of the agent. */
export const VNC_ADDRESS = objectOf("Where a VNC viewer connects.", ["host", "port"], {
  host: TEXT,
  port: PORT,
  display: DISPLAY,
});

/** The answer of `GET .../vnc`. @see vmadm(8), info */
export const VNC_INFO = whole("What `vmadm info` prints of the console.", {
  vnc: objectOf("Empty while there is no listener yet.", [], {
    host: { ...TEXT, description: "Address of the host's global zone." },
    port: PORT,
    display: DISPLAY,
    password: { ...TEXT, description: "The password, if there is one." },
  }),
});

/** The answer of `GET /agent/v1/machines/UUID`: the fields of a list, and where its console is. */
export const MACHINE_READ = whole("A machine and its console.", {
  ...MACHINE_FIELDS,
  console: {
    ...orNull(URI_REFERENCE),
    description: "Path of its console as a WebSocket; null if `vnc` is.",
  },
  vnc: {
    ...orNull(shapeRef("VncAddress", VNC_ADDRESS)),
    description: "Null unless the machine runs and has such a console.",
  },
});

/** One machine with the address of its console, if it runs. */
async function getMachine(c: Context<HttpEnv>, context: MachinesContext): Promise<Response> {
  const uuid = machineUuidOf(c);
  const { vmadm } = context.machines;
  const machine = await vmadm.get(uuid);
  const history = await historyOf(uuid, machine, context.store);
  if (history.stale) markStale(c);
  if (machine === null && history.job === undefined) throw machineNotFound(uuid);
  const vnc = machine !== null && isRunningHvm(machine) ? await addressOf(uuid, vmadm) : null;
  const place = machine !== null
    ? { ...here(context), ageMs: 0 }
    : history.job && placeOfJob(history.job);
  const answer: ShapeOf<typeof MACHINE_READ> = {
    ...shownMachine(c, machineOnWire({ uuid, machine, place, history }, context.wording)),
    vnc,
    console: vnc === null ? null : consolePath(uuid),
  };
  return c.json(answer);
}

async function addressOf(
  uuid: MachineUuid,
  vmadm: MachineReader,
): ReturnType<MachineReader["infoVnc"]> {
  try {
    return await vmadm.infoVnc(uuid);
  } catch (error) {
    // The machine was stopped or deleted since it was looked up.
    const ended = error instanceof AgentError &&
      (error.code === "conflict" || error.code === "not_found");
    if (ended) return null;
    throw error;
  }
}

/**
 * What `vmadm info UUID vnc` prints, its password included.
 * @see document 3, VNC information
 */
async function getVnc(c: Context<HttpEnv>, { machines }: MachinesContext): Promise<Response> {
  const uuid = machineUuidOf(c);
  const { vmadm } = machines;
  const machine = await vmadm.get(uuid);
  if (machine === null) throw machineNotFound(uuid);
  requireConsole(uuid, machine);
  const console = await vmadm.vncConsole(uuid);
  c.header("cache-control", "no-store");
  const answer: ShapeOf<typeof VNC_INFO> = { vnc: { ...console } };
  return c.json(answer);
}

/** Only hardware virtual machines have this console. */
function isRunningHvm({ brand, state }: JsonObject): boolean {
  return state === "running" && BRANDS.some((known) => known === brand);
}

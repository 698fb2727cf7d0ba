// /agent/v1/machines: making machines, looking at them, and acting on them. What changes a machine is
// a job of a built-in workflow; what is shown is what vmadm says, beside what its jobs tell.

import { type Context, Hono } from "hono";
import { AgentError } from "../../domain/error.ts";
import { type MachineUuid, parsePathUuid } from "../../domain/id.ts";
import type { Job } from "../../domain/job/job.ts";
import { EXECUTIONS, isFinal } from "../../domain/job/state.ts";
import type { JsonObject, JsonValue } from "../../domain/json.ts";
import { parseMachineRequest } from "../../domain/machine/machine.ts";
import {
  type MachineAction,
  parseActionOptions,
  requireConsole,
} from "../../domain/machine/action.ts";
import type { AppDeps, HttpEnv, MachineReader } from "../app_deps.ts";
import { seesSecrets } from "../request/caller.ts";
import type { ConsoleTickets } from "../console/tickets.ts";
import { IDEMPOTENCY_REPLAYED, idempotencyOf } from "../request/idempotency.ts";
import { readJson, wholeBody } from "../request/json_body.ts";
import { openConsoles, postTicket } from "./machine_console.ts";
import { historyOf } from "../../machines/history.ts";
import type { MachineJobs, MachineStart } from "../../machines/machine_jobs.ts";
import {
  consolePath,
  filterOf,
  isRunningHvm,
  MACHINE_FILTER_KEYS,
  machineOnWire,
  machineUuidOf,
  withoutParams,
} from "./machine_view.ts";
import { PAGE_MAX, pageOf, readQuery } from "../request/query.ts";
import { executionOnWire, type Wording } from "../../domain/job/wire.ts";
import type { Leftover } from "../../store/machine_claim_store.ts";

/** @see design, part 4, Machines */
export function machineRoutes(
  deps: AppDeps,
  machineJobs: MachineJobs,
  tickets: ConsoleTickets,
): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/agent/v1/machines", (c) => listMachines(c, deps));
  app.post("/agent/v1/machines", (c) => postMachine(c, deps, machineJobs));
  app.get("/agent/v1/machines/:uuid", (c) => getMachine(c, deps));
  app.delete("/agent/v1/machines/:uuid", (c) => deleteMachine(c, deps, machineJobs));
  for (const action of ["boot", "stop", "reboot", "eject"] as const) {
    app.post(`/agent/v1/machines/:uuid/${action}`, (c) => postAction(c, action, deps, machineJobs));
  }
  app.get("/agent/v1/machines/:uuid/vnc", (c) => getVnc(c, deps));
  app.get("/agent/v1/machines/:uuid/console", openConsoles(deps));
  app.post("/agent/v1/machines/:uuid/console-tickets", (c) => postTicket(c, deps, tickets));
  return app;
}

/** The machine that a path names. @throws {AgentError} `not_found` when it is no uuid */
function machineUuid(c: Context<HttpEnv>): MachineUuid {
  return parsePathUuid<MachineUuid>(c.req.param("uuid") ?? "", "machine");
}

async function postMachine(
  c: Context<HttpEnv>,
  deps: AppDeps,
  machineJobs: MachineJobs,
): Promise<Response> {
  const body = await readJson(c, wholeBody(deps.limits));
  const request = parseMachineRequest(body, deps.machines.policy);
  // parseMachineRequest has refused everything but an object that was read from JSON.
  const idempotency = await idempotencyOf(c.req.raw.headers, body as JsonValue);
  return started(c, await machineJobs.start(request, idempotency));
}

async function postAction(
  c: Context<HttpEnv>,
  action: MachineAction,
  deps: AppDeps,
  machineJobs: MachineJobs,
): Promise<Response> {
  const uuid = machineUuid(c);
  const options = parseActionOptions(action, await readJson(c, wholeBody(deps.limits)));
  // The same key may not stand for another action, or for one on another machine.
  const idempotency = await idempotencyOf(c.req.raw.headers, { action, uuid, options });
  return started(c, await machineJobs.act(action, uuid, options, idempotency));
}

/** A delete has no options: a body other than `{}` is of somebody who takes it for something else. */
function deleteMachine(
  c: Context<HttpEnv>,
  deps: AppDeps,
  machineJobs: MachineJobs,
): Promise<Response> {
  return postAction(c, "delete", deps, machineJobs);
}

function started(c: Context<HttpEnv>, { started, replayed }: MachineStart): Response {
  if (replayed) c.header(IDEMPOTENCY_REPLAYED, "true");
  c.header("location", `/jobs/${started.job_uuid}`);
  return c.json(started, 202);
}

/** One machine with its console's address, which is asked of a running one only. */
async function getMachine(c: Context<HttpEnv>, deps: AppDeps): Promise<Response> {
  const uuid = machineUuid(c);
  const { vmadm } = deps.machines;
  const machine = await vmadm.get(uuid);
  const history = await historyOf(uuid, machine, deps);
  if (machine === null && history.job === undefined) throw machineNotFound(uuid);
  const vnc = machine !== null && isRunningHvm(machine) ? await addressOf(uuid, vmadm) : null;
  return c.json({
    ...shownMachine(c, machineOnWire(uuid, machine, history, deps.wording)),
    vnc: vnc === null ? null : { ...vnc },
    console: vnc === null ? null : consolePath(uuid),
  });
}

function machineNotFound(uuid: MachineUuid): AgentError {
  return new AgentError("not_found", `Cannot find machine ${uuid}`);
}

async function addressOf(
  uuid: MachineUuid,
  vmadm: MachineReader,
): ReturnType<MachineReader["infoVnc"]> {
  try {
    return await vmadm.infoVnc(uuid);
  } catch (error) {
    // The machine was stopped or deleted since it was looked at.
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
async function getVnc(c: Context<HttpEnv>, { machines }: AppDeps): Promise<Response> {
  const uuid = machineUuid(c);
  const { vmadm } = machines;
  const machine = await vmadm.get(uuid);
  if (machine === null) throw machineNotFound(uuid);
  requireConsole(uuid, machine);
  const console = await vmadm.vncConsole(uuid);
  c.header("cache-control", "no-store");
  return c.json({ vnc: { ...console } });
}

/** Every machine of the host, and those that a job is about to make. */
async function listMachines(c: Context<HttpEnv>, deps: AppDeps): Promise<Response> {
  const query = readQuery(c.req.url, [...MACHINE_FILTER_KEYS, "limit", "offset"]);
  const fits = filterOf(query);
  const { limit = PAGE_MAX, offset = 0 } = pageOf(query);
  const found = (await findMachines(deps)).filter(({ machine, job }) => fits(machine, job));
  c.header("x-count", String(found.length));
  const shown: JsonObject[] = [];
  for (const { uuid, machine, job } of found.slice(offset, offset + limit)) {
    const history = machine === null ? { job, media: [] } : await historyOf(uuid, machine, deps);
    shown.push(shownMachine(c, machineOnWire(uuid, machine, history, deps.wording)));
  }
  return c.json(shown);
}

/** A machine as the caller may see it: `media` is a param of its job. */
function shownMachine(c: Context<HttpEnv>, machine: JsonObject): JsonObject {
  return seesSecrets(c.get("caller")) ? machine : withoutParams(machine);
}

interface FoundMachine {
  readonly uuid: string;
  readonly machine: JsonObject | null;
  readonly job: Job | undefined;
}

async function findMachines({ machines, store }: AppDeps): Promise<FoundMachine[]> {
  const found = new Map<string, FoundMachine>();
  for (const machine of await machines.vmadm.list()) {
    const uuid = String(machine.uuid);
    found.set(uuid, { uuid, machine, job: undefined });
  }
  const workflow_uuid = machines.provisionWorkflow;
  for (const execution of EXECUTIONS.filter((execution) => !isFinal(execution))) {
    const jobs = await store.jobs.list({ execution, workflow_uuid }, { limit: PAGE_MAX });
    for (const { job } of jobs) {
      const uuid = machineUuidOf(job);
      if (uuid !== undefined && !found.has(uuid)) found.set(uuid, { uuid, machine: null, job });
    }
  }
  return [...found.values()];
}

// /agent/v1/leftovers: what jobs should have removed from the host and could not. It is removed by the
// agent, who tries again and again; here is seen what is owed.

/** @see docs/machines.md, When the undoing fails */
export function leftoverRoutes({ store, wording }: AppDeps): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/agent/v1/leftovers", async (c) => {
    const left = await store.machineClaims.left(PAGE_MAX);
    return c.json(left.map((leftover) => leftoverOnWire(leftover, wording)));
  });
  return app;
}

function leftoverOnWire(leftover: Leftover, wording: Wording): JsonObject {
  const { uuid, job_uuid, execution, claimed_at, tries, next_try_at, error } = leftover;
  const job_execution = executionOnWire(execution, wording);
  return { uuid, job_uuid, job_execution, claimed_at, tries, next_try_at, error };
}

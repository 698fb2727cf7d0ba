// /agent/v1/machines: making machines, and looking at them. Making one is a job of the built-in
// workflow; what is shown is what vmadm says, beside the job that stands for the machine.

import { type Context, Hono } from "hono";
import { AgentError } from "../domain/error.ts";
import { isUuid, type MachineUuid, parsePathUuid } from "../domain/id.ts";
import type { Job } from "../domain/job.ts";
import { EXECUTIONS, isFinal } from "../domain/job_state.ts";
import { executionOnWire } from "../domain/job_wire.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../domain/json.ts";
import { parseMachineRequest } from "../domain/machine.ts";
import type { AppDeps, HttpEnv, MachineReader } from "./app_deps.ts";
import { readJson } from "./json_body.ts";
import { jobOfMachine, MACHINE_TARGET } from "./machine_history.ts";
import type { MachineJobs } from "./machine_jobs.ts";

/** @see design, part 4, Machines */
export function machineRoutes(deps: AppDeps, machineJobs: MachineJobs): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/agent/v1/machines", (c) => listMachines(c, deps));
  app.post("/agent/v1/machines", (c) => startMachine(c, deps, machineJobs));
  app.get("/agent/v1/machines/:uuid", (c) => getMachine(c, deps));
  return app;
}

async function startMachine(
  c: Context<HttpEnv>,
  deps: AppDeps,
  machineJobs: MachineJobs,
): Promise<Response> {
  const body = await readJson(c.req.raw, deps.limits);
  const request = parseMachineRequest(body, deps.machines.policy);
  const started = await machineJobs.start(request);
  c.header("location", `/jobs/${started.job_uuid}`);
  return c.json(started, 202);
}

/** One machine with its console's address, which is asked of a running one only. */
async function getMachine(c: Context<HttpEnv>, deps: AppDeps): Promise<Response> {
  const uuid = parsePathUuid<MachineUuid>(c.req.param("uuid") ?? "", "machine");
  const { vmadm } = deps.machines;
  const machine = await vmadm.get(uuid);
  const job = await jobOfMachine(uuid, machine !== null, deps);
  if (machine === null && job === undefined) {
    throw new AgentError("not_found", `Cannot find machine ${uuid}`);
  }
  const vnc = machine !== null && isRunningHvm(machine) ? await consoleOf(uuid, vmadm) : null;
  return c.json({ ...machineOnWire(uuid, machine, job, deps), vnc });
}

async function consoleOf(
  uuid: MachineUuid,
  vmadm: MachineReader,
): Promise<{ host: string; port: number } | null> {
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

/** Every machine of the host, and those that a job is about to make. */
async function listMachines(c: Context<HttpEnv>, deps: AppDeps): Promise<Response> {
  const { machines: { vmadm, provisionWorkflow }, store } = deps;
  const found = new Map<string, { machine: JsonObject | null; job?: Job }>();
  for (const machine of await vmadm.list()) {
    const job = typeof machine.uuid === "string"
      ? await jobOfMachine(machine.uuid, true, deps)
      : undefined;
    found.set(String(machine.uuid), { machine, ...(job === undefined ? {} : { job }) });
  }
  for (const execution of EXECUTIONS.filter((execution) => !isFinal(execution))) {
    const jobs = await store.jobs.list({ execution, workflow_uuid: provisionWorkflow });
    for (const { job } of jobs) {
      const uuid = machineUuidOf(job);
      if (uuid !== undefined && !found.has(uuid)) found.set(uuid, { machine: null, job });
    }
  }
  return c.json(
    [...found].map(([uuid, { machine, job }]) => machineOnWire(uuid, machine, job, deps)),
  );
}

/** `state` is vmadm's word, or `absent` while there is only a job. */
function machineOnWire(
  uuid: string,
  machine: JsonObject | null,
  job: Job | undefined,
  { wording }: AppDeps,
): JsonObject {
  const asked = isJsonObject(job?.params.machine) ? job.params.machine : {};
  const field = (name: string): JsonValue => machine?.[name] ?? asked[name] ?? null;
  return {
    uuid,
    alias: field("alias"),
    brand: field("brand"),
    state: machine?.state ?? "absent",
    ram: field("ram"),
    vcpus: field("vcpus"),
    media: job?.params.media ?? null,
    job_uuid: job?.uuid ?? null,
    job_execution: job === undefined ? null : executionOnWire(job.execution, wording),
  };
}

/** Only hardware virtual machines have a console of this kind. */
function isRunningHvm({ brand, state }: JsonObject): boolean {
  return state === "running" && (brand === "kvm" || brand === "bhyve");
}

/** The machine that a provisioning job makes. */
function machineUuidOf({ target }: Job): string | undefined {
  const uuid = target?.startsWith(MACHINE_TARGET) ? target.slice(MACHINE_TARGET.length) : undefined;
  return isUuid(uuid) ? uuid : undefined;
}

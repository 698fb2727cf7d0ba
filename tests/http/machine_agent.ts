// An agent with the provisioning workflow for tests of the machine routes. What that workflow does is
// tested with it; here its jobs are only created, claimed and ended.

import { assertEquals } from "@std/assert";
import type { JobUuid, MachineUuid } from "../../src/domain/id.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { runCommand } from "../../src/host/program.ts";
import { simulatedTransport } from "../../src/host/transport.ts";
import { openVmadm, type Vmadm } from "../../src/host/vmadm/vmadm.ts";
import type { ServedAgent } from "../../src/http/served_agent.ts";
import { machine as description, media } from "../domain/machine_request.ts";
import { taskOf } from "../support/job.ts";
import { withFolder } from "../support/until.ts";
import {
  claimAll,
  endTask,
  type HttpAgent,
  MACHINE_DEPS,
  objectOf,
  PROVISION,
  withHttpAgent,
} from "./http_agent.ts";
import { selfOfRun } from "../support/agent_process.ts";

export const MACHINE = "0f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f" as MachineUuid;
export const REQUEST = { machine: description, media };
export const DEADLINE_MS = 90_000;

/** An agent with the provisioning workflow. Its host has no machines unless the test says otherwise. */
export async function withMachines(
  run: (agent: HttpAgent) => Promise<void>,
  changes: Partial<ServedAgent> = {},
): Promise<void> {
  await withHttpAgent(async (agent) => {
    await putProvision(agent);
    await run(agent);
  }, changes);
}

async function putProvision({ store }: HttpAgent): Promise<void> {
  const chain = [taskOf("first")];
  const workflow = { uuid: PROVISION, name: "provision-machine", chain, onerror: [] };
  await store.workflows.putBuiltin(workflow);
}

/** The same, with the simulated host, which is powered off at the end. */
export async function withHost(
  run: (agent: HttpAgent, vmadm: Vmadm) => Promise<void>,
): Promise<void> {
  await withFolder(async (stateDir) => {
    const self = selfOfRun();
    const vmadm = openVmadm(simulatedTransport({ self, stateDir }));
    try {
      await withHttpAgent(async (agent) => {
        await putProvision(agent);
        await run(agent, vmadm);
      }, { machines: { ...MACHINE_DEPS, vmadm } });
    } finally {
      const args = [...self.args, "simulate", "--state", stateDir, "stop-all"];
      const options = { deadlineMs: DEADLINE_MS, env: { ...self.env } };
      const { code, stderr } = await runCommand(self.program, args, options);
      assertEquals([code, stderr], [0, ""]);
    }
  });
}

export async function start(agent: HttpAgent, body: unknown): Promise<JsonObject> {
  const answer = await agent.call("POST", "/agent/v1/machines", body);
  assertEquals(answer.status, 202);
  const started = objectOf(answer);
  assertEquals(Object.keys(started), ["uuid", "job_uuid"]);
  assertEquals(answer.headers.get("location"), `/jobs/${started.job_uuid}`);
  return started;
}

export async function end(
  agent: HttpAgent,
  job_uuid: unknown,
  execution: "succeeded" | "failed",
): Promise<void> {
  const uuid = job_uuid as JobUuid;
  await claimAll(agent);
  const job = await agent.store.jobs.get(uuid);
  await endTask(
    agent,
    uuid,
    execution === "succeeded" ? { kind: "succeed" } : { kind: "fail", onerror: false },
    {},
    job?.params,
  );
}

// POST /jobs and retry with the workflows that every agent has, on two agents of one database: jobs on a machine go to
// its host, whichever agent is asked, and each agent makes jobs of the workflows of its own version.

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { ACTION_WORKFLOWS, MACHINE_LIFE } from "../../src/machines/workflows/machine_life.ts";
import { PROVISION_MACHINE } from "../../src/machines/workflows/provision_machine.ts";
import type { AgentProcess } from "../support/agent_process.ts";
import { hostAt, withHosts } from "../support/hosts.ts";
import { isoBytes } from "../support/medium.ts";
import { postgresTest } from "../support/postgres.ts";
import { until, withFolder } from "../support/until.ts";

const MACHINE: JsonObject = {
  brand: "kvm",
  vcpus: 1,
  autoboot: false,
  ram: 256,
  disks: [{ boot: true, model: "virtio", size: 1024 }],
};

const MAKE = { machine: MACHINE, media: { path: "installer.iso" } };

/** Two agents, the first of which has a medium. */
function withMedium(run: Parameters<typeof withHosts>[0]): Promise<void> {
  return withFolder(async (media) => {
    await Deno.writeFile(`${media}/installer.iso`, isoBytes(64 * 1024));
    await withHosts(run, (name) => name === "gz01" ? ["--media-dir", media] : []);
  });
}

/** Makes a machine on the host of an agent. */
async function makeMachine(agent: AgentProcess): Promise<{ uuid: string; job: string }> {
  const { status, body } = await agent.post("/agent/v1/machines", MAKE);
  assertEquals(status, 202, JSON.stringify(body));
  await agent.job(String(body.job_uuid), "success");
  return { uuid: String(body.uuid), job: String(body.job_uuid) };
}

postgresTest(
  "a job on a machine of another host is posted and retried through any agent, and runs on its host",
  () =>
    withMedium(async ({ one, other }) => {
      const host_uuid = (await hostAt(one, "gz01")).uuid;
      const { uuid, job: made } = await makeMachine(one);
      await until("the other agent to know the host of the machine", async () => {
        const { items } = (await other.get("/agent/v1/machines")).body;
        return JSON.stringify(items).includes(uuid);
      });
      const act = (workflow: string, options: JsonObject = {}) =>
        other.post("/jobs", { workflow, uuid, ...options });
      const unnamed = await act(ACTION_WORKFLOWS.eject);
      assertEquals(unnamed.status, 409);
      assertStringIncludes(String(unnamed.body.message), "another host has it");
      // The machine runs: what this agent cannot see is found by the task.
      const eject = await act(ACTION_WORKFLOWS.eject, { files: ["/installer.iso"] });
      assertEquals(eject.status, 201, JSON.stringify(eject.body));
      const failed = await other.job(String(eject.body.uuid), "failure");
      assertStringIncludes(JSON.stringify(failed.chain_results), "its state is running");
      const retried = await other.post(`/agent/v1/jobs/${eject.body.uuid}/retry`);
      assertEquals(retried.status, 201, JSON.stringify(retried.body));
      await other.job(String(retried.body.uuid), "failure");
      const stopped = await act(ACTION_WORKFLOWS.stop, { force: true });
      await other.job(String(stopped.body.uuid), "success");
      for (const { body } of [eject, retried, stopped]) {
        const { body: job } = await one.get(`/agent/v1/jobs/${body.uuid}`);
        assertEquals(job.host_uuid, host_uuid);
      }
      // So does the retry of a create whose machine is gone.
      await other.job(
        String((await act(ACTION_WORKFLOWS.delete)).body.uuid),
        "success",
      );
      const again = await other.post(`/agent/v1/jobs/${made}/retry`);
      assertEquals(again.status, 201, JSON.stringify(again.body));
      const order = { workflow: PROVISION_MACHINE.uuid, ...MAKE, server_uuid: "gz01" };
      const next = await other.post("/jobs", order);
      assertEquals(next.status, 201, JSON.stringify(next.body));
      for (const { body } of [again, next]) {
        await other.job(String(body.uuid), "success");
        assertEquals((await one.get(`/agent/v1/jobs/${body.uuid}`)).body.host_uuid, host_uuid);
      }
    }),
);

postgresTest(
  "a job of a built-in workflow is of the version of the agent that is asked",
  () =>
    withMedium(async ({ one, server }) => {
      // As an agent of another version writes its own.
      await server.sql(
        `UPDATE workflows SET name = 'other', body = replace(body, 'machine-stop', 'other')
          WHERE uuid = '${ACTION_WORKFLOWS.stop}'`,
        "fleet",
      );
      const { uuid } = await makeMachine(one);
      const posted = await one.post("/jobs", {
        workflow: ACTION_WORKFLOWS.stop,
        uuid,
        force: true,
      });
      assertEquals(posted.body.name, MACHINE_LIFE.stop.definition.name);
      await one.job(String(posted.body.uuid), "success");
    }),
);

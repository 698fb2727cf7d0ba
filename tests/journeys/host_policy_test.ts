// What the policy of one host lets it run of what others order: the rest is refused when it is ordered, and where a row
// in the database says otherwise, by the host that was to run it.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { tasksDigest } from "../../src/domain/taking.ts";
import type { AgentProcess } from "../support/agent_process.ts";
import { cli, hostAt, withHosts } from "../support/hosts.ts";
import { isoBytes } from "../support/medium.ts";
import { postgresTest } from "../support/postgres.ts";
import { until, withFolder } from "../support/until.ts";

const NIGHTLY = {
  name: "nightly",
  chain: [{ name: "report", body: "(job, cb) => cb(null, 'done')" }],
  onerror: [{ name: "tell", body: "(job, cb) => cb(null, 'told')" }],
};
const OTHER = { ...NIGHTLY, name: "other" };
const FREE = { ...OTHER, name: "free", placement: "any" };

const MACHINE = {
  brand: "kvm",
  vcpus: 1,
  autoboot: false,
  ram: 256,
  disks: [{ boot: true, model: "virtio", size: 1024 }],
};

async function made(agent: AgentProcess, definition: JsonObject): Promise<string> {
  return String((await agent.post("/workflows", definition)).body.uuid);
}

/** The error of the last task that a job shows. */
function errorOf({ chain_results }: JsonObject): JsonObject {
  const last = Array.isArray(chain_results) ? chain_results.filter(isJsonObject).at(-1) : undefined;
  return isJsonObject(last?.error) ? last.error : {};
}

/** Gives a job another body, as somebody may who writes to the database. */
const WITH_OTHER_TASKS = `
  WITH made AS (
    INSERT INTO definitions (workflow_uuid, name, sha256, chain, onerror, oncancel, timeout)
    SELECT workflow_uuid, name, 'another', replace(chain, 'done', 'owned'), onerror, oncancel, timeout
      FROM definitions WHERE id = (SELECT definition_id FROM jobs WHERE uuid = $1) RETURNING id)
  UPDATE jobs SET definition_id = made.id FROM made WHERE uuid = $1`;

postgresTest(
  "a host runs what its policy lists by digest, and nothing else that has its name",
  async () => {
    const entry = `nightly@${await tasksDigest(NIGHTLY)}`;
    await withHosts(async ({ one, db }) => {
      assertEquals((await hostAt(one, "gz02")).allow_workflow, [entry]);
      const [nightly, unlisted] = [await made(one, NIGHTLY), await made(one, OTHER)];
      assertStringIncludes((await cli(one, "workflow", "get", nightly)).stdout, entry.slice(8));
      const order = (workflow: string, more: JsonObject = {}) =>
        one.post("/jobs", { workflow, server_uuid: "gz02", ...more });

      const refused = await order(unlisted);
      assertEquals([refused.status, refused.body.code], [403, "Forbidden"]);
      assertStringIncludes(
        String(refused.body.message),
        'Cannot create a job: host "gz02" runs no workflow "other" with the tasks sha256:',
      );
      const here = await one.post("/jobs", { workflow: nightly });
      assertEquals(here.status, 403);
      assertStringIncludes(String(here.body.message), 'runs no job that "loopback" has ordered');
      const { body: ran } = await order(nightly);
      assertEquals([ran.host, ran.ordered_by], ["gz02", "loopback"]);
      await one.job(String(ran.uuid), "success");

      await one.post("/agent/v1/hosts/gz02/cordon", {});
      const target = "/reports";
      const { body: waiting } = await order(nightly, { target });
      await db.write((tx) => tx.run(WITH_OTHER_TASKS, String(waiting.uuid)));
      await one.post("/agent/v1/hosts/gz02/uncordon", {});
      const failed = await one.job(String(waiting.uuid), "failure");
      const { code, message } = errorOf(failed);
      assertEquals([code, failed.onerror_results], ["not_taken", []]);
      assertStringIncludes(
        String(message),
        'Cannot run the job: host gz02 runs no workflow "nightly"',
      );
      const { body: again } = await order(nightly, { target });
      await one.job(String(again.uuid), "success");
    }, (name) => name === "gz02" ? ["--allow-workflow", entry] : ["--allow-caller", "token:ops"]);
  },
);

postgresTest(
  "a host with a policy leaves free jobs to the others, and makes machines",
  () =>
    withFolder((media) =>
      withHosts(async ({ one, other }) => {
        await Deno.writeFile(`${media}/installer.iso`, isoBytes(64 * 1024));
        const { body: ordered } = await one.post("/jobs", { workflow: await made(one, FREE) });
        assertEquals((await one.job(String(ordered.uuid), "success")).host, "gz01");
        const asked = await one.post("/agent/v1/machines", {
          machine: MACHINE,
          media: { path: "installer.iso" },
          server_uuid: "gz02",
        });
        assertEquals(asked.status, 202, JSON.stringify(asked.body));
        const job = await one.job(String(asked.body.job_uuid), "success");
        assertEquals([job.host, job.ordered_by], ["gz02", "loopback"]);
        const own = await other.post("/jobs", { workflow: await made(other, OTHER) });
        assertEquals(own.status, 403, JSON.stringify(own.body));
      }, (name) => [
        ...["--media-dir", media],
        ...(name === "gz02" ? ["--allow-workflow", "builtin"] : []),
      ])
    ),
);

/** Waits in its first task, and again in each job that repeats it. */
const HELD = {
  name: "held",
  chain: [{ name: "hold", body: "(job, cb) => cb('wait')" }, {
    name: "again",
    body: "(job, cb) => cb('retry')",
  }],
};

postgresTest(
  "a job of a caller that the policy does not list fails on the host that it reaches",
  () =>
    withHosts(
      async ({ one, db }) => {
        const workflow = await made(one, NIGHTLY);
        await one.post("/agent/v1/hosts/gz02/cordon", {});
        const { body: ordered } = await one.post("/jobs", { workflow, server_uuid: "gz02" });
        assertEquals([ordered.execution, ordered.ordered_by], ["queued", "loopback"]);
        const rename = `UPDATE jobs SET props = replace(props, '"loopback"', '"token:guest"')
          WHERE uuid = $1`;
        assertEquals(await db.write((tx) => tx.run(rename, String(ordered.uuid))), 1);
        await one.post("/agent/v1/hosts/gz02/uncordon", {});
        const failed = await one.job(String(ordered.uuid), "failure");
        const { code, message } = errorOf(failed);
        assertEquals([code, failed.onerror_results], ["not_taken", []]);
        assertStringIncludes(String(message), 'runs no job that "token:guest" has ordered');
      },
      (name) => name === "gz02" ? ["--allow-caller", "loopback"] : [],
    ),
);

postgresTest(
  "lists that SIGHUP reloads apply to orders at any agent, and to the next task of a running job",
  () =>
    withFolder(async (folder) => {
      const config = `${folder}/gz02.toml`;
      const list = (name: string) =>
        Deno.writeTextFile(config, `[policy]\nallow_workflow = ["${name}"]\n`);
      await list("held");
      await withHosts(async ({ one, other }) => {
        const [held, nightly] = [await made(one, HELD), await made(one, NIGHTLY)];
        const order = (workflow: string) => one.post("/jobs", { workflow, server_uuid: "gz02" });
        assertEquals((await order(nightly)).status, 403);
        const waits = String((await order(held)).body.uuid);
        await one.job(waits, "waiting");
        await list("nightly");
        other.signal("SIGHUP");
        await until("the new list", async () => {
          const { allow_workflow } = await hostAt(one, "gz02");
          return JSON.stringify(allow_workflow) === '["nightly"]';
        });
        assertEquals((await order(held)).status, 403);
        await one.job(String((await order(nightly)).body.uuid), "success");
        assertEquals((await one.post(`/jobs/${waits}/resume`, {})).status, 200);
        const { code, message } = errorOf(await one.job(waits, "failure"));
        assertEquals(code, "not_taken");
        assertStringIncludes(String(message), 'host gz02 runs no workflow "held"');
      }, (name) => name === "gz02" ? ["--config", config] : []);
    }),
);

postgresTest(
  "a job that cb('retry') repeats stays under the policy of its host, even if its workflow has changed",
  async () => {
    const entry = `held@${await tasksDigest({ onerror: [], oncancel: [], ...HELD })}`;
    await withHosts(async ({ one }) => {
      const workflow = await made(one, HELD);
      const { body } = await one.post("/jobs", { workflow, server_uuid: "gz02" });
      const first = await one.job(String(body.uuid), "waiting");
      await one.post(`/jobs/${first.uuid}/resume`, {});
      const retried = await one.job(String(first.uuid), "retried");
      const second = await one.job(String(retried.next_attempt), "waiting");
      assertEquals([second.host, second.ordered_by], ["gz02", "loopback"]);
      const changed = { ...HELD, chain: [...HELD.chain, ...NIGHTLY.chain] };
      const put = await one.fetch(`/workflows/${workflow}`, {
        method: "PUT",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(changed),
      });
      assertEquals([put.status, (await put.json()).name], [201, "held"]);
      await one.post(`/jobs/${second.uuid}/resume`, {});
      const last = await one.job(String(second.uuid), "retried");
      assertEquals(last.next_attempt, undefined);
      assertStringIncludes(String(last.next_attempt_refused), 'runs no workflow "held"');
    }, (name) => name === "gz02" ? ["--allow-workflow", entry] : []);
  },
);

// The hosts of one database as an operator handles them through any agent: listed, cordoned, drained with a running
// job, killed and forgotten, and admitted again.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { cli, hostAt, newJob, untilHost, withHosts } from "../support/hosts.ts";
import { postgresTest } from "../support/postgres.ts";
import { until } from "../support/until.ts";

postgresTest(
  "a host is drained through another agent, with its running job",
  () =>
    withHosts(async ({ one, other }) => {
      for (const agent of [one, other]) {
        const { stdout } = await cli(agent, "host", "list");
        for (const name of ["gz01", "gz02"]) assertStringIncludes(stdout, name);
      }
      const job = await newJob(one, "/a", "running");
      const late = await cli(other, "host", "drain", "gz01", "--timeout", "1s");
      assertEquals([late.code, late.stdout], [124, ""]);
      assertStringIncludes(late.stderr, "gz01: 1 job runs");
      assertEquals((await one.get(`/jobs/${job}`)).body.execution, "running");
      const next = await newJob(one, "/b", "queued");
      const drained = cli(other, "host", "drain", "gz01");
      await other.post(`/jobs/${job}/cancel`);
      const { code, stdout } = await drained;
      assertEquals([code, stdout], [0, "gz01 drained\n"]);
      const { state, running, queued } = await hostAt(other, "gz01");
      assertEquals([state, running, queued], ["cordoned", 0, 1]);
      assertEquals((await cli(other, "host", "uncordon", "gz01")).stdout, "gz01 connected\n");
      await other.job(next, "running");
      await other.post(`/jobs/${next}/cancel`);
    }),
);

postgresTest(
  "a host that was killed is forgotten, and acts on nothing until it is admitted",
  () =>
    withHosts(async ({ one, other, start }) => {
      const job = await newJob(one, "/a", "running");
      const early = await cli(other, "host", "forget", "gz01", "--yes");
      assertEquals(early.code, 6);
      await one.kill();
      await untilHost(other, "gz01", "away");
      const uuid = String((await hostAt(other, "gz01")).uuid);
      const forgotten = await cli(other, "host", "forget", "gz01", "--yes");
      assertEquals([forgotten.code, forgotten.stdout], [0, "gz01 forgotten, 1 job failed\n"]);
      const { body } = await other.get(`/jobs/${job}`);
      assertEquals(body.execution, "failure");
      assertStringIncludes(JSON.stringify(body.chain_results), "host_lost");
      const same = await newJob(other, "/a", "running");
      await other.post(`/jobs/${same}/cancel`);
      const again = await start("gz01");
      const unready = async () => JSON.stringify((await again.get("/readyz")).body);
      await until("the host to say so", async () => (await unready()).includes("was forgotten"));
      const workflow = String(body.workflow_uuid);
      const refused = await again.post("/jobs", { workflow, target: "/b" });
      assertEquals(refused.status, 409);
      assertStringIncludes(String(refused.body.message), `"${uuid}" was forgotten`);
      assertEquals((await hostAt(other, "gz01")).state, "forgotten");
      assertEquals((await cli(other, "host", "uncordon", uuid)).stdout, "gz01 connected\n");
      const next = await newJob(again, "/b", "running");
      await other.post(`/jobs/${next}/cancel`);
    }),
);

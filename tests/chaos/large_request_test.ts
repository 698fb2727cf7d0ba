// Requests at the edge of what is accepted.

import { assert, assertEquals } from "@std/assert";
import { until } from "../support/until.ts";
import { listOf, objectOf, withChaosAgent } from "./agent_under_chaos.ts";

const MIB = 1_048_576;

Deno.test("a job with 1 MB of params completes; one with 10 MB is refused", async () => {
  await withChaosAgent([], async (agent) => {
    const workflow = objectOf(
      await agent.ask("POST", "/workflows", {
        name: "measure",
        chain: [
          { body: "function (job, cb) { cb(null, job.params.text.length); }" },
          { body: "function (job, cb) { job.params.text += 'x'; cb(); }" },
          { body: "function (job, cb) { cb(null, job.params.text.length); }" },
        ],
      }),
    ).uuid ?? "";
    const tooLarge = await agent.ask("POST", "/jobs", { workflow, text: "x".repeat(10 * MIB) });
    assertEquals([tooLarge.status, objectOf(tooLarge).error_code], [413, "too_large"]);
    assertEquals(listOf(await agent.ask("GET", "/jobs")), []);

    const text = "x".repeat(MIB);
    const posted = await agent.ask("POST", "/jobs", { workflow, text });
    assertEquals(posted.status, 201);
    const { uuid } = objectOf(posted);
    const job = await until("the large job to come to its end", async () => {
      const read = objectOf(await agent.ask("GET", `/jobs/${uuid}`));
      return read.execution === "queued" || read.execution === "running" ? undefined : read;
    });
    assertEquals(job.execution, "success");
    const results = job.chain_results as { result: unknown }[];
    assertEquals(results.map(({ result }) => result), [MIB, "OK", MIB + 1]);
    const { params } = job as { params: { text: string } };
    assert(params.text.length === MIB + 1, "the params were not kept");
    assertEquals(listOf(await agent.ask("GET", "/jobs")).length, 1);
  });
});

// POST /agent/v1/jobs/prune: what goes, what stays, and what is refused.

import { assertEquals } from "@std/assert";
import { newJob, withHttpAgent } from "./http_agent.ts";

Deno.test("only jobs that are finished and old enough are removed", () =>
  withHttpAgent(async (agent) => {
    const kept = await newJob(agent);
    const gone = await newJob(agent, { params: { other: true } });
    await agent.call("POST", `/jobs/${gone}/cancel`, {});
    const young = await agent.call("POST", "/agent/v1/jobs/prune", { older_than_seconds: 3600 });
    assertEquals([young.status, young.body], [200, { removed: 0, more: false }]);
    const all = await agent.call("POST", "/agent/v1/jobs/prune", { older_than_seconds: 0 });
    assertEquals(all.body, { removed: 1, more: false });
    assertEquals((await agent.call("GET", `/jobs/${gone}`)).status, 404);
    assertEquals((await agent.call("GET", `/jobs/${kept}`)).status, 200);
  }));

Deno.test("a removal without an age is refused", () =>
  withHttpAgent(async (agent) => {
    for (
      const body of [{}, { older_than_seconds: -1 }, { older_than_seconds: "1d" }, { older: 1 }]
    ) {
      assertEquals((await agent.call("POST", "/agent/v1/jobs/prune", body)).status, 409);
    }
  }));

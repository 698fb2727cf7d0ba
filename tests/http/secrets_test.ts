// What the scope read is shown of secrets: nothing, wherever they stand.

import { assert, assertEquals, assertFalse } from "@std/assert";
import type { JobUuid, WorkflowUuid } from "../../src/domain/id.ts";
import type { Job } from "../../src/domain/job/job.ts";
import { MASK } from "../../src/domain/masking.ts";
import { createApp } from "../../src/http/app.ts";
import type { Store } from "../../src/store/store.ts";
import { PART_BYTES } from "../../src/store/stored_text.ts";
import { jobOf, resultOf, RUNNER, T0, uuidOf, workflowOf } from "../support/job.ts";
import type { HttpAgent } from "./http_agent.ts";
import { ADMIN, bearer, READ, withTokens } from "./token_agent.ts";
import { claimJobs } from "../support/clocked_store.ts";
import { NO_LIMIT } from "../support/limits.ts";

const SECRET = "hunter2-hunter2";
const JOB = uuidOf<JobUuid>(1);
const WORKFLOW = { ...workflowOf(), secret_params: ["license_key"], deploy_token: SECRET };
const HELD = { license_key: [SECRET], list: [{ root_pw: { old: SECRET } }], plain: "seen" };
const PARAMS = { ...HELD, customer_metadata: { root_pw: SECRET, "user-script": SECRET } };

/** A finished job with secrets wherever a job may have them, of any size. */
async function fill(store: Store, filler: number): Promise<void> {
  const large = "x".repeat(filler);
  await store.workflows.create({ ...WORKFLOW, large }, { max: NO_LIMIT });
  await store.jobs.create(
    jobOf(1, {
      workflow: WORKFLOW,
      params: { ...PARAMS, large },
      callback_url: `https://callbacks.example.org/?key=${SECRET}`,
    }),
    NO_LIMIT,
  );
  const [job] = await claimJobs(store, RUNNER, 1) as [Job];
  await store.jobs.recordTask({
    job_uuid: job.uuid,
    runner_id: RUNNER,
    lease: job.lease,
    phase: job.phase,
    position: 0,
    entry: resultOf("first", { result: { ...HELD, large, customer_metadata: { a: SECRET } } }),
    params: { ...PARAMS, large },
    props: { ...job.props, found: HELD, vnc_password: SECRET },
    elapsed_ms: 1,
    event: { kind: "succeed" },
  });
  await store.info.append(JOB, { ...HELD, large, internal_metadata: { a: SECRET } }, T0, NO_LIMIT);
}

const PATHS = [
  "/jobs",
  "/jobs?limit=1",
  `/jobs/${JOB}`,
  `/jobs/${JOB}/wait?timeout=0`,
  `/jobs/${JOB}/info`,
  "/workflows",
  `/workflows/${uuidOf<WorkflowUuid>(1)}`,
];

async function textAs(agent: HttpAgent, token: string, path: string): Promise<string> {
  const answer = await agent.call("GET", path, undefined, bearer(token));
  assertEquals([path, answer.status], [path, 200]);
  // It must be JSON, whatever was masked.
  assert(typeof answer.body === "object");
  return answer.text;
}

const CASES = [[10, "document"], [300_000, "document"], [10, "node-workflow"]] as const;

for (const [filler, wording] of CASES) {
  const texts = `texts of ${filler} characters, wording ${wording}`;
  Deno.test(`the read scope sees no secret in documents with ${texts}`, async () => {
    await withTokens(async (agent) => {
      await fill(agent.store, filler);
      for (const path of PATHS) {
        const masked = await textAs(agent, READ, path);
        assertFalse(masked.includes(SECRET), `${path} shows the secret`);
        assert(masked.includes(MASK), `${path} masks nothing`);
        assert((await textAs(agent, ADMIN, path)).includes(SECRET), `${path} hides the secret`);
      }
      const job = JSON.parse(await textAs(agent, READ, `/jobs/${JOB}`));
      assertEquals(job.params.plain, MASK);
      assertEquals(Object.keys(job.params), [...Object.keys(PARAMS), "large"]);
      const { result } = job.chain_results[0];
      assertEquals([result.plain, result.license_key], ["seen", MASK]);
      assertEquals([result.list, result.customer_metadata], [[{ root_pw: MASK }], { a: MASK }]);
      assertEquals([job.found.plain, job.found.license_key, job.vnc_password], [
        "seen",
        MASK,
        MASK,
      ]);
      assertEquals([job.secret_params, job.callback_url], [undefined, MASK]);
      const seen = JSON.parse(await textAs(agent, ADMIN, `/jobs/${JOB}`));
      assertEquals(seen.params, { ...PARAMS, large: "x".repeat(filler) });
      // Params that are fields of the job too are hidden as a whole.
      assertEquals([job.plain, seen.plain], [
        undefined,
        wording === "document" ? undefined : "seen",
      ]);
      assertEquals((await agent.call("HEAD", "/jobs", undefined, bearer(READ))).status, 200);
    }, { wording });
  });
}

Deno.test("masking a long text yields to other work between parts", async () => {
  await withTokens(async ({ store, context }) => {
    await store.jobs.create(
      jobOf(1, { params: { large: SECRET + "x".repeat(4_000_000) } }),
      NO_LIMIT,
    );
    const app = createApp(context);
    const headers = { host: "localhost", ...bearer(READ) };
    let turns = 0;
    let next: ReturnType<typeof setImmediate> | undefined;
    const turn = () => {
      turns += 1;
      next = setImmediate(turn);
    };
    turn();
    try {
      const request = new Request(`http://localhost/jobs/${JOB}`, { headers });
      const text = await (await app.fetch(request, {})).text();
      assertFalse(text.includes(SECRET));
      assert(turns > 4_000_000 / PART_BYTES, `${turns} turns`);
    } finally {
      clearImmediate(next);
    }
  });
});

Deno.test("read may not find params by filtering; admin may", async () => {
  await withTokens(async (agent) => {
    await fill(agent.store, 1);
    const refused = await agent.call("GET", "/jobs?plain=seen", undefined, bearer(READ));
    assertEquals(refused.status, 403);
    assert(refused.text.includes("Cannot filter by the param plain"));
    for (const key of ["execution=succeeded", "name=sample", "since=2020-01-01T00:00:00Z"]) {
      assertEquals(JSON.parse(await textAs(agent, READ, `/jobs?${key}`)).length, 1);
    }
    assertEquals(JSON.parse(await textAs(agent, ADMIN, "/jobs?plain=seen")).length, 1);
  });
});

Deno.test("secret_params are names, and kept as sent; a retried job keeps them", async () => {
  await withTokens(async (agent) => {
    const admin = bearer(ADMIN);
    const send = (secret_params: unknown) =>
      agent.call("POST", "/workflows", { name: "w", chain: [], secret_params }, admin);
    for (const wrong of ["a", [1], [""], ["x".repeat(256)], Array(65).fill("a"), {}]) {
      const answer = await send(wrong);
      assertEquals(answer.status, 409);
      assert(answer.text.includes("secret_params"));
    }
    const kept = await send(["license_key", "☃"]);
    assertEquals((kept.body as { secret_params: unknown }).secret_params, ["license_key", "☃"]);
    await fill(agent.store, 1);
    await agent.call("DELETE", `/workflows/${uuidOf<WorkflowUuid>(1)}`, undefined, admin);
    const retried = await agent.call("POST", `/agent/v1/jobs/${JOB}/retry`, {}, admin);
    assertEquals(retried.status, 201);
    const { uuid } = retried.body as { uuid: JobUuid };
    await agent.store.info.append(uuid, HELD, T0, NO_LIMIT);
    assertFalse((await textAs(agent, READ, `/jobs/${uuid}/info`)).includes(SECRET));
  });
});

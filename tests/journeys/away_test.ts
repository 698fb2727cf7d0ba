// A job of another host is canceled while that host is connected, stands still, or is gone: what the answer says, what
// stays claimed, and what the host does when it returns.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import type { AgentProcess, Answer } from "../support/agent_process.ts";
import { cli, newJob, SLEEPS, untilHost, withHosts } from "../support/hosts.ts";
import { postgresTest } from "../support/postgres.ts";
import { until } from "../support/until.ts";

/** Undoes what it did. */
const UNDOES = {
  ...SLEEPS,
  name: "undoes",
  oncancel: [{ name: "undo", body: "(job, cb) => { info({ undone: true }); cb(); }" }],
};

/** What a job answers of its stop. */
const stopOf = ({ execution, host_state, stop_confirmed }: JsonObject) => [
  execution,
  host_state,
  stop_confirmed,
];

/** Milliseconds that the answer to a cancel waits for the host of the job. */
const ANSWERED_MS = 2_000;

/** A call, and how long its answer took. */
async function timed(call: () => Promise<Answer>): Promise<{ ms: number; body: JsonObject }> {
  const since = performance.now();
  const { body } = await call();
  return { ms: performance.now() - since, body };
}

/** The status of a new job with the target and the params of another. */
async function again(agent: AgentProcess, job: string, target: string): Promise<number> {
  const workflow = String((await agent.get(`/jobs/${job}`)).body.workflow_uuid);
  return (await agent.post("/jobs", { workflow, target })).status;
}

postgresTest(
  "a cancel is answered when a connected host has ended the guest, and frees the target with that",
  () =>
    withHosts(async ({ one, other }) => {
      const job = await newJob(one, "/a", "running");
      const { ms, body } = await timed(() => other.post(`/jobs/${job}/cancel`));
      await one.said(`"job finished","job_uuid":"${job}"`);
      // On a busy machine the host may need longer than the answer waits for it.
      if (ms < ANSWERED_MS) assertEquals(stopOf(body), ["canceled", undefined, undefined]);
      await until("the stop to be confirmed", async () => {
        return (await other.get(`/jobs/${job}`)).body.stop_confirmed === undefined;
      });
      assertEquals(await again(other, job, "/a"), 201);
      const next = await newJob(one, "/b", "running");
      const many = await timed(() =>
        other.post("/agent/v1/jobs/cancel", { filter: { target: "/b" } })
      );
      const confirmed = { uuid: next, stop_confirmed: true, host: null, host_state: null };
      if (many.ms < ANSWERED_MS) assertEquals(many.body.canceled, [confirmed]);
      const own = await newJob(one, "/c", "running");
      assertEquals(stopOf((await one.post(`/jobs/${own}/cancel`)).body)[2], undefined);
    }),
);

postgresTest(
  "a job of a host that is gone is canceled at once, keeps its target, and is at rest when the host returns",
  () =>
    withHosts(async ({ one, other, start }) => {
      const job = await newJob(one, "/a", "running");
      const many = await newJob(one, "/b", "running");
      const undone = await newJob(one, "/c", "running", UNDOES);
      await one.kill();
      await untilHost(other, "gz01", "away");
      const { body } = await other.post(`/jobs/${job}/cancel`);
      assertEquals(stopOf(body), ["canceled", "away", false]);
      const answer = await other.post("/agent/v1/jobs/cancel", { filter: { target: "/b" } });
      const away = { uuid: many, stop_confirmed: false, host: "gz01", host_state: "away" };
      assertEquals(answer.body.canceled, [away]);
      const { stdout } = await cli(other, "job", "cancel", undone);
      assertStringIncludes(
        stdout,
        `${undone} canceled: gz01 is away and learns of it when it returns`,
      );
      const summary = (await other.get(`/agent/v1/jobs/${job}`)).body;
      assertEquals([summary.state, summary.reason], ["canceled", "stopping"]);
      for (const [uuid, target] of [[job, "/a"], [many, "/b"], [undone, "/c"]] as const) {
        assertEquals(await again(other, uuid, target), 409);
      }
      const queued = await other.post("/jobs", {
        workflow: String(body.workflow_uuid),
        server_uuid: "gz01",
      });
      const canceled = await other.post(`/jobs/${queued.body.uuid}/cancel`);
      assertEquals(stopOf(canceled.body), ["canceled", "away", undefined]);

      const back = await start("gz01");
      await until("the chain to be undone", async () => {
        const { items } = (await other.get(`/jobs/${undone}/info`)).body;
        return JSON.stringify(items).includes("undone");
      });
      for (const uuid of [job, many]) {
        const { body } = await other.get(`/jobs/${uuid}`);
        assertEquals([...stopOf(body), body.chain_results], [
          "canceled",
          undefined,
          undefined,
          [],
        ]);
      }
      assertEquals(await again(other, job, "/a"), 201);
      assertEquals(await again(other, many, "/b"), 201);
      assert(!back.log().includes(`"task ended","job_uuid":"${job}"`));
    }),
);

/** Milliseconds after which a task acts. */
const ACTS_MS = 10_000;

postgresTest(
  "a host that was suspended learns of a cancel before a task of the job acts",
  () =>
    withHosts(async ({ one, other }) => {
      const acts = {
        name: "acts",
        chain: [{
          // Long enough for its host to be stopped before, on a busy machine too.
          body: `(job, cb) => sleep(${ACTS_MS}).then(() => info({ acted: true })).then(() => cb())`,
        }],
      };
      const job = await newJob(one, "/a", "running", acts);
      const seen = performance.now();
      one.signal("SIGSTOP");
      await untilHost(other, "gz01", "away");
      const { body } = await other.post(`/jobs/${job}/cancel`);
      assertEquals(stopOf(body), ["canceled", "away", false]);
      assertEquals(await again(other, job, "/a"), 409);
      await until("the task to act", () => performance.now() - seen > ACTS_MS + 2_000 || undefined);
      one.signal("SIGCONT");
      await until("the host to confirm", async () => {
        return (await other.get(`/jobs/${job}`)).body.stop_confirmed === undefined;
      });
      assertEquals((await other.get(`/jobs/${job}/info`)).body.items, []);
      assertEquals(await again(other, job, "/a"), 201);
    }),
);

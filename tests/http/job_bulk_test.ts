// POST /agent/v1/jobs/cancel and /agent/v1/jobs/retry: the same change to many jobs.

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { instantAfter } from "../../src/domain/instant.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { T0 } from "../support/job.ts";
import {
  assertRefused,
  BODY,
  fieldsOf,
  type HttpAgent,
  jobIn,
  listOf,
  newJob,
  newWorkflow,
  NO_UUID,
  objectOf,
  withHttpAgent,
} from "./http_agent.ts";
import { claimJobs } from "../support/clocked_store.ts";

type Verb = "cancel" | "retry";
const VERBS = ["cancel", "retry"] as const;

async function bulk(agent: HttpAgent, verb: Verb, body: JsonObject): Promise<JsonObject> {
  const answer = await agent.call("POST", `/agent/v1/jobs/${verb}`, body);
  assertEquals([answer.status, answer.text], [200, answer.text]);
  return objectOf(answer);
}

function uuidsIn(value: unknown): unknown[] {
  return (value as JsonObject[]).map(({ uuid }) => uuid);
}

async function executionOf(agent: HttpAgent, uuid: unknown): Promise<unknown> {
  return objectOf(await agent.call("GET", `/jobs/${uuid}`)).execution;
}

/** What a cancel says where one host has all jobs. */
const STOPPED = { stop_confirmed: true, host: null, host_state: null };

Deno.test("cancel of many cancels the matching unfinished jobs, and reports each", async () => {
  await withHttpAgent(async (agent) => {
    const waiting = await jobIn(agent, "waiting");
    const running = await jobIn(agent, "running");
    const failed = await jobIn(agent, "failed");
    const queued = await newJob(agent);
    agent.hints.length = 0;
    const done = await bulk(agent, "cancel", { filter: { name: "sample" } });
    const expected = [queued, waiting, running];
    assertEquals(done, {
      matched: 3,
      canceled: expected.map((uuid) => ({ uuid, ...STOPPED })),
      refused: [],
      more: false,
    });
    for (const uuid of expected) {
      assertEquals(await executionOf(agent, uuid), "canceled");
      assertEquals(agent.hints.includes(`cancel ${uuid}`), true);
    }
    assertEquals(await executionOf(agent, failed), "failure");
    const again = await bulk(agent, "cancel", { filter: { name: "sample" } });
    assertEquals(again, { matched: 0, canceled: [], refused: [], more: false });
  });
});

Deno.test("retry of many retries failed and canceled jobs, each once", async () => {
  await withHttpAgent(async (agent) => {
    const failed = await jobIn(agent, "failed");
    const canceled = await jobIn(agent, "canceled");
    await jobIn(agent, "succeeded");
    agent.hints.length = 0;
    const done = await bulk(agent, "retry", { filter: { name: "sample" } });
    assertEquals([done.matched, uuidsIn(done.retried)], [2, [failed, canceled]]);
    for (const { uuid, next_attempt } of done.retried as JsonObject[]) {
      const job = objectOf(await agent.call("GET", `/jobs/${next_attempt}`));
      assertEquals([job.prev_attempt, job.execution], [uuid, "queued"]);
    }
    assertEquals(agent.hints.includes("queued"), true);
    const again = await bulk(agent, "retry", { filter: { name: "sample" } });
    assertEquals(again, { matched: 0, retried: [], refused: [], more: false });
  });
});

Deno.test("an execution in the filter excludes other executions", async () => {
  const cases = [
    ["retry", "failed", "failed"],
    ["retry", "failure", "failed"],
    ["retry", "canceled", "canceled"],
    ["cancel", "waiting", "waiting"],
    ["cancel", "running", "running"],
    ["cancel", "queued", "queued"],
  ] as const;
  for (const [verb, execution, wanted] of cases) {
    await withHttpAgent(async (agent) => {
      const jobs = new Map<string, unknown>();
      // The queued one comes last, so that no other claims it.
      for (const word of ["failed", "canceled", "waiting", "running", "queued"] as const) {
        jobs.set(word, await jobIn(agent, word));
      }
      const done = await bulk(agent, verb, { filter: { execution } });
      const changed = uuidsIn(verb === "retry" ? done.retried : done.canceled);
      assertEquals([execution, changed], [execution, [jobs.get(wanted)]]);
    });
  }
});

Deno.test("a job must match every key of the filter", async () => {
  const LATER = instantAfter(T0, 1000);
  const cases: [JsonObject, ("early" | "late")[]][] = [
    [{ name: "one" }, ["late", "early"]],
    [{ name: "one", target: "/a" }, ["early"]],
    [{ name: "two", target: "/a" }, []],
    [{ workflow_uuid: NO_UUID }, []],
    [{ since: LATER }, ["late"]],
    [{ until: Date.parse(LATER) }, ["early"]],
    [{ since: String(Date.parse(T0)), until: LATER, name: "one" }, ["early"]],
    [{ params: { vm: "x" } }, ["late", "early"]],
    [{ params: { vm: "x", n: 5 } }, ["late", "early"]],
    [{ params: { vm: "x", on: true } }, ["late"]],
    [{ params: { none: null } }, ["early"]],
    [{ params: { vm: "y" } }, []],
  ];
  for (const [filter, expected] of cases) {
    await withHttpAgent(async (agent) => {
      const workflow = await newWorkflow(agent, { name: "one" });
      const early = await newJob(agent, { workflow, target: "/a", vm: "x", n: 5, none: null });
      agent.clock.now = LATER;
      const late = await newJob(agent, { workflow, target: "/b", vm: "x", n: "5", on: true });
      const canceled = uuidsIn((await bulk(agent, "cancel", { filter })).canceled);
      assertEquals([filter, canceled], [filter, expected.map((one) => ({ early, late })[one])]);
    });
  }
});

Deno.test("limit ends a call, and `more` says that others match", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const jobs: string[] = [];
    for (let n = 0; n < 5; n++) jobs.unshift(await newJob(agent, { workflow }));
    const part = (limit: number) => bulk(agent, "cancel", { filter: { name: "sample" }, limit });
    const first = await part(2);
    assertEquals([first.matched, first.more, uuidsIn(first.canceled)], [2, true, jobs.slice(0, 2)]);
    const second = await part(3);
    assertEquals([second.matched, second.more], [3, false]);
    assertEquals(uuidsIn(second.canceled), jobs.slice(2));
  });
});

Deno.test("over a thousand jobs are changed in two calls, each job once", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    for (let n = 0; n < 11; n++) {
      await Promise.all(Array.from({ length: 100 }, () => newJob(agent, { workflow })));
    }
    const body = { filter: { workflow_uuid: workflow } };
    const [one, two] = [await bulk(agent, "cancel", body), await bulk(agent, "cancel", body)];
    assertEquals([one.matched, one.more, two.matched, two.more], [1000, true, 100, false]);
    assertEquals(new Set([...uuidsIn(one.canceled), ...uuidsIn(two.canceled)]).size, 1100);
    const counted = await agent.call("GET", "/jobs?execution=canceled&limit=1");
    assertEquals(counted.headers.get("x-count"), "1100");
  });
});

Deno.test("the refusal of one job is reported, and does not delay the others", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const target = "/a";
    const first = await newJob(agent, { workflow, target });
    await agent.call("POST", `/jobs/${first}/cancel`, {});
    const second = await newJob(agent, { workflow, target });
    await agent.call("POST", `/jobs/${second}/cancel`, {});
    const done = await bulk(agent, "retry", { filter: { target } });
    // Which of the two is made again first is not promised.
    const [made, ...others] = uuidsIn(done.retried);
    const other = made === first ? second : first;
    assertEquals([done.matched, made === other, others], [2, false, []]);
    const [refused] = done.refused as JsonObject[];
    assertEquals([refused?.uuid, refused?.code], [other, "ConflictError"]);
    assertStringIncludes(String(refused?.message), "with the same target and params");
    assertEquals(Object.keys(refused ?? {}), ["uuid", "code", "message"]);
  });
});

Deno.test("a canceled job that is being undone is refused by a retry of many", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent, { oncancel: [{ body: BODY }] });
    const uuid = await newJob(agent, { workflow });
    await claimJobs(agent.store, "11111111-0000-4000-8000-000000000001" as never, 1);
    await agent.call("POST", `/jobs/${uuid}/cancel`, {});
    const done = await bulk(agent, "retry", { filter: { workflow_uuid: workflow } });
    assertEquals([done.matched, done.retried, uuidsIn(done.refused)], [1, [], [uuid]]);
  });
});

Deno.test("calls on many jobs refuse unknown fields, naming each", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    const cases: [unknown, string[]][] = [
      [{}, ["filter"]],
      ["", ["filter"]],
      [{ filter: {} }, ["filter"]],
      [{ filter: null }, ["filter"]],
      [{ filter: "all" }, ["filter"]],
      [{ filter: { params: {} } }, ["filter.params"]],
      [{ filter: { name: "x" }, limit: 0 }, ["limit"]],
      [{ filter: { name: "x" }, limit: 1001 }, ["limit"]],
      [{ filter: { name: "x" }, limit: "5" }, ["limit"]],
      [{ filter: { name: "x" }, offset: 1 }, ["offset"]],
      [{ filter: { name: 7 } }, ["filter.name"]],
      [{ filter: { name: "a\0b" } }, ["filter.name"]],
      [{ filter: { target: null } }, ["filter.target"]],
      [{ filter: { workflow_uuid: "x" } }, ["filter.workflow_uuid"]],
      [{ filter: { since: "soon", until: true } }, ["filter.since", "filter.until"]],
      [{ filter: { execution: "succeeded" } }, ["filter.execution"]],
      [{ filter: { execution: "retried" } }, ["filter.execution"]],
      [{ filter: { params: [] } }, ["filter.params"]],
      [{ filter: { params: { a: {}, 'b"': 1 } } }, ["filter.params.a", 'filter.params.b"']],
      [{ filter: { params: { a: "\0" } } }, ["filter.params.a"]],
      [
        { filter: { params: Object.fromEntries("abcdefghi".split("").map((key) => [key, 1])) } },
        ["filter.params"],
      ],
    ];
    for (const verb of VERBS) {
      for (const [body, fields] of cases) {
        const answer = await agent.call("POST", `/agent/v1/jobs/${verb}`, body);
        assertRefused(answer, 409, "InvalidArgument");
        assertEquals([verb, body, fieldsOf(answer)], [verb, body, fields]);
      }
      const typo = await agent.call("POST", `/agent/v1/jobs/${verb}`, { filter: { nam: "x" } });
      assertMatch(assertRefused(typo, 409, "InvalidArgument"), /nearest known name is "name"/);
      assertEquals(fieldsOf(typo), ["filter.nam"]);
    }
    for (const [verb, execution] of [["cancel", "failed"], ["retry", "queued"]] as const) {
      const answer = await agent.call("POST", `/agent/v1/jobs/${verb}`, { filter: { execution } });
      assertRefused(answer, 409, "InvalidArgument");
    }
    assertEquals(listOf(await agent.call("GET", "/jobs")).map((job) => job.uuid), [uuid]);
    assertEquals(await executionOf(agent, uuid), "queued");
  });
});

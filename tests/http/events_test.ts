// GET /agent/v1/events over HTTP: what is sent, to whom, and from which place.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { EVENT_KINDS, EVENT_PAYLOADS } from "../../src/domain/event.ts";
import { type Description, parse } from "../../src/domain/description/description.ts";
import type { JobUuid } from "../../src/domain/id.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../src/domain/json.ts";
import { DEFAULT_HTTP_LIMITS, NO_LIMIT } from "../support/limits.ts";
import { until } from "../support/until.ts";
import { T0 } from "../support/job.ts";
import { type ReadEvent, readEvents } from "./event_reader.ts";
import {
  assertRefused,
  BODY,
  claimAll,
  endTask,
  fieldsOf,
  type HttpAgent,
  newJob,
  newWorkflow,
  NO_UUID,
  withHttpAgent,
} from "./http_agent.ts";
import { ADMIN, bearer, READ, withTokens } from "./token_agent.ts";

const PATH = "/agent/v1/events";
const MACHINE = "5f3c1f6e-2b0a-4c5e-9d53-0a8a4a9f1c11";

function jobOf({ data }: ReadEvent): JsonObject {
  assert(isJsonObject(data.job));
  return data.job;
}

const changeOf = ({ data }: ReadEvent): JsonValue => data.change ?? null;
const isEnd = (event: ReadEvent) => event.data.state === "succeeded";

/** Asserts that each payload is as its kind describes it, and nothing else. */
function assertDescribed(events: readonly ReadEvent[]): void {
  for (const { kind, data } of events) {
    const known = EVENT_KINDS.find((one) => one === kind);
    assert(known !== undefined, kind);
    const description: Pick<Description<unknown>, "read"> = EVENT_PAYLOADS[known];
    assertEquals(parse(description as Description<unknown>, data, "", kind), data);
  }
}

/** A job of two tasks that runs to its end. */
async function runJob(agent: HttpAgent, fields: JsonObject = {}): Promise<JobUuid> {
  const workflow = await newWorkflow(agent, {
    chain: [{ name: "first", body: BODY }, { name: "second", body: BODY }],
  });
  const uuid = await newJob(agent, { workflow, ...fields });
  await claimAll(agent);
  await endTask(agent, uuid, { kind: "continue" });
  await agent.store.info.append(uuid, { message: "half way", password: "hidden" }, T0, NO_LIMIT);
  await endTask(agent, uuid, { kind: "succeed" }, { name: "second" });
  return uuid;
}

Deno.test("the stream reports each step of a job in order, and a later reader the same", () =>
  withHttpAgent(async (agent) => {
    await using live = await readEvents(agent.url);
    await live.begun();
    const uuid = await runJob(agent, { target: `/machines/${MACHINE}`, colour: "red" });
    const events = await live.until(isEnd);
    assertEquals(events.map(({ kind }) => kind), ["job", "job", "job", "log", "job"]);
    assertEquals(
      events.map((event) => [changeOf(event), event.data.state ?? null, event.data.task ?? null]),
      [
        ["created", "queued", null],
        ["started", "running", { name: "first", phase: "chain", index: 0 }],
        ["task", "running", { name: "first", phase: "chain", index: 0 }],
        [null, null, null],
        ["succeeded", "succeeded", { name: "second", phase: "chain", index: 1 }],
      ],
    );
    assertEquals(events[2]?.data.next_task, { name: "second", phase: "chain", index: 1 });
    const [line] = events.filter(({ kind }) => kind === "log");
    assert(isJsonObject(line?.data.line));
    assertEquals(line.data.line.message, "half way");
    assertEquals(line.data.line.fields, { password: "***" });
    assert(events.every(({ data }) => data.job_uuid === uuid));
    assert(events.every(({ id }, at) => at === 0 || id > (events[at - 1]?.id ?? 0)));
    assertDescribed(events);
    // The summary is the one of the list.
    const summary = await agent.call("GET", `/agent/v1/jobs?uuid=${uuid}`);
    assert(isJsonObject(summary.body) && Array.isArray(summary.body.jobs));
    const last = events.at(-1);
    assert(last !== undefined);
    assertEquals(jobOf(last), summary.body.jobs[0]);
    for (
      const [query, headers] of [
        [`?last_event_id=${live.id - events.length}`, {}],
        [`?last_event_id=1`, { "last-event-id": String(live.id - events.length) }],
      ] as const
    ) {
      await using again = await readEvents(agent.url, query, headers);
      assertEquals(
        (await again.until(isEnd)).map(({ id, kind }) => [id, kind]),
        events.map(({ id, kind }) => [id, kind]),
      );
    }
  }));

Deno.test("a filter sends only events that match each of its keys", () =>
  withHttpAgent(async (agent) => {
    const uuid = await runJob(agent, { target: `/machines/${MACHINE}` });
    const other = await runJob(agent);
    const read = async (query: string, last: (event: ReadEvent) => boolean) => {
      await using reader = await readEvents(agent.url, `?last_event_id=0&${query}`);
      return await reader.until(last);
    };
    const ofOther = await read(`job=${other}`, isEnd);
    assert(ofOther.length === 5 && ofOther.every(({ data }) => data.job_uuid === other));
    const both = await read(
      `job=${uuid.toUpperCase()},${other}`,
      (event) => isEnd(event) && event.data.job_uuid === other,
    );
    assertEquals(both.length, 10);
    const logs = await read("kind=log", ({ data }) => data.job_uuid === other);
    assertEquals(logs.map(({ kind }) => kind), ["log", "log"]);
    const ofMachine = await read(`machine=${MACHINE}&kind=job,machine`, isEnd);
    assert(ofMachine.length === 4 && ofMachine.every(({ data }) => data.job_uuid === uuid));
  }));

Deno.test("a failed attempt, a wait, a cancel, a retry and a removal are events of a job", () =>
  withHttpAgent(async (agent) => {
    await using live = await readEvents(agent.url, "?kind=job");
    await live.begun();
    const uuid = await newJob(agent);
    await claimAll(agent);
    await endTask(agent, uuid, { kind: "cb_wait" });
    await agent.call("POST", `/jobs/${uuid}/cancel`, {});
    const retried = await agent.call("POST", `/agent/v1/jobs/${uuid}/retry`, {});
    assertEquals(retried.status, 201);
    await agent.store.jobs.prune(
      { age_ms: 0, finished_max: 1, limit: 10 },
    );
    const events = await live.until((event) => changeOf(event) === "removed");
    const changes = events.map((event) => `${changeOf(event)} ${event.data.job_uuid === uuid}`);
    // Between two reads the job went on: only its removal is left to tell of.
    assertEquals(changes.at(-1), "removed true");
    assertEquals([events.at(-1)?.data.job, events.at(-1)?.data.state], [null, null]);
    assertDescribed(events);
  }));

Deno.test("an id that is too old or unknown gets a reset with the position to continue from", () =>
  withHttpAgent(async (agent) => {
    await runJob(agent);
    const { last } = await agent.store.events.bounds();
    for (const id of [String(last + 1), "9".repeat(16), "abc", "-1", "1e3"]) {
      await using reader = await readEvents(agent.url, "", { "last-event-id": id });
      const reset = await reader.next();
      assertEquals(reset, {
        id: last,
        kind: "reset",
        data: { reason: "unknown", position: String(last) },
      });
    }
    await using reader = await readEvents(agent.url, "", { "last-event-id": String(last + 1) });
    await reader.begun();
    const uuid = await newJob(agent);
    const [reset, created] = await reader.until((event) => changeOf(event) === "created");
    assertEquals([reset?.kind, created?.data.job_uuid], ["reset", uuid]);
    // The very last one is known.
    await using known = await readEvents(agent.url, `?last_event_id=${last}`);
    assertEquals((await known.next())?.data.job_uuid, uuid);
  }));

Deno.test("a caller of scope read sees no params", () =>
  withTokens(async (agent) => {
    const workflow = await agent.store.workflows.list({});
    assertEquals(workflow, []);
    const made = await agent.call(
      "POST",
      "/workflows",
      { name: "w", chain: [{ name: "first", body: BODY }] },
      bearer(ADMIN),
    );
    assert(isJsonObject(made.body));
    await agent.call(
      "POST",
      "/jobs",
      { workflow: made.body.uuid, colour: "red" },
      bearer(ADMIN),
    );
    const seen: JsonValue[] = [];
    for (const token of [READ, ADMIN]) {
      await using reader = await readEvents(agent.url, "?last_event_id=0", bearer(token));
      const event = await reader.next();
      assert(event !== undefined);
      seen.push(jobOf(event).params ?? null);
    }
    assertEquals(seen, [{ colour: "***" }, { colour: "red" }]);
  }));

Deno.test("secrets of a workflow are masked in progress and in log lines", () =>
  withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent, { secret_params: ["colour"] });
    const uuid = await newJob(agent, { workflow, colour: "red" });
    await claimAll(agent);
    const said = { colour: "red", password: "hidden", done: 1 };
    await agent.store.info.append(uuid, { task: "first", message: "on", ...said }, T0, NO_LIMIT);
    await agent.store.info.append(uuid, { task: "first", progress: said }, T0, NO_LIMIT);
    await using reader = await readEvents(agent.url, "?last_event_id=0&kind=job,log");
    const events = await reader.until(({ data }) =>
      isJsonObject(data.line) && data.line.progress !== null
    );
    const masked = { colour: "***", password: "***", done: 1 };
    const [created] = events;
    assert(created !== undefined);
    assertEquals([jobOf(created).params, jobOf(created).progress], [{ colour: "***" }, masked]);
    const lines = events.flatMap(({ data }) => isJsonObject(data.line) ? [data.line] : []);
    assertEquals(lines.map(({ fields, progress }) => fields ?? progress), [masked, masked]);
  }));

Deno.test("a query with an unknown key, a wrong word or an unknown job is refused", () =>
  withHttpAgent(async (agent) => {
    for (
      const [query, field] of [
        ["jobs=1", "jobs"],
        ["kind=jobs", "kind"],
        ["kind=", "kind"],
        ["job=abc", "job"],
        ["machine=", "machine"],
        ["last_event_id=", "last_event_id"],
        ["kind=job&kind=log", "kind"],
      ] as const
    ) {
      const answer = await agent.call("GET", `${PATH}?${query}`);
      assertRefused(answer, 409, "InvalidArgument");
      assertEquals(fieldsOf(answer), [field]);
    }
    const unknown = await agent.call("GET", `${PATH}?job=${NO_UUID}`);
    assertRefused(unknown, 404, "ResourceNotFound");
  }));

Deno.test("streams are limited in number, do not count as requests, and end with the agent", () =>
  withHttpAgent(
    async (agent) => {
      await using first = await readEvents(agent.url);
      await using second = await readEvents(agent.url);
      await first.begun();
      await second.begun();
      const refused = await agent.call("GET", PATH);
      assert(assertRefused(refused, 503, "ServiceUnavailable").includes("2 are open"));
      assert(refused.headers.has("retry-after"));
      await first[Symbol.asyncDispose]();
      // The place is free once the agent has seen that its reader is gone.
      await using third = await until("a free place", async () => {
        const response = await readEvents(agent.url).catch(() => undefined);
        return response;
      });
      await third.begun();
      agent.closing.abort();
      assertEquals([await second.next(), await third.next()], [undefined, undefined]);
    },
    { limits: { ...DEFAULT_HTTP_LIMITS, eventStreamsMax: 2, requestsMax: 1 } },
  ));

Deno.test("HEAD of the stream answers its headers and ends", () =>
  withHttpAgent(async (agent) => {
    const answer = await agent.call("HEAD", PATH);
    assertEquals([answer.status, answer.text], [200, ""]);
    assertEquals(answer.headers.get("content-type"), "text/event-stream");
  }));

Deno.test("a reader that disconnects is forgotten", async () => {
  await assertRejects(
    () =>
      withHttpAgent(async (agent) => {
        const reader = await readEvents(agent.url);
        await reader.begun();
        await reader[Symbol.asyncDispose]();
        throw new Error("enough");
      }),
    Error,
    "enough",
  );
});

Deno.test("fields of log lines are masked for each scope by general names of secrets and those of the workflow", () =>
  withTokens(async (agent) => {
    const admin = bearer(ADMIN);
    const made = await agent.call("POST", "/workflows", {
      name: "w",
      secret_params: ["colour"],
      chain: [{ name: "first", body: BODY }],
    }, admin);
    assert(isJsonObject(made.body));
    const job = await agent.call("POST", "/jobs", { workflow: made.body.uuid }, admin);
    assert(isJsonObject(job.body));
    const said = { colour: "red", deep: [{ api_token: "t", password: "p" }], done: 1 };
    await agent.store.info.append(
      job.body.uuid as JobUuid,
      { message: "on", ...said },
      T0,
      NO_LIMIT,
    );
    const masked = { colour: "***", deep: [{ api_token: "***", password: "***" }], done: 1 };
    for (const token of [READ, ADMIN]) {
      await using reader = await readEvents(agent.url, "?last_event_id=0&kind=log", bearer(token));
      const event = await reader.next();
      assert(isJsonObject(event?.data.line));
      assertEquals(event.data.line.fields, masked);
    }
  }));

Deno.test("a reader that reconnects for one job or kind causes few reads, however many other events there are", () =>
  withHttpAgent(async (agent) => {
    const other = await newJob(agent);
    const uuid = await newJob(agent);
    const { last } = await agent.store.events.bounds();
    const lines = Array.from(
      { length: 9000 },
      (_, line) => agent.store.info.append(other, { message: "of another", line }, T0, NO_LIMIT),
    );
    await Promise.all(lines);
    await agent.store.info.append(uuid, { message: "mine" }, T0, NO_LIMIT);
    const end = (await agent.store.events.bounds()).last;
    const ofJob = await agent.store.events.after(0, 64, { job: [uuid] });
    assertEquals(ofJob.events.map(({ kind }) => kind), ["job", "log"]);
    assertEquals([ofJob.last, ofJob.more, ofJob.joins], [end, false, true]);
    // A kind or a machine is looked for among a bounded number of rows at a time.
    for (const filter of [{ kind: ["index"] }, { machine: [MACHINE as never] }] as const) {
      let pages = 0;
      for (let after = last; after < end; pages++) {
        const page = await agent.store.events.after(after, 64, filter);
        assertEquals(page.events, []);
        after = page.last;
      }
      assertEquals(pages, 3);
    }
    // Once the job is removed, that alone is sent.
    await agent.call("POST", `/jobs/${uuid}/cancel`, {});
    await agent.store.jobs.prune({ age_ms: 0, finished_max: 1, limit: 10 });
    await using reader = await readEvents(agent.url, `?job=${uuid}&last_event_id=0`);
    const removed = await reader.next();
    assertEquals([removed?.data.change, removed?.data.job_uuid], ["removed", uuid]);
  }));

// The views of jobs: the list of summaries, one of them, and its log.

import { assert, assertEquals, assertFalse, assertObjectMatch } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { JsonObject, JsonValue } from "../../src/domain/json.ts";
import { MASK } from "../../src/domain/masking.ts";
import { jobOf, T0, uuidOf, workflowOf } from "../support/job.ts";
import {
  type Answer,
  assertRefused,
  claimAll,
  endTask,
  fieldsOf,
  holdOf,
  type HttpAgent,
  jobIn,
  newJob,
  newWorkflow,
  NO_UUID,
  objectOf,
  withHttpAgent,
} from "./http_agent.ts";
import { ADMIN, bearer, READ, withTokens } from "./token_agent.ts";
import { NO_LIMIT } from "../support/limits.ts";

const VIEW = "/agent/v1/jobs";
const SECRET = "hunter2-hunter2";

function jobsOf(answer: Answer): JsonObject[] {
  assertEquals(answer.status, 200, answer.text);
  return objectOf(answer).jobs as JsonObject[];
}

async function summaryOf(
  agent: HttpAgent,
  uuid: string,
  token?: string,
): Promise<JsonObject> {
  const headers = token === undefined ? undefined : bearer(token);
  const answer = await agent.call("GET", `${VIEW}/${uuid}`, undefined, headers);
  assertEquals(answer.status, 200, answer.text);
  return objectOf(answer);
}

/** Asserts that an object has these members, whatever else it has. */
function assertHas(found: JsonObject, wanted: JsonObject): void {
  assertObjectMatch({ ...found }, { ...wanted });
}

/** Fails an attempt of the job's present task, after which another one follows. */
async function failAttempt(
  agent: HttpAgent,
  uuid: JobUuid,
  failures: number,
  waitSeconds: number,
  error: JsonValue = {
    name: "Error",
    message: `disk ${failures}\ndied`,
    api_token: SECRET,
  },
): Promise<void> {
  const { now } = agent.clock;
  const attempt = {
    task: "first",
    index: 0,
    attempt: failures + 1,
    fallback: false,
    error,
    started_at: T0,
    finished_at: now,
    wait_seconds: waitSeconds,
  };
  const hold = await holdOf(agent, uuid);
  const record = { ...hold, attempt, failures, elapsed_ms: 0 };
  assert(await agent.store.jobs.recordAttempt(record));
}

Deno.test("the list filters by several states, by their own words, in pages to the end", () =>
  withHttpAgent(async (agent) => {
    const states = ["queued", "waiting", "succeeded", "failed", "canceled"] as const;
    const uuids: string[] = [];
    for (const state of [...states].reverse()) uuids.unshift(await jobIn(agent, state));
    const whole = await agent.call("GET", VIEW);
    assertEquals(jobsOf(whole).map(({ state, uuid }) => [state, uuid]), [
      ...states.map((state, index) => [state, uuids[index] ?? ""]),
    ]);
    assertEquals(objectOf(whole).next, null);
    assertFalse(whole.text.includes("function"), "a source of a task is shown");
    const some = await agent.call("GET", `${VIEW}?state=failed,canceled,success`);
    assertEquals(jobsOf(some).map(({ state }) => state), ["succeeded", "failed", "canceled"]);
    const read: unknown[] = [];
    for (let cursor = ""; cursor !== "null";) {
      const page = await agent.call("GET", `${VIEW}?limit=2${cursor && `&cursor=${cursor}`}`);
      read.push(...jobsOf(page).map(({ uuid }) => uuid));
      assert(jobsOf(page).length <= 2);
      cursor = String(objectOf(page).next);
    }
    assertEquals(read, uuids);
  }));

Deno.test("the list filters by text, name, target and times, and refuses unknown keys", () =>
  withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent, { name: "rebuild" });
    const first = await newJob(agent, { target: "/web/1", machine: "m-1" });
    const second = await newJob(agent, { workflow, target: "/db/2" });
    const found = async (query: string) =>
      jobsOf(await agent.call("GET", `${VIEW}?${query}`)).map(({ uuid }) => uuid);
    assertEquals(await found("search=REBUILD"), [second]);
    assertEquals(await found("search=m-1"), [first]);
    assertEquals(await found("name=rebuild"), [second]);
    assertEquals(await found(`workflow_uuid=${workflow}`), [second]);
    assertEquals(await found("target=/web/1"), [first]);
    const third = await newJob(agent, { target: `/machines/${NO_UUID}` });
    assertEquals(await found(`machine=${NO_UUID.toUpperCase()}`), [third]);
    assertEquals(await found(`machine=${NO_UUID}&target=/web/1`), []);
    assertEquals(await found(`machine=${first}`), []);
    assertEquals(await found(`uuid=${first.slice(0, 13).toUpperCase()}`), [first]);
    assertEquals(await found(`params=${encodeURIComponent('{"machine":"m-1"}')}`), [first]);
    assertEquals(await found(`params=${encodeURIComponent('{"machine":"m-2"}')}`), []);
    assertEquals(await found(`since=${T0}`), [third, second, first]);
    assertEquals(await found(`until=${T0}`), []);
    assertEquals(await found(`finished_since=${T0}`), []);
    for (
      const [query, field] of [
        ["stat=failed", "stat"],
        ["state=failled", "state"],
        ["state=failed,", "state"],
        ["state=", "state"],
        ["state=failed&state=queued", "state"],
        ["offset=1", "offset"],
        ["limit=201", "limit"],
        ["limit=0", "limit"],
        ["uuid=abc", "uuid"],
        ["uuid=wxyz", "uuid"],
        ["machine=web-1", "machine"],
        [`machine=${NO_UUID.slice(0, 8)}`, "machine"],
        ["machine=", "machine"],
        [`machine=${NO_UUID},${NO_UUID}`, "machine"],
        ["search=", "search"],
        [`search=${"x".repeat(201)}`, "search"],
        ["cursor=x", "cursor"],
        [`cursor=${btoa("id 1 x; DROP")}`, "cursor"],
        ["since=yesterday", "since"],
        ["params=x", "params"],
        ["params={machine}", "params"],
        ["params={}", "params"],
        [`params=${encodeURIComponent('{"a b":1}')}`, "params.a b"],
      ] as const
    ) {
      const refused = await agent.call("GET", `${VIEW}?${query}`);
      assertRefused(refused, 409, "InvalidArgument");
      assertEquals([query, fieldsOf(refused)], [query, [field]]);
    }
  }));

Deno.test("a running job shows its task, and between two attempts the time of the next one", () =>
  withHttpAgent(async (agent) => {
    const workflow = workflowOf({ name: "retrying" });
    const target = `/machines/${uuidOf<JobUuid>(77)}`;
    const params = { machine: { alias: "web-1" } };
    await agent.store.jobs.create(jobOf(1, { workflow, target, params }), NO_LIMIT);
    const uuid = uuidOf<JobUuid>(1);
    assertHas(await summaryOf(agent, uuid), {
      state: "queued",
      reason: "waiting_for_slot",
      task: null,
      duration: null,
      machine: { uuid: uuidOf<JobUuid>(77), alias: "web-1" },
      host: "gz-7",
      attempts: [],
    });
    await claimAll(agent);
    agent.clock.now = instantAfter(T0, 4_000);
    const running = await summaryOf(agent, uuid);
    assertHas(running, {
      state: "running",
      reason: null,
      task: { name: "first", phase: "chain", index: 0, attempt: 1, since: T0, next_retry_at: null },
      tasks_done: 0,
      tasks_total: 2,
      elapsed: 4,
      duration: 4,
    });
    await failAttempt(agent, uuid, 0, 60);
    const next_retry_at = instantAfter(T0, 64_000);
    assertHas(await summaryOf(agent, uuid), {
      reason: "waiting_for_retry",
      task: { attempt: 2, since: null, next_retry_at },
    });
    agent.clock.now = instantAfter(T0, 70_000);
    const again = await summaryOf(agent, uuid);
    assertHas(again, {
      reason: null,
      task: { attempt: 2, since: next_retry_at, next_retry_at: null },
    });
    const [attempt] = again.attempts as JsonObject[];
    assertHas(attempt ?? {}, {
      task: "first",
      phase: "chain",
      attempt: 1,
      message: "disk 0 died",
      error: { name: "Error", api_token: MASK },
      wait_seconds: 60,
    });
    const failed = { error: { statusCode: 500, password: SECRET } };
    await endTask(agent, uuid, { kind: "fail", onerror: false }, failed);
    const end = await summaryOf(agent, uuid);
    assertHas(end, {
      state: "failed",
      error: `{"statusCode":500,"password":"${MASK}"}`,
      task: { name: "first", attempt: null },
      duration: 70,
    });
    assertFalse(JSON.stringify(end).includes(SECRET));
  }));

Deno.test("the log has ordered lines of one shape, read from the end, before or after a line", () =>
  withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    await claimAll(agent);
    const { info } = agent.store;
    await info.append(
      uuid,
      { task: "first", log: "warn", message: "hot", fields: { a: 1 } },
      T0,
      9,
      1,
    );
    await info.append(uuid, { task: "first", progress: { phase: "copy", done: 5 } }, T0, 9, 1);
    await failAttempt(agent, uuid, 0, 0);
    await agent.call("POST", `/jobs/${uuid}/info`, { message: { note: "by hand", n: [1] } });
    const call = { name: "vmadm.boot", args: {}, ms: 12, ended: "ok" };
    await info.append(uuid, { task: "first", zonewright_call: call }, T0, 9, 2);
    const log = async (query = "") =>
      objectOf(await agent.call("GET", `${VIEW}/${uuid}/log${query}`));
    const whole = await log();
    const lines = whole.lines as JsonObject[];
    const said = lines.map(({ level, message, progress, attempt, task, fields }) =>
      [level, message, progress, attempt, task, fields] as unknown
    );
    assertEquals(said, [
      ["warn", "hot", null, 1, "first", { a: 1 }],
      ["info", null, { phase: "copy", done: 5 }, 1, "first", null],
      ["warn", "attempt 1 failed: disk 0 died; the next one follows", null, 1, "first", {
        phase: "chain",
        error: { name: "Error", message: "disk 0\ndied", api_token: MASK },
        started_at: T0,
        wait_seconds: 0,
      }],
      ["info", "note, n", null, null, null, { note: "by hand", n: [1] }],
      ["info", "vmadm.boot: ok, 12 ms", null, 2, "first", { zonewright_call: call }],
    ]);
    const sequences = lines.map(({ sequence }) => Number(sequence));
    assertEquals(sequences, [...sequences].sort((one, other) => one - other));
    assertEquals([whole.before, whole.after, whole.more], [null, sequences[4], false]);
    const last = await log("?last=2");
    assertEquals([(last.lines as JsonObject[]).length, last.before, last.more], [
      2,
      sequences[3],
      true,
    ]);
    const before = await log(`?last=2&before=${last.before}`);
    assertEquals(
      (before.lines as JsonObject[]).map(({ sequence }) => sequence),
      sequences.slice(1, 3),
    );
    const after = await log(`?last=2&after=${sequences[0]}`);
    assertEquals(
      (after.lines as JsonObject[]).map(({ sequence }) => sequence),
      sequences.slice(1, 3),
    );
    assertEquals([after.after, after.before], [sequences[2], null]);
    const end = await log(`?after=${sequences[4]}`);
    assertEquals([end.lines, end.after, end.more], [[], sequences[4], false]);
    // The info of the job is as before.
    const entries = await agent.call("GET", `/jobs/${uuid}/info`);
    assertEquals((entries.body as unknown[]).length, 4);
    assertRefused(await agent.call("GET", `${VIEW}/${NO_UUID}/log`), 404, "ResourceNotFound");
    assertRefused(await agent.call("GET", `${VIEW}/${NO_UUID}`), 404, "ResourceNotFound");
    assertRefused(await agent.call("GET", `${VIEW}/${uuid}?full=true`), 409, "InvalidArgument");
  }));

Deno.test("no view shows a secret to any caller; params are shown to callers who may see them", () =>
  withTokens(async (agent) => {
    const workflow = { ...workflowOf(), secret_params: ["license_key"] };
    const params = {
      plain: "seen",
      license_key: SECRET,
      list: [{ root_pw: { old: SECRET } }],
      machine: { customer_metadata: { root_pw: SECRET, "user-script": SECRET } },
    };
    await agent.store.jobs.create(jobOf(1, { workflow, params }), NO_LIMIT);
    const uuid = uuidOf<JobUuid>(1);
    const fields = { list: [{ license_key: SECRET }], vnc_password: SECRET };
    await agent.store.info.append(uuid, { log: "info", message: "m", fields }, T0, NO_LIMIT);
    await agent.store.info.append(uuid, { api_token: { deep: SECRET } }, T0, NO_LIMIT);
    for (const token of [READ, ADMIN]) {
      for (const path of [VIEW, `${VIEW}/${uuid}`, `${VIEW}/${uuid}/log`]) {
        const answer = await agent.call("GET", path, undefined, bearer(token));
        assertEquals([path, answer.status], [path, 200]);
        assertFalse(answer.text.includes(SECRET), `${path} shows ${answer.text}`);
      }
    }
    const shownTo = async (token: string) =>
      objectOf(await agent.call("GET", `${VIEW}/${uuid}`, undefined, bearer(token))).params;
    assertEquals(await shownTo(ADMIN), {
      plain: "seen",
      license_key: MASK,
      list: [{ root_pw: MASK }],
      machine: { customer_metadata: { root_pw: MASK, "user-script": MASK } },
    });
    assertEquals(await shownTo(READ), {
      plain: MASK,
      license_key: MASK,
      list: MASK,
      machine: MASK,
    });
    assertEquals((await summaryOf(agent, uuid, ADMIN)).secret_params, ["license_key"]);
    const filter = `${VIEW}?params=${encodeURIComponent('{"plain":"seen"}')}`;
    const filtered = async (token: string) =>
      (await agent.call("GET", filter, undefined, bearer(token))).status;
    assertEquals([await filtered(ADMIN), await filtered(READ)], [200, 403]);
    const searched = async (token: string) =>
      jobsOf(await agent.call("GET", `${VIEW}?search=seen`, undefined, bearer(token))).length;
    assertEquals([await searched(ADMIN), await searched(READ)], [1, 0]);
  }));

Deno.test("no view shows a secret in a task's error, even where the error is cut", () =>
  withTokens(async (agent) => {
    const workflow = { ...workflowOf(), secret_params: ["license_key"] };
    await agent.store.jobs.create(jobOf(1, { workflow }), NO_LIMIT);
    const uuid = uuidOf<JobUuid>(1);
    await claimAll(agent);
    await failAttempt(agent, uuid, 0, 0, { license_key: SECRET, code: 17 });
    await failAttempt(agent, uuid, 1, 0, {
      license_key: SECRET,
      code: 18,
      more: "x".repeat(100_000),
    });
    await endTask(agent, uuid, { kind: "fail", onerror: false }, {
      error: { license_key: SECRET, code: 19 },
    });
    for (const path of [VIEW, `${VIEW}/${uuid}`, `${VIEW}/${uuid}/log`]) {
      const answer = await agent.call("GET", path, undefined, bearer(ADMIN));
      assertFalse(answer.text.includes(SECRET), `${path} shows ${answer.text}`);
    }
    const job = objectOf(await agent.call("GET", `${VIEW}/${uuid}`, undefined, bearer(ADMIN)));
    assertEquals(job.error, `{"license_key":"${MASK}","code":19}`);
    assertEquals((job.attempts as JsonObject[]).length, 2);
  }));

Deno.test("a misspelled query creates no machine: a route without a query refuses every key", () =>
  withHttpAgent(async (agent) => {
    const refused = await agent.call("POST", "/agent/v1/machines?dry_rum=true", {});
    assertRefused(refused, 409, "InvalidArgument");
    assertEquals(fieldsOf(refused), ["dry_rum"]);
    assertEquals(agent.hints, []);
  }));

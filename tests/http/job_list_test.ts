import { assertEquals, assertMatch } from "@std/assert";
import { instantAfter } from "../../src/domain/instant.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { T0 } from "../support/job.ts";
import {
  assertRefused,
  fieldsOf,
  type HttpAgent,
  jobIn,
  listOf,
  newJob,
  newWorkflow,
  objectOf,
  withHttpAgent,
} from "./http_agent.ts";

async function uuids(agent: HttpAgent, query: string): Promise<unknown[]> {
  const answer = await agent.call("GET", `/jobs${query}`);
  assertEquals(answer.status, 200);
  return listOf(answer).map(({ uuid }) => uuid);
}

Deno.test("GET /jobs filters by each execution", async () => {
  await withHttpAgent(async (agent) => {
    // The queued one comes last, so that no other claims it.
    const words = ["canceled", "succeeded", "failed", "waiting", "running", "queued"] as const;
    const jobs = new Map<string, string>();
    for (const word of words) jobs.set(word, await jobIn(agent, word));
    for (const word of words) {
      assertEquals(await uuids(agent, `?execution=${word}`), [jobs.get(word)]);
    }
    assertEquals(await uuids(agent, "?execution=success"), [jobs.get("succeeded")]);
    assertEquals(await uuids(agent, "?execution=failure"), [jobs.get("failed")]);
    assertEquals(await uuids(agent, "?execution=retried"), []);
    assertEquals(await uuids(agent, ""), [...jobs.values()].reverse());
  });
});

Deno.test("GET /jobs is answered with 409 naming an unknown query key or value", async () => {
  await withHttpAgent(async (agent) => {
    const cases: [string, string][] = [
      ["execution=done", "execution"],
      ["execution=", "execution"],
      ["execution=queued&execution=failed", "execution"],
      ["no%20sense=1", "no sense"],
      ["a%22b=1", 'a"b'],
      ["$.a=1", "$.a"],
      ["a[0]=1", "a[0]"],
      ["=1", ""],
      ["vm_uuid=1&vm_uuid=2", "vm_uuid"],
      ["p=%00", "p"],
      [`${"p".repeat(65)}=1`, "p".repeat(64)],
      ["p1=&p2=&p3=&p4=&p5=&p6=&p7=&p8=&p9=", "p9"],
      ["limit=0", "limit"],
      ["limit=-1", "limit"],
      ["limit=1e3", "limit"],
      ["limit=10001", "limit"],
      ["limit=", "limit"],
      ["offset=x", "offset"],
      ["workflow_uuid=sample", "workflow_uuid"],
      ["since=yesterday", "since"],
      ["until=2026-13-01", "until"],
      ["since=-1", "since"],
      ["since=1.5", "since"],
      ["until=253402300800000", "until"],
      ["until=1000000000000000", "until"],
    ];
    for (const [query, field] of cases) {
      const answer = await agent.call("GET", `/jobs?${query}`);
      assertRefused(answer, 409, "InvalidArgument");
      assertEquals(fieldsOf(answer), [field]);
    }
  });
});

Deno.test("GET /jobs lists newest first in pages, with the number of all in X-Count", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const jobs: string[] = [];
    for (let n = 0; n < 5; n++) jobs.unshift(await newJob(agent, { workflow }));
    const page = await agent.call("GET", "/jobs?limit=2&offset=1");
    assertEquals(listOf(page).map(({ uuid }) => uuid), jobs.slice(1, 3));
    assertEquals(page.headers.get("x-count"), "5");
    assertEquals(await uuids(agent, "?offset=4"), jobs.slice(4));
    assertEquals(await uuids(agent, "?offset=99"), []);
    const all = await agent.call("GET", "/jobs");
    assertEquals([listOf(all).length, all.headers.get("x-count")], [5, "5"]);
    const none = await agent.call("GET", "/jobs?execution=failed&limit=1");
    assertEquals([none.text, none.headers.get("x-count")], ["[]", "0"]);
  });
});

Deno.test("GET /jobs filters by target, name, workflow and time of creation", async () => {
  await withHttpAgent(async (agent) => {
    const [one, two] = [
      await newWorkflow(agent, { name: "one" }),
      await newWorkflow(agent, { name: "two" }),
    ];
    const early = await newJob(agent, { workflow: one, target: "/a b&c" });
    agent.clock.now = instantAfter(T0, 3_600_000);
    const late = await newJob(agent, { workflow: two });
    assertEquals(await uuids(agent, "?target=%2Fa%20b%26c"), [early]);
    assertEquals(await uuids(agent, "?target=%25"), []);
    assertEquals(await uuids(agent, "?name=two"), [late]);
    assertEquals(await uuids(agent, `?workflow_uuid=${one}`), [early]);
    assertEquals(await uuids(agent, `?since=${agent.clock.now}`), [late]);
    assertEquals(await uuids(agent, `?until=${agent.clock.now}`), [early]);
    // 15:00 in a zone two hours east of UTC, its plus sign not escaped.
    assertEquals(await uuids(agent, "?since=2026-01-01T15:00:00+02:00"), [late]);
    assertEquals(await uuids(agent, "?name=' OR 1=1 --"), []);
  });
});

Deno.test("since and until accept milliseconds since 1970 too, in either convention", async () => {
  for (const wording of ["document", "node-workflow"] as const) {
    await withHttpAgent(async (agent) => {
      const workflow = await newWorkflow(agent);
      const early = await newJob(agent, { workflow });
      agent.clock.now = instantAfter(T0, 1);
      const late = await newJob(agent, { workflow });
      const ms = Date.parse(T0);
      assertEquals(await uuids(agent, `?since=${ms + 1}`), [late]);
      assertEquals(await uuids(agent, `?until=${ms + 1}`), [early]);
      assertEquals(await uuids(agent, `?since=${ms}&until=${ms + 2}`), [late, early]);
      assertEquals(await uuids(agent, "?since=253402300799999"), []);
      assertEquals(await uuids(agent, "?since=0"), [late, early]);
    }, { wording });
  }
});

Deno.test("every other key of GET /jobs filters by the param of that name", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const job = (params: JsonObject) => newJob(agent, { workflow, ...params });
    const text = await job({ vm_uuid: "a", task: "boot", count: "5" });
    const number = await job({ vm_uuid: "b", count: 5 });
    const others = await job({ "a.b": true, none: null, __proto__x: 1, "0": "zero" });
    const nested = await job({ a: { b: "inner" }, list: [1, 2], empty: "" });
    const expected: [string, string[]][] = [
      ["vm_uuid=a", [text]],
      ["vm_uuid=a&task=boot", [text]],
      ["vm_uuid=a&task=halt", []],
      ["count=5", [number, text]],
      ["a.b=true", [others]],
      ["none=null", [others]],
      ["0=zero", [others]],
      ["a=%7B%22b%22%3A%22inner%22%7D", [nested]],
      ["list=%5B1%2C2%5D", [nested]],
      ["empty=", [nested]],
      ["b=inner", []],
      ["state=off", []],
      ["__proto__=1", []],
      ["vm_uuid=%27%20OR%201%3D1%20--", []],
      ["vm_uuid=b&execution=queued&limit=1", [number]],
      ["vm_uuid=b&execution=failed", []],
      ["p1=&p2=&p3=&p4=&p5=&p6=&p7=&p8=", []],
    ];
    for (const [query, found] of expected) {
      const answer = await agent.call("GET", `/jobs?${query}`);
      assertEquals([query, listOf(answer).map(({ uuid }) => uuid)], [query, found]);
      assertEquals(answer.headers.get("x-count"), String(found.length));
    }
  });
});

Deno.test("a misspelled filter is refused if nothing is found and no job has such a param", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const near = {
      exec: "execution",
      Execution: "execution",
      excution: "execution",
      tagret: "target",
      targets: "target",
      limits: "limit",
      workflow: "workflow_uuid",
      off: "offset",
    };
    for (const jobs of [0, 1]) {
      if (jobs > 0) await newJob(agent, { workflow, vm_uuid: "a" });
      for (const [key, known] of Object.entries(near)) {
        const answer = await agent.call("GET", `/jobs?vm_uuid=a&${key}=failed`);
        const message = assertRefused(answer, 409, "InvalidArgument");
        const words =
          `${key} is not a param of the newest 1000 jobs: the nearest filter is "${known}"`;
        assertEquals([message, fieldsOf(answer)], [`Cannot accept the query: ${words}`, [key]]);
      }
    }
    for (const [key, text] of [["state", ""], ["state", "failed"], ["Status", "success"]]) {
      const answer = await agent.call("GET", `/jobs?${key}=${text}`);
      assertMatch(assertRefused(answer, 409, "InvalidArgument"), /nearest filter is "execution"/);
    }
    // Names of params that clients look for before there is a job of them.
    for (const key of ["task", "size", "image_uuid", "creator_uuid", "ex", "state", "date"]) {
      assertEquals((await agent.call("GET", `/jobs?${key}=1`)).body, [], key);
    }
    const job = await newJob(agent, { workflow, exec: "failed", limits: 3, state: "failed" });
    assertEquals(await uuids(agent, "?state=failed"), [job]);
    assertEquals(await uuids(agent, "?state=queued"), []);
    assertEquals(await uuids(agent, "?exec=failed&limits=3"), [job]);
    assertEquals(await uuids(agent, "?exec=other"), []);
  });
});

Deno.test("GET /jobs shows each job like GET of that job", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newJob(agent, { target: "/a", x: 1 });
    const one = objectOf(await agent.call("GET", `/jobs/${uuid}`));
    assertEquals((await agent.call("GET", "/jobs")).body, [one]);
  });
});

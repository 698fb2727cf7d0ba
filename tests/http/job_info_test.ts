import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { assertRefused, fieldsOf, jobIn, newJob, withHttpAgent } from "./http_agent.ts";

Deno.test("GET /jobs/:job_uuid/info returns an empty array at first", async () => {
  await withHttpAgent(async (agent) => {
    const answer = await agent.call("GET", `/jobs/${await newJob(agent)}/info`);
    assertEquals([answer.status, answer.body], [200, []]);
  });
});

Deno.test("every POST to the info appends one member and is answered with 200 and an empty body", async () => {
  await withHttpAgent(async (agent) => {
    const path = `/jobs/${await newJob(agent)}/info`;
    const cases: [JsonObject, JsonObject][] = [
      [{ message: { "10%": "begun", n: 1 } }, { "10%": "begun", n: 1 }],
      [{ "20%": "whole" }, { "20%": "whole" }],
      [{ message: "a text" }, { message: "a text" }],
      [{ message: { a: 1 }, progress: 30 }, { message: { a: 1 }, progress: 30 }],
      [{ message: { ["long".repeat(100)]: 1 } }, { ["long".repeat(100)]: 1 }],
      [{ message: { message: { a: 1 } } }, { message: { a: 1 } }],
    ];
    for (const [body] of cases) {
      const answer = await agent.call("POST", path, body);
      assertEquals([answer.status, answer.text], [200, ""]);
    }
    assertEquals((await agent.call("GET", path)).body, cases.map(([, entry]) => entry));
    assertEquals((await agent.call("GET", `${path}?after=5`)).body, [{ message: { a: 1 } }]);
    assertEquals((await agent.call("GET", `${path}?after=3&limit=1`)).body, [
      { message: { a: 1 }, progress: 30 },
    ]);
    assertEquals((await agent.call("GET", `${path}?after=1&limit=2`)).body, [
      { "20%": "whole" },
      { message: "a text" },
    ]);
    assertEquals((await agent.call("GET", `${path}?limit=10000`)).body, cases.map((one) => one[1]));
    for (const query of ["after=x", "after=-1", "limit=0", "limit=10001", "limit=x", "first=1"]) {
      const answer = await agent.call("GET", `${path}?${query}`);
      assertRefused(answer, 409, "InvalidArgument");
      assertEquals(fieldsOf(answer), [query.split("=")[0]]);
    }
  });
});

Deno.test("info of a job that does not exist is not found, whatever the entry is", async () => {
  await withHttpAgent(async (agent) => {
    for (const body of [{ a: 1 }, {}, []]) {
      const answer = await agent.call("POST", `/jobs/${crypto.randomUUID()}/info`, body);
      assertRefused(answer, 404, "ResourceNotFound");
    }
  });
});

Deno.test("info of a finished job can be added to", async () => {
  await withHttpAgent(async (agent) => {
    const path = `/jobs/${await jobIn(agent, "succeeded")}/info`;
    assertEquals((await agent.call("POST", path, { late: true })).status, 200);
    assertEquals((await agent.call("GET", path)).body, [{ late: true }]);
  });
});

Deno.test("info refuses anything but a non-empty object, naming message", async () => {
  await withHttpAgent(async (agent) => {
    const path = `/jobs/${await newJob(agent)}/info`;
    for (const body of ["", {}, [], "null", "1", '"text"', { message: {} }]) {
      const answer = await agent.call("POST", path, body);
      assertRefused(answer, 409, "InvalidArgument");
      assertEquals(fieldsOf(answer), ["message"]);
    }
    assertEquals((await agent.call("GET", path)).body, []);
  });
});

Deno.test("info refuses entries over their size and beyond their number", async () => {
  const limits = { ...DEFAULT_HTTP_LIMITS, infoEntryBytesMax: 100, infoEntriesMax: 2 };
  await withHttpAgent(async (agent) => {
    const path = `/jobs/${await newJob(agent)}/info`;
    const large = { text: "ü".repeat(50) };
    assertRefused(await agent.call("POST", path, large), 413, "RequestEntityTooLarge");
    await agent.call("POST", path, { n: 1 });
    await agent.call("POST", path, { n: 2 });
    assertRefused(await agent.call("POST", path, { n: 3 }), 409, "ConflictError");
    assertEquals((await agent.call("GET", path)).body, [{ n: 1 }, { n: 2 }]);
  }, { limits });
});

Deno.test("info keeps the key __proto__ as data", async () => {
  await withHttpAgent(async (agent) => {
    const path = `/jobs/${await newJob(agent)}/info`;
    const text = '{"__proto__":{"polluted":true},"constructor":1}';
    assertEquals((await agent.call("POST", path, text)).status, 200);
    assertEquals((await agent.call("GET", path)).text, `[${text}]`);
    assertEquals(Object.hasOwn(Object.prototype, "polluted"), false);
  });
});

Deno.test("only the agent can write entries in its name", () =>
  withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    const forged = await agent.call("POST", `/jobs/${uuid}/info`, {
      zonewright_call: { name: "x" },
    });
    assertEquals(forged.status, 409);
    const wrapped = { message: { zonewright_calls: {} } };
    assertEquals((await agent.call("POST", `/jobs/${uuid}/info`, wrapped)).status, 409);
    assertEquals((await agent.call("GET", `/jobs/${uuid}/info`)).body, []);
  }));

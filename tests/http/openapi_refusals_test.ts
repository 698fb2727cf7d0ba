// The refusals of the description: for each operation that describes one, a request that meets it,
// made of the description itself, and an answer that is described in every field.

import { systemNow } from "../../src/domain/instant.ts";
import { assert, assertEquals } from "@std/assert";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { JOB_REQUEST, MACHINE_UUID } from "../../src/http/openapi/schemas.ts";
import { localTransport } from "../../src/host/transport.ts";
import { openVmadm } from "../../src/host/vmadm/vmadm.ts";
import type { ServedAgent } from "../../src/http/served_agent.ts";
import { indexSyncRoutes } from "../../src/http/routes/index/mirror.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { type TestMirror, withMirror } from "../mirror/test_mirror.ts";
import { withExample, withIndex } from "./openapi_agent.ts";
import {
  type Answer,
  fieldsOf,
  type HttpAgent,
  MACHINE_DEPS,
  NO_UUID,
  objectOf,
  PROVISION,
  withHttpAgent,
} from "./http_agent.ts";
import {
  assertDescribed,
  isRefused,
  type Operation,
  operation,
  OPERATIONS,
  pathOf,
} from "./openapi_operations.ts";

const REAL = OPERATIONS.filter((one) => !isRefused(one));
/** Operations whose body has a content type, and no meaning that is read. */
const UNREAD = ["index_sync"];
const JSON_BODIES = REAL.filter(({ body }) => body?.type === "application/json");
const BODIES = JSON_BODIES.filter(({ id }) => !UNREAD.includes(id));

function assertRefusal(one: Operation, answer: Answer, status: number): void {
  assertEquals([one.id, answer.status, answer.text], [one.id, status, answer.text]);
  assertDescribed(one, answer);
}

/** Runs a test with an agent whose every path exists. */
async function withAgent(
  run: (agent: HttpAgent) => Promise<void>,
  changes: Partial<ServedAgent> = {},
): Promise<void> {
  await withIndex((routes) => withHttpAgent(run, { routes, ...changes }));
}

/** The required part of a query, by its examples. */
function queryOf({ parameters }: Operation, changes: Record<string, string> = {}): string {
  const required = parameters.filter((one) => one.in === "query" && one.required);
  const values = Object.fromEntries(required.map(({ name, example }) => [name, String(example)]));
  return `?${new URLSearchParams({ ...values, ...changes })}`;
}

Deno.test("a path with an unknown uuid or name answers 404 as described", async () => {
  await withAgent(async (agent) => {
    // An upload makes what its name stands for.
    const named = REAL.filter(({ id, path }) => path.includes("{") && id !== "media_upload");
    for (const one of named) {
      for (const value of [NO_UUID, "x", "\0", "a/b"]) {
        const names = one.parameters.filter((parameter) => parameter.in === "path");
        const values = Object.fromEntries(names.map(({ name }) => [name, value]));
        const body = one.body?.examples[0];
        assertRefusal(one, await agent.call(one.method, pathOf(one, values), body), 404);
      }
    }
    const nowhere = await agent.call("POST", "/jobs", { workflow: NO_UUID });
    assertRefusal(operation("job_create"), nowhere, 404);
    // No built-in workflow was put here.
    const [request] = operation("machine_create").body?.examples ?? [];
    const machine = await agent.call("POST", "/agent/v1/machines", request);
    assertRefusal(operation("machine_create"), machine, 404);
  });
});

Deno.test("a body that cannot be read answers 400, 413 and 415 as described", async () => {
  await withAgent(async (agent) => {
    for (const one of BODIES) {
      const call = (body: string, headers: HeadersInit = {}) =>
        agent.call(one.method, pathOf(one), body, headers);
      // Of a body that is read after its resource was looked for, nothing is said here.
      assertRefusal(one, await call("{"), 400);
      assertRefusal(one, await call(JSON.stringify("x".repeat(100))), 413);
    }
    for (const one of JSON_BODIES) {
      for (const type of ["text/plain", "application/json; charset=latin1"]) {
        const answer = await agent.call(one.method, pathOf(one), "{}", { "content-type": type });
        assertRefusal(one, answer, 415);
      }
    }
  }, { limits: { ...DEFAULT_HTTP_LIMITS, bodyBytesMax: 64 } });
});

Deno.test("a body that never arrives answers 408 as described", async () => {
  await withAgent(async (agent) => {
    for (const one of BODIES) {
      const body = new ReadableStream();
      const headers = { "content-type": "application/json" };
      const late = await fetch(agent.url + pathOf(one), { method: one.method, headers, body });
      const text = await late.text();
      const { status, headers: fields } = late;
      assertRefusal(one, { status, headers: fields, text, body: JSON.parse(text) }, 408);
    }
  }, { limits: { ...DEFAULT_HTTP_LIMITS, bodySeconds: 0.05 } });
});

Deno.test("a required field that is missing answers 409 and is named", async () => {
  for (const one of BODIES) {
    const required = one.body?.schema.required;
    await withExample({}, "document", one.id, async (agent) => {
      for (const example of one.body?.examples ?? []) {
        for (const name of Array.isArray(required) ? required.map(String) : []) {
          const { [name]: _, ...rest } = isJsonObject(example) ? example : {};
          const answer = await agent.call(one.method, pathOf(one), rest);
          assertRefusal(one, answer, 409);
          assert(fieldsOf(answer).includes(name), `${one.id} without ${name}: ${answer.text}`);
        }
      }
      if (one.id === "job_cancel") return;
      assertRefusal(one, await agent.call(one.method, pathOf(one), []), 409);
    });
  }
});

Deno.test("a query value beyond its described limit answers 409, one at the limit does not", async () => {
  const queried = REAL.filter(({ path, parameters }) =>
    path.startsWith("/agent/v1/") || parameters.some((one) => one.in === "query")
  );
  await withIndex(async (routes) => {
    for (const one of queried) {
      await withExample({ routes }, "document", one.id, async (agent) => {
        const call = (changes: Record<string, string>) =>
          agent.call(
            one.method,
            pathOf(one) + queryOf(one, changes),
            one.body === undefined ? undefined : {},
          );
        assertRefusal(one, await call({ "no sense": "1" }), 409);
        for (const { name, in: place, schema } of one.parameters) {
          if (place !== "query") continue;
          for (const value of outside(schema)) {
            const answer = await call({ [name]: value });
            assertRefusal(one, answer, 409);
            assertEquals(fieldsOf(answer), [name], `${one.id} ${name}=${value}`);
          }
          for (const value of atLimit(schema)) {
            const answer = await call({ [name]: value });
            assertEquals([name, value, answer.status], [name, value, 200]);
          }
        }
      });
    }
  });
});

/** Values that a schema of a query parameter does not take. */
function outside({ type, enum: words, format, minimum, maximum }: JsonObject): string[] {
  if (type === "boolean") return ["maybe", "", "1"];
  if (words !== undefined) return ["other", ""];
  if (format === "uuid") return ["x"];
  if (type !== "integer") return [];
  const below = typeof minimum === "number" ? [String(minimum - 1)] : [];
  const above = typeof maximum === "number" ? [String(maximum + 1)] : [];
  return [...below, ...above, "1.5", "x", ""];
}

/** Values that it only just takes; of words, all. */
function atLimit({ enum: words, minimum, maximum }: JsonObject): string[] {
  if (Array.isArray(words)) return words.map(String);
  return [minimum, maximum].filter((limit) => typeof limit === "number").map(String);
}

Deno.test("a resource whose state does not allow a change answers 409 as described", async () => {
  const cases: readonly [id: string, seeded: string, body: JsonObject | undefined][] = [
    ["job_cancel", "job_get", {}], // a job that is finished
    ["job_resume", "job_get", {}],
    ["job_resume", "job_cancel", {}], // a job that is queued
    ["job_create", "job_list", { ...JOB_REQUEST }], // a job with the same target and params
    ["job_retry", "job_list", {}], // a job that is queued
    ["job_retry", "job_get", { from: "nowhere" }],
  ];
  for (const [id, seeded, body] of cases) {
    await withExample({}, "document", seeded, async (agent) => {
      const one = operation(id);
      assertRefusal(one, await agent.call(one.method, pathOf(one), body), 409);
    });
  }
  await withExample({}, "document", "", async (agent) => {
    const path = `/workflows/${PROVISION}`;
    const replaced = await agent.call("PUT", path, { name: "x" });
    assertRefusal(operation("workflow_replace"), replaced, 409);
    assertRefusal(operation("workflow_delete"), await agent.call("DELETE", path), 409);
    const create = operation("machine_create");
    const [example] = create.body?.examples ?? [];
    const request = { ...(isJsonObject(example) ? example : {}), uuid: MACHINE_UUID };
    // The example's job is one of this machine.
    assertRefusal(create, await agent.call("POST", "/agent/v1/machines", request), 409);
  });
});

Deno.test("a sync is refused without an upstream, and reports a failing one in its outcome", async () => {
  const sync = operation("index_sync");
  const through = (test: TestMirror, run: (agent: HttpAgent) => Promise<void>) =>
    withHttpAgent(run, {
      routes: [
        indexSyncRoutes({
          mirror: test.mirror,
          index: test.store.index,
          limits: DEFAULT_HTTP_LIMITS,
          log: silentLog,
          now: systemNow,
        }),
      ],
    });
  await withMirror((test) =>
    through(test, async (agent) => {
      for (const body of [{}, { wait: true }]) {
        const answer = await agent.call("POST", pathOf(sync), body);
        assertRefusal(sync, answer, 409);
      }
    }), { upstream: null });
  await withMirror((test) =>
    through(test, async (agent) => {
      test.server.outage = { kind: "status", status: 500 };
      const answer = await agent.call("POST", pathOf(sync), { wait: true });
      assertEquals([answer.status, objectOf(answer).outcome], [200, "failed"]);
      assertDescribed(sync, answer);
    })
  );
});

Deno.test("a host whose vmadm cannot be run answers 502 as described", async () => {
  const transport = localTransport({ vmadm: "/nonexistent/vmadm", zonesRoot: "/zones" });
  const vmadm = openVmadm(transport);
  const machines = { ...MACHINE_DEPS, vmadm };
  await withHttpAgent(async (agent) => {
    for (const id of ["machine_list", "machine_get", "machine_vnc", "machine_console"]) {
      const one = operation(id);
      assertRefusal(one, await agent.call("GET", pathOf(one)), 502);
    }
  }, { machines });
});

Deno.test("every operation answers 403 to a foreign page and 503 to overload as described", async () => {
  await withAgent(async (agent) => {
    for (const one of REAL) {
      const origin = { origin: "https://foreign.example.com" };
      const [body] = one.body?.examples ?? [];
      assertRefusal(one, await agent.call(one.method, pathOf(one), body, origin), 403);
    }
  });
  await withAgent(async (agent) => {
    for (const one of REAL) {
      const answer = await agent.call(one.method, pathOf(one));
      assertRefusal(one, answer, 503);
      assertEquals(objectOf(answer).error_code, "overloaded");
    }
  }, { limits: { ...DEFAULT_HTTP_LIMITS, requestsMax: 0 } });
});

Deno.test("every operation answers 500 to a defect as described, without its message", async () => {
  await withAgent(async (agent) => {
    await agent.store.close();
    const one = operation("job_list");
    const answer = await agent.call("GET", "/jobs");
    assertRefusal(one, answer, 500);
  });
});

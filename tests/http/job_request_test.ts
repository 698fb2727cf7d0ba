// POST /jobs: locks, callbacks, and how many jobs there may be.

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { DEFAULT_HTTP_LIMITS, NO_LIMIT } from "../support/limits.ts";
import { jobOf } from "../support/job.ts";
import {
  assertRefused,
  claimAll,
  endTask,
  fieldsOf,
  newJob,
  newWorkflow,
  objectOf,
  withHttpAgent,
} from "./http_agent.ts";

Deno.test("while a job locks a target, no other job of that target is created", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const locks = "^/machines/(a|b)$";
    const holder = await newJob(agent, { workflow, target: "/machines/a", locks, n: 0 });
    assertEquals(objectOf(await agent.call("GET", `/jobs/${holder}`)).locks, locks);
    for (const target of ["/machines/a", "/machines/b"]) {
      const answer = await agent.call("POST", "/jobs", { workflow, target });
      assertStringIncludes(assertRefused(answer, 409, "ConflictError"), holder);
      assertEquals(fieldsOf(answer), ["target"]);
    }
    await newJob(agent, { workflow, target: "/machines/c" });
    await newJob(agent, { workflow });
    await claimAll(agent);
    const running = await agent.call("POST", "/jobs", { workflow, target: "/machines/b" });
    assertEquals(running.status, 409);
    await endTask(agent, holder, { kind: "fail", onerror: false });
    await newJob(agent, { workflow, target: "/machines/b" });
  });
});

Deno.test("a cancel ends a lock too", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const holder = await newJob(agent, { workflow, locks: "disk" });
    const request = { workflow, target: "/disk/1" };
    assertEquals((await agent.call("POST", "/jobs", request)).status, 409);
    await agent.call("POST", `/jobs/${holder}/cancel`, {});
    assertEquals((await agent.call("POST", "/jobs", request)).status, 201);
  });
});

Deno.test("invalid locks, and those that are not linear, are answered with 409 naming them", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const wrong = ["(", "[", "(?=a)", "(a)\\1", "(?<!a)b", "*", "", 7, null, "x".repeat(257)];
    for (const locks of wrong) {
      const answer = await agent.call("POST", "/jobs", { workflow, locks });
      assertRefused(answer, 409, "InvalidArgument");
      assertEquals([locks, fieldsOf(answer)], [locks, ["locks"]]);
    }
    assertEquals((await agent.call("GET", "/jobs")).body, []);
    await newJob(agent, { workflow, locks: "x".repeat(256) });
  });
});

Deno.test("a pattern that backtracking engines never finish is matched quickly", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    await newJob(agent, { workflow, locks: "^(a+)+$" });
    await newJob(agent, { workflow, target: `${"a".repeat(1000)}!` });
    const held = await agent.call("POST", "/jobs", { workflow, target: "a".repeat(1000) });
    assertEquals(held.status, 409);
  });
});

Deno.test("more locks than the limit are answered with 503 and Retry-After", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const requests = Array.from({ length: 256 }, (_, n) => jobOf(n + 1, { locks: `^/${n}$` }));
    await Promise.all(requests.map((request) => agent.store.jobs.create(request, NO_LIMIT)));
    const answer = await agent.call("POST", "/jobs", { workflow, locks: "^/a$" });
    assertMatch(assertRefused(answer, 503, "ServiceUnavailable"), /256 locks/);
    assertMatch(answer.headers.get("retry-after") ?? "", /^\d+$/);
    await newJob(agent, { workflow });
  });
});

Deno.test("more unfinished jobs than the limit are answered with 503 and Retry-After, until one ends", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const [first] = [await newJob(agent, { workflow }), await newJob(agent, { workflow })];
    const answer = await agent.call("POST", "/jobs", { workflow });
    assertMatch(assertRefused(answer, 503, "ServiceUnavailable"), /2 unfinished jobs/);
    assertMatch(answer.headers.get("retry-after") ?? "", /^\d+$/);
    await agent.call("POST", `/jobs/${first}/cancel`, {});
    await newJob(agent, { workflow });
  }, { limits: { ...DEFAULT_HTTP_LIMITS, unfinishedJobsMax: 2 } });
});

Deno.test("more workflows than the limit are answered with 503 and Retry-After, until one is deleted", async () => {
  await withHttpAgent(async (agent) => {
    const [first] = [await newWorkflow(agent), await newWorkflow(agent)];
    const answer = await agent.call("POST", "/workflows", { name: "third" });
    assertMatch(assertRefused(answer, 503, "ServiceUnavailable"), /there are 2/);
    assertMatch(answer.headers.get("retry-after") ?? "", /^\d+$/);
    await agent.call("DELETE", `/workflows/${first}`);
    await newWorkflow(agent);
  }, { limits: { ...DEFAULT_HTTP_LIMITS, workflowsMax: 2 } });
});

const HOSTS = { ...DEFAULT_HTTP_LIMITS, callbackHosts: ["hooks.example.com", "127.0.0.1:8080"] };

Deno.test("a callback to an allowed host is accepted, and shown with the job", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    for (const url of ["https://hooks.example.com/a?b=c", "http://127.0.0.1:8080/"]) {
      const uuid = await newJob(agent, { workflow, callback_url: url });
      const job = objectOf(await agent.call("GET", `/jobs/${uuid}`));
      assertEquals([job.callback_url, job.params], [url, {}]);
    }
  }, { limits: HOSTS });
});

Deno.test("a malformed callback is answered with 409, one to another host with 403", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const malformed: JsonObject["x"][] = [
      "",
      7,
      null,
      "hooks.example.com",
      "ftp://hooks.example.com/",
      "file:///etc/passwd",
      "https://user@hooks.example.com/",
      "https://hooks.example.com/#x",
      `https://hooks.example.com/${"x".repeat(2048)}`,
    ];
    for (const callback_url of malformed) {
      const answer = await agent.call("POST", "/jobs", { workflow, callback_url });
      assertRefused(answer, 409, "InvalidArgument");
      assertEquals([callback_url, fieldsOf(answer)], [callback_url, ["callback_url"]]);
    }
    for (
      const host of ["example.com", "hooks.example.com:444", "127.0.0.1", "hooks.example.com."]
    ) {
      const callback_url = `https://${host}/`;
      const answer = await agent.call("POST", "/jobs", { workflow, callback_url });
      assertMatch(assertRefused(answer, 403, "Forbidden"), /callback_host/);
      assertEquals(fieldsOf(answer), ["callback_url"]);
    }
    assertEquals((await agent.call("GET", "/jobs")).body, []);
  }, { limits: HOSTS });
});

Deno.test("without the setting no callback is allowed", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const callback_url = "https://hooks.example.com/";
    const answer = await agent.call("POST", "/jobs", { workflow, callback_url });
    assertMatch(assertRefused(answer, 403, "Forbidden"), /none is allowed/);
  });
});

Deno.test("an unfinished job says why it does not run, a running or finished one does not", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const exec_after = "2026-01-01T13:00:00.000Z";
    const late = await newJob(agent, { workflow, exec_after });
    const uuid = await newJob(agent, { workflow });
    const shown = async (of: string) => {
      const { reason, next_run_at } = objectOf(await agent.call("GET", `/jobs/${of}`));
      return [reason, next_run_at];
    };
    assertEquals(await shown(late), ["scheduled", exec_after]);
    assertEquals(await shown(uuid), ["waiting_for_slot", undefined]);
    await claimAll(agent);
    assertEquals(await shown(uuid), [undefined, undefined]);
    await endTask(agent, uuid, { kind: "cb_wait" });
    assertEquals(await shown(uuid), ["waiting_for_resume", undefined]);
    const resumed = objectOf(await agent.call("POST", `/jobs/${uuid}/resume`, {}));
    assertEquals(resumed.reason, "waiting_for_slot");
    await agent.call("POST", `/jobs/${uuid}/cancel`, {});
    assertEquals(await shown(uuid), [undefined, undefined]);
    agent.clock.now = "2026-01-01T13:00:00.000Z";
    assertEquals(await shown(late), ["waiting_for_slot", undefined]);
  });
});

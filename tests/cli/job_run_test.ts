// What `job run` can ask for besides params, against the real application.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { newWorkflow, withHttpAgent } from "../http/http_agent.ts";
import { document, said } from "./screen.ts";

Deno.test("job run --idempotency-key finds the job of the same request, and says so", () =>
  withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const line = ["job", "run", workflow, "-p", "a=1", "--idempotency-key", "order-7"];
    const first = await said(agent, line);
    assertEquals([first.code, first.err()], [0, ""]);
    const again = await said(agent, line);
    assertEquals([again.code, again.out()], [0, first.out()]);
    assertEquals(again.err(), `job ${first.out().trim()} was created by the same request before\n`);
    assertEquals(await agent.store.jobs.count({}), 1);
  }));

Deno.test("job run exits 6 for the key of another request, and names its job", () =>
  withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const line = ["job", "run", workflow, "--idempotency-key", "order-7"];
    const first = await said(agent, line);
    const other = await said(agent, [...line, "-p", "a=1"]);
    assertEquals([other.code, other.out()], [6, ""]);
    const uuid = first.out().trim();
    assertStringIncludes(other.err(), `hint: zonewright job get ${uuid}  shows it\n`);
  }));

Deno.test("job run refuses a key that no header can hold before it calls", () =>
  withHttpAgent(async (agent) => {
    for (const key of ["", "a b", "é", "a\n", "k".repeat(256)]) {
      const { code, err } = await said(agent, ["job", "run", "x", `--idempotency-key=${key}`]);
      assertEquals(code, 2, key);
      assertStringIncludes(err(), "--idempotency-key");
    }
    assertEquals(agent.log.some(({ path }) => path === "/jobs"), false);
  }));

Deno.test("job run --locks blocks other jobs of the targets, and the refusal names the job", () =>
  withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const holder = await said(agent, ["job", "run", workflow, "--locks", "^/vm/", "--json"]);
    const { uuid, locks } = document(holder) as Record<string, unknown>;
    assertEquals(locks, "^/vm/");
    const refused = await said(agent, ["job", "run", workflow, "--target", "/vm/1"]);
    assertEquals(refused.code, 6);
    assertStringIncludes(refused.err(), `hint: zonewright job get ${uuid}  shows it\n`);
    assertEquals((await said(agent, ["job", "run", workflow, "--target", "/host"])).code, 0);
    const broken = await said(agent, ["job", "run", workflow, "--locks", "("]);
    assertEquals(broken.code, 2);
    assertStringIncludes(broken.err(), "locks");
  }));

Deno.test("job run --callback-url is accepted for an allowed host only", () =>
  withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const run = (url: string) =>
      said(agent, ["job", "run", workflow, "--callback-url", url, "--json"]);
    const taken = document(await run("https://hooks.example/done")) as Record<string, unknown>;
    assertEquals(taken.callback_url, "https://hooks.example/done");
    const shown = await said(agent, ["job", "get", String(taken.uuid)]);
    assertStringIncludes(shown.out(), "https://hooks.example/done\n");
    const refused = await run("https://other.example/");
    assertEquals(refused.code, 1);
    assertStringIncludes(refused.err(), "callback_host");
    assertEquals((await run("nonsense")).code, 2);
  }, { limits: { ...DEFAULT_HTTP_LIMITS, callbackHosts: ["hooks.example"] } }));

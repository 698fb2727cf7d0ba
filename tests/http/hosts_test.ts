// The routes of hosts: with SQLite there is one, in a shared database those of all agents.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { instantAfter } from "../../src/domain/instant.ts";
import { lifeOf } from "../support/clocked_store.ts";
import { jobOf, RUNNER, T0 } from "../support/job.ts";
import { FACTS, LEASE, register } from "../store/host_suite.ts";
import { fleetTests, HOSTS } from "../store/postgres_fleet.ts";
import { create } from "../store/store_case.ts";
import {
  assertRefused,
  claimAll,
  fieldsOf,
  type HttpAgent,
  listOf,
  newJob,
  NO_UUID,
  objectOf,
  withHttpAgent,
} from "./http_agent.ts";
import { assertDescribed, operation } from "./openapi_operations.ts";
import { ADMIN, bearer, READ, withTokens } from "./token_agent.ts";

/** A key is for agents. */
const { public_key: _key, ...SHOWN_FACTS } = FACTS;

const PATH = "/agent/v1/hosts";
const SHOWN = {
  ...SHOWN_FACTS,
  capabilities: [...FACTS.capabilities],
  brands: [...FACTS.brands],
  allow_workflow: [],
  allow_caller: [],
  uuid: RUNNER,
  state: "connected",
  this_host: true,
  running: 0,
  queued: 0,
  generation: 1,
  seen_at: T0,
  age_seconds: 0,
  lease_seconds: LEASE / 1000,
  cordoned: false,
  forgotten: false,
};

const change = (agent: HttpAgent, name: string, verb: string) =>
  agent.call("POST", `${PATH}/${name}/${verb}`, {});

Deno.test("GET hosts shows the host of an SQLite store, and what runs on it", async () => {
  await withHttpAgent(async (agent) => {
    assertEquals((await agent.call("GET", PATH)).body, []);
    await register(agent.store);
    const answer = await agent.call("GET", PATH);
    assertEquals(listOf(answer), [SHOWN]);
    assertEquals(answer.headers.get("cache-control"), "no-store");
    await newJob(agent);
    await claimAll(agent);
    await newJob(agent);
    for (const name of [RUNNER, RUNNER.toUpperCase(), "gz01"]) {
      const one = await agent.call("GET", `${PATH}/${name}`);
      assertEquals(one.body, { ...SHOWN, running: 1, queued: 1 });
    }
  });
});

Deno.test("the host of an SQLite store can be cordoned and uncordoned, and its runner is notified", async () => {
  await withHttpAgent(async (agent) => {
    await register(agent.store);
    const cordoned = await change(agent, "gz01", "cordon");
    assertEquals([cordoned.status, cordoned.body], [200, {
      ...SHOWN,
      state: "cordoned",
      cordoned: true,
    }]);
    assertEquals((await change(agent, "gz01", "cordon")).body, cordoned.body);
    assertEquals((await change(agent, RUNNER, "uncordon")).body, SHOWN);
    assertEquals(agent.hints, ["host", "host"]);
  });
});

Deno.test("a connected host cannot be forgotten", async () => {
  await withHttpAgent(async (agent) => {
    await register(agent.store);
    const message = assertRefused(await agent.call("DELETE", `${PATH}/gz01`), 409, "ConflictError");
    assertEquals(
      message,
      `Cannot forget host ${RUNNER} (gz01): its agent was heard from 0 s ago, expected 30 s without a ` +
        "heartbeat",
    );
  });
});

Deno.test("an unknown host is answered with 404, and an option with 409", async () => {
  await withHttpAgent(async (agent) => {
    await register(agent.store);
    for (const name of [NO_UUID, "gz02", "%00", "gz01%2F"]) {
      const calls = [
        agent.call("GET", `${PATH}/${name}`),
        change(agent, name, "cordon"),
        change(agent, name, "uncordon"),
        agent.call("DELETE", `${PATH}/${name}`),
      ];
      for (const answer of await Promise.all(calls)) {
        assertRefused(answer, 404, "ResourceNotFound");
      }
    }
    const calls = [["POST", "/gz01/cordon"], ["POST", "/gz01/uncordon"], ["DELETE", "/gz01"]];
    for (const [method = "", path] of calls) {
      const answer = await agent.call(method, PATH + path, { force: true });
      assertRefused(answer, 409, "InvalidArgument");
      assertEquals(fieldsOf(answer), ["force"]);
    }
  });
});

Deno.test("a read token cannot change a host", async () => {
  await withTokens(async (agent) => {
    await register(agent.store);
    assertEquals((await agent.call("GET", PATH, undefined, bearer(READ))).status, 200);
    const calls = [["POST", "/gz01/cordon"], ["POST", "/gz01/uncordon"], ["DELETE", "/gz01"]];
    for (const [method = "", path] of calls) {
      assertRefused(await agent.call(method, PATH + path, {}, bearer(READ)), 403, "Forbidden");
    }
    assertEquals((await agent.call("POST", `${PATH}/gz01/cordon`, {}, bearer(ADMIN))).status, 200);
  });
});

const fleetTest = fleetTests();
const [ONE, OTHER] = HOSTS;

fleetTest(
  "GET hosts shows every host with its jobs, and marks the one that answers",
  async ({ one, other }) => {
    await register(one, lifeOf(ONE));
    await register(other, lifeOf(OTHER), [], { name: "gz02" });
    await create(one, jobOf(1));
    await create(one, jobOf(2));
    await one.jobs.claim(lifeOf(ONE), 1);
    await create(other, jobOf(3));
    await withHttpAgent(async (agent) => {
      const shown = listOf(await agent.call("GET", PATH)).map((
        { name, this_host, running, queued },
      ) => [name, this_host, running, queued]);
      assertEquals(shown, [["gz01", false, 1, 1], ["gz02", true, 0, 1]]);
    }, { store: other, hostUuid: OTHER });
  },
);

fleetTest("a name that several hosts have is refused with their uuids", async ({ one, other }) => {
  await register(one, lifeOf(ONE));
  await register(other, lifeOf(OTHER));
  await withHttpAgent(async (agent) => {
    const answer = await change(agent, "gz01", "cordon");
    assertStringIncludes(assertRefused(answer, 409, "InvalidArgument"), `${ONE}, ${OTHER}`);
    const { errors } = objectOf(answer);
    assertEquals(
      errors,
      [ONE, OTHER].map((message) => ({ field: "host", code: "Invalid", message })),
    );
    assertDescribed(operation("host_cordon"), answer);
    assertEquals(objectOf(await change(agent, ONE, "cordon")).state, "cordoned");
    // The runner here has another host.
    assertEquals(agent.hints, []);
  }, { store: other, hostUuid: OTHER });
});

fleetTest(
  "a host that is away can be forgotten with its jobs, and admitted again",
  async ({ one, other }) => {
    await register(one, lifeOf(ONE));
    await register(other, lifeOf(OTHER), [], { name: "gz02" });
    await create(one, jobOf(1));
    one.clock.now = instantAfter(T0, LEASE + 1000);
    await withHttpAgent(async (agent) => {
      const { state, age_seconds } = objectOf(await agent.call("GET", `${PATH}/gz01`));
      assertEquals([state, age_seconds], ["away", 31]);
      const answer = await agent.call("DELETE", `${PATH}/gz01`);
      assertDescribed(operation("host_forget"), answer);
      const { host, failed_jobs } = objectOf(answer);
      assertEquals([objectOf({ ...answer, body: host }).state, failed_jobs], ["forgotten", 1]);
      // No other host has the name.
      assertEquals(objectOf(await agent.call("GET", `${PATH}/gz01`)).state, "forgotten");
      assertEquals(objectOf(await agent.call("DELETE", `${PATH}/${ONE}`)).failed_jobs, 0);
      const admitted = objectOf(await change(agent, ONE, "uncordon"));
      assertEquals([admitted.state, admitted.forgotten], ["away", false]);
      const { events } = await other.events.after(0, 100, { kind: ["host"] });
      assertEquals(
        events.flatMap((event) => event.kind === "host" ? event.payload.change : []),
        ["registered", "registered", "forgotten", "uncordoned"],
      );
    }, { store: other, hostUuid: OTHER });
  },
);

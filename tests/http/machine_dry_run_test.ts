// POST /agent/v1/machines with dry_run: every check of the real request, and nothing made.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import type { ServedAgent } from "../../src/http/served_agent.ts";
import { assertDescribed, operation } from "./openapi_operations.ts";
import {
  assertRefused,
  type HttpAgent,
  MACHINE_DEPS,
  NO_MACHINES,
  objectOf,
  withHttpAgent,
} from "./http_agent.ts";

const UUID = "0f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f";
const BODY: JsonObject = {
  machine: { brand: "kvm", ram: 1024, alias: "web1", customer_metadata: { root_pw: "sesame" } },
  media: { path: "/media/installer.iso" },
};

async function withMachines(
  changes: Partial<ServedAgent["machines"]>,
  run: (agent: HttpAgent) => Promise<void>,
): Promise<void> {
  const machines = { ...MACHINE_DEPS, vmadm: NO_MACHINES, ...changes };
  await withHttpAgent(run, { machines });
}

async function dryRun(agent: HttpAgent, body: JsonObject = BODY): Promise<JsonObject> {
  const headers = { "idempotency-key": "order-1" };
  const request = { ...body, dry_run: true };
  const answer = await agent.call("POST", "/agent/v1/machines", request, headers);
  assertDescribed(operation("machine_create"), answer);
  assertEquals(answer.status, 200, answer.text);
  // Nothing is there, and nobody was woken for it.
  assertEquals(await agent.store.jobs.list({}), []);
  assertEquals(agent.hints, []);
  return objectOf(answer);
}

Deno.test("a dry run answers what would be made, with secrets masked, and makes nothing", async () => {
  await withMachines({}, async (agent) => {
    const { machine, problems, medium, possible, boot, uuid } = await dryRun(agent);
    assertEquals([possible, problems, boot, uuid], [true, [], "cd", null]);
    assertEquals(medium, { name: "install.iso", size: 1024 });
    const { alias, autoboot, customer_metadata } = machine as JsonObject;
    assertEquals([alias, autoboot], ["web1", false]);
    assertEquals(JSON.stringify(customer_metadata).includes("sesame"), false);
    // Under the same key, which is free: another request would else be refused.
    await dryRun(agent, { ...BODY, machine: { brand: "kvm", ram: 512 } });
  });
});

Deno.test("a dry run names every reason for a refusal, each with the status of the request", async () => {
  const taken = { uuid: UUID, alias: "old", brand: "kvm", state: "running" };
  const refuse = (code: "storage_full" | "invalid_argument", message: string) => () =>
    Promise.reject(new AgentError(code, message));
  await withMachines({
    vmadm: { ...NO_MACHINES, get: () => Promise.resolve(taken) },
    media: { expect: () => Promise.reject(new AgentError("not_found", "no such medium")) },
    payloadChecks: [
      refuse("invalid_argument", "no such network"),
      refuse("storage_full", "no room"),
      () => Promise.resolve(["Cannot ask the host for its room"]),
    ],
  }, async (agent) => {
    const { possible, problems, unchecked, medium } = await dryRun(agent, { ...BODY, uuid: UUID });
    assertEquals([possible, medium], [false, null]);
    const found = (problems as JsonObject[]).map(({ error_code, status }) => [error_code, status]);
    assertEquals(found, [
      ["conflict", 409],
      ["not_found", 404],
      ["invalid_argument", 409],
      ["storage_full", 507],
    ]);
    assertStringIncludes(String((problems as JsonObject[])[0]?.message), "has this uuid");
    assertEquals(unchecked, ["Cannot ask the host for its room"]);
  });
});

Deno.test("a dry run of an incorrect request is refused as the request is; dry_run is no query key", async () => {
  await withMachines({}, async (agent) => {
    const wrong = { ...BODY, machine: { brand: "lx", ram: 1024 }, dry_run: true };
    const answer = await agent.call("POST", "/agent/v1/machines", wrong);
    assertRefused(answer, 409, "InvalidArgument");
    for (const value of ["yes", 1, null]) {
      const odd = await agent.call("POST", "/agent/v1/machines", { ...BODY, dry_run: value });
      assertRefused(odd, 409, "InvalidArgument");
    }
    const query = await agent.call("POST", "/agent/v1/machines?dry_run=true", BODY);
    assertRefused(query, 409, "InvalidArgument");
    assertEquals(await agent.store.jobs.list({}), []);
  });
});

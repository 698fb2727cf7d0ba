// Acting on machines: the jobs that requests start, join or are refused for. What the jobs do is shown
// by machine_life_test.ts; here nobody runs them.

import { assert, assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import { randomUuid } from "../../src/domain/id.ts";
import type { JobUuid } from "../../src/domain/id.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { MACHINE_ACTIONS } from "../../src/domain/machine/action.ts";
import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
import { parseWorkflow } from "../support/parsed_workflow.ts";
import type { ServedAgent } from "../../src/http/served_agent.ts";
import { ACTION_WORKFLOWS, MACHINE_LIFE } from "../../src/machines/workflows/machine_life.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { T0 } from "../support/job.ts";
import {
  type Answer,
  assertRefused,
  claimAll,
  endTask,
  fieldsOf,
  type HttpAgent,
  listOf,
  MACHINE_DEPS,
  newWorkflow,
  NO_MACHINES,
  NO_UUID,
  objectOf,
  PROVISION,
  withHttpAgent,
} from "./http_agent.ts";
import { MACHINE, REQUEST, start } from "./machine_agent.ts";
import { taskOf } from "../support/job.ts";

const PATH = `/agent/v1/machines/${MACHINE}`;
const POSTED = MACHINE_ACTIONS.filter((action) => action !== "delete");

/** A host with one machine, which a test may change. */
async function withMachine(
  machine: JsonObject,
  run: (agent: HttpAgent, machine: JsonObject) => Promise<void>,
  changes: Partial<ServedAgent["machines"]> = {},
): Promise<void> {
  const there: JsonObject = { uuid: MACHINE, brand: "kvm", state: "running", ...machine };
  const vmadm = {
    ...NO_MACHINES,
    get: (uuid: string) => Promise.resolve(uuid === MACHINE && there.gone !== true ? there : null),
    list: () => Promise.resolve(there.gone === true ? [] : [there]),
  };
  await withHttpAgent(async (agent) => {
    const { workflows } = agent.store;
    for (const { uuid, definition } of Object.values(MACHINE_LIFE)) {
      const life = parseWorkflow(definition, uuid, randomUuid, DEFAULT_HTTP_LIMITS);
      await workflows.putBuiltin(life);
    }
    const uuid = PROVISION;
    const provision = { name: "provision-machine", chain: [taskOf("first")], onerror: [] };
    await workflows.putBuiltin({ uuid, ...provision });
    await run(agent, there);
  }, { machines: { ...MACHINE_DEPS, vmadm, ...changes } });
}

function startedOf(answer: Answer): JsonObject {
  assertEquals([answer.status, answer.text], [202, answer.text]);
  const started = objectOf(answer);
  assertEquals(answer.headers.get("location"), `/jobs/${started.job_uuid}`);
  assertEquals(started.uuid, MACHINE);
  return started;
}

async function finish(agent: HttpAgent, job: unknown, result: JsonObject = {}): Promise<void> {
  const uuid = job as JobUuid;
  await claimAll(agent);
  const params = (await agent.store.jobs.get(uuid))?.params;
  const next = { kind: "succeed" } as const;
  await endTask(agent, uuid, next, { result }, params);
}

Deno.test("every action is answered with 202 and a job of its built-in workflow", async () => {
  const states = { boot: "stopped", stop: "running", reboot: "running", eject: "stopped" };
  for (const action of POSTED) {
    await withMachine({ state: states[action] }, async (agent) => {
      const { job_uuid } = startedOf(await agent.call("POST", `${PATH}/${action}`, {}));
      const job = objectOf(await agent.call("GET", `/jobs/${job_uuid}`));
      assertEquals([job.workflow_uuid, job.name, job.target], [
        ACTION_WORKFLOWS[action],
        `machine-${action}`,
        `/machines/${MACHINE}`,
      ]);
      const files = action === "eject" ? { files: [] } : {};
      assertEquals(job.params, { uuid: MACHINE, ...files });
      assertEquals(agent.hints, ["queued"]);
    });
  }
  await withMachine({}, async (agent) => {
    const { job_uuid } = startedOf(
      await agent.call(
        "DELETE",
        PATH.toUpperCase().replace(
          "/AGENT/V1/MACHINES",
          "/agent/v1/machines",
        ),
      ),
    );
    assertEquals((await agent.store.jobs.get(job_uuid as JobUuid))?.name, "machine-delete");
  });
});

Deno.test("an equal action is answered with the unfinished job; a different one is refused naming it", async () => {
  await withMachine({}, async (agent) => {
    const first = startedOf(await agent.call("POST", `${PATH}/stop`, {}));
    const together = await Promise.all(
      Array.from({ length: 8 }, () => agent.call("POST", `${PATH}/stop`, {})),
    );
    assertEquals(together.map(startedOf), Array(8).fill(first));
    for (
      const [action, body] of [["stop", { force: true }], ["boot", {}], ["reboot", {}]] as const
    ) {
      const message = assertRefused(
        await agent.call("POST", `${PATH}/${action}`, body),
        409,
        "ConflictError",
      );
      assertStringIncludes(message, `job ${first.job_uuid} of workflow "machine-stop"`);
    }
    assertRefused(await agent.call("DELETE", PATH), 409, "ConflictError");
    const request = { ...REQUEST, uuid: MACHINE };
    const made = await agent.call("POST", "/agent/v1/machines", request);
    assertStringIncludes(assertRefused(made, 409, "ConflictError"), String(first.job_uuid));
    await finish(agent, first.job_uuid);
    assertNotEquals(startedOf(await agent.call("POST", `${PATH}/stop`, {})), first);
  });
});

Deno.test("of different simultaneous actions, one gets the machine, and the others are refused", async () => {
  await withMachine({}, async (agent) => {
    const different = ["stop", "reboot", "delete"] as const;
    const actions = Array.from({ length: 4 }, () => different).flat();
    const answers = await Promise.all(
      actions.map((action) =>
        action === "delete"
          ? agent.call("DELETE", PATH)
          : agent.call("POST", `${PATH}/${action}`, {})
      ),
    );
    const [job, ...others] = listOf(await agent.call("GET", "/jobs"));
    assertEquals(others, []);
    answers.forEach((answer, n) => {
      const action = actions[n];
      // The params of a delete are those of a stop: only the workflow tells them apart.
      if (job?.name === `machine-${action}`) {
        assertEquals(startedOf(answer).job_uuid, job.uuid, action);
      } else assertRefused(answer, 409, "ConflictError");
    });
  });
});

Deno.test("a job that creates the machine, or of another workflow, holds it too", async () => {
  await withMachine({ gone: true }, async (agent, machine) => {
    const { job_uuid } = await start(agent, { ...REQUEST, uuid: MACHINE });
    machine.gone = false;
    const refused = await agent.call("POST", `${PATH}/stop`, {});
    assertStringIncludes(assertRefused(refused, 409, "ConflictError"), String(job_uuid));
    await agent.call("POST", `/jobs/${job_uuid}/cancel`, {});
    // Finished jobs that are newer hide nothing.
    const workflow = await newWorkflow(agent);
    const target = `/machines/${MACHINE}`;
    const holder = objectOf(await agent.call("POST", "/jobs", { workflow, target, number: 0 }));
    await claimAll(agent);
    for (let number = 1; number <= 40; number += 1) {
      const later = objectOf(await agent.call("POST", "/jobs", { workflow, target, number }));
      await agent.call("POST", `/jobs/${later.uuid}/cancel`, {});
    }
    const held = await agent.call("POST", `${PATH}/stop`, {});
    assertStringIncludes(assertRefused(held, 409, "ConflictError"), String(holder.uuid));
  });
});

Deno.test("an unknown machine is answered with 404, a wrong state or brand with 409", async () => {
  await withMachine({ state: "provisioning" }, async (agent, machine) => {
    for (const action of POSTED) {
      for (const uuid of [NO_UUID, "x", "%2e%2e"]) {
        const path = `/agent/v1/machines/${uuid}/${action}`;
        assertRefused(await agent.call("POST", path, {}), 404, "ResourceNotFound");
      }
      const refused = await agent.call("POST", `${PATH}/${action}`, {});
      assertStringIncludes(assertRefused(refused, 409, "ConflictError"), '"provisioning"');
    }
    assertRefused(
      await agent.call("DELETE", `/agent/v1/machines/${NO_UUID}`),
      404,
      "ResourceNotFound",
    );
    const early = await agent.call("GET", `${PATH}/vnc`);
    assertStringIncludes(assertRefused(early, 409, "ConflictError"), '"provisioning"');
    Object.assign(machine, { brand: "joyent", state: "running" });
    for (const action of POSTED) {
      const refused = await agent.call("POST", `${PATH}/${action}`, {});
      assertStringIncludes(assertRefused(refused, 409, "ConflictError"), '"joyent"');
    }
    assertRefused(await agent.call("DELETE", PATH), 409, "ConflictError");
    assertRefused(await agent.call("GET", `${PATH}/vnc`), 409, "ConflictError");
    assertEquals(listOf(await agent.call("GET", "/jobs")), []);
  });
});

Deno.test("unknown options of an action are refused by name", async () => {
  await withMachine({}, async (agent) => {
    const cases: [string, JsonObject, string][] = [
      ["boot", { cdrom: "x.iso" }, "cdrom"],
      ["boot", { order: "cd,menu=on" }, "order"],
      ["stop", { force: 1 }, "force"],
      ["stop", { uuid: NO_UUID }, "uuid"],
      ["eject", { files: ["/../x.iso"] }, "files[0]"],
    ];
    for (const [action, body, field] of cases) {
      const answer = await agent.call("POST", `${PATH}/${action}`, body);
      assertRefused(answer, 409, "InvalidArgument");
      assertEquals(fieldsOf(answer), [field]);
    }
  });
});

Deno.test("the policy can protect machines that no job created from actions", async () => {
  const policy = { ...DEFAULT_POLICY, foreignMachines: "read" } as const;
  await withMachine({}, async (agent, machine) => {
    for (const action of POSTED) {
      assertRefused(await agent.call("POST", `${PATH}/${action}`, {}), 403, "Forbidden");
    }
    assertRefused(await agent.call("DELETE", PATH), 403, "Forbidden");
    machine.tags = { zonewright_job: NO_UUID };
    startedOf(await agent.call("POST", `${PATH}/stop`, {}));
  }, { policy });
});

Deno.test("a repeated request with one key gets the first job, a different one 409", async () => {
  await withMachine({}, async (agent) => {
    const key = { "idempotency-key": "reboot-1" };
    const first = await agent.call("POST", `${PATH}/reboot`, {}, key);
    assertEquals(first.headers.get("idempotency-replayed"), null);
    await finish(agent, startedOf(first).job_uuid);
    const again = await agent.call("POST", `${PATH}/reboot`, {}, key);
    assertEquals(startedOf(again), startedOf(first));
    assertEquals(again.headers.get("idempotency-replayed"), "true");
    for (const [action, body] of [["stop", {}], ["reboot", { force: true }]] as const) {
      const other = await agent.call("POST", `${PATH}/${action}`, body, key);
      assertRefused(other, 409, "ConflictError");
      assertEquals(fieldsOf(other), ["Idempotency-Key"]);
    }
    assertEquals(listOf(await agent.call("GET", "/jobs")).length, 1);
  });
});

Deno.test("a repeated request for a machine with one key creates one machine", async () => {
  await withMachine({ gone: true }, async (agent) => {
    const key = { "idempotency-key": "machine-1" };
    const post = (body: JsonObject) => agent.call("POST", "/agent/v1/machines", body, key);
    const answers = await Promise.all(Array.from({ length: 6 }, () => post(REQUEST)));
    assertEquals(new Set(answers.map(({ status }) => status)), new Set([202]));
    assertEquals(new Set(answers.map((answer) => objectOf(answer).uuid)).size, 1);
    const replayed = answers.filter(({ headers }) =>
      headers.get("idempotency-replayed") === "true"
    );
    assertEquals(replayed.length, 5);
    assertEquals(listOf(await agent.call("GET", "/jobs")).length, 1);
    const other = await post({ ...REQUEST, boot: "cd" });
    assertRefused(other, 409, "ConflictError");
    assertEquals(fieldsOf(other), ["Idempotency-Key"]);
    const malformed = { "idempotency-key": "a b" };
    const refused = await agent.call("POST", "/agent/v1/machines", REQUEST, malformed);
    assertRefused(refused, 409, "InvalidArgument");
  });
});

Deno.test("POST /jobs of an action's workflow follows the same rules", async () => {
  await withMachine({}, async (agent) => {
    const workflow = ACTION_WORKFLOWS.stop;
    const post = (fields: JsonObject) => agent.call("POST", "/jobs", { workflow, ...fields });
    assertRefused(await post({}), 409, "InvalidArgument");
    assertRefused(await post({ uuid: NO_UUID }), 404, "ResourceNotFound");
    const elsewhere = await post({ uuid: MACHINE, target: "/mine" });
    assertRefused(elsewhere, 409, "InvalidArgument");
    assertEquals(fieldsOf(elsewhere), ["target"]);
    const found = `Cannot accept target "/mine", expected /machines/${MACHINE}`;
    assertEquals(objectOf(elsewhere).message, found);
    assertEquals(fieldsOf(await post({ uuid: MACHINE, forse: true })), ["forse"]);
    const made = objectOf(await post({ uuid: MACHINE, force: true }));
    assertEquals([made.target, made.params], [
      `/machines/${MACHINE}`,
      { uuid: MACHINE, force: true },
    ]);
    assertRefused(await post({ uuid: MACHINE, force: true }), 409, "ConflictError");
    assertRefused(await post({ uuid: MACHINE }), 409, "ConflictError");
    await finish(agent, made.uuid);
    const retried = await agent.call("POST", `/agent/v1/jobs/${made.uuid}/retry`, {});
    assertEquals([retried.status, objectOf(retried).target], [201, `/machines/${MACHINE}`]);
    assertRefused(await agent.call("POST", `${PATH}/boot`, {}), 409, "ConflictError");
  });
});

Deno.test("an eject takes out the media known to be in the zone, and the machine shows the rest", async () => {
  await withMachine({ gone: true }, async (agent, machine) => {
    const { job_uuid } = await start(agent, { ...REQUEST, uuid: MACHINE });
    await claimAll(agent);
    const job = await agent.store.jobs.get(job_uuid as JobUuid);
    await agent.store.jobs.recordTask({
      job_uuid: job_uuid as JobUuid,
      runner_id: job?.runner_id ?? (NO_UUID as never),
      lease: job?.lease ?? 0,
      phase: "chain",
      position: 0,
      entry: {
        result: "OK",
        error: "",
        name: "first",
        started_at: T0,
        finished_at: T0,
        attempts: 1,
      },
      params: job?.params ?? {},
      props: { medium_file: "/install.iso" },
      elapsed_ms: 1,
      event: { kind: "succeed" },
    });
    Object.assign(machine, {
      gone: false,
      state: "stopped",
      disks: [{ path: "/drivers.iso", media: "cdrom" }],
    });
    const medium = async () => objectOf(await agent.call("GET", PATH)).medium;
    assertEquals(await medium(), "/install.iso");
    const { job_uuid: ejecting } = startedOf(await agent.call("POST", `${PATH}/eject`, {}));
    const files = ["/install.iso", "/drivers.iso"];
    assertEquals((await agent.store.jobs.get(ejecting as JobUuid))?.params.files, files);
    machine.disks = [];
    await finish(agent, ejecting, { uuid: MACHINE, files, removed: files });
    assertEquals(await medium(), null);
    const again = startedOf(await agent.call("POST", `${PATH}/eject`, {}));
    assertEquals((await agent.store.jobs.get(again.job_uuid as JobUuid))?.params.files, []);
  });
});

Deno.test("a deleted machine is gone, and its uuid is free", async () => {
  await withMachine({ gone: true }, async (agent, machine) => {
    const first = await start(agent, { ...REQUEST, uuid: MACHINE });
    await finish(agent, first.job_uuid);
    machine.gone = false;
    const { job_uuid } = startedOf(await agent.call("DELETE", PATH));
    await finish(agent, job_uuid);
    machine.gone = true;
    assertRefused(await agent.call("GET", PATH), 404, "ResourceNotFound");
    assertRefused(await agent.call("DELETE", PATH), 404, "ResourceNotFound");
    assertEquals((await agent.call("GET", "/agent/v1/machines")).body, []);
    const second = await start(agent, { ...REQUEST, uuid: MACHINE });
    assertNotEquals(second.job_uuid, first.job_uuid);
    assertEquals(objectOf(await agent.call("GET", PATH)).job_uuid, second.job_uuid);
  });
});

Deno.test("a delete can be repeated with its key, even after the machine is gone", async () => {
  await withMachine({}, async (agent, machine) => {
    const key = { "idempotency-key": "delete-1" };
    const first = await agent.call("DELETE", PATH, undefined, key);
    assertEquals(first.headers.get("idempotency-replayed"), null);
    await finish(agent, startedOf(first).job_uuid);
    machine.gone = true;
    const again = await agent.call("DELETE", PATH, undefined, key);
    assertEquals(startedOf(again), startedOf(first));
    assertEquals(again.headers.get("idempotency-replayed"), "true");
    assertRefused(await agent.call("DELETE", PATH), 404, "ResourceNotFound");
    const other = await agent.call("POST", `${PATH}/stop`, {}, key);
    assertRefused(other, 409, "ConflictError");
    assertEquals(fieldsOf(other), ["Idempotency-Key"]);
    const malformed = await agent.call("DELETE", PATH, undefined, { "idempotency-key": "a b" });
    assertRefused(malformed, 409, "InvalidArgument");
  });
});

Deno.test("a delete with fields in its body is refused", async () => {
  await withMachine({}, async (agent) => {
    const refused = await agent.call("DELETE", PATH, { force: true });
    const message = assertRefused(refused, 409, "InvalidArgument");
    assertStringIncludes(message, "force is unknown");
    assertEquals(fieldsOf(refused), ["force"]);
    for (const body of [[], 1]) {
      const answer = await agent.call("DELETE", PATH, body);
      assertStringIncludes(assertRefused(answer, 409, "InvalidArgument"), "body must be an object");
    }
    assertRefused(await agent.call("DELETE", PATH, "now"), 400, "InvalidContent");
    assertEquals((await agent.call("GET", "/jobs")).body, []);
    startedOf(await agent.call("DELETE", PATH, {}));
  });
});

Deno.test("machines are listed by state, brand and name, and by page", async () => {
  const machines = [
    { uuid: NO_UUID, brand: "bhyve", state: "stopped", zone_state: "installed", alias: "b" },
    { uuid: "6c1e8f0a-6a53-4c0c-9a3b-0d1f4e0a7a11", brand: "kvm", state: "running", alias: "a" },
    { uuid: "6c1e8f0a-6a53-4c0c-9a3b-0d1f4e0a7a12", brand: "kvm", state: "stopped", alias: "c" },
  ];
  const vmadm = { ...NO_MACHINES, list: () => Promise.resolve(machines) };
  await withMachine({ gone: true }, async (agent) => {
    await start(agent, { ...REQUEST, uuid: MACHINE });
    const uuids = async (query: string, count: number) => {
      const answer = await agent.call("GET", `/agent/v1/machines${query}`);
      assertEquals([query, answer.headers.get("x-count")], [query, String(count)]);
      return listOf(answer).map(({ uuid }) => uuid);
    };
    const [one, two, three] = machines.map(({ uuid }) => uuid);
    assertEquals(await uuids("", 4), [one, two, three, MACHINE]);
    assertEquals(await uuids("?state=stopped", 2), [one, three]);
    assertEquals(await uuids("?state=absent", 1), [MACHINE]);
    assertEquals(await uuids("?brand=kvm&state=stopped", 1), [three]);
    assertEquals(await uuids("?brand=kvm&limit=1&offset=1", 3), [three]);
    assertEquals(await uuids("?alias=a", 1), [two]);
    assertEquals(await uuids("?alias=none", 0), []);
    const [first] = listOf(await agent.call("GET", "/agent/v1/machines?limit=1"));
    assertEquals([first?.state, first?.zone_state, first?.medium], ["stopped", "installed", null]);
    for (const query of ["?name=a", "?state=Running", "?limit=0", "?state=a&state=b"]) {
      assertRefused(await agent.call("GET", `/agent/v1/machines${query}`), 409, "InvalidArgument");
    }
  }, { vmadm });
});

Deno.test("GET .../vnc returns vmadm's output with the password, and must not be cached", async () => {
  const console = { host: "127.0.0.1", port: 5901, display: 1, password: "abcd2345" };
  const vmadm = {
    ...NO_MACHINES,
    get: () => Promise.resolve({ uuid: MACHINE, brand: "kvm", state: "running" }),
    list: () => Promise.resolve([{ uuid: MACHINE, brand: "kvm", state: "running" }]),
    infoVnc: () => Promise.resolve({ host: "127.0.0.1", port: 5901, display: 1 }),
    vncConsole: () => Promise.resolve(console),
  };
  await withMachine({}, async (agent) => {
    const answer = await agent.call("GET", `${PATH}/vnc`);
    assertEquals([answer.status, answer.body], [200, { vnc: console }]);
    assertEquals(answer.headers.get("cache-control"), "no-store");
    const others = [await agent.call("GET", PATH), await agent.call("GET", "/agent/v1/machines")];
    for (const { text } of others) assert(!text.includes(console.password));
    assertEquals(objectOf(others[0] as Answer).console, `${PATH}/console`);
    assert(!JSON.stringify(agent.log).includes(console.password));
  }, { vmadm });
  await withMachine({}, async (agent) => {
    assertEquals((await agent.call("GET", `${PATH}/vnc`)).body, { vnc: {} });
    assertRefused(
      await agent.call("GET", `/agent/v1/machines/${NO_UUID}/vnc`),
      404,
      "ResourceNotFound",
    );
  });
});

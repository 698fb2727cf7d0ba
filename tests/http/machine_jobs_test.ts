// Making machines: the jobs that requests start, join or are refused for.

import {
  assert,
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertStringIncludes,
} from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { isUuid, randomUuid } from "../../src/domain/id.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { parseMachineRequest } from "../../src/domain/machine/machine.ts";
import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
import { openMachineJobs } from "../../src/machines/machine_jobs.ts";
import { machine as description, media } from "../domain/machine_request.ts";
import { RUNNER, uuidOf } from "../support/job.ts";
import {
  assertRefused,
  claimAll,
  fieldsOf,
  listOf,
  MACHINE_DEPS,
  newWorkflow,
  NO_MACHINES,
  objectOf,
  PROVISION,
  withHttpAgent,
} from "./http_agent.ts";
import { end, MACHINE, REQUEST, start, withHost, withMachines } from "./machine_agent.ts";

Deno.test("POST /agent/v1/machines answers 202 with a job of the built-in workflow", async () => {
  await withMachines(async (agent) => {
    const { uuid, job_uuid } = await start(agent, REQUEST);
    assert(isUuid(uuid));
    const job = objectOf(await agent.call("GET", `/jobs/${job_uuid}`));
    assertEquals([job.workflow_uuid, job.target], [PROVISION, `/machines/${uuid}`]);
    const { machine } = parseMachineRequest(REQUEST, DEFAULT_POLICY);
    assertEquals(job.params, { uuid, machine, media, boot: "cd" });
    assertEquals(agent.hints, ["queued"]);
    const other = await start(agent, REQUEST);
    assertNotEquals(other.uuid, uuid);
  });
});

Deno.test("POST /agent/v1/machines answers 409 naming the field that no machine can have", async () => {
  await withMachines(async (agent) => {
    const cases: [unknown, string][] = [
      ["", "machine"],
      [{ ...REQUEST, uuid: "x" }, "uuid"],
      [
        { ...REQUEST, machine: { ...description, qemu_extra_opts: "x" } },
        "machine.qemu_extra_opts",
      ],
      [{ ...REQUEST, media: { path: "/x.iso", url: "https://x/x.iso" } }, "media"],
      [{ ...REQUEST, boot: "net" }, "boot"],
    ];
    for (const [body, field] of cases) {
      const answer = await agent.call("POST", "/agent/v1/machines", body);
      assertRefused(answer, 409, "InvalidArgument");
      assertEquals([field, fieldsOf(answer).includes(field)], [field, true]);
    }
    assertEquals((await agent.call("GET", "/jobs")).body, []);
  });
});

Deno.test("without the built-in workflow a request for a machine answers 404", async () => {
  await withHttpAgent(async (agent) => {
    const answer = await agent.call("POST", "/agent/v1/machines", REQUEST);
    assertMatch(assertRefused(answer, 404, "ResourceNotFound"), /workflow \S+ is missing/);
    const job = await agent.call("POST", "/jobs", { workflow: PROVISION, ...REQUEST });
    assertMatch(assertRefused(job, 404, "ResourceNotFound"), /workflow \S+ is missing/);
  });
});

Deno.test("an equal request for the same uuid is answered with the existing job", async () => {
  await withMachines(async (agent) => {
    const body = { ...REQUEST, uuid: MACHINE };
    const first = await start(agent, body);
    assertEquals(first.uuid, MACHINE);
    const reordered = { uuid: MACHINE.toUpperCase(), boot: "cd", media, machine: description };
    assertEquals(await start(agent, reordered), first);
    await claimAll(agent);
    assertEquals(await start(agent, body), first);
    const together = await Promise.all(Array.from({ length: 8 }, () => start(agent, body)));
    assertEquals(together, Array(8).fill(first));
    assertEquals(listOf(await agent.call("GET", "/jobs")).length, 1);
  });
});

Deno.test("two requests for the same machine are equal, however they are written", async () => {
  await withMachines(async (agent) => {
    const nic = { nic_tag: "admin", model: "virtio", mac: "02:08:20:aa:bb:cc" };
    const asked = (changes: JsonObject) => ({
      uuid: MACHINE,
      machine: { brand: "kvm", ram: 1024, nics: [nic], ...changes },
      media,
    });
    const first = await start(agent, asked({}));
    const others = [
      { ram: "1024" },
      { autoboot: false },
      { nics: [{ ...nic, mac: nic.mac.toUpperCase(), primary: 0 }] },
    ];
    for (const changes of others) assertEquals(await start(agent, asked(changes)), first);
    for (const changes of others) {
      const answer = await agent.call("POST", "/jobs", { workflow: PROVISION, ...asked(changes) });
      assertStringIncludes(assertRefused(answer, 409, "ConflictError"), "the same");
    }
    assertEquals(listOf(await agent.call("GET", "/jobs")).length, 1);
    const other = await agent.call("POST", "/agent/v1/machines", asked({ ram: "2048" }));
    assertRefused(other, 409, "ConflictError");
  });
});

Deno.test("a job's machine shows numbers, even if the request had digits", async () => {
  await withMachines(async (agent) => {
    const machine = { brand: "kvm", ram: "512", vcpus: "2", alias: "büro 1" };
    const job = { workflow: PROVISION, uuid: MACHINE, machine, media };
    const answer = await agent.call("POST", "/jobs", job);
    assertEquals(answer.status, 201);
    const [shown] = listOf(await agent.call("GET", "/agent/v1/machines")) as JsonObject[];
    assertEquals([shown?.ram, shown?.vcpus, shown?.alias], [512, 2, "büro 1"]);
    const named = `/agent/v1/machines?alias=${encodeURIComponent("büro 1")}`;
    assertEquals(listOf(await agent.call("GET", named)).length, 1);
  });
});

Deno.test("a repeated request that waits for vmadm does not delay other requests", async () => {
  const { promise: reported, resolve: tell } = Promise.withResolvers<JsonObject>();
  const asked = Promise.withResolvers<void>();
  let calls = 0;
  const vmadm = {
    ...NO_MACHINES,
    get: () => {
      calls += 1;
      if (calls === 1) return Promise.resolve(null);
      asked.resolve();
      return reported;
    },
  };
  await withMachines(async (agent) => {
    const body = { ...REQUEST, uuid: MACHINE };
    const first = await start(agent, body);
    await end(agent, first.job_uuid, "succeeded");
    const repeated = start(agent, body);
    await asked.promise;
    assertNotEquals((await start(agent, REQUEST)).uuid, MACHINE);
    tell({ uuid: MACHINE });
    assertEquals(await repeated, first);
  }, { machines: { ...MACHINE_DEPS, vmadm } });
});

Deno.test("another request for a machine whose job is not finished answers 409 naming the job", async () => {
  await withMachines(async (agent) => {
    const first = await start(agent, { ...REQUEST, uuid: MACHINE });
    const other = { ...REQUEST, uuid: MACHINE, machine: { ...description, ram: 2048 } };
    const answer = await agent.call("POST", "/agent/v1/machines", other);
    const message = assertRefused(answer, 409, "ConflictError");
    const holder = `job ${first.job_uuid} of workflow "provision-machine" (${PROVISION})`;
    assert(message.includes(holder), message);
    await agent.call("POST", `/jobs/${first.job_uuid}/cancel`, {});
    assertNotEquals((await start(agent, other)).job_uuid, first.job_uuid);
  });
});

Deno.test("of different requests for one machine that arrive together one gets a job", async () => {
  await withMachines(async (agent) => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, n) => {
        const machine = { ...description, ram: 1024 + n };
        return agent.call("POST", "/agent/v1/machines", { ...REQUEST, uuid: MACHINE, machine });
      }),
    );
    const statuses = answers.map(({ status }) => status).sort();
    assertEquals(statuses, [202, ...Array<number>(7).fill(409)]);
  });
});

Deno.test("of different requests that two agents on one store get together one gets a job", async () => {
  await withMachines(async ({ store, clock }) => {
    const agents = [1, 2].map(() =>
      openMachineJobs({
        hostUuid: RUNNER,
        ...MACHINE_DEPS,
        store,
        vmadm: NO_MACHINES,
        unfinishedJobsMax: 100,
        now: () => clock.now,
        newUuid: randomUuid,
      })
    );
    const requests = Array.from({ length: 12 }, (_, n) => {
      // Each agent gets each of them: equal ones join.
      const machine = { ...description, ram: 1024 + n % 6 };
      return { ...REQUEST, uuid: MACHINE, machine };
    });
    const outcomes = await Promise.allSettled(
      requests.map(async (request, n) => (await agents[n < 6 ? 0 : 1]?.start(request))?.started),
    );
    const jobs = outcomes.flatMap((outcome) =>
      outcome.status === "fulfilled" ? [outcome.value?.job_uuid] : []
    );
    assertEquals([jobs.length, new Set(jobs).size, await store.jobs.count({})], [2, 1, 1]);
    for (const outcome of outcomes) {
      if (outcome.status === "fulfilled") continue;
      assertEquals(outcome.reason.code, "conflict");
      assertStringIncludes(outcome.reason.message, `job ${jobs[0]}`);
    }
  });
});

Deno.test("after a failed job the same request starts another", async () => {
  await withMachines(async (agent) => {
    const first = await start(agent, { ...REQUEST, uuid: MACHINE });
    await end(agent, first.job_uuid, "failed");
    const second = await start(agent, { ...REQUEST, uuid: MACHINE });
    assertNotEquals(second.job_uuid, first.job_uuid);
    const machine = objectOf(await agent.call("GET", `/agent/v1/machines/${MACHINE}`));
    assertEquals(machine.job_uuid, second.job_uuid);
  });
});

Deno.test("POST /jobs of the built-in workflow makes the machine its target, and refuses any other target", async () => {
  await withMachines(async (agent) => {
    const post = (fields: JsonObject) =>
      agent.call("POST", "/jobs", { workflow: PROVISION, ...fields });
    const named = objectOf(await post({ ...REQUEST, uuid: MACHINE, note: "kept" }));
    assertEquals(named.target, `/machines/${MACHINE}`);
    assertEquals(named.params, { ...REQUEST, uuid: MACHINE, note: "kept" });
    const unnamed = objectOf(await post(REQUEST));
    assertEquals(unnamed.target, `/machines/${unnamed.uuid}`);

    assertRefused(await post({ ...REQUEST, uuid: MACHINE }), 409, "ConflictError");
    assertRefused(await post({ ...REQUEST, uuid: MACHINE, boot: "cd" }), 409, "ConflictError");
    const elsewhere = await post({ ...REQUEST, uuid: uuidOf(3), target: "/mine" });
    assertRefused(elsewhere, 409, "InvalidArgument");
    assertEquals(fieldsOf(elsewhere), ["target"]);
    const foreign = await post({ ...REQUEST, target: `/machines/${uuidOf(4)}` });
    assertRefused(foreign, 409, "InvalidArgument");
    assertEquals(fieldsOf(foreign), ["target"]);
    assertEquals(
      objectOf(foreign).message,
      `Cannot accept target "/machines/${uuidOf(4)}", expected its uuid in params.uuid as well`,
    );
    const incorrect = await post({ ...REQUEST, machine: { brand: "lx" } });
    assertRefused(incorrect, 409, "InvalidArgument");
    const unread = await post({ ...REQUEST, locks: "(" });
    assertRefused(unread, 409, "InvalidArgument");
    assertEquals(fieldsOf(unread), ["locks"]);
    for (
      const fields of [
        { dry_run: true },
        { vnc_timeout: "5" },
        { vnc_timeout: 0 },
        { vnc_timeout: 601 },
      ]
    ) {
      const answer = await post({ ...REQUEST, ...fields, exec_after: "2099-01-01" });
      assertRefused(answer, 409, "InvalidArgument");
      assertEquals(fieldsOf(answer), Object.keys(fields));
    }
    assertEquals(listOf(await agent.call("GET", "/jobs")).length, 2);
  });
});

Deno.test("an equal request is answered with a succeeded job only while its machine is there", async () => {
  await withHost(async (agent, vmadm) => {
    const body = { ...REQUEST, uuid: MACHINE };
    const first = await start(agent, body);
    await vmadm.create({ ...description, autoboot: false, uuid: MACHINE });
    await end(agent, first.job_uuid, "succeeded");
    assertEquals(await start(agent, body), first);
    await vmadm.delete(MACHINE);
    assertNotEquals((await start(agent, body)).job_uuid, first.job_uuid);
  });
});

Deno.test("jobs that came after the one that made a machine do not hide it from a repeat", async () => {
  await withHost(async (agent, vmadm) => {
    const body = { ...REQUEST, uuid: MACHINE };
    const first = await start(agent, body);
    await end(agent, first.job_uuid, "succeeded");
    const other = { ...body, machine: { ...description, ram: 2048 } };
    await end(agent, (await start(agent, other)).job_uuid, "failed");
    await vmadm.create({ ...description, autoboot: false, uuid: MACHINE });
    const workflow = await newWorkflow(agent);
    const target = `/machines/${MACHINE}`;
    const job = objectOf(await agent.call("POST", "/jobs", { workflow, target }));
    await end(agent, job.uuid, "succeeded");
    assertEquals(await start(agent, body), first);
    assertRefused(await agent.call("POST", "/agent/v1/machines", other), 409, "ConflictError");
  });
});

Deno.test("a job of another workflow holds a machine while it is not finished, and is named", async () => {
  await withMachines(async (agent) => {
    const body = { ...REQUEST, uuid: MACHINE };
    const { machine } = parseMachineRequest(REQUEST, DEFAULT_POLICY);
    const params = { uuid: MACHINE, machine, media, boot: "cd" };
    const workflow = await newWorkflow(agent, { name: "mine" });
    const target = `/machines/${MACHINE}`;
    const mine = objectOf(await agent.call("POST", "/jobs", { workflow, target, ...params }));
    const wants = `job ${mine.uuid} of workflow "mine" (${workflow}) is not finished`;
    const started = await agent.call("POST", "/agent/v1/machines", body);
    const posted = await agent.call("POST", "/jobs", { workflow: PROVISION, ...params });
    for (const answer of [started, posted]) {
      const message = assertRefused(answer, 409, "ConflictError");
      assert(message.endsWith(wants), message);
    }
    await end(agent, mine.uuid, "succeeded");
    await start(agent, body);
  });
});

Deno.test("a finished job of another workflow does not open a machine that is being made", async () => {
  await withMachines(async (agent) => {
    const body = { ...REQUEST, uuid: MACHINE };
    const first = await start(agent, body);
    const workflow = await newWorkflow(agent);
    const target = `/machines/${MACHINE}`;
    const mine = objectOf(await agent.call("POST", "/jobs", { workflow, target }));
    await end(agent, mine.uuid, "succeeded");
    const other = { ...body, machine: { ...description, ram: 2048 } };
    const started = await agent.call("POST", "/agent/v1/machines", other);
    const posted = await agent.call("POST", "/jobs", { workflow: PROVISION, ...other });
    for (const answer of [started, posted]) {
      const message = assertRefused(answer, 409, "ConflictError");
      assert(message.includes(String(first.job_uuid)), message);
    }
    assertEquals(await start(agent, body), first);
  });
});

const TAKEN = { uuid: MACHINE, alias: "web1", brand: "kvm", state: "running" };
const TAKING = { ...MACHINE_DEPS, vmadm: { ...NO_MACHINES, get: () => Promise.resolve(TAKEN) } };

Deno.test("a uuid that another machine has is refused at once, naming that machine", async () => {
  await withMachines(async (agent) => {
    const answer = await agent.call("POST", "/agent/v1/machines", { ...REQUEST, uuid: MACHINE });
    const message = assertRefused(answer, 409, "ConflictError");
    assertEquals(
      message.startsWith(`Cannot make machine ${MACHINE}: machine "web1" (kvm, running)`),
      true,
    );
    const body = { workflow: PROVISION, uuid: MACHINE, ...REQUEST };
    const job = await agent.call("POST", "/jobs", body);
    assertEquals(assertRefused(job, 409, "ConflictError"), message);
    assertEquals(await agent.store.jobs.count({}), 0);
    // By then the machine may be gone: its preflight looks.
    const later = await agent.call("POST", "/jobs", {
      ...body,
      exec_after: "2100-01-01T00:00:00.000Z",
    });
    assertEquals(later.status, 201);
  }, { machines: TAKING });
});

Deno.test("a medium that does not exist is refused with 404 before a job is created", async () => {
  const missing = new AgentError("not_found", "Cannot use medium: it does not exist");
  const media = { expect: () => Promise.reject(missing) };
  await withMachines(async (agent) => {
    for (
      const [path, body] of [
        ["/agent/v1/machines", REQUEST],
        ["/jobs", { workflow: PROVISION, ...REQUEST }],
      ] as const
    ) {
      const answer = await agent.call("POST", path, body);
      assertEquals(assertRefused(answer, 404, "ResourceNotFound"), missing.message);
    }
    assertEquals(await agent.store.jobs.count({}), 0);
  }, { machines: { ...MACHINE_DEPS, vmadm: NO_MACHINES, media } });
});

Deno.test("a medium that its brand cannot boot, or that exceeds the quota, is refused before a job is created", async () => {
  const rows: [JsonObject, { name: string; size: number | null }, number, string][] = [
    [{ ...description, brand: "bhyve" }, { name: "disk.img", size: null }, 409, "bhyve machine"],
    [description, { name: "a.iso", size: 2000 * 1024 ** 3 }, 403, "policy.quota_gib_max"],
    [{ ...description, quota: 5 }, { name: "a.iso", size: 2000 * 1024 ** 3 }, 403, "2001 GiB"],
  ];
  for (const [machine, medium, status, words] of rows) {
    const media = { expect: () => Promise.resolve(medium) };
    await withMachines(async (agent) => {
      const artifact = { distro: "any", release: "latest" };
      const body = { machine, media: { artifact } };
      const answer = await agent.call("POST", "/agent/v1/machines", body);
      assertEquals([answer.status, answer.text.includes(words)], [status, true], answer.text);
      assertEquals(await agent.store.jobs.count({}), 0);
    }, { machines: { ...MACHINE_DEPS, vmadm: NO_MACHINES, media } });
  }
});

Deno.test("the same request under one key makes one machine, also when its medium is gone", async () => {
  let there = true;
  const media = {
    expect: () =>
      there
        ? Promise.resolve({ name: "a.iso", size: 1 })
        : Promise.reject(new AgentError("not_found", "it is gone")),
  };
  await withMachines(async (agent) => {
    const post = () =>
      agent.call("POST", "/agent/v1/machines", REQUEST, { "idempotency-key": "order-7" });
    const together = await Promise.all(Array.from({ length: 4 }, post));
    const uuids = new Set(together.map((answer) => objectOf(answer).uuid));
    assertEquals([uuids.size, await agent.store.jobs.count({})], [1, 1]);
    there = false;
    const again = await post();
    assertEquals([again.status, again.headers.get("idempotency-replayed")], [202, "true"]);
    assertEquals(objectOf(again), objectOf(together[0] ?? again));
  }, { machines: { ...MACHINE_DEPS, vmadm: NO_MACHINES, media } });
});

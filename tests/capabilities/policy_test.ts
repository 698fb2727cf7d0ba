// The operator's policy before every capability that changes the host.

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { CALL_RULES } from "../../src/capabilities/capability.ts";
import { policyOf } from "../../src/config/policy.ts";
import { type FlagValue, readConfig } from "../../src/config/sources.ts";
import { AgentError } from "../../src/domain/error.ts";
import type { JsonObject, JsonValue } from "../../src/domain/json.ts";
import { parseMachineRequest } from "../../src/domain/machine/machine.ts";
import type { Policy } from "../../src/domain/policy.ts";
import { CAPABILITIES, type CapabilityName } from "../../src/wall/protocol.ts";
import { machineUuidOf, withHost } from "./simulated_host.ts";

const UUID: string = machineUuidOf(1);
const { signal } = new AbortController();
const PAYLOAD: JsonObject = {
  brand: "kvm",
  ram: 256,
  vcpus: 1,
  quota: 12,
  disks: [{ model: "virtio", size: 1024 }],
  nics: [{ nic_tag: "admin", model: "virtio", ip: "dhcp" }],
};

/** The policy of an agent that is started with these flags. */
function policyWith(flags: Record<string, FlagValue>): Policy {
  return policyOf(readConfig({ flags, env: {}, cwd: "/", os: "linux" }).policy);
}

/** Flags of `serve`, and what of the payload they refuse. */
const NARROWED: readonly (readonly [string, FlagValue, string])[] = [
  ["allow-brand", ["bhyve"], "brand"],
  ["ram-mib-max", "255", "ram"],
  ["disk-mib-max", "1023", "disks[0].size"],
  ["disks-max", "0", "disks"],
  ["nics-max", "0", "nics"],
  ["quota-gib-max", "11", "quota"],
  ["allow-nic-tag", ["external"], "nics[0].nic_tag"],
  ["forbid-property", ["quota"], "quota"],
  ["forbid-property", ["nics.ip"], "nics[0].ip"],
];

for (const [flag, value, field] of NARROWED) {
  Deno.test(`--${flag} ${value} refuses ${field} to tasks and requests alike, and vmadm never hears of it`, async () => {
    const policy = policyWith({ [flag]: value });
    await withHost(async (host) => {
      await host.simulate("fault", "no_root");
      const { perform } = await host.newJob(1);
      const setting = `(setting policy.${flag.replaceAll("-", "_")})`;
      for (const name of ["vmadm.create", "vmadm.validate"] as const) {
        const call = () => perform(name, [{ ...PAYLOAD, uuid: UUID }], signal);
        const error = await assertRejects(call, AgentError);
        assertEquals(error.errors.map((one) => one.field), [`payload.${field}`], error.message);
        assertStringIncludes(error.message, setting);
      }
      const request = { machine: PAYLOAD, media: { path: "install.iso" } };
      const error = await assertRejects(async () => {
        await Promise.resolve(parseMachineRequest(request, policy));
      }, AgentError);
      assertEquals(error.errors.map((one) => one.field), [`machine.${field}`], error.message);
      assertStringIncludes(error.message, setting);
    }, { policy });
  });
}

Deno.test("with --foreign-machines read, no task changes a machine that no job created", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    await host.vmadm.create({ ...PAYLOAD, uuid: UUID, autoboot: false });
    const medium = await perform("media.find", [{ path: "install.iso" }], signal);
    const calls: Partial<Record<CapabilityName, JsonValue[]>> = {
      "vmadm.boot": [UUID, {}],
      "vmadm.stop": [UUID, {}],
      "vmadm.reboot": [UUID, {}],
      "vmadm.update": [UUID, { set_tags: { a: 1 } }],
      "vmadm.delete": [UUID],
      "media.place": [UUID, medium],
      "media.remove": [UUID, "/install.iso"],
    };
    const changing = CAPABILITIES.filter((name) => CALL_RULES[name].changesMachine);
    assertEquals(changing.toSorted(), Object.keys(calls).toSorted());
    for (const name of changing) {
      const error = await assertRejects(() => perform(name, calls[name] ?? [], signal), AgentError);
      assertEquals(error.code, "forbidden", `${name}: ${error.message}`);
      assertStringIncludes(error.message, "(setting policy.foreign_machines)");
    }
    // A create that fails, since the uuid is taken, gives no right to the machine.
    const create = () => perform("vmadm.create", [{ ...PAYLOAD, uuid: UUID }], signal);
    assertEquals((await assertRejects(create, AgentError)).code, "already_exists");
    const remove = () => perform("vmadm.delete", [UUID], signal);
    assertEquals((await assertRejects(remove, AgentError)).code, "forbidden");
    assertEquals((await perform("vmadm.get", [UUID], signal) as JsonObject).state, "stopped");
    await host.assertHolds(UUID);
  }, { policy: policyWith({ "foreign-machines": "read" }) });
});

Deno.test("with --foreign-machines read, tasks change and delete machines that jobs created", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    await perform("vmadm.create", [{ ...PAYLOAD, uuid: UUID }], signal);
    // Another job, of an agent that was started again: only the machine's tag is left.
    const again = await host.newJob(2);
    await again.perform("vmadm.update", [UUID, { quota: 13 }], signal);
    await again.perform("vmadm.delete", [UUID], signal);
    assertEquals(await again.perform("vmadm.delete", [UUID], signal), null);
    await host.assertHolds();
  }, { policy: policyWith({ "foreign-machines": "read" }) });
});

Deno.test("with --foreign-machines read, a half-created machine can be undone", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    await host.simulate("fault", "create_killed_after_zonecfg");
    const create = () => perform("vmadm.create", [{ ...PAYLOAD, uuid: UUID }], signal);
    await assertRejects(create, AgentError);
    const left = await perform("vmadm.get", [UUID], signal) as JsonObject;
    assertEquals(left.state, "configured");
    await perform("vmadm.delete", [UUID], signal);
    await host.assertHolds();
  }, { policy: policyWith({ "foreign-machines": "read" }) });
});

/** Each way in which a create is refused, or fails with nothing left, and its code. */
const FAILED_CREATES: Readonly<
  Record<string, { payload?: JsonObject; fault?: readonly string[]; abort?: true; code: string }>
> = {
  "a property that is unknown": { payload: { nothing: 1 }, code: "invalid_argument" },
  "a payload that is wrong": { payload: { ram: "much" }, code: "invalid_argument" },
  "a property that the policy refuses": { payload: { filesystems: [] }, code: "invalid_argument" },
  "a machine that is too large for the policy": { payload: { ram: 1e9 }, code: "invalid_argument" },
  "what vmadm validate refuses": { fault: ["validate_refuses", "1"], code: "invalid_argument" },
  "an address that is taken": { fault: ["conflict", "1"], code: "conflict" },
  "a pool without room": { fault: ["out_of_space", "1"], code: "storage_full" },
  "vmadm that makes nothing, and says it did": {
    fault: ["create_without_machine", "1"],
    code: "host",
  },
  "vmadm that was killed with its volumes made": {
    fault: ["create_killed_after_datasets", "1"],
    code: "host",
  },
  "vmadm that was killed at its start": { fault: ["killed", "create", "1"], code: "host" },
  "a task that was given up before": { abort: true, code: "aborted" },
};

Deno.test("with --foreign-machines read, a create that made nothing gives no right to its uuid", async (t) => {
  for (const [name, { payload = {}, fault, abort, code }] of Object.entries(FAILED_CREATES)) {
    await t.step(name, async () => {
      await withHost(async (host) => {
        const { uuid, perform } = await host.newJob(1);
        if (fault !== undefined) await host.simulate("fault", ...fault);
        const given = abort === true ? AbortSignal.abort() : signal;
        const create = () =>
          perform("vmadm.create", [{ ...PAYLOAD, uuid: UUID, ...payload }], given);
        const failed = await assertRejects(create, AgentError);
        assertEquals(failed.code, code, failed.message);
        await host.assertHolds();
        // Now somebody else makes a machine of that uuid.
        await host.vmadm.create({ ...PAYLOAD, uuid: UUID, autoboot: false });
        const refused = await assertRejects(
          () => perform("vmadm.delete", [UUID], signal),
          AgentError,
        );
        assertEquals(refused.code, "forbidden", refused.message);
        assertEquals(await host.store.machineClaims.get(machineUuidOf(1)), undefined, uuid);
        await host.assertHolds(UUID);
      }, { policy: policyWith({ "foreign-machines": "read" }) });
    });
  }
});

Deno.test("with --foreign-machines read, only the job that claimed a machine may undo it", async () => {
  await withHost(async (host) => {
    const owner = await host.newJob(1);
    const other = await host.newJob(2);
    // What an agent that died has left: a machine without its tag, and whose it is.
    await host.vmadm.create({ ...PAYLOAD, uuid: UUID, autoboot: false });
    await host.store.machineClaims.take(
      { uuid: machineUuidOf(1), host: "simulated", job_uuid: owner.uuid },
    );
    const refused = await assertRejects(
      () => other.perform("vmadm.delete", [UUID], signal),
      AgentError,
    );
    assertEquals(refused.code, "forbidden");
    await owner.perform("vmadm.delete", [UUID], signal);
    assertEquals(await host.store.machineClaims.get(machineUuidOf(1)), undefined);
    await host.assertHolds();
  }, { policy: policyWith({ "foreign-machines": "read" }) });
});

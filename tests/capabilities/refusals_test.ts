// Every refusal of every capability, against the simulated host. What all of them refuse alike is
// tried on all of them by one table of valid calls; what each refuses by itself is a table of calls
// with the argument that is named.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { CALL_RULES } from "../../src/capabilities/capability.ts";
import { AgentError, type ErrorCode } from "../../src/domain/error.ts";
import type { JsonObject, JsonValue } from "../../src/domain/json.ts";
import { CAPABILITIES, type CapabilityName } from "../../src/wall/protocol.ts";
import type { Perform } from "../../src/sandbox/task_calls.ts";
import { heldTimers } from "../support/timers.ts";
import { until } from "../support/until.ts";
import { machineUuidOf, type SimulatedHost, withHost } from "./simulated_host.ts";

const UUID: string = machineUuidOf(1);
const PAYLOAD: JsonObject = { uuid: UUID, brand: "kvm", ram: 256 };
const ARTIFACT: JsonObject = { distro: "omnios", release: "latest" };
const MEDIUM: JsonObject = { path: "/x/a.iso", name: "a.iso", sha256: "0".repeat(64) };

/** A call of each that nothing in its arguments forbids. */
const VALID: Readonly<Record<CapabilityName, JsonValue[]>> = {
  "vmadm.validate": [PAYLOAD],
  "vmadm.create": [PAYLOAD],
  "vmadm.get": [UUID],
  "vmadm.list": [],
  "vmadm.boot": [UUID, { order: "c" }],
  "vmadm.stop": [UUID, { force: true }],
  "vmadm.reboot": [UUID, { force: true }],
  "vmadm.update": [UUID, { quota: 5 }],
  "vmadm.delete": [UUID],
  "vmadm.info": [UUID, "vnc"],
  "media.find": [{ path: "install.iso" }],
  "media.place": [UUID, MEDIUM],
  "media.remove": [UUID, "/install.iso"],
  "images.find": [ARTIFACT],
  "images.download": [ARTIFACT],
  "vnc.wait": [UUID, { timeout: 30 }],
  "info": [{ a: 1 }],
  "log.debug": ["x"],
  "log.info": ["x"],
  "log.warn": ["x"],
  "log.error": ["x"],
};
/** Those that call vmadm, for which a hanging vmadm is a way to be under way. */
const OF_VMADM = CAPABILITIES.filter((name) =>
  name.startsWith("vmadm.") || ["media.remove", "vnc.wait"].includes(name)
);
const { signal } = new AbortController();

async function refused(call: () => Promise<unknown>, code: ErrorCode, shown: string) {
  const error = await assertRejects(call, AgentError, undefined, shown);
  assertEquals(error.code, code, `${shown}: ${error.message}`);
  assert(error.message.startsWith("Cannot "), error.message);
  return error;
}

/** Whatever reaches the host ends differently than by the expected refusal. */
async function unreachable(host: SimulatedHost): Promise<void> {
  await host.simulate("fault", "no_root");
}

Deno.test("every capability refuses extra arguments", async () => {
  await withHost(async (host) => {
    await unreachable(host);
    const { perform } = await host.newJob(1);
    for (const name of CAPABILITIES) {
      const { argsMax } = CALL_RULES[name];
      const args = [...Array(argsMax).fill(null), { force: true }];
      const error = await refused(() => perform(name, args, signal), "invalid_argument", name);
      assertEquals(error.errors[0]?.field, "arguments", error.message);
    }
  });
});

Deno.test("every capability treats a trailing null as a missing argument", async () => {
  await withHost(async (host) => {
    await unreachable(host);
    const { perform } = await host.newJob(1);
    for (const name of CAPABILITIES) {
      // It would wait for a console as long as it may.
      const valid = name === "vnc.wait" ? [UUID, { timeout: 0.1 }] : VALID[name];
      const args = [...valid, null, null, null];
      const end = await perform(name, args, signal).catch((error) => error);
      const counted = end instanceof AgentError && end.errors[0]?.field === "arguments";
      assert(!counted, `${name}: ${end}`);
    }
  });
});

Deno.test("every capability refuses a call after its task has ended, and writes nothing", async () => {
  await withHost(async (host) => {
    await unreachable(host);
    const { uuid, perform } = await host.newJob(1);
    const over = new AbortController();
    over.abort();
    const canceled = host.performFor({ job_uuid: uuid, task_name: "t", signal: over.signal });
    const closed = host.performFor({ job_uuid: uuid, task_name: "t", signal });
    closed.close();
    for (const name of CAPABILITIES) {
      await refused(() => perform(name, VALID[name], over.signal), "aborted", name);
      await refused(() => canceled(name, VALID[name], signal), "aborted", name);
      await refused(() => closed(name, VALID[name], signal), "aborted", name);
    }
    assertEquals(await host.store.info.list(uuid), []);
  });
});

Deno.test("every capability is refused when its task has used up its calls", async () => {
  await withHost(async (host) => {
    await unreachable(host);
    for (const [number, name] of CAPABILITIES.entries()) {
      const { perform } = await host.newJob(number + 1);
      await perform("info", [{}], signal);
      await refused(() => perform(name, VALID[name], signal), "overloaded", name);
    }
  }, { limits: { taskCallsMax: 1 } });
});

Deno.test("every capability except the log is refused while 32 calls of its task are in progress", async () => {
  await withHost(async (host) => {
    const { uuid, perform } = await host.newJob(1);
    await host.simulate("fault", "hang", "*");
    const gone = new AbortController();
    const calls = Array.from({ length: 32 }, () => perform("vmadm.list", [], gone.signal));
    const ends = Promise.allSettled(calls);
    for (const name of CAPABILITIES.filter((name) => !name.startsWith("log."))) {
      await refused(() => perform(name, VALID[name], signal), "overloaded", name);
    }
    assertEquals(await perform("log.info", ["still heard"], signal), null);
    // Another task of another job is not concerned.
    const other = await host.newJob(2);
    assertEquals(await other.perform("info", [{}], signal), null);
    gone.abort();
    for (const end of await ends) assertEquals(end.status, "rejected");
    assertEquals(await perform("info", [{}], signal), null);
    assert((await host.store.info.list(uuid) ?? []).length > 0);
  });
});

for (const name of OF_VMADM) {
  Deno.test(`${name}() ends at its deadline, and with its task`, async () => {
    const timers = heldTimers();
    await withHost(async (host) => {
      await host.simulate("fault", "hang", "*");
      const { perform } = await host.newJob(1);
      const call = perform(name, VALID[name], signal);
      await until("the call to hang", () => hangs(host));
      timers.advance(24 * 3_600_000);
      const error = await refused(() => call, "timeout", name);
      assert(error.message.startsWith(`Cannot finish ${name}: it took over `), error.message);
    }, { timers });
    await withHost(async (host) => {
      await host.simulate("fault", "hang", "*");
      const { perform } = await host.newJob(1);
      const gone = new AbortController();
      const call = perform(name, VALID[name], gone.signal);
      const reached = await until("the call to hang", () => hangs(host));
      assert(reached);
      gone.abort();
      await refused(() => call, "aborted", name);
    });
  });
}

/** Whether a process of the simulated vmadm is there. */
async function hangs(host: SimulatedHost): Promise<boolean> {
  const marker = new TextEncoder().encode(host.folder);
  for (const { name } of Deno.readDirSync("/proc")) {
    if (!/^\d+$/.test(name) || Number(name) === Deno.pid) continue;
    const line = await Deno.readFile(`/proc/${name}/cmdline`).catch(() => new Uint8Array());
    if (new TextDecoder().decode(line).includes(new TextDecoder().decode(marker))) return true;
  }
  return false;
}

Deno.test("a call that acts on a missing machine fails, and one that only removes it does not", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    const medium = await perform("media.find", [{ path: "install.iso" }], signal);
    const ends: Partial<Record<CapabilityName, JsonValue>> = {};
    for (const name of CAPABILITIES.filter((one) => VALID[one][0] === UUID)) {
      const args = name === "media.place" ? [UUID, medium] : VALID[name];
      ends[name] = await perform(name, args, signal).catch((error) => error.code);
    }
    assertEquals(ends, {
      "vmadm.get": null,
      "vmadm.boot": "not_found",
      "vmadm.stop": "not_found",
      "vmadm.reboot": "not_found",
      "vmadm.update": "not_found",
      "vmadm.delete": null,
      "vmadm.info": "not_found",
      "media.place": "not_found",
      "media.remove": "not_found",
      "vnc.wait": "not_found",
    });
  });
});

/** Values that are never the uuid of a machine. */
const NO_UUIDS: readonly JsonValue[] = [
  null,
  "",
  "x",
  5,
  true,
  {},
  [UUID],
  { uuid: UUID },
  `${UUID} -f`,
  `${UUID}\n`,
  "--help",
  UUID.slice(1),
  UUID.repeat(10_000),
];

Deno.test("every capability about a machine accepts only a uuid", async () => {
  await withHost(async (host) => {
    await unreachable(host);
    const { perform } = await host.newJob(1);
    for (const name of CAPABILITIES.filter((one) => VALID[one][0] === UUID)) {
      // A medium is looked at after the machine, whose own check is the one that is tried.
      for (const wrong of NO_UUIDS) {
        const args = [wrong, ...VALID[name].slice(1)];
        const shown = `${name}(${JSON.stringify(wrong).slice(0, 60)})`;
        const error = await refused(() => perform(name, args, signal), "invalid_argument", shown);
        assertEquals(error.errors[0]?.field, "uuid", `${shown}: ${error.message}`);
        assert(error.message.length < 500, `${shown}: ${error.message.length} characters`);
      }
    }
  });
});

const LONG = "x".repeat(100_000);
const MANY = Array(100_000).fill(0);
const disks = (...list: JsonValue[]): JsonObject => ({ ...PAYLOAD, disks: list });
const nics = (...list: JsonValue[]): JsonObject => ({ ...PAYLOAD, nics: list });

type Case = readonly [args: JsonValue[], field: string];

/** Payloads, which validate and create refuse alike, with the field that is named. */
const PAYLOADS: readonly (readonly [JsonValue, string])[] = [
  [null, "payload"],
  ["x", "payload"],
  [5, "payload"],
  [[], "payload"],
  [{ uuid: UUID }, "payload.brand"],
  [{ ...PAYLOAD, brand: "joyent" }, "payload.brand"],
  [{ ...PAYLOAD, brand: LONG }, "payload.brand"],
  [{ ...PAYLOAD, brand: ["kvm"] }, "payload.brand"],
  [{ ...PAYLOAD, ram: "256M" }, "payload.ram"],
  [{ ...PAYLOAD, ram: 1.5 }, "payload.ram"],
  [{ ...PAYLOAD, ram: 0 }, "payload.ram"],
  [{ ...PAYLOAD, ram: -1 }, "payload.ram"],
  [{ ...PAYLOAD, ram: 1e21 }, "payload.ram"],
  [{ ...PAYLOAD, ram: null }, "payload.ram"],
  [{ ...PAYLOAD, vcpus: 65 }, "payload.vcpus"],
  [{ ...PAYLOAD, quota: 0 }, "payload.quota"],
  [{ ...PAYLOAD, quota: 1025 }, "payload.quota"],
  [{ ...PAYLOAD, autoboot: true }, "payload.autoboot"],
  [{ ...PAYLOAD, uuid: "--help" }, "payload.uuid"],
  [{ ...PAYLOAD, uuid: { toString: "x" } }, "payload.uuid"],
  [{ ...PAYLOAD, alias: LONG }, "payload.alias"],
  [{ ...PAYLOAD, alias: "x\ny" }, "payload.alias"],
  [{ ...PAYLOAD, filesystems: [] }, "payload.filesystems"],
  [{ ...PAYLOAD, qemu_extra_opts: "x" }, "payload.qemu_extra_opts"],
  [{ ...PAYLOAD, nonsense: 1 }, "payload.nonsense"],
  [{ ...PAYLOAD, constructor: 1 }, "payload.constructor"],
  [JSON.parse(`{"uuid":"${UUID}","brand":"kvm","__proto__":{"ram":5}}`), "payload.__proto__"],
  [{ ...PAYLOAD, tags: { zonewright_job: "x" } }, "payload.tags.zonewright_job"],
  [{ ...PAYLOAD, tags: { a: {} } }, "payload.tags.a"],
  [{ ...PAYLOAD, tags: [] }, "payload.tags"],
  [{ ...PAYLOAD, customer_metadata: { a: LONG } }, "payload.customer_metadata.a"],
  [{ ...PAYLOAD, disks: {} }, "payload.disks"],
  [{ ...PAYLOAD, disks: MANY }, "payload.disks"],
  [{ ...PAYLOAD, resolvers: MANY }, "payload.resolvers"],
  [{ ...PAYLOAD, nics: MANY }, "payload.nics"],
  [disks(null), "payload.disks[0]"],
  [disks({ model: "virtio" }), "payload.disks[0].size"],
  [disks({ model: "virtio", size: 1e9 }), "payload.disks[0].size"],
  [disks({ model: "virtio", size: 5, path: "/dev/x" }), "payload.disks[0].path"],
  [disks({ model: "virtio", size: 5, zpool: "x" }), "payload.disks[0].zpool"],
  [nics({ nic_tag: "admin" }), "payload.nics[0].model"],
  [nics({ nic_tag: "a b", model: "virtio" }), "payload.nics[0].nic_tag"],
  [
    nics({ nic_tag: "admin", model: "virtio", allow_ip_spoofing: true }),
    "payload.nics[0].allow_ip_spoofing",
  ],
];

const CASES: Readonly<Record<CapabilityName, readonly Case[]>> = {
  "vmadm.validate": [
    [[], "payload"],
    ...PAYLOADS.map(([payload, field]): Case => [[payload], field]),
  ],
  "vmadm.create": [
    [[], "payload"],
    [[{ brand: "kvm" }], "payload.uuid"],
    ...PAYLOADS.map(([payload, field]): Case => [[payload], field]),
  ],
  "vmadm.get": [[[], "uuid"]],
  "vmadm.list": [[["x"], "arguments"]],
  "vmadm.boot": [
    [[UUID, "order=cd"], "boot"],
    [[UUID, []], "boot"],
    [[UUID, { order: "cd,once=d,menu=on" }], "boot.order"],
    [[UUID, { order: "cc" }], "boot.order"],
    [[UUID, { order: LONG }], "boot.order"],
    [[UUID, { once: "cd" }], "boot.once"],
    [[UUID, { cdrom: "/a,b.iso" }], "boot.cdrom"],
    [[UUID, { cdrom: "/../etc/a.iso" }], "boot.cdrom"],
    [[UUID, { cdrom: "a.iso" }], "boot.cdrom"],
    [[UUID, { cdrom: "/a.iso\n" }], "boot.cdrom"],
    [[UUID, { disk: "/startvm" }], "boot.disk"],
    [[UUID, { disk: ["/a.img"] }], "boot.disk"],
    [[UUID, { splash: "x" }], "boot.splash"],
    [[UUID, { watch: 61 }], "boot.watch"],
    [[UUID, { watch: -1 }], "boot.watch"],
    [[UUID, { watch: "1" }], "boot.watch"],
  ],
  "vmadm.stop": [
    [[UUID, "-F"], "options"],
    [[UUID, true], "options"],
    [[UUID, { force: "yes" }], "options.force"],
    [[UUID, { force: null }], "options.force"],
    [[UUID, { forse: true }], "options.forse"],
    [[UUID, { timeout: 0 }], "options.timeout"],
    [[UUID, { timeout: 181 }], "options.timeout"],
    [[UUID, { timeout: "30" }], "options.timeout"],
    [[UUID, { timeout: 30, force: true }], "options.timeout"],
  ],
  "vmadm.reboot": [
    [[UUID, "-F"], "options"],
    [[UUID, { force: 1 }], "options.force"],
    [[UUID, { timeout: 30 }], "options.timeout"],
  ],
  "vmadm.update": [
    [[UUID], "changes"],
    [[UUID, "quota=5"], "changes"],
    [[UUID, []], "changes"],
    [[UUID, { ram: 1e9 }], "changes.ram"],
    [[UUID, { vcpus: 0 }], "changes.vcpus"],
    [[UUID, { quota: "5G" }], "changes.quota"],
    [[UUID, { autoboot: "true" }], "changes.autoboot"],
    [[UUID, { vnc_port: 5900 }], "changes.vnc_port"],
    [[UUID, { set_internal_metadata: {} }], "changes.set_internal_metadata"],
    [[UUID, { add_nics: [{}] }], "changes.add_nics[0].nic_tag"],
    [[UUID, { update_nics: [{ vlan_id: 1 }] }], "changes.update_nics[0].mac"],
    [[UUID, { remove_nics: ["net0"] }], "changes.remove_nics[0]"],
    [[UUID, { update_disks: [] }], "changes.update_disks"],
    [[UUID, { nonsense: 1 }], "changes.nonsense"],
    [[UUID, { set_tags: { zonewright_job: "x" } }], "changes.set_tags.zonewright_job"],
    [[UUID, { remove_tags: ["a", "zonewright_job"] }], "changes.remove_tags[1]"],
    [[UUID, { remove_tags: MANY }], "changes.remove_tags"],
    [[UUID, { add_disks: [{ path: "/dev/x" }] }], "changes.add_disks[0].media"],
    [
      [UUID, { add_disks: [{ path: "/dev/x", media: "cdrom", model: "ahci" }] }],
      "changes.add_disks[0].path",
    ],
    [[UUID, { remove_disks: ["/dev/zvol/x"] }], "changes.remove_disks[0]"],
  ],
  "vmadm.delete": [[[], "uuid"], [[UUID, { force: true }], "arguments"]],
  "vmadm.info": [[[UUID], "section"], [[UUID, "all"], "section"], [[UUID, ["vnc"]], "section"]],
  "media.find": [
    [[], "media"],
    [["install.iso"], "media"],
    [[{}], "media"],
    [[{ path: "a.iso", url: "https://x/a.iso" }], "media"],
    [[{ path: "../a.iso" }], "media.path"],
    [[{ path: LONG }], "media.path"],
    [[{ path: "/etc/passwd" }], "media.path"],
    [[{ path: "a.iso", digest: "md5:00" }], "media.digest"],
    [[{ url: "https://example.org/a.iso" }], "media.digest"],
    [[{ url: "file:///etc/a.iso", digest: `sha256:${"0".repeat(64)}` }], "media.url"],
    [[{ artifact: ARTIFACT, nonsense: 1 }], "media.nonsense"],
    [[{ artifact: { distro: "x" } }], "media.artifact.release"],
    [[{ artifact: { ...ARTIFACT, format: "qcow2" } }], "media.artifact.format"],
  ],
  "media.place": [[[UUID], "medium"], [[UUID, "a.iso"], "medium"], [[UUID, {}], "medium"]],
  "media.remove": [
    [[UUID], "file"],
    [[UUID, "/startvm"], "file"],
    [[UUID, "/../x.iso"], "file"],
    [[UUID, "/a/b.iso"], "file"],
    [[UUID, ["/a.iso"]], "file"],
    [[UUID, `/${LONG}.iso`], "file"],
  ],
  "images.find": [
    [[], "artifact"],
    [["omnios"], "artifact"],
    [[{}], "artifact.distro"],
    [[{ ...ARTIFACT, distro: "../x" }], "artifact.distro"],
    [[{ ...ARTIFACT, build: 5 }], "artifact.build"],
    [[{ ...ARTIFACT, nonsense: "x" }], "artifact.nonsense"],
  ],
  "images.download": [
    [[], "artifact"],
    [[{ distro: "omnios" }], "artifact.release"],
    [[{ ...ARTIFACT, arch: LONG }], "artifact.arch"],
  ],
  "vnc.wait": [
    [[UUID, 30], "options"],
    [[UUID, { timeout: 601 }], "options.timeout"],
    [[UUID, { timeout: 0 }], "options.timeout"],
    [[UUID, { timeout: "30" }], "options.timeout"],
    [[UUID, { timeout: null }], "options.timeout"],
    [[UUID, { deadline: 30 }], "options.deadline"],
  ],
  "info": [
    [[], "info"],
    [["x"], "info"],
    [[5], "info"],
    [[[1]], "info"],
    [[{ zonewright_call: {} }], "info"],
    [[{ a: 1, zonewright_calls: {} }], "info"],
    [[{ zonewright_: 1 }], "info"],
  ],
  "log.debug": [[[], "message"], [["x", 5], "fields"]],
  "log.info": [[[], "message"], [["x", "y"], "fields"]],
  "log.warn": [[[], "message"], [["x", []], "fields"]],
  "log.error": [[[], "message"], [["x", false], "fields"]],
};

for (const name of CAPABILITIES) {
  Deno.test(`${name}() names the argument that it refuses, and does nothing`, async () => {
    await withHost(async (host) => {
      await unreachable(host);
      const { perform } = await host.newJob(1);
      await refuseAll(perform, name);
    });
  });
}

async function refuseAll(perform: Perform, name: CapabilityName): Promise<void> {
  for (const [args, field] of CASES[name]) {
    const shown = `${name}${JSON.stringify(args).slice(0, 200)}`;
    const error = await refused(() => perform(name, args, signal), "invalid_argument", shown);
    assertEquals(error.errors[0]?.field, field, `${shown}: ${error.message}`);
    assert(error.message.length < 2000, `${shown}: ${error.message.length} characters`);
  }
}

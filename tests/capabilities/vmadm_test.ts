import { assert, assertEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { JsonValue } from "../../src/domain/json.ts";
import type { CapabilityName } from "../../src/sandbox/protocol.ts";
import { machineUuidOf, withHost } from "./simulated_host.ts";

const UUID: string = machineUuidOf(1);
const PAYLOAD = {
  brand: "kvm",
  ram: 512,
  disks: [{ model: "virtio", size: 1024 }],
  nics: [{ nic_tag: "admin", model: "virtio", ip: "dhcp", primary: 1 }],
  tags: { role: "web" },
};
const { signal } = new AbortController();

Deno.test("vmadm.create() makes a machine that names its job and does not boot by itself", async () => {
  await withHost(async (host) => {
    const { uuid: job, perform } = await host.newJob(1);
    const payload = { ...PAYLOAD, uuid: UUID };
    assertEquals(await perform("vmadm.validate", [payload], signal), null);
    assertEquals(await perform("vmadm.create", [payload], signal), { uuid: UUID });
    const machine = await host.vmadm.get(machineUuidOf(1));
    assertEquals(machine?.tags, { role: "web", zonewright_job: job });
    assertEquals(machine?.autoboot, false);
    assertEquals(machine?.state, "stopped");
  });
});

Deno.test("vmadm.get(), list() and info() tell what is there, and null for what is not", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    assertEquals(await perform("vmadm.get", [UUID], signal), null);
    assertEquals(await perform("vmadm.list", [], signal), []);
    // Made past the capability, as an operator would: with a password and internal metadata.
    await host.vmadm.create({
      ...PAYLOAD,
      uuid: UUID,
      vnc_password: "hunter22",
      internal_metadata: { root_pw: "hunter22" },
      autoboot: false,
    });
    const machine = await perform("vmadm.get", [UUID.toUpperCase()], signal);
    assertEquals((machine as { uuid: string }).uuid, UUID);
    assert(!JSON.stringify(machine).includes("hunter22"));
    assertEquals((await perform("vmadm.list", [], signal) as JsonValue[]).length, 1);
  });
});

Deno.test("vmadm.boot(), stop(), update() and delete() act, and repeating them is no failure", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    const call = (name: CapabilityName, ...args: JsonValue[]) => perform(name, args, signal);
    await call("vmadm.create", { ...PAYLOAD, uuid: UUID });
    assertEquals(await call("vmadm.update", UUID, { quota: 20 }), null);
    for (let times = 1; times <= 2; times += 1) {
      assertEquals(await call("vmadm.boot", UUID, { order: "c" }), null);
    }
    const address = await call("vnc.wait", UUID, { timeout: 30 });
    assertEquals(await call("vmadm.info", UUID, "vnc"), address);
    for (let times = 1; times <= 2; times += 1) {
      assertEquals(await call("vmadm.stop", UUID, { force: true }), null);
    }
    for (let times = 1; times <= 2; times += 1) {
      assertEquals(await call("vmadm.delete", UUID), null);
    }
    await host.assertHolds();
  });
});

const REFUSED: readonly (readonly [CapabilityName, JsonValue[], string])[] = [
  ["vmadm.create", [PAYLOAD], "payload.uuid"],
  ["vmadm.create", [null], "payload"],
  ["vmadm.create", [], "payload"],
  ["vmadm.create", [{ ...PAYLOAD, uuid: "--help" }], "payload.uuid"],
  ["vmadm.create", [{ ...PAYLOAD, uuid: UUID, filesystems: [] }], "payload.filesystems"],
  ["vmadm.create", [{ ...PAYLOAD, uuid: UUID, qemu_extra_opts: "x" }], "payload.qemu_extra_opts"],
  ["vmadm.create", [{ ...PAYLOAD, uuid: UUID, autoboot: true }], "payload.autoboot"],
  ["vmadm.create", [{ brand: "joyent", uuid: UUID }], "payload.brand"],
  ["vmadm.validate", [{ ...PAYLOAD, ram: 1e9 }], "payload.ram"],
  ["vmadm.get", ["x"], "uuid"],
  ["vmadm.get", [], "uuid"],
  ["vmadm.get", [{ uuid: UUID }], "uuid"],
  ["vmadm.delete", [`${UUID} -f`], "uuid"],
  ["vmadm.boot", [UUID, { order: "cd,once=d,menu=on" }], "boot.order"],
  ["vmadm.boot", [UUID, { once: "cd" }], "boot.once"],
  ["vmadm.boot", [UUID, { cdrom: "/a,b.iso" }], "boot.cdrom"],
  ["vmadm.boot", [UUID, { cdrom: "/../etc/a.iso" }], "boot.cdrom"],
  ["vmadm.boot", [UUID, { cdrom: "a.iso" }], "boot.cdrom"],
  ["vmadm.boot", [UUID, { disk: "/startvm" }], "boot.disk"],
  ["vmadm.boot", [UUID, { splash: "x" }], "boot.splash"],
  ["vmadm.boot", [UUID, "order=cd"], "boot"],
  ["vmadm.stop", [UUID, { force: "yes" }], "force"],
  ["vmadm.stop", [UUID, "-F"], "force"],
  ["vmadm.update", [UUID, { vnc_port: 5900 }], "changes.vnc_port"],
  ["vmadm.update", [UUID, { add_disks: [{ path: "/dev/x" }] }], "changes.add_disks[0].media"],
  ["vmadm.info", [UUID, "all"], "section"],
  ["vmadm.info", [UUID], "section"],
  ["vnc.wait", [UUID, { timeout: 601 }], "timeout"],
  ["vnc.wait", [UUID, { timeout: 0 }], "timeout"],
  ["vnc.wait", ["x"], "uuid"],
];

Deno.test("capabilities of machines name the argument that they refuse, and run nothing", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    // Whatever reached the host would fail differently.
    await host.simulate("fault", "no_root");
    for (const [name, args, field] of REFUSED) {
      const error = await assertRejects(() => perform(name, args, signal), AgentError);
      const shown = `${name} ${JSON.stringify(args)}: ${error.message}`;
      assertEquals(error.code, "invalid_argument", shown);
      assertEquals(error.errors[0]?.field, field, shown);
    }
  });
});

Deno.test("a capability that is not in the list is refused", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    for (const name of ["vmadm.send", "constructor", "__proto__", ""]) {
      const call = () => perform(name as CapabilityName, [], signal);
      await assertRejects(call, AgentError, "no such capability");
    }
  });
});

Deno.test("a capability ends when its task is given up", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    await host.simulate("fault", "hang", "lookup");
    const gone = new AbortController();
    const call = perform("vmadm.get", [UUID], gone.signal);
    gone.abort();
    const error = await assertRejects(() => call, AgentError);
    assertEquals(error.code, "aborted");
  });
});

Deno.test("at most 32 calls of a task are under way at the same time", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    await host.simulate("fault", "hang", "lookup");
    const gone = new AbortController();
    const calls = Array.from({ length: 33 }, () => perform("vmadm.get", [UUID], gone.signal));
    const ends = Promise.allSettled(calls);
    const error = await assertRejects(() => calls[32] ?? Promise.resolve(), AgentError);
    assertEquals(error.code, "overloaded");
    gone.abort();
    const codes = (await ends).map((end) => end.status === "rejected" ? end.reason.code : "done");
    assertEquals(codes, [...Array(32).fill("aborted"), "overloaded"]);
  });
});

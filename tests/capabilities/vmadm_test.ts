import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { JsonValue } from "../../src/domain/json.ts";
import type { CapabilityName } from "../../src/wall/protocol.ts";
import { waitOrAbort } from "../../src/runtime/wait.ts";
import { until } from "../support/until.ts";
import { machineUuidOf, notesOf, withHost } from "./simulated_host.ts";

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
    assertEquals(await perform("vmadm.create", [payload], signal), {
      uuid: UUID,
      state: "stopped",
    });
    const machine = await host.vmadm.get(machineUuidOf(1));
    assertEquals(machine?.tags, { role: "web", zonewright_job: job });
    assertEquals(machine?.autoboot, false);
    assertEquals(machine?.state, "stopped");
  });
});

Deno.test("vmadm.get(), list() and info() return what exists, and null for what does not", async () => {
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

Deno.test("vmadm.boot(), stop(), update() and delete() can be repeated", async () => {
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

/** Waits that take a hundredth of their time. */
const HASTE: typeof waitOrAbort = (action, ms, signal) => waitOrAbort(action, ms / 100, signal);

Deno.test("vmadm.stop() waits for a machine that is already stopping, and reports on it", async () => {
  await withHost(async (host) => {
    const { uuid, perform } = await host.newJob(1);
    await perform("vmadm.create", [{ ...PAYLOAD, uuid: UUID }], signal);
    await perform("vmadm.boot", [UUID], signal);
    await host.simulate("fault", "acpi_ignored");
    const stops = host.simulate("vmadm", "stop", UUID, "-t", "2");
    const stateOf = async () => (await host.vmadm.get(machineUuidOf(1)))?.state;
    await until("state stopping", async () => await stateOf() === "stopping");
    assertEquals(await perform("vmadm.stop", [UUID], signal), null);
    assertEquals(await stateOf(), "stopped");
    const [first] = await notesOf(host.store, uuid);
    const message = `Machine ${UUID} is still stopping after 15 s`;
    assertEquals([first?.task, first?.message], ["t", message]);
    await stops;
  }, { wait: HASTE });
});

Deno.test("vmadm.boot() fails when the machine dies between the two checks", async () => {
  const crash: { run?: () => Promise<unknown> } = {};
  const wait: typeof waitOrAbort = async () => void await crash.run?.();
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    await perform("vmadm.create", [{ ...PAYLOAD, uuid: UUID }], signal);
    crash.run = () => host.simulate("guest", UUID, "crash");
    const boot = (words: JsonValue) => perform("vmadm.boot", [UUID, words], signal);
    const error = await assertRejects(() => boot({ watch: 3 }), AgentError);
    assertEquals(error.code, "host");
    assertStringIncludes(error.message, "it ended within 3 s with exit status 9");
    assertEquals(await boot({ watch: 0 }), null);
  }, { wait });
});

Deno.test("vmadm.reboot() by force keeps the medium of a kvm machine, which stop and boot do not", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    const call = (name: CapabilityName, ...args: JsonValue[]) => perform(name, args, signal);
    const files = async () => {
      const { stdout } = await host.simulate("guest", UUID);
      return JSON.parse(stdout).files.map(({ path }: { path: string }) => path);
    };
    await call("vmadm.create", { ...PAYLOAD, uuid: UUID });
    const medium = await call("media.find", { path: "install.iso" });
    await call("media.place", UUID, medium);
    await call("vmadm.boot", UUID, { order: "cd", once: "d", cdrom: "/install.iso" });
    await call("vnc.wait", UUID, { timeout: 30 });
    assertEquals(await call("vmadm.reboot", UUID, { force: true }), null);
    assertEquals(await files(), ["/install.iso"]);
    assertEquals(await call("vmadm.stop", UUID, { timeout: 1 }), null);
    await assertRejects(() => call("vmadm.reboot", UUID), AgentError, 'its state is "stopped"');
    await call("vmadm.boot", UUID, {});
    assertEquals(await files(), []);
  });
});

Deno.test("a capability that is not in the list is refused", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    for (const name of ["vmadm.send", "constructor", "__proto__", ""]) {
      const call = () => perform(name as CapabilityName, [], signal);
      await assertRejects(call, AgentError, `Cannot call ${JSON.stringify(name)}`);
    }
  });
});

Deno.test("a capability ends when its task is aborted", async () => {
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

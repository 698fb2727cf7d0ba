// The agent's side of vmadm against the simulator, by every way to it: the life of a machine, and its
// mishaps.

import { assert, assertEquals, assertFalse, assertMatch, assertRejects } from "@std/assert";
import { AgentError, type ErrorCode } from "../../src/domain/error.ts";
import { type MachineUuid, parseUuid } from "../../src/domain/id.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { waitForVnc } from "../../src/host/vmadm/vnc.ts";
import { placeFile, removeFile } from "../../src/host/zone/root.ts";
import { refused } from "./refused.ts";
import { hurriedWait } from "../support/timers.ts";
import { until } from "../support/until.ts";
import { hostTest } from "./test_host.ts";

const UUID = parseUuid<MachineUuid>("6d2f8a51-92a5-4e02-9c3f-1f6e0b3c7d11", "uuid");
const VNC = { deadlineMs: 90_000, wait: hurriedWait };

const PAYLOAD: JsonObject = {
  uuid: UUID,
  brand: "kvm",
  alias: "installer",
  vcpus: 1,
  autoboot: false,
  ram: 512,
  resolvers: ["203.0.113.53"],
  disks: [{ boot: true, model: "virtio", size: 10240 }],
  nics: [{
    nic_tag: "external",
    model: "virtio",
    ip: "192.0.2.60",
    netmask: "255.255.255.0",
    gateway: "192.0.2.1",
    primary: 1,
  }],
};

/** For long lists of mishaps: behind ssh is what the local transport has too. */
const FARTHEST = ["simulated", "ssh"] as const;

hostTest(
  "a machine lives from create to delete on every host",
  async ({ folder, transport, vmadm }) => {
    assertEquals(await vmadm.list(), []);
    assertEquals(await vmadm.get(UUID), null);
    await vmadm.validateCreate(PAYLOAD);
    assertEquals((await vmadm.create(PAYLOAD)).uuid, UUID);
    const machine = await vmadm.get(UUID);
    assertEquals([machine?.state, machine?.alias], ["stopped", "installer"]);
    assertEquals((await vmadm.list()).map(({ uuid, state }) => [uuid, state]), [
      [UUID, "stopped"],
    ]);
    await refused(() => vmadm.infoVnc(UUID), "conflict");

    await Deno.writeTextFile(`${folder}/medium.iso`, "the medium");
    const zonepath = String(machine?.zonepath);
    const medium = { zonepath, name: "install.iso", source: `${folder}/medium.iso`, size: 10 };
    const { file } = await placeFile(transport, medium);
    await vmadm.boot(UUID, { order: "cd", once: "d", cdrom: file });
    assertEquals((await vmadm.get(UUID))?.state, "running");
    const address = await waitForVnc(vmadm, UUID, VNC);
    assertEquals(address.host, "127.0.0.1");
    assertEquals(await vmadm.infoVnc(UUID), address);
    await vmadm.boot(UUID, {});

    await vmadm.stop(UUID, { force: true });
    await vmadm.stop(UUID, { force: true });
    assertEquals((await vmadm.get(UUID))?.state, "stopped");
    assert(await removeFile(transport, medium));
    await vmadm.update(UUID, { quota: 12 });
    assertEquals((await vmadm.get(UUID))?.quota, 12);
    await vmadm.delete(UUID);
    await vmadm.delete(UUID);
    assertEquals(await vmadm.get(UUID), null);
    assertFalse(await removeFile(transport, medium));
  },
);

hostTest("a console's password stays out of get, info and errors", async ({ vmadm }) => {
  await vmadm.create({ ...PAYLOAD, vnc_password: "pass1234" });
  assertFalse(JSON.stringify(await vmadm.get(UUID)).includes("pass1234"));
  await vmadm.boot(UUID, {});
  const address = await waitForVnc(vmadm, UUID, VNC);
  assertFalse(JSON.stringify(address).includes("pass1234"));
  await vmadm.delete(UUID);
});

hostTest("validateCreate() names the fields that the host refuses", async ({ vmadm }) => {
  const error = await assertRejects(
    () => vmadm.validateCreate({ ...PAYLOAD, ram: "much", colour: "red" }),
    AgentError,
  );
  assertEquals(error.code, "invalid_argument");
  const fields = error.errors.map(({ field, code }) => `${field} ${code}`);
  assert(fields.includes("machine.ram Invalid"), fields.join());
  assert(fields.includes("machine.colour UnknownField"), fields.join());
});

hostTest("boot() and stop() of a machine that is not there are not_found", async ({ vmadm }) => {
  await refused(() => vmadm.boot(UUID, {}), "not_found");
  await refused(() => vmadm.stop(UUID, {}), "not_found");
  await refused(() => vmadm.stop(UUID, { force: true }), "not_found");
  await refused(() => vmadm.update(UUID, { quota: 1 }), "not_found");
  await refused(() => vmadm.infoVnc(UUID), "not_found");
  await vmadm.delete(UUID);
});

hostTest("create() distinguishes the faults of the host", async ({ vmadm, fault }) => {
  const mishaps: [string[], ErrorCode][] = [
    [["out_of_space", "1"], "storage_full"],
    [["conflict", "1"], "conflict"],
    [["create_without_machine", "1"], "host"],
    [["garbage", "lookup", "1"], "host"],
    [["empty", "create", "1"], "host"],
    [["flood", "create", "1"], "host"],
    [["killed", "create", "1"], "host"],
    [["aborted", "create", "1"], "host"],
    [["create_without_message", "1"], "host"],
  ];
  const found: [string[], unknown][] = [];
  for (const [words] of mishaps) {
    await fault(...words);
    const outcome = await vmadm.create(PAYLOAD).catch((error: unknown) => error);
    found.push([words, outcome instanceof AgentError ? outcome.code : outcome]);
    await fault("--clear");
    await vmadm.delete(UUID);
  }
  assertEquals(found, mishaps);
  await fault("noise_stderr", "create", "1");
  assertEquals((await vmadm.create(PAYLOAD)).uuid, UUID);
  await refused(() => vmadm.create(PAYLOAD), "already_exists");
  await vmadm.delete(UUID);
}, FARTHEST);

hostTest("waitForVnc() outlasts the faults of the host's console", async ({ vmadm, fault }) => {
  await vmadm.create(PAYLOAD);
  const mishaps = [
    ["info_empty", "2"],
    ["info_500", "2"],
    ["info_refused", "1"],
    ["info_cut", "1"],
    ["info_missing_port", "1"],
    ["info_missing_host", "1"],
    ["vmadmd_down", "1"],
    ["vnc_silent", "1"],
    ["vnc_close", "1"],
    ["vnc_refuse", "1"],
  ];
  for (const words of mishaps) {
    await vmadm.boot(UUID, {});
    await fault(...words);
    const { port } = await waitForVnc(vmadm, UUID, VNC);
    assertEquals((await vmadm.infoVnc(UUID))?.port, port, words.join(" "));
    await fault("--clear");
  }
  await vmadm.delete(UUID);
}, FARTHEST);

hostTest("boot() says why a machine died, from the log of its brand", async (host) => {
  const { vmadm, fault } = host;
  const logs = { kvm: "root/tmp/vm.log", bhyve: "logs/platform.log" };
  for (const [brand, log] of Object.entries(logs)) {
    await vmadm.create({ ...PAYLOAD, brand });
    await fault("start_dies", "1");
    const error = await refused(() => vmadm.boot(UUID, {}), "host", `${log} ends with: `);
    assertMatch(error.message, /begins \| .*the fault start_dies ends this hypervisor$/);
    await vmadm.boot(UUID, {});
    await vmadm.stop(UUID, { force: true });
    await vmadm.stop(UUID, { force: true });
    await vmadm.delete(UUID);
  }
});

hostTest("stop() waits for a machine that is already stopping", async (host) => {
  const { vmadm, fault, simulate } = host;
  await vmadm.create(PAYLOAD);
  await vmadm.boot(UUID, {});
  await fault("acpi_ignored");
  const stops = simulate("vmadm", "stop", UUID, "-t", "10");
  await until("state stopping", async () => (await vmadm.get(UUID))?.state === "stopping");
  await vmadm.stop(UUID, {});
  assertEquals((await vmadm.get(UUID))?.state, "stopped");
  await stops;
  await vmadm.delete(UUID);
}, ["simulated"]);

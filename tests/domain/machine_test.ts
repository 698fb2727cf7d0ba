import { assertEquals, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { parseMachinePayload, parseMachineRequest } from "../../src/domain/machine/machine.ts";
import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
import { disk, fieldsOf, machine, media, nic, request, UUID } from "./machine_request.ts";

Deno.test("parseMachineRequest() accepts the example of document 3 unchanged", () => {
  const read = parseMachineRequest({ machine, media }, DEFAULT_POLICY);
  const nics = [{ ...(machine.nics as JsonObject[])[0], primary: true }];
  assertEquals(read, { machine: { ...machine, nics }, media, boot: "cd" });
});

Deno.test("parseMachineRequest() sets autoboot to false when it is absent", () => {
  const { autoboot: _autoboot, ...rest } = machine;
  const read = parseMachineRequest({ machine: rest, media }, DEFAULT_POLICY);
  assertEquals(read.machine.autoboot, false);
});

Deno.test("parseMachineRequest() keeps every property that the policy allows", () => {
  const full = {
    ...machine,
    alias: "web-1.example",
    hostname: "web-1.example.org",
    quota: 12,
    cpu_cap: 200,
    cpu_shares: 100,
    max_physical_memory: 2304,
    tags: { role: "web", n: 1, on: true },
    customer_metadata: { "user-script": "#!/bin/sh\necho hi\n" },
    vga: "std",
    zfs_io_priority: 100,
    disks: [{ ...disk, compression: "lz4", refreservation: 0, block_size: 8192 }],
    nics: [{
      ...nic,
      ips: ["192.0.2.7/24", "2001:db8::7/64", "addrconf"],
      gateways: ["192.0.2.1"],
      mac: "2:8:20:AA:bb:c",
      vlan_id: 12,
      mtu: 1500,
    }],
  };
  const read = parseMachineRequest({ machine: full, media }, DEFAULT_POLICY);
  const nics = [{ ...full.nics[0], mac: "02:08:20:aa:bb:0c" }];
  assertEquals(read.machine, { ...full, nics });
});

Deno.test("parseMachineRequest() takes the boot from the request, else from the medium", () => {
  const boot = (body: JsonObject) => parseMachineRequest({ machine, ...body }, DEFAULT_POLICY).boot;
  assertEquals(boot({ media: { path: "/m/a.iso" } }), "cd");
  assertEquals(boot({ media: { path: "/m/a.img" } }), "disk");
  assertEquals(boot({ media: { path: "/m/a.RAW" } }), "disk");
  assertEquals(boot({ media: { path: "/m/a.iso" }, boot: "disk" }), "disk");
  const artifact = { distro: "debian", release: "latest" };
  assertEquals(boot({ media: { artifact } }), "cd");
  assertEquals(boot({ media: { artifact: { ...artifact, format: "raw" } } }), "disk");
  assertEquals(boot({ media: { artifact: { ...artifact, format: "iso" } } }), "cd");
});

Deno.test("parseMachineRequest() folds its uuid to lower case", () => {
  const read = parseMachineRequest({ machine, media, uuid: UUID.toUpperCase() }, DEFAULT_POLICY);
  assertEquals<string | undefined>(read.uuid, UUID);
});

Deno.test("parseMachineRequest() refuses to boot a disk image as a cd", () => {
  const body = { machine, media: { path: "/m/a.img" }, boot: "cd" };
  assertEquals(fieldsOf(() => parseMachineRequest(body, DEFAULT_POLICY)), ["boot"]);
});

Deno.test("parseMachineRequest() converts digits to the number", () => {
  const texts = { vcpus: "2", ram: "01024", zfs_root_recsize: "4096", quota: "20" };
  const digits = {
    ...texts,
    disks: [{ model: "virtio", size: "10", refreservation: "0" }],
    nics: [{ ...nic, mtu: "1500", vlan_id: "7", blocked_outgoing_ports: ["25"] }],
  };
  assertEquals(parseMachineRequest(request(digits), DEFAULT_POLICY).machine, {
    ...machine,
    ...{ vcpus: 2, ram: 1024, zfs_root_recsize: 4096, quota: 20 },
    disks: [{ model: "virtio", size: 10, refreservation: 0 }],
    nics: [{ ...nic, mtu: 1500, vlan_id: 7, blocked_outgoing_ports: [25] }],
  });
  for (const ram of ["262145", "9999999999999999"]) {
    const parse = () => parseMachineRequest(request({ ram }), DEFAULT_POLICY);
    const { errors: [error] } = assertThrows(parse, AgentError);
    assertEquals([error?.field, error?.code], ["machine.ram", "TooLarge"]);
  }
});

Deno.test("a quota and a cpu_cap of 0, which mean no limit, are refused with that reason", () => {
  for (const name of ["quota", "cpu_cap"]) {
    const parse = () => parseMachineRequest(request({ [name]: 0 }), DEFAULT_POLICY);
    assertThrows(parse, AgentError, ": 0 would be no limit");
  }
});

Deno.test("a route must lead through a nic of the machine with a static address", () => {
  const mac = "02:08:20:AA:bb:cc";
  const nics = [
    { ...nic, ips: ["192.0.2.7/24"], mac },
    { ...nic, ip: "dhcp" },
    { ...nic, ips: ["addrconf", "2001:db8::7/64"] },
    nic,
  ];
  const by = (gateway: string) => () =>
    parseMachineRequest(request({ nics, routes: { "203.0.113.0/24": gateway } }), DEFAULT_POLICY)
      .machine.routes;
  const kept = `macs[${mac.toLowerCase()}]`;
  for (const gateway of ["nics[0]", "nics[2]", "198.51.100.1", kept]) {
    assertEquals(by(gateway)(), { "203.0.113.0/24": gateway });
  }
  assertEquals(by(`macs[${mac}]`)(), { "203.0.113.0/24": kept });
  assertEquals(by("macs[2:8:20:aa:bb:cc]")(), { "203.0.113.0/24": kept });
  for (const gateway of ["nics[1]", "nics[3]", "nics[4]", "macs[02:08:20:aa:bb:cd]"]) {
    assertEquals(fieldsOf(by(gateway)), ["machine.routes.203.0.113.0/24"]);
  }
});

Deno.test("a kvm machine keeps one of the four IDE places for its medium", () => {
  const disks = (count: number, model: string) => Array(count).fill({ model, size: 1 });
  const asked = (changes: JsonObject) => () =>
    parseMachineRequest(request(changes), DEFAULT_POLICY);
  for (const model of ["ide", "scsi", "virtio"]) {
    asked({ disks: disks(3, model) })();
    assertEquals(fieldsOf(asked({ disks: disks(4, model) }))[0], "machine.disks");
  }
  const bhyve = { brand: "bhyve", disks: disks(8, "ahci"), nics: [] };
  parseMachineRequest({ machine: bhyve, media }, DEFAULT_POLICY);
  // A task may make one that boots no medium.
  const payload = (list: JsonObject[]) => () =>
    parseMachinePayload({ brand: "kvm", disks: list }, DEFAULT_POLICY);
  payload([...disks(4, "ide"), ...disks(4, "virtio")])();
  const fifth = payload([...disks(4, "virtio"), ...disks(1, "ide")]);
  assertEquals(fieldsOf(fifth), ["payload.disks[4].model"]);
});

Deno.test("parseMachineRequest() drops a primary that is false", () => {
  for (const primary of [0, false]) {
    const read = parseMachineRequest(request({ nics: [{ ...nic, primary }] }), DEFAULT_POLICY);
    assertEquals(read.machine.nics, [nic]);
  }
});

Deno.test("parseMachineRequest() refuses a machine without a brand, which vmadm would read as joyent", () => {
  const parse = () => parseMachineRequest({ machine: {}, media }, DEFAULT_POLICY);
  assertEquals(fieldsOf(parse), ["machine.brand"]);
});

Deno.test("parseMachineRequest() reports every incorrect field at once", () => {
  const body = {
    machine: { brand: "kvm", ram: "x", disks: [{ model: "virtio" }], nics: [{}] },
    media: { url: "https://example.org/x.iso" },
    boot: "net",
    uuid: "x",
    speed: 1,
  };
  assertEquals(fieldsOf(() => parseMachineRequest(body, DEFAULT_POLICY)).toSorted(), [
    "boot",
    "machine.disks[0].size",
    "machine.nics[0].model",
    "machine.nics[0].nic_tag",
    "machine.ram",
    "media.digest",
    "speed",
    "uuid",
  ]);
});

Deno.test("parseMachineRequest() suggests the nearest name for an unknown one", () => {
  const parse = () => parseMachineRequest(request({ memroy: 1, vcpu: 2 }), DEFAULT_POLICY);
  const { errors } = assertThrows(parse, AgentError);
  assertEquals(errors.map(({ code }) => code), ["UnknownField", "UnknownField"]);
  assertEquals(
    errors[1]?.message,
    'machine.vcpu is unknown: the nearest known name is "vcpus"',
  );
});

Deno.test("parseMachineRequest() refuses a key named __proto__", () => {
  const body = JSON.parse('{"machine":{"brand":"kvm","__proto__":{"ram":1}},"media":{}}');
  const fields = fieldsOf(() => parseMachineRequest(body, DEFAULT_POLICY));
  assertEquals(fields, ["machine.__proto__", "media"]);
});

Deno.test("parseMachineRequest() limits the number of findings", () => {
  const many = Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`x${index}`, 1]));
  assertEquals(fieldsOf(() => parseMachineRequest(request(many), DEFAULT_POLICY)).length, 64);
});

Deno.test("parseMachineRequest() refuses anything but an object", () => {
  for (const body of [null, [], "x", 1, undefined]) {
    assertThrows(
      () => parseMachineRequest(body, DEFAULT_POLICY),
      AgentError,
      "Cannot accept the machine: body ",
    );
    const parse = () => parseMachineRequest({ machine: body, media }, DEFAULT_POLICY);
    assertEquals(fieldsOf(parse)[0], "machine");
  }
});

Deno.test("parseMachineRequest() refuses an image file for a bhyve machine", () => {
  const body = { machine: { brand: "bhyve" }, media: { path: "/m/a.img" } };
  assertEquals(fieldsOf(() => parseMachineRequest(body, DEFAULT_POLICY)), ["boot"]);
});

Deno.test("parseMachineRequest() refuses an artifact that no machine boots", () => {
  const artifact = { distro: "debian", release: "13", format: "qcow2" };
  const parse = () => parseMachineRequest({ machine, media: { artifact } }, DEFAULT_POLICY);
  assertEquals(fieldsOf(parse), ["media.artifact.format"]);
});

Deno.test("parseMachinePayload() accepts a uuid in lower case only", () => {
  const payload = { brand: "bhyve", bootrom: "uefi", uuid: UUID };
  assertEquals(parseMachinePayload(payload, DEFAULT_POLICY), { ...payload, autoboot: false });
  for (const uuid of [UUID.toUpperCase(), "--help", `-f/etc/x${"a".repeat(28)}`, `${UUID}\n`]) {
    const parse = () => parseMachinePayload({ ...payload, uuid }, DEFAULT_POLICY);
    assertEquals(fieldsOf(parse), ["payload.uuid"]);
  }
});

import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { parseMachineRequest } from "../../src/domain/machine/machine.ts";
import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
import { disk, fieldsOf, nic, request, UUID } from "./machine_request.ts";

const INCORRECT: readonly (readonly [string, JsonObject])[] = [
  ["machine.brand", { brand: "joyent" }],
  ["machine.brand", { brand: 1 }],
  ["machine.vcpus", { vcpus: 0 }],
  ["machine.vcpus", { vcpus: 1.5 }],
  ["machine.vcpus", { vcpus: "x" }],
  ["machine.vcpus", { vcpus: "65" }],
  ["machine.vcpus", { vcpus: DEFAULT_POLICY.vcpusMax + 1 }],
  ["machine.autoboot", { autoboot: true }],
  ["machine.autoboot", { autoboot: "false" }],
  ["machine.ram", { ram: 0 }],
  ["machine.ram", { ram: -5 }],
  ["machine.ram", { ram: DEFAULT_POLICY.ramMiBMax + 1 }],
  ["machine.ram", { ram: 2 ** 64 }],
  ["machine.ram", { ram: null }],
  ["machine.resolvers", { resolvers: "192.0.2.1" }],
  ["machine.resolvers", { resolvers: Array(9).fill("192.0.2.1") }],
  ["machine.resolvers[1]", { resolvers: ["192.0.2.1", "300.0.0.1"] }],
  ["machine.resolvers[0]", { resolvers: ["ns.example"] }],
  ["machine.alias", { alias: "" }],
  ["machine.alias", { alias: "a\nb" }],
  ["machine.alias", { alias: 5 }],
  ["machine.hostname", { hostname: "a;b" }],
  ["machine.hostname", { hostname: "a".repeat(64) }],
  ["machine.hostname", { hostname: "" }],
  ["machine.quota", { quota: 0 }],
  ["machine.quota", { quota: DEFAULT_POLICY.quotaGiBMax + 1 }],
  ["machine.cpu_cap", { cpu_cap: 0 }],
  ["machine.cpu_shares", { cpu_shares: 65_536 }],
  ["machine.max_physical_memory", { max_physical_memory: -1 }],
  ["machine.zfs_io_priority", { zfs_io_priority: "high" }],
  ["machine.tags", { tags: [] }],
  ["machine.tags.a", { tags: { a: {} } }],
  ["machine.tags.zonewright_job", { tags: { zonewright_job: UUID } }],
  // A name that could be set and not removed again.
  ["machine.tags.a\nb", { tags: { "a\nb": 1 } }],
  ["machine.tags.", { tags: { "": 1 } }],
  ["machine.customer_metadata.a", { customer_metadata: { a: null } }],
  ["machine.customer_metadata.a", { customer_metadata: { a: "x".repeat(65_537) } }],
  ["machine.bootrom", { bootrom: "uefi" }],
  ["machine.bootrom", { brand: "bhyve", bootrom: "/zones/evil", disks: [] }],
  ["machine.vga", { brand: "bhyve", vga: "std", disks: [] }],
  ["machine.vga", { vga: "cirrus,x=y" }],
  ["machine.disks", { disks: {} }],
  ["machine.disks", { disks: Array(DEFAULT_POLICY.disksMax + 1).fill(disk) }],
  ["machine.disks", { disks: [{ ...disk, boot: true }, { ...disk, boot: true }] }],
  ["machine.disks", { disks: Array(4).fill(disk) }],
  ["machine.disks[0]", { disks: ["x"] }],
  ["machine.disks[0].size", { disks: [{ model: "virtio" }] }],
  ["machine.disks[0].size", { disks: [{ ...disk, size: "10G" }] }],
  ["machine.disks[1].size", { disks: [disk, { ...disk, size: 0 }] }],
  ["machine.disks[0].size", { disks: [{ ...disk, size: DEFAULT_POLICY.diskMiBMax + 1 }] }],
  ["machine.disks[0].model", { disks: [{ size: 1 }] }],
  ["machine.disks[0].model", { disks: [{ ...disk, model: "nvme" }] }],
  ["machine.disks[0].model", { brand: "bhyve", disks: [{ ...disk, model: "ide" }] }],
  ["machine.disks[0].boot", { disks: [{ ...disk, boot: 1 }] }],
  ["machine.disks[0].compression", { disks: [{ ...disk, compression: "gzip-10" }] }],
  ["machine.disks[0].block_size", { disks: [{ ...disk, block_size: 1000 }] }],
  ["machine.disks[0].block_size", { disks: [{ ...disk, block_size: 262_144 }] }],
  ["machine.disks[0].refreservation", { disks: [{ ...disk, refreservation: 2048 }] }],
  ["machine.nics", { nics: "net0" }],
  ["machine.nics", { nics: [{ ...nic, primary: 1 }, { ...nic, primary: true }] }],
  ["machine.nics", { nics: Array(2).fill({ ...nic, mac: "02:08:20:aa:bb:cc" }) }],
  ["machine.nics", {
    nics: [{ ...nic, ips: ["192.0.2.7/24"] }, { ...nic, ip: "192.0.2.7", netmask: "255.0.0.0" }],
  }],
  ["machine.nics[0].nic_tag", { nics: [{ model: "virtio" }] }],
  ["machine.nics[0].nic_tag", { nics: [{ ...nic, nic_tag: "a b" }] }],
  ["machine.nics[0].model", { nics: [{ nic_tag: "admin" }] }],
  ["machine.nics[0].model", { nics: [{ ...nic, model: "ne2k" }] }],
  ["machine.nics[0].ip", { nics: [{ ...nic, ip: "192.0.2.999", netmask: "255.0.0.0" }] }],
  ["machine.nics[0].ip", { nics: [{ ...nic, ip: "192.0.2.07", netmask: "255.0.0.0" }] }],
  ["machine.nics[0].ip", { nics: [{ ...nic, ip: "2001:db8::7", netmask: "255.0.0.0" }] }],
  ["machine.nics[0].netmask", { nics: [{ ...nic, netmask: "255.0.0.0" }] }],
  ["machine.nics[0].ip", {
    nics: [{ ...nic, ip: "192.0.2.7", netmask: "255.255.255.0", ips: ["192.0.2.70/24"] }],
  }],
  ["machine.nics[0].netmask", { nics: [{ ...nic, ip: "192.0.2.9" }] }],
  ["machine.nics[0].netmask", { nics: [{ ...nic, ip: "192.0.2.9", netmask: "255.0.255.0" }] }],
  ["machine.nics[0].netmask", { nics: [{ ...nic, ip: "192.0.2.9", netmask: 24 }] }],
  ["machine.nics[0].gateway", { nics: [{ ...nic, gateway: "gw" }] }],
  ["machine.nics[0].primary", { nics: [{ ...nic, primary: "1" }] }],
  ["machine.nics[0].primary", { nics: [{ ...nic, primary: 2 }] }],
  ["machine.nics[0].mac", { nics: [{ ...nic, mac: "00:00:00:00:00:00" }] }],
  ["machine.nics[0].mac", { nics: [{ ...nic, mac: "01:00:5e:00:00:01" }] }],
  ["machine.nics[0].mac", { nics: [{ ...nic, mac: "02:08:20" }] }],
  ["machine.nics[0].vlan_id", { nics: [{ ...nic, vlan_id: 4096 }] }],
  ["machine.nics[0].mtu", { nics: [{ ...nic, mtu: 100 }] }],
  ["machine.nics[0].ips", { nics: [{ ...nic, ips: "192.0.2.1/24" }] }],
  ["machine.nics[0].ips[0]", { nics: [{ ...nic, ips: ["192.0.2.1"] }] }],
  ["machine.nics[0].ips[0]", { nics: [{ ...nic, ips: ["192.0.2.1/33"] }] }],
  ["machine.nics[0].ips[0]", { nics: [{ ...nic, ips: ["2001:db8:::1/64"] }] }],
  ["machine.nics[0].gateways[0]", { nics: [{ ...nic, gateways: ["fe80::1"] }] }],
];

for (const [index, [field, changes]] of INCORRECT.entries()) {
  Deno.test(`parseMachineRequest() names ${field} as incorrect, case ${index}`, () => {
    assertEquals(fieldsOf(() => parseMachineRequest(request(changes), DEFAULT_POLICY)), [field]);
  });
}

Deno.test("an address of two nics is refused, a repeated one of a single nic is accepted", () => {
  const address = { ip: "192.0.2.7", netmask: "255.255.255.0", ips: ["192.0.2.7/24"] };
  const given = [{ ...nic, ip: "dhcp" }, { ...nic, ip: "dhcp" }, { ...nic, ips: ["addrconf"] }];
  parseMachineRequest(request({ nics: [{ ...nic, ...address }, ...given] }), DEFAULT_POLICY);
  for (const network of [{ nic_tag: "external" }, { vlan_id: 7 }]) {
    const nics = [{ ...nic, ...address }, { ...nic, ...address, ...network }];
    const parse = () => parseMachineRequest(request({ nics }), DEFAULT_POLICY);
    assertEquals(fieldsOf(parse), ["machine.nics"]);
  }
});

Deno.test("an unknown name gets a suggestion only if a known name is similar", () => {
  const messageOf = (name: string) =>
    assertThrows(() => parseMachineRequest(request({ [name]: 1 }), DEFAULT_POLICY), AgentError)
      .message;
  assertEquals(
    messageOf("max_swop"),
    'Cannot accept the machine: machine.max_swop is unknown: the nearest known name is "max_swap"',
  );
  assertMatch(
    messageOf("zz9"),
    /^Cannot accept the machine: machine.zz9 is unknown, expected brand, .* and \d+ more$/,
  );
});

Deno.test("reading stops early in a description of very many unknown names", () => {
  const names = Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`k${n}`, 1]));
  let read = 0;
  const counted = new Proxy(names, {
    get: (target, name, receiver) => {
      read += 1;
      return Reflect.get(target, name, receiver) as unknown;
    },
  });
  const error = assertThrows(() => parseMachineRequest(counted, DEFAULT_POLICY), AgentError);
  assertEquals([error.errors.length, read < 100], [64, true]);
});

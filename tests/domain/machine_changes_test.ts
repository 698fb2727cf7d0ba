import { assert, assertEquals } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import {
  needsMachine,
  parseMachineChanges,
  requireFitting,
  withOwnMacs,
} from "../../src/domain/machine/changes.ts";
import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
import { withoutProperties } from "../../src/config/policy.ts";
import { fieldsOf } from "./machine_request.ts";

Deno.test("parseMachineChanges() accepts sizes and media", () => {
  const changes = {
    quota: 20,
    autoboot: true,
    set_tags: { a: 1 },
    add_disks: [{ path: "/a.iso", media: "cdrom", model: "ahci" }],
    remove_disks: ["/b.iso"],
  };
  assertEquals(parseMachineChanges(changes, DEFAULT_POLICY), changes);
});

const CHANGES: readonly (readonly [string, JsonObject])[] = [
  ["changes.qemu_extra_opts", { qemu_extra_opts: "x" }],
  ["changes.add_filesystems", { add_filesystems: [] }],
  ["changes.set_internal_metadata", { set_internal_metadata: {} }],
  ["changes.update_nics[0].mac", { update_nics: [{ nic_tag: "admin" }] }],
  ["changes.update_nics[0].allow_mac_spoofing", {
    update_nics: [{ mac: "02:08:20:aa:bb:cc", allow_mac_spoofing: true }],
  }],
  ["changes.update_nics[0].netmask", {
    update_nics: [{ mac: "02:08:20:aa:bb:cc", ip: "192.0.2.7" }],
  }],
  ["changes.add_nics[0].model", { add_nics: [{ nic_tag: "admin" }] }],
  ["changes.add_nics", { add_nics: Array(9).fill({ nic_tag: "admin", model: "virtio" }) }],
  ["changes.add_nics", {
    add_nics: Array(2).fill({ nic_tag: "admin", model: "virtio", primary: 1 }),
  }],
  ["changes.remove_nics[0]", { remove_nics: ["net0"] }],
  ["changes.update_disks", { update_disks: [] }],
  ["changes.brand", { brand: "bhyve" }],
  ["changes.quota", { quota: 0 }],
  ["changes.set_tags.zonewright_job", { set_tags: { zonewright_job: "x" } }],
  ["changes.add_disks[0].model", { add_disks: [{ path: "/a.iso", media: "cdrom" }] }],
  ["changes.add_disks[0].media", {
    add_disks: [{ path: "/a.iso", media: "disk", model: "ahci" }],
  }],
  ["changes.add_disks[0].path", {
    add_disks: [{ path: "/dev/zvol/rdsk/zones/a.iso", media: "cdrom", model: "ahci" }],
  }],
  ["changes.add_disks[0].nocreate", {
    add_disks: [{ path: "/a.iso", media: "cdrom", model: "ahci", nocreate: true }],
  }],
  ["changes.remove_disks[0]", { remove_disks: ["/dev/zvol/rdsk/zones/x-disk0"] }],
];

for (const [field, changes] of CHANGES) {
  Deno.test(`parseMachineChanges() refuses ${JSON.stringify(changes)}`, () => {
    assertEquals(fieldsOf(() => parseMachineChanges(changes, DEFAULT_POLICY)), [field]);
  });
}

Deno.test("added nics may not exceed the number that the policy allows", () => {
  const nics = ["aa", "bb", "cc"].map((end) => ({ mac: `02:08:20:00:00:${end}` }));
  const policy = { ...DEFAULT_POLICY, nicsMax: 4 };
  const added = (count: number) => Array(count).fill({ nic_tag: "admin", model: "virtio" });
  const fit = (changes: JsonObject) => requireFitting(changes, { brand: "kvm", nics }, policy);
  fit({ add_nics: added(1) });
  fit({ add_nics: added(2), remove_nics: ["02:08:20:00:00:bb"] });
  const refused = fieldsOf(() => fit({ add_nics: added(2), remove_nics: ["02:08:20:00:00:dd"] }));
  assertEquals(refused, ["changes.add_nics"]);
});

Deno.test("a new nic may share neither mac nor address with nics that the machine keeps", () => {
  const [first, second] = ["02:08:20:00:00:aa", "02:08:20:00:00:bb"];
  const nic = { nic_tag: "admin", model: "virtio" };
  const nics = [
    // The nic as vmadm shows it.
    { ...nic, mac: "2:8:20:0:0:aa", ip: "192.0.2.7", ips: ["192.0.2.7/24"], vlan_id: 0 },
    { ...nic, mac: second, ip: "dhcp", ips: ["dhcp"] },
  ];
  const fit = (changes: JsonObject) =>
    requireFitting(changes, { brand: "bhyve", nics }, DEFAULT_POLICY);
  const taken = { ...nic, ips: ["192.0.2.7/25"] };
  assertEquals(fieldsOf(() => fit({ add_nics: [{ ...nic, mac: second }, taken] })), [
    "changes.add_nics[0].mac",
    "changes.add_nics[1]",
  ]);
  for (const network of [{ vlan_id: 7 }, { nic_tag: "external" }]) {
    const add_nics = [{ ...taken, ...network }];
    assertEquals(fieldsOf(() => fit({ add_nics })), ["changes.add_nics[0]"]);
  }
  // One that goes or moves in the same change, and addresses that nobody chose.
  fit({ add_nics: [{ ...taken, mac: first }], remove_nics: [first] });
  fit({ add_nics: [taken], update_nics: [{ mac: first, ips: ["192.0.2.8/24"] }] });
  fit({ add_nics: [{ ...nic, ip: "dhcp" }] });
  assertEquals(
    fieldsOf(() => fit({ add_nics: [taken], update_nics: [{ mac: first, mtu: 9000 }] })),
    ["changes.add_nics[0]"],
  );
});

Deno.test("a changed nic may not take an address of another nic of the machine", () => {
  const [first, second] = ["02:08:20:00:00:aa", "02:08:20:00:00:bb"];
  const nics = [
    { mac: "2:8:20:0:0:aa", ip: "192.0.2.7", ips: ["192.0.2.7/24", "2001:db8::7/64"] },
    { mac: second, ip: "192.0.2.8", ips: ["192.0.2.8/24"], vlan_id: 7 },
  ];
  const fit = (changes: JsonObject) =>
    requireFitting(changes, { brand: "bhyve", nics }, DEFAULT_POLICY);
  const moved = (ips: readonly string[], mac = second) => ({ mac, ips: [...ips] });
  for (const ips of [["192.0.2.7/25"], ["dhcp", "2001:DB8::7/64"]]) {
    assertEquals(fieldsOf(() => fit({ update_nics: [moved(ips)] })), ["changes.update_nics[0]"]);
  }
  const one = { mac: second, ip: "192.0.2.7", netmask: "255.255.255.0" };
  assertEquals(fieldsOf(() => fit({ update_nics: [one] })), ["changes.update_nics[0]"]);
  // Its own address, one that is given up at the same time, and two that change places.
  fit({ update_nics: [moved(["192.0.2.7/25"], first)] });
  fit({ update_nics: [one], remove_nics: [first] });
  fit({ update_nics: [moved(["192.0.2.7/24"]), moved(["192.0.2.8/24"], first)] });
  fit({ update_nics: [{ mac: second, mtu: 1500 }] });
});

Deno.test("a nic that is added beside a changed one may share neither its mac nor its address", () => {
  const mac = "02:08:20:00:00:aa";
  const change = { mac, ip: "192.0.2.7", netmask: "255.255.255.0" };
  const nic = { nic_tag: "admin", model: "virtio" };
  const parse = (added: JsonObject, update: JsonObject = change) => () =>
    parseMachineChanges(
      { update_nics: [update], add_nics: [{ ...nic, ...added }] },
      DEFAULT_POLICY,
    );
  assertEquals(fieldsOf(parse({ ips: ["192.0.2.7/24"] })), ["changes.add_nics[0]"]);
  assertEquals(fieldsOf(parse({ mac: "2:8:20:0:0:aa" })), ["changes.add_nics[0].mac"]);
  parse({ ips: ["192.0.2.8/24"] })();
});

Deno.test("a change of a nic's address needs a netmask", () => {
  const mac = "02:08:20:00:00:aa";
  const parse = (change: JsonObject) => () =>
    parseMachineChanges({ update_nics: [{ mac, ...change }] }, DEFAULT_POLICY);
  const field = "changes.update_nics[0].netmask";
  for (const change of [{ ip: "192.0.2.7" }, { netmask: "255.255.255.0" }]) {
    assertEquals(fieldsOf(parse(change)), [field]);
  }
  const invalid = { ip: "192.0.2.7", netmask: "255.0.255.0" };
  assertEquals(fieldsOf(parse(invalid)), [field]);
  for (const ip of ["dhcp", "addrconf"]) parse({ ip })();
  parse({ ip: "192.0.2.7", netmask: "255.255.255.255" })();
});

Deno.test("changed routes must lead through nics that the machine has afterwards", () => {
  const [first, second] = ["02:08:20:00:00:aa", "02:08:20:00:00:bb"];
  const nics = [{ mac: first, ips: ["192.0.2.7/24"] }, { mac: second, ips: ["dhcp"] }];
  const fit = (by: string, changes: JsonObject = {}) => () =>
    requireFitting(
      { ...changes, set_routes: { "203.0.113.0/24": by } },
      { brand: "kvm", nics },
      DEFAULT_POLICY,
    );
  const field = "changes.set_routes.203.0.113.0/24";
  for (const by of ["198.51.100.1", "nics[0]", `macs[${first}]`]) fit(by)();
  for (const by of ["nics[1]", "nics[2]", `macs[${second}]`, "macs[02:08:20:00:00:cc]"]) {
    assertEquals(fieldsOf(fit(by)), [field]);
  }
  const added = { nic_tag: "admin", model: "virtio", ips: ["192.0.2.8/24"] };
  fit("nics[2]", { add_nics: [added] })();
  fit("nics[1]", { update_nics: [{ mac: second, ips: ["192.0.2.9/24"] }] })();
  assertEquals(fieldsOf(fit("nics[0]", { remove_nics: [first] })), [field]);
});

Deno.test("changes of nics and disks are checked against the brand and the drives of the machine", () => {
  const disk = { path: "/dev/zvol/rdsk/zones/a", model: "virtio" };
  const fit = (changes: JsonObject, brand: string, disks: number) => () =>
    requireFitting(changes, { brand, nics: [], disks: Array(disks).fill(disk) }, DEFAULT_POLICY);
  const cds = { add_disks: [{ path: "/a.iso", media: "cdrom", model: "ide" }] };
  fit(cds, "kvm", 3)();
  assertEquals(fieldsOf(fit(cds, "kvm", 4)), ["changes.add_disks[0].model"]);
  fit({ ...cds, remove_disks: [disk.path] }, "kvm", 4)();
  const cids = { allowed_dhcp_cids: ["0x0a"] };
  for (const list of ["add_nics", "update_nics"]) {
    fit({ [list]: [cids] }, "kvm", 1)();
    const field = `changes.${list}[0].allowed_dhcp_cids`;
    assertEquals(fieldsOf(fit({ [list]: [cids] }, "bhyve", 1)), [field]);
  }
});

Deno.test("withOwnMacs() writes macs as vmadm shows them", () => {
  const nics = [{ mac: "2:8:20:a:b:c" }, { mac: "02:08:20:aa:bb:cc" }];
  const parsed = parseMachineChanges({
    update_nics: [{ mac: "02:08:20:0A:0b:0c", mtu: 9000 }, { mac: "2:8:20:aa:bb:cc", mtu: 9000 }],
    remove_nics: ["2:8:20:a:b:c", "02:08:20:00:00:01"],
    ram: 64,
  }, DEFAULT_POLICY);
  assert(needsMachine(parsed));
  assertEquals(withOwnMacs(parsed, { nics }), {
    ram: 64,
    update_nics: [{ mac: "2:8:20:a:b:c", mtu: 9000 }, { mac: "02:08:20:aa:bb:cc", mtu: 9000 }],
    remove_nics: ["2:8:20:a:b:c", "02:08:20:00:00:01"],
  });
  assertEquals(withOwnMacs({ ram: 64 }, { nics }), { ram: 64 });
});

Deno.test("the network of an existing nic may not contain a slash, which vmadm refuses", () => {
  const mac = "02:08:20:aa:bb:cc";
  const changes = (nic_tag: string) => ({ update_nics: [{ mac, nic_tag }] });
  assertEquals(parseMachineChanges(changes("external"), DEFAULT_POLICY), changes("external"));
  const parse = () => parseMachineChanges(changes("overlay/7"), DEFAULT_POLICY);
  assertEquals(fieldsOf(parse), ["changes.update_nics[0].nic_tag"]);
});

Deno.test("a change names its nic by mac, even if the policy forbids choosing macs", () => {
  const policy = withoutProperties(DEFAULT_POLICY, ["nics.mac"]);
  const update_nics = [{ mac: "02:08:20:AA:bb:cc", vlan_id: 7, primary: 1 }];
  assertEquals(parseMachineChanges({ update_nics }, policy), {
    update_nics: [{ mac: "02:08:20:aa:bb:cc", vlan_id: 7, primary: true }],
  });
  const add_nics = [{ nic_tag: "admin", model: "virtio", mac: "02:08:20:aa:bb:cc" }];
  assertEquals(fieldsOf(() => parseMachineChanges({ add_nics }, policy)), [
    "changes.add_nics[0].mac",
  ]);
  const none = withoutProperties(DEFAULT_POLICY, ["nics"]);
  assertEquals(fieldsOf(() => parseMachineChanges({ update_nics }, none)), ["changes.update_nics"]);
});

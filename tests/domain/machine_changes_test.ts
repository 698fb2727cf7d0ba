import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { parseMachineChanges, requireFitting } from "../../src/domain/machine/changes.ts";
import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
import { withoutProperties } from "../../src/config/policy.ts";
import { fieldsOf } from "./machine_request.ts";

Deno.test("parseMachineChanges() takes sizes and media", () => {
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

Deno.test("nics that are added may not make them more than the policy allows", () => {
  const nics = ["aa", "bb", "cc"].map((end) => ({ mac: `02:08:20:00:00:${end}` }));
  const policy = { ...DEFAULT_POLICY, nicsMax: 4 };
  const added = (count: number) => Array(count).fill({ nic_tag: "admin", model: "virtio" });
  const fit = (changes: JsonObject) => requireFitting(changes, { brand: "kvm", nics }, policy);
  fit({ add_nics: added(1) });
  fit({ add_nics: added(2), remove_nics: ["02:08:20:00:00:bb"] });
  const refused = fieldsOf(() => fit({ add_nics: added(2), remove_nics: ["02:08:20:00:00:dd"] }));
  assertEquals(refused, ["changes.add_nics"]);
});

Deno.test("a new nic shares neither mac nor address with those that the machine keeps", () => {
  const [first, second] = ["02:08:20:00:00:aa", "02:08:20:00:00:bb"];
  const nic = { nic_tag: "admin", model: "virtio" };
  const nics = [
    { ...nic, mac: first, ip: "192.0.2.7", ips: ["192.0.2.7/24"], vlan_id: 0 },
    { ...nic, mac: second, ip: "dhcp", ips: ["dhcp"] },
  ];
  const fit = (changes: JsonObject) =>
    requireFitting(changes, { brand: "bhyve", nics }, DEFAULT_POLICY);
  const taken = { ...nic, ips: ["192.0.2.7/25"] };
  assertEquals(fieldsOf(() => fit({ add_nics: [{ ...nic, mac: second }, taken] })), [
    "changes.add_nics[0].mac",
    "changes.add_nics[1]",
  ]);
  // Another network, one that goes or moves in the same change, and addresses that nobody chose.
  fit({ add_nics: [{ ...taken, vlan_id: 7 }, { ...taken, nic_tag: "external" }] });
  fit({ add_nics: [{ ...taken, mac: first }], remove_nics: [first] });
  fit({ add_nics: [taken], update_nics: [{ mac: first, ips: ["192.0.2.8/24"] }] });
  fit({ add_nics: [{ ...nic, ip: "dhcp" }] });
  assertEquals(
    fieldsOf(() => fit({ add_nics: [taken], update_nics: [{ mac: first, mtu: 9000 }] })),
    ["changes.add_nics[0]"],
  );
});

Deno.test("a change of a nic names it by its mac, also where the policy forbids to choose one", () => {
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

import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { parseMachineChanges } from "../../src/domain/machine_changes.ts";
import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
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
  ["changes.update_nics", { update_nics: [] }],
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

// A machine as `get` shows it, and its single fields for lists and lookups.

import { join } from "@std/path";
import { type JsonObject, type JsonValue, objectsIn } from "../../domain/json.ts";
import { type Machine, zonepath } from "../machine.ts";
import { exists, type State } from "../host_folder.ts";

const NO_METADATA = { customer_metadata: {}, internal_metadata: {}, routes: {}, tags: {} };

/** The object that `get` prints. */
export async function viewOf(state: State, machine: Machine): Promise<JsonObject> {
  const { disks: _, ...configuration } = machine.vm;
  const path = zonepath(state, machine.uuid);
  const disks: JsonObject[] = [];
  for (const disk of objectsIn(machine.vm.disks)) {
    const file = disk.zfs_filesystem === undefined ? disk.path : undefined;
    const missing = disk.zfs_filesystem === undefined &&
      (typeof file !== "string" || !await exists(join(path, "root") + file));
    disks.push(missing ? { ...disk, missing: true } : disk);
  }
  return {
    ...configuration,
    // These are written once the zone is installed.
    ...(["configured", "incomplete"].includes(machine.state) ? NO_METADATA : {}),
    ...(disks.length === 0 ? {} : { device: null }),
    disks,
    zonepath: path,
    state: machine.state,
    zone_state: machine.zone_state,
    ...(machine.transition_expire === null ? {} : {
      transition_to: machine.vm.autoboot === true ? "running" : "stopped",
      transition_expire: machine.transition_expire,
    }),
    ...(machine.state === "failed" ? { failed: true } : {}),
    ...known("pid", machine.process?.pid ?? null),
    ...known("boot_timestamp", machine.boot_timestamp),
    ...known("exit_status", machine.exit_status),
    ...known("exit_timestamp", machine.exit_timestamp),
    platform_buildstamp: "20260101T000000Z",
    snapshots: [],
  };
}

function known(name: string, value: JsonValue): JsonObject {
  return value === null ? {} : { [name]: value };
}

/** Fields of `get` that a machine may have; a list or lookup may name these and whatever is below them. */
const FIELDS = new Set([
  "alias",
  "archive_on_delete",
  "autoboot",
  "bhyve_extra_opts",
  "billing_id",
  "boot",
  "boot_timestamp",
  "bootrom",
  "brand",
  "com1",
  "com2",
  "cpu_cap",
  "cpu_shares",
  "cpu_type",
  "create_timestamp",
  "customer_metadata",
  "datacenter_name",
  "device",
  "disks",
  "do_not_inventory",
  "exit_status",
  "exit_timestamp",
  "failed",
  "firewall_enabled",
  "flexible_disk_size",
  "hostname",
  "hvm",
  "indestructible_delegated",
  "indestructible_zoneroot",
  "internal_metadata",
  "internal_metadata_namespaces",
  "last_modified",
  "limit_priv",
  "max_locked_memory",
  "max_lwps",
  "max_msg_ids",
  "max_physical_memory",
  "max_sem_ids",
  "max_shm_ids",
  "max_shm_memory",
  "max_swap",
  "nics",
  "owner_uuid",
  "package_name",
  "package_version",
  "pci_devices",
  "pid",
  "platform_buildstamp",
  "qemu_extra_opts",
  "qemu_opts",
  "quota",
  "ram",
  "resolvers",
  "routes",
  "server_uuid",
  "snapshots",
  "spice_opts",
  "spice_port",
  "state",
  "tags",
  "transition_expire",
  "transition_to",
  "type",
  "uuid",
  "v",
  "vcpus",
  "vga",
  "virtio_txburst",
  "virtio_txtimer",
  "vnc_password",
  "vnc_port",
  "zfs_filesystem",
  "zfs_filesystem_limit",
  "zfs_io_priority",
  "zfs_root_compression",
  "zfs_root_recsize",
  "zfs_snapshot_limit",
  "zlog_mode",
  "zlog_name",
  "zone_state",
  "zonedid",
  "zoneid",
  "zonename",
  "zonepath",
  "zpool",
]);

/** Whether a list or lookup may name a field, such as `alias`, `tags.role` or `nics.*.ip`. */
export function isField(name: string): boolean {
  return FIELDS.has(name.split(".")[0] ?? "");
}

/** The values of a field name; several if it has a `*` for a list. */
export function valuesOf(view: JsonObject, name: string): JsonValue[] {
  if (name === "type") return [typeOf(view)];
  let values: JsonValue[] = [view];
  for (const part of name.split(".")) {
    values = values.flatMap((value) => {
      if (typeof value !== "object" || value === null) return [];
      if (part === "*") return Object.values(value);
      const inner = Object.entries(value).find(([key]) => key === part);
      return inner === undefined ? [] : [inner[1]];
    });
  }
  return values;
}

/** The short word of the column TYPE. */
function typeOf(view: JsonObject): string {
  return view.brand === "bhyve" ? "BHYV" : "KVM";
}

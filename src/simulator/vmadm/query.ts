// vmadm get, lookup, list and info: the subcommands that only read.

import { join } from "@std/path";
import { type JsonObject, type JsonValue, objectsIn } from "../../domain/json.ts";
import { faultText, strikes } from "../fault.ts";
import { exists, type State } from "../host_folder.ts";
import { type Machine, readMachine, readMachines, zonepath } from "../machine.ts";
import { failed, printed, printedJson, refusal, type ToolOutcome } from "../outcome.ts";

/** Columns of `list` without `-o`. */
const LIST_FIELDS = ["uuid", "type", "ram", "state", "alias"];
/** Least widths of columns; others are as wide as their name or eight characters. */
const WIDTHS: Readonly<Record<string, number>> = { uuid: 36, type: 4, ram: 8, state: 17, alias: 1 };
const WIDTH_DEFAULT = 8;

interface LookupArguments {
  readonly json: boolean;
  readonly unique: boolean;
  /** Fields of `-o`; null without it. */
  readonly fields: readonly string[] | null;
  /** Operands such as `state=running`. */
  readonly filters: readonly string[];
}

interface ListArguments {
  readonly parsable: boolean;
  readonly noHeader: boolean;
  readonly fields: readonly string[] | null;
  /** Fields of `-s`, each with an optional leading `-` for descending. */
  readonly sort: readonly string[];
  readonly filters: readonly string[];
}

/**
 * `vmadm get UUID`.
 * @throws {AgentError} as refusal() when there is no such machine
 */
export async function get(state: State, uuid: string): Promise<ToolOutcome> {
  const machine = await readMachine(state, uuid);
  if (machine === null) throw refusal(`zoneadm: ${uuid}: No such zone configured`);
  return printedJson(await viewOf(state, machine));
}

/**
 * `vmadm lookup [-j|-1] [-o FIELDS] [KEY=VALUE ...]`. No match is a success.
 * @throws {AgentError} as refusal() for improper options, or if `-1` does not match exactly one machine
 */
export async function lookup(state: State, args: LookupArguments): Promise<ToolOutcome> {
  if (args.fields !== null && !args.json) throw refusal("Cannot specify -o without -j");
  const found = await matching(state, args.filters, "lookup");
  if (args.unique && found.length !== 1) {
    throw refusal(`Requested unique lookup but found ${found.length} results.`);
  }
  if (!args.json) return printed(found.map(({ uuid }) => `${String(uuid)}\n`).join(""));
  const { fields } = args;
  if (fields === null) return printedJson(found);
  return printedJson(found.map((view) => {
    const picked: JsonObject = {};
    for (const field of fields) {
      const [value] = valuesOf(view, field);
      if (value !== undefined) picked[field] = value;
    }
    return picked;
  }));
}

/**
 * `vmadm list [-p] [-H] [-o FIELDS] [-s FIELDS] [KEY=VALUE ...]`.
 * @throws {AgentError} as refusal() for a field that does not exist
 */
export async function list(state: State, args: ListArguments): Promise<ToolOutcome> {
  const fields = args.fields ?? LIST_FIELDS;
  const badField = fields.find((field) => !isField(field));
  if (badField !== undefined) throw refusal(`invalid order field: ${badField}`);
  const keys = args.sort.map((key) => ({
    field: key.replace(/^[-+]/, ""),
    sign: key.startsWith("-") ? -1 : 1,
  }));
  const badKey = keys.find(({ field }) => !isField(field));
  if (badKey !== undefined) throw refusal(`invalid sort field: ${badKey.field}`);
  const views = await matching(state, args.filters, "filter");
  const sorting = keys.length === 0
    ? [{ field: "ram", sign: 1 }, { field: "uuid", sign: 1 }]
    : keys;
  views.sort((a, b) => {
    for (const { field, sign } of sorting) {
      const order = compare(valuesOf(a, field)[0], valuesOf(b, field)[0]);
      if (order !== 0) return order * sign;
    }
    return 0;
  });
  const rows = views.map((view) => fields.map((field) => cell(valuesOf(view, field)[0])));
  if (args.parsable) return printed(rows.map((row) => row.join(":") + "\n").join(""));
  const header = fields.map((field) => field.toUpperCase());
  return printed(inColumns(fields, args.noHeader ? rows : [header, ...rows]));
}

function compare(a: JsonValue | undefined, b: JsonValue | undefined): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return cell(a).localeCompare(cell(b));
}

function cell(value: JsonValue | undefined): string {
  if (value === undefined || value === null || value === "") return "-";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function inColumns(fields: readonly string[], rows: readonly string[][]): string {
  const widths = fields.map((field) => Math.max(WIDTHS[field] ?? WIDTH_DEFAULT, field.length));
  return rows.map((row) =>
    row.map((text, column) => text.padEnd(widths[column] ?? 0)).join("  ").trimEnd() + "\n"
  ).join("");
}

/** The machines that match every word `key=value`, oldest first. */
async function matching(
  state: State,
  filters: readonly string[],
  noun: "lookup" | "filter",
): Promise<JsonObject[]> {
  const tests = filters.map((filter) => {
    const at = filter.indexOf("=");
    const key = at < 0 ? filter : filter.slice(0, at);
    if (!isField(key)) throw refusal(`Invalid ${noun} key: "${key}"`);
    return { key, fits: fitting(at < 0 ? "" : filter.slice(at + 1)) };
  });
  const views: JsonObject[] = [];
  for (const machine of await readMachines(state)) {
    const view = await viewOf(state, machine);
    if (tests.every(({ key, fits }) => valuesOf(view, key).some(fits))) views.push(view);
  }
  return views;
}

/** Matches a value; one that begins with `~` is a regular expression. */
function fitting(wanted: string): (value: JsonValue) => boolean {
  if (!wanted.startsWith("~")) return (value) => String(value) === wanted;
  const pattern = new RegExp(wanted.slice(1));
  return (value) => pattern.test(String(value));
}

/** The first port with a VNC display number. */
const VNC_PORT_FIRST = 5900;

/** Sections of kvm besides `all` and `vnc`. */
const KVM_SECTIONS: Readonly<Record<string, (machine: Machine) => JsonObject>> = {
  block: (machine) => ({
    block: objectsIn(machine.vm.disks).map((disk, index) => ({
      device: `${String(disk.model)}${index}`,
      type: String(disk.media) === "cdrom" ? "cdrom" : "hd",
      inserted: { file: disk.path ?? null, ro: disk.media === "cdrom" },
    })),
  }),
  blockstats: () => ({ blockstats: [] }),
  chardev: () => ({ chardev: [] }),
  cpus: (machine) => ({
    cpus: Array.from({ length: Number(machine.vm.vcpus) }, (_, CPU) => ({ CPU, halted: false })),
  }),
  kvm: () => ({ kvm: { enabled: true, present: true } }),
  pci: () => ({ pci: [] }),
  spice: () => ({ spice: {} }),
  status: () => ({ status: { running: true, singlestep: false, status: "running" } }),
  version: () => ({ version: { qemu: { major: 0, minor: 14, micro: 1 }, package: "" } }),
};

/**
 * `vmadm info UUID [TYPE,TYPE]`: what the hypervisor of a running machine reports. Only `vnc` and
 * `status` follow the machine; the other sections of kvm are minimal.
 */
export async function info(state: State, uuid: string, types: string): Promise<ToolOutcome> {
  const prefix = `Unable to get VM info for VM ${uuid}: `;
  let sections: JsonObject;
  try {
    sections = await sectionsOf(state, uuid, types === "" ? ["all"] : types.split(","));
  } catch (error) {
    return failed(prefix + (error instanceof Error ? error.message : String(error)));
  }
  if (await strikes(state, "info_cut")) {
    const text = JSON.stringify(sections, null, 2);
    return printed(text.slice(0, Math.ceil(text.length / 2)));
  }
  return printedJson(sections);
}

async function sectionsOf(
  state: State,
  uuid: string,
  types: readonly string[],
): Promise<JsonObject> {
  const machine = await readMachine(state, uuid);
  if (await strikes(state, "vmadmd_down") || await strikes(state, "info_refused")) {
    throw refusal("connect ECONNREFUSED");
  }
  if (machine === null) throw refusal("bad statusCode: 404");
  const wanted = types.map((type) => type.toLowerCase());
  const known = ["all", "vnc", ...(machine.brand === "kvm" ? Object.keys(KVM_SECTIONS) : [])];
  const unknown = wanted.find((type) => !known.includes(type));
  if (unknown !== undefined) throw refusal(`unknown info type ${unknown}`);
  if (machine.state !== "running" && machine.state !== "stopping") {
    throw refusal(
      `Unable to get info for vm from state "${machine.state}", must be "running" or "stopping".`,
    );
  }
  if (await strikes(state, "info_500")) {
    throw refusal("Unable to get info from vmadmd, query returned 500.");
  }
  const names = wanted.includes("all") ? known.slice(1) : known.filter((it) => wanted.includes(it));
  const sections: JsonObject = {};
  for (const name of names) {
    const section = KVM_SECTIONS[name];
    Object.assign(sections, section === undefined ? await vnc(state, machine) : section(machine));
  }
  return sections;
}

/** The listener; an empty object while there is none. */
async function vnc(state: State, machine: Machine): Promise<JsonObject> {
  const port = machine.process?.port ?? null;
  if (port === null || await strikes(state, "info_empty")) return { vnc: {} };
  const host = await faultText(state, "info_wrong_host") ?? state.host.admin_ip;
  const password = machine.vm.vnc_password;
  return {
    vnc: {
      ...(await strikes(state, "info_missing_host") ? {} : { host }),
      ...(await strikes(state, "info_missing_port") ? {} : portOf(port)),
      // In clear text, as the real tool prints it.
      ...(typeof password === "string" && password !== "" ? { password } : {}),
    },
  };
}

function portOf(port: number): JsonObject {
  return port < VNC_PORT_FIRST ? { port } : { port, display: port - VNC_PORT_FIRST };
}

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
function isField(name: string): boolean {
  return FIELDS.has(name.split(".")[0] ?? "");
}

/** The values of a field name; several if it has a `*` for a list. */
function valuesOf(view: JsonObject, name: string): JsonValue[] {
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

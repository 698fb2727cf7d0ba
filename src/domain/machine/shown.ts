// A machine as answers show it: vmadm's description, or the request of its job while it does not exist yet. Other
// properties are left out: lists are read often and must stay small.

import { EXECUTION, HOST_OF_JOB } from "../job/wire.ts";
import {
  ANY_OBJECT,
  FLAG,
  listOf,
  NULLABLE_COUNT,
  NULLABLE_INSTANT,
  NULLABLE_TEXT,
  NULLABLE_UUID,
  objectOf,
  orNull,
  type Shape,
  type ShapeOf,
  shapeRef,
  TEXT,
  UUID,
  whole,
} from "../description/answer.ts";
import { instantOf } from "../instant.ts";
import { type JsonObject, type JsonValue, objectsIn } from "../json.ts";

/** Milliseconds between two reports of a host without known changes. */
export const MACHINE_REPORT_MS = 60_000;

const WHOLE_NUMBER: Shape<number | null> = { type: ["integer", "null"] };

/** The answer to a request for a machine, or for an action on one. */
export const MACHINE_STARTED = objectOf("The machine and its job.", ["uuid", "job_uuid"], {
  uuid: UUID,
  job_uuid: UUID,
  ...HOST_OF_JOB,
});

/** A disk; unknown values are null. @see vmadm(8), disks */
export const MACHINE_DISK = whole("A disk of a machine.", {
  path: {
    ...NULLABLE_TEXT,
    description:
      "Its device on the host, or the medium's file in the zone; null before it is made.",
  },
  media: { ...NULLABLE_TEXT, description: "`disk` or `cdrom`; null means a disk not yet made." },
  model: { ...NULLABLE_TEXT, description: "What the guest sees, such as `virtio`." },
  size: { ...WHOLE_NUMBER, description: "MiB; null for a medium." },
  boot: { ...orNull(FLAG), description: "Whether the machine starts from it." },
});

/** A nic; unknown values are null. @see vmadm(8), nics */
export const MACHINE_NIC = whole("A nic of a machine.", {
  interface: { ...NULLABLE_TEXT, description: "In the zone, such as `net0`." },
  mac: { ...NULLABLE_TEXT, description: "As vmadm writes it; null before one is chosen." },
  nic_tag: { ...NULLABLE_TEXT, description: "The network of the host that it is on." },
  vlan_id: { ...WHOLE_NUMBER, description: "Null or 0 without a VLAN." },
  model: { ...NULLABLE_TEXT, description: "What the guest sees, such as `virtio`." },
  gateway: { ...NULLABLE_TEXT, description: "The IPv4 address of its router." },
  primary: {
    ...orNull(FLAG),
    description: "Whether its gateway is the machine's default route.",
  },
  ips: {
    ...listOf(TEXT),
    description: "Addresses, with their prefix if it is known, or `dhcp` and `addrconf`.",
  },
});

/** The fields of a machine in lists. */
export const MACHINE_FIELDS = {
  uuid: UUID,
  host: {
    ...NULLABLE_TEXT,
    description:
      "The name of its host, while there is only a job of that of the job; null where none is known.",
  },
  host_uuid: NULLABLE_UUID,
  age_seconds: {
    ...NULLABLE_COUNT,
    description: "Seconds since its host reported it; 0 for a machine of the host that answers, " +
      "null while there is only a job.",
  },
  alias: NULLABLE_TEXT,
  brand: NULLABLE_TEXT,
  state: {
    ...TEXT,
    description:
      "vmadm's word, such as `running` or `stopped`; `absent` while there is only a job.",
  },
  zone_state: {
    ...NULLABLE_TEXT,
    description: "The kernel's word for the zone; null while there is only a job.",
  },
  ram: { ...WHOLE_NUMBER, description: "MiB." },
  vcpus: WHOLE_NUMBER,
  created_at: {
    ...NULLABLE_INSTANT,
    description: "When vmadm made it; null while there is only a job.",
  },
  owner_uuid: { ...NULLABLE_UUID, description: "As vmadm has it; all zeros without an owner." },
  disks: {
    ...listOf(shapeRef("MachineDisk", MACHINE_DISK)),
    description: "Its disks and attached media; while there is only a job, as requested.",
  },
  nics: {
    ...listOf(shapeRef("MachineNic", MACHINE_NIC)),
    description: "Its network interfaces; while there is only a job, as requested.",
  },
  media: {
    ...orNull(shapeRef("Media", ANY_OBJECT)),
    description: "What that job installs from; null when there is no such job.",
  },
  medium: {
    ...NULLABLE_TEXT,
    description: "The medium in the machine's zone, as the machine sees it: placed by a job and " +
      "not ejected, or attached according to vmadm.",
  },
  job_uuid: {
    ...NULLABLE_UUID,
    description: "The newest provisioning job of this machine; if the machine exists, requests " +
      "that failed later do not count.",
  },
  job_execution: orNull(shapeRef("Execution", EXECUTION)),
};
/** An entry of `GET /agent/v1/machines`, made from what `vmadm list` prints of it. */
export const MACHINE = whole("A machine, as lists show it.", MACHINE_FIELDS);
/** That entry as a type; `ram` in MiB, `quota` in GiB. */
export type ShownMachine = ShapeOf<typeof MACHINE>;

/** The fields that vmadm must list for shownProperties(), besides those of every list. */
export const DETAIL_PROPERTIES: readonly string[] = [
  "create_timestamp",
  "owner_uuid",
  "disks",
  "nics",
];

/**
 * The properties of a machine that answers show.
 * @param described a property of the machine, or of its job's request; null if it has none
 */
export function shownProperties(described: (name: string) => JsonValue) {
  const created = described("create_timestamp");
  return {
    alias: textOrNull(described("alias")),
    brand: textOrNull(described("brand")),
    ram: numberOf(described("ram")),
    vcpus: numberOf(described("vcpus")),
    created_at: typeof created === "string" ? instantOf(created) ?? null : null,
    owner_uuid: textOrNull(described("owner_uuid")),
    disks: objectsIn(described("disks")).map(shownDisk),
    nics: objectsIn(described("nics")).map(shownNic),
  };
}

/** Properties shown of a machine that a job is about to create. */
export const ASKED_PROPERTIES: readonly string[] = [
  "alias",
  "brand",
  "ram",
  "vcpus",
  "owner_uuid",
  "disks",
  "nics",
];

/** Properties of a machine that its host reports to others; none is a secret. */
const REPORTED = [
  "uuid",
  "alias",
  "brand",
  "state",
  "zone_state",
  "ram",
  "vcpus",
  "create_timestamp",
  "owner_uuid",
] as const;
const REPORTED_DISK = ["path", "media", "model", "size", "boot"] as const;
const REPORTED_NIC = [
  "interface",
  "mac",
  "nic_tag",
  "vlan_id",
  "model",
  "gateway",
  "primary",
  "ip",
  "ips",
] as const;

/** The part of vmadm's description that a host reports. */
export function reportedMachine(machine: JsonObject): JsonObject {
  return {
    ...picked(machine, REPORTED),
    disks: objectsIn(machine.disks).map((disk) => picked(disk, REPORTED_DISK)),
    nics: objectsIn(machine.nics).map((nic) => picked(nic, REPORTED_NIC)),
  };
}

function picked(object: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(
    names.flatMap((name) => object[name] === undefined ? [] : [[name, object[name]]]),
  );
}

function shownDisk({ path, media, model, size, boot }: JsonObject): ShapeOf<typeof MACHINE_DISK> {
  return {
    path: textOrNull(path),
    media: textOrNull(media),
    model: textOrNull(model),
    size: numberOf(size),
    boot: flagOf(boot),
  };
}

function shownNic(nic: JsonObject): ShapeOf<typeof MACHINE_NIC> {
  return {
    interface: textOrNull(nic.interface),
    mac: textOrNull(nic.mac),
    nic_tag: textOrNull(nic.nic_tag),
    vlan_id: numberOf(nic.vlan_id),
    model: textOrNull(nic.model),
    gateway: textOrNull(nic.gateway),
    primary: flagOf(nic.primary),
    ips: addressesOf(nic),
  };
}

/** The text, or null for a value of another type. */
export function textOrNull(value: JsonValue | undefined): string | null {
  return typeof value === "string" ? value : null;
}

/** Requests and vmadm may write numbers as text. */
function numberOf(value: JsonValue | undefined): number | null {
  const number = typeof value === "string" && value !== "" ? Number(value) : value;
  return Number.isSafeInteger(number) ? number as number : null;
}

/** Requests and vmadm may write flags as text, and as 1 and 0. */
function flagOf(value: JsonValue | undefined): boolean | null {
  if (value === undefined || value === null) return null;
  return [true, 1, "1", "true"].some((yes) => yes === value);
}

/** Addresses, with their prefix if known, or the words `dhcp` and `addrconf`. */
function addressesOf({ ips, ip }: JsonObject): string[] {
  const all = Array.isArray(ips) && ips.length > 0 ? ips : [ip ?? null];
  return all.filter((address) => typeof address === "string");
}

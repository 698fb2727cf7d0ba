// What answers show of a machine besides its state: when it was created, its owner, its disks and its nics.
// They come from vmadm, or from the request of its job while there is no machine yet. Other
// properties of a disk or nic stay out: a list is read often, and has to stay small.

import { instantOf } from "../instant.ts";
import { type JsonObject, type JsonValue, objectsIn } from "../json.ts";

/** One field of a disk or nic; null where nobody has named it. */
interface ShownField {
  readonly type: "string" | "integer" | "boolean";
  readonly description: string;
}

/** Fields of a disk as answers show it. @see vmadm(8), disks */
export const DISK_FIELDS = {
  path: {
    type: "string",
    description:
      "Its device on the host, or the medium's file in the zone; null before it is made.",
  },
  media: { type: "string", description: "`disk` or `cdrom`; null means a disk not yet made." },
  model: { type: "string", description: "What the guest sees, such as `virtio`." },
  size: { type: "integer", description: "MiB; null for a medium." },
  boot: { type: "boolean", description: "Whether the machine starts from it." },
} as const satisfies Readonly<Record<string, ShownField>>;

/** Fields of a nic as answers show it, without its addresses. @see vmadm(8), nics */
export const NIC_FIELDS = {
  interface: { type: "string", description: "In the zone, such as `net0`." },
  mac: { type: "string", description: "As vmadm writes it; null before one is chosen." },
  nic_tag: { type: "string", description: "The network of the host that it is on." },
  vlan_id: { type: "integer", description: "Null or 0 without a VLAN." },
  model: { type: "string", description: "What the guest sees, such as `virtio`." },
  gateway: { type: "string", description: "The IPv4 address of its router." },
  primary: { type: "boolean", description: "Whether its gateway is the machine's default route." },
} as const satisfies Readonly<Record<string, ShownField>>;

/** The fields that vmadm must list for shownDetails(), besides those of every list. */
export const DETAIL_PROPERTIES: readonly string[] = [
  "create_timestamp",
  "owner_uuid",
  "disks",
  "nics",
];

/**
 * The details of a machine, from what vmadm says of it.
 * @param described gives a property of the machine, or of the request of its job; null without one
 * @returns `created_at` (an instant), `owner_uuid`, `disks`, and `nics` with their `ips`
 */
export function shownDetails(described: (name: string) => JsonValue): JsonObject {
  const created = described("create_timestamp");
  return {
    created_at: typeof created === "string" ? instantOf(created) ?? null : null,
    owner_uuid: shownValue("string", described("owner_uuid")),
    disks: objectsIn(described("disks")).map((disk) => shownFields(DISK_FIELDS, disk)),
    nics: objectsIn(described("nics")).map((nic) => ({
      ...shownFields(NIC_FIELDS, nic),
      ips: addressesOf(nic),
    })),
  };
}

function shownFields(fields: Readonly<Record<string, ShownField>>, from: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(fields).map(([name, { type }]) => [name, shownValue(type, from[name])]),
  );
}

/** A value of its type. Requests and vmadm may write numbers and flags as texts, and flags as 1 and 0. */
function shownValue(type: ShownField["type"], value: JsonValue | undefined): JsonValue {
  switch (type) {
    case "string":
      return typeof value === "string" ? value : null;
    case "integer": {
      const number = typeof value === "string" && value !== "" ? Number(value) : value;
      return Number.isSafeInteger(number) ? number as number : null;
    }
    case "boolean":
      if (value === undefined || value === null) return null;
      return [true, 1, "1", "true"].some((yes) => yes === value);
  }
}

/** Addresses with their prefix where it is known, or the words `dhcp` and `addrconf`. */
function addressesOf({ ips, ip }: JsonObject): string[] {
  const all = Array.isArray(ips) && ips.length > 0 ? ips : [ip ?? null];
  return all.filter((address) => typeof address === "string");
}

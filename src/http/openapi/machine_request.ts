// The shape of a machine that is asked for, for the description. The sizes are those of the default
// policy, the one that requests are held against.

import { COMPRESSIONS, DISK_MODELS } from "../../domain/machine/disk.ts";
import type { JsonObject } from "../../domain/json.ts";
import { NIC_MODELS } from "../../domain/machine/nic.ts";
import { DEFAULT_POLICY as POLICY } from "../../domain/policy.ts";
import { CHECK_FIELDS, DIGEST, DOWNLOADED } from "./media_check.ts";
import { listOf, objectOf, schemaRef, TEXT, UUID } from "./operation.ts";

const BOOLEAN: JsonObject = { type: "boolean" };
const IPV4: JsonObject = { type: "string", format: "ipv4" };

function integer(minimum: number, maximum: number, description: string): JsonObject {
  return { type: "integer", minimum, maximum, description };
}

function atMost(maxItems: number, items: JsonObject): JsonObject {
  return { ...listOf(items), maxItems };
}

const ENTRIES: JsonObject = {
  type: "object",
  maxProperties: 64,
  additionalProperties: { type: ["string", "number", "boolean"] },
};

const COMPRESSION: JsonObject = { type: "string", enum: [...COMPRESSIONS] };
const ROUTE_BY = "^(?:[0-9.]{7,15}|nics\\[[0-9]{1,2}\\])$";

const DISK: JsonObject = objectOf("An empty disk.", ["model", "size"], {
  boot: { ...BOOLEAN, description: "Of one disk at most." },
  model: {
    type: "string",
    enum: [...new Set(Object.values(DISK_MODELS).flat())],
    description: `For kvm: ${DISK_MODELS.kvm.join(", ")} (at most two disks of model ide). ` +
      `For bhyve: ${DISK_MODELS.bhyve.join(", ")}.`,
  },
  size: integer(1, POLICY.diskMiBMax, "MiB."),
  media: { const: "disk", description: "The medium of the request has its place by itself." },
  compression: COMPRESSION,
  refreservation: integer(0, POLICY.diskMiBMax, "MiB, not over `size`."),
  block_size: {
    type: "integer",
    enum: [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072],
    description: "Bytes.",
  },
  guest_block_size: {
    type: "string",
    pattern: "^[0-9]{3,6}(?:/[0-9]{3,6})?$",
    description: "For bhyve only: bytes that the guest is told, or logical and physical ones.",
  },
  notrim: { ...BOOLEAN, description: "For bhyve only." },
  pci_slot: {
    type: "string",
    pattern: "^(?:(?:[0-9]{1,3}:)?[0-9]{1,2}:)?[0-9]{1,2}$",
    description: "For bhyve only: `bus:device:function`, of one disk at most.",
  },
  uuid: { ...UUID, description: "For bhyve only, of one disk at most." },
}, "closed");

const NIC: JsonObject = objectOf("A network interface.", ["nic_tag", "model"], {
  nic_tag: { type: "string", pattern: "^[A-Za-z0-9_/]{1,64}$" },
  model: { type: "string", enum: [...NIC_MODELS] },
  ip: {
    description: "Needs `netmask`, unless it is `dhcp`.",
    anyOf: [{ const: "dhcp" }, IPV4],
  },
  netmask: { ...IPV4, description: "A mask, such as 255.255.255.0." },
  gateway: IPV4,
  primary: { enum: [1, 0, true, false], description: "Of one nic at most." },
  mac: {
    type: "string",
    pattern: "^(?!00(?::00){5}$)[0-9A-Fa-f][02468ACEace](?::[0-9A-Fa-f]{2}){5}$",
    description: "Of one nic: neither a group's address nor all zeros.",
  },
  vlan_id: integer(0, 4095, "0 for none."),
  ips: atMost(20, {
    type: "string",
    description: "An address with its prefix, `dhcp` or `addrconf`.",
  }),
  gateways: atMost(20, IPV4),
  mtu: integer(576, 9000, "Bytes."),
  network_uuid: { ...UUID, description: "For those who keep networks elsewhere." },
  allowed_dhcp_cids: atMost(20, {
    type: "string",
    pattern: "^0x(?:[0-9A-Fa-f]{2}){1,254}$",
    description: "An identifier of a DHCP client.",
  }),
  blocked_outgoing_ports: atMost(64, integer(1, 65_535, "A port.")),
}, "closed");

const MACHINE: JsonObject = objectOf(
  "A machine as vmadm takes it. The properties are a closed list; the operator's policy may forbid " +
    "some of them. Largest values are those of the default policy, the operator may set others.",
  ["brand"],
  {
    brand: { type: "string", enum: [...POLICY.brands] },
    vcpus: integer(1, POLICY.vcpusMax, "Virtual processors."),
    autoboot: { const: false, description: "An empty machine boots from its medium." },
    ram: integer(1, POLICY.ramMiBMax, "Memory of the guest, MiB."),
    resolvers: atMost(8, { ...TEXT, description: "An IP address." }),
    disks: atMost(POLICY.disksMax, schemaRef("Disk")),
    nics: atMost(POLICY.nicsMax, schemaRef("Nic")),
    alias: { type: "string", pattern: "^[A-Za-z0-9][A-Za-z0-9_.-]{0,188}$" },
    hostname: { type: "string", format: "hostname" },
    quota: integer(1, POLICY.quotaGiBMax, "GiB of the zone, disks left out."),
    cpu_cap: integer(1, POLICY.vcpusMax * 100, "Percent of one processor."),
    cpu_shares: integer(1, 65_535, "Relative to other machines."),
    max_physical_memory: integer(1, POLICY.ramMiBMax + 4096, "MiB, the hypervisor's own included."),
    max_locked_memory: integer(
      1,
      POLICY.ramMiBMax + 4096,
      "MiB, not over `max_physical_memory`.",
    ),
    max_swap: integer(256, POLICY.ramMiBMax + 4096, "MiB, not below `max_physical_memory`."),
    max_lwps: integer(1, 100_000, "Threads of the zone."),
    owner_uuid: { ...UUID, description: "Whose it is, for firewall rules and other programs." },
    billing_id: { ...UUID, description: "For other programs." },
    do_not_inventory: { ...BOOLEAN, description: "Other programs are to pass it over." },
    firewall_enabled: { ...BOOLEAN, description: "Whether the host's rules hold for it." },
    tags: ENTRIES,
    customer_metadata: ENTRIES,
    routes: {
      type: "object",
      maxProperties: 64,
      additionalProperties: { type: "string", pattern: ROUTE_BY },
      description:
        "Gateways, or nics as `nics[0]`, by the IPv4 address or network that is reached.",
    },
    boot: {
      type: "string",
      pattern: "^order=(?![cdn]*([cdn])[cdn]*\\1)[cdn]{1,3}(?:,once=[cdn])?$",
      description: "For kvm only: where a start without words of its own looks.",
    },
    cpu_type: { type: "string", enum: ["qemu64", "host"], description: "For kvm only." },
    virtio_txburst: integer(1, 65_535, "For kvm only: packets of one flush."),
    virtio_txtimer: integer(1, 1_000_000_000, "For kvm only: nanoseconds until a flush."),
    bootrom: { type: "string", enum: ["bios", "uefi"], description: "For bhyve only." },
    vga: {
      type: "string",
      enum: ["cirrus", "std", "vmware", "qxl", "xenfb"],
      description: "For kvm only.",
    },
    vnc_password: {
      type: "boolean",
      default: true,
      description: "True for a random password of the console, which `GET .../vnc` tells.",
    },
    zfs_io_priority: integer(0, 1024, "Relative to other machines."),
    zfs_root_compression: COMPRESSION,
    zfs_root_recsize: {
      type: "integer",
      enum: [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072],
      description: "Bytes of a block of the zone's own files.",
    },
  },
  "closed",
);

const WORD: JsonObject = { type: "string", pattern: "^[A-Za-z0-9][A-Za-z0-9._+~-]{0,127}$" };

/** The fields that name an artifact of the index. @see document 1 */
export const ARTIFACT_WORDS: Readonly<Record<string, JsonObject>> = {
  distro: { ...WORD, description: "The distro's id." },
  release: { ...WORD, description: "The release's id, or an alias such as `latest`." },
  build: { ...WORD, description: "The build; without it, the newest." },
  variant: { ...WORD, description: "The variant; without it, the vendor's default one." },
  arch: { ...WORD, default: "x86_64", description: "The architecture." },
  format: { ...WORD, description: "The format once decompressed." },
};

const MEDIA: JsonObject = {
  description: "An installation medium, named in exactly one way. Nothing is booted before its " +
    "digest is verified, where there is one.",
  oneOf: [
    objectOf("A file of a media folder.", ["path"], {
      path: {
        type: "string",
        maxLength: 1024,
        pattern: "\\.(?:[Ii][Ss][Oo]|[Ii][Mm][Gg]|[Rr][Aa][Ww])$",
        description: "Its absolute path, or its name alone.",
      },
      digest: DIGEST,
    }, "closed"),
    ...DOWNLOADED,
    objectOf("A file of the image index, which knows its digest.", ["artifact"], {
      artifact: objectOf("Which file.", ["distro", "release"], {
        ...ARTIFACT_WORDS,
        format: { type: "string", enum: ["iso", "img", "raw"] },
      }, "closed"),
      digest: DIGEST,
      ...CHECK_FIELDS,
    }, "closed"),
  ],
};

/** The schemas of what is asked for. @see document 3, Machine description */
export const MACHINE_REQUEST_SCHEMAS: JsonObject = {
  MachineRequest: objectOf("A machine to be made.", ["machine", "media"], {
    machine: schemaRef("MachineDescription"),
    media: schemaRef("Media"),
    boot: {
      type: "string",
      enum: ["cd", "disk"],
      description: "What the medium is attached as; without it, what its name ends in decides. " +
        "A bhyve machine takes `cd` only.",
    },
    uuid: {
      ...UUID,
      description: "The machine's uuid. With it the request may be repeated: an equal one is " +
        "answered with the job that there is.",
    },
  }, "closed"),
  MachineDescription: MACHINE,
  Disk: DISK,
  Nic: NIC,
  Media: MEDIA,
};

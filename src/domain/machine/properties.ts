// Properties of a machine that are read alike for a new machine and for a change. Types and bounds are here; bounds
// of sizes come from the policy.

import { ipAddress, orDigits, uuid } from "../description/formats.ts";
import { entriesOf, type Fields, type Relation } from "../description/object.ts";
import type { Description } from "../description/description.ts";
import {
  about,
  anyText,
  flag,
  integer,
  kept,
  listOf,
  oneOf,
  scalar,
  text,
} from "../description/value.ts";
import { anyOf, DESTINATION, IPV4 } from "../ip_address.ts";
import type { JsonObject } from "../json.ts";
import { boundedSize, JOB_TAG, type MachineBrand, type Policy } from "../policy.ts";
import { powerOfTwo, ZFS_COMPRESSIONS } from "./disk.ts";
import { NIC_BY_MAC, wholeMac } from "./nic.ts";

const ENTRIES_MAX = 64;
/** A key that can be set and removed. vmadm has no limit of its own; the agent counts UTF-16 units. */
const KEY = /^(?!__proto__$)[^\p{Cc}]{1,255}$/u;
const KEY_CHARS_MAX = 255;
const KEY_WORDS = "a name of 1 to 255 characters, none of them a control character";
/** Characters of one value; `user-data` for a guest's first boot is in customer_metadata. */
const VALUE_CHARS_MAX = 65_536;

/** The name of an entry. */
export const metadataKey: Description<string> = text(KEY, KEY_WORDS);

const value = scalar(anyText(VALUE_CHARS_MAX), "a text, a number, true or false");
const bounds = {
  countMax: ENTRIES_MAX,
  countWords: "entries",
  nameWords: `must have ${KEY_WORDS}`,
  nameUnitsMax: KEY_CHARS_MAX,
  words: "an object of texts, numbers and booleans",
};

/**
 * Customer metadata, which vmadm keeps beside a machine: a flat object of texts, numbers and
 * booleans.
 */
export const metadata: Description<JsonObject> = about(
  "Texts of at most 65536 characters, numbers and booleans, such as `user-data` of the first boot. " +
    "Later changed by `set_customer_metadata` and `remove_customer_metadata`.",
  entriesOf(KEY, value, bounds),
);

/** Tags: as metadata, without the agent's own tag. */
export const tags: Description<JsonObject> = about(
  "As `customer_metadata`, except `zonewright_job`, which is the agent's own. Changed " +
    "later by `set_tags` and `remove_tags`.",
  entriesOf(KEY, value, { ...bounds, refused: { [JOB_TAG]: "is set by the agent itself" } }),
);

const RESOLVERS_MAX = 8;
const ROUTES_MAX = 64;
/** MiB by which memory limits may exceed the largest ram: the hypervisor needs some itself. */
const HYPERVISOR_MIB_MAX = 4096;
/** Smallest swap that vmadm accepts, MiB. */
const SWAP_MIB_MIN = 256;
const CPU_SHARES_MAX = 65_535;
const IO_PRIORITY_MAX = 1024;
/** Most threads of the zone; vmadm's own default is 2000. */
const LWPS_MAX = 100_000;
/** Smallest block of the zone's files, bytes. */
const RECSIZE_MIN = 512;
const RECSIZE_MAX = 131_072;
/** Most packets per flush of a virtio nic. */
const TX_BURST_MAX = 65_535;
/** Longest time until a virtio nic flushes, nanoseconds: a second. */
const TX_TIMER_MAX = 1_000_000_000;
/** Most filesystems and snapshots below the zone's dataset. */
const DATASETS_MAX = 1_000_000;
/** One line of text. It is stored encoded, and shown in lists and logs. */
const ALIAS = /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}]{1,189}$/u;
const LABEL = "[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?";
/** vmadm writes it unquoted into the start script of a kvm machine. */
const HOSTNAME = new RegExp(`^(?=.{1,253}$)${LABEL}(?:\\.${LABEL})*$`);
const LETTERS = "(?![cdn]*([cdn])[cdn]*\\1)[cdn]{1,3}";
/** qemu's letters, each at most once; vmadm passes them on unchanged. */
const BOOT = new RegExp(
  `^(?:${LETTERS}|order=${LETTERS.replace("\\1", "\\2")}(?:,once=[cdn])?|once=[cdn])$`,
);
const NIC_BY_PLACE = /^nics\[(?:[0-9]|[1-2][0-9]|3[01])\]$/;
const VGAS = ["cirrus", "std", "vmware", "qxl", "xenfb"];
const CPU_TYPES = ["qemu64", "host"];
/** Only these words: vmadm would accept a path too. */
const BOOTROMS = ["bios", "uefi"];

/** The brand of each property that only one brand has. */
export const BRAND_OF: Readonly<Record<string, MachineBrand>> = {
  boot: "kvm",
  cpu_type: "kvm",
  vga: "kvm",
  virtio_txburst: "kvm",
  virtio_txtimer: "kvm",
  bootrom: "bhyve",
};

/** Settings that create and update accept alike, for either brand. */
export function settings(policy: Policy): Fields {
  return { ...sizes(policy), ...LABELS, ...ofOneBrand() };
}

function sizes(policy: Policy): Fields {
  const memory = { plus: HYPERVISOR_MIB_MAX };
  return {
    vcpus: about("Virtual processors.", boundedSize(policy, "vcpusMax")),
    ram: about("Memory of the guest, MiB.", boundedSize(policy, "ramMiBMax")),
    quota: about(
      "GiB of the zone without its disks.",
      boundedSize(policy, "quotaGiBMax", {
        below: "0 would be no limit, or 1 for a bhyve machine",
      }),
    ),
    cpu_cap: about(
      "Percent of one processor.",
      boundedSize(policy, "vcpusMax", { times: 100, below: "0 would be no limit" }),
    ),
    cpu_shares: about("Relative to other machines.", count(1, CPU_SHARES_MAX)),
    max_physical_memory: about(
      "MiB, including the hypervisor's own memory.",
      boundedSize(policy, "ramMiBMax", memory),
    ),
    max_locked_memory: about(
      "MiB, at most `max_physical_memory`.",
      boundedSize(policy, "ramMiBMax", memory),
    ),
    max_swap: about(
      "MiB, at least `max_physical_memory`.",
      boundedSize(policy, "ramMiBMax", { ...memory, min: SWAP_MIB_MIN }),
    ),
    max_lwps: about("Threads of the zone.", count(1, LWPS_MAX)),
    zfs_io_priority: about("Relative to other machines.", count(0, IO_PRIORITY_MAX)),
    zfs_root_compression: oneOf(ZFS_COMPRESSIONS),
    zfs_root_recsize: about(
      "Bytes of a block of the zone's own files.",
      powerOfTwo(RECSIZE_MIN, RECSIZE_MAX),
    ),
    zfs_filesystem_limit: about(
      "Datasets that may be created below the zone's own.",
      count(0, DATASETS_MAX),
    ),
    zfs_snapshot_limit: about(
      "Snapshots of the zone's own dataset and those below it.",
      count(0, DATASETS_MAX),
    ),
  };
}

/** A whole number, or its digits as a text. */
function count(min: number, max: number): Description<number> {
  return orDigits(integer(min, max));
}

const LABELS: Fields = {
  alias: about(
    "For people; need not be unique.",
    text(ALIAS, "a text of 1 to 189 characters, none of them a control character"),
  ),
  hostname: text(
    HOSTNAME,
    "a host name of letters, digits, dashes and underscores, at most 63 between two dots",
  ),
  owner_uuid: about("Its owner, for firewall rules and other programs.", uuid),
  billing_id: about("For other programs.", uuid),
  do_not_inventory: about("Whether inventory programs skip it.", flag),
  firewall_enabled: about("Whether the host's firewall rules apply to it.", flag),
  resolvers: listOf(ipAddress, RESOLVERS_MAX, "addresses"),
};

function ofOneBrand(): Fields {
  return {
    boot: about(
      "The order for a start without boot options.",
      text(
        BOOT,
        "letters of c, d and n, each once, such as cd, order=cd, once=d or order=cd,once=d",
      ),
    ),
    bootrom: oneOf(BOOTROMS),
    cpu_type: oneOf(CPU_TYPES),
    vga: oneOf(VGAS),
    virtio_txburst: about("Packets per flush.", count(1, TX_BURST_MAX)),
    virtio_txtimer: about("Nanoseconds until a flush.", count(1, TX_TIMER_MAX)),
  };
}

/** Static routes: a destination, and the gateway or nic to it. */
export const routes: Description<JsonObject> = about(
  "Gateways, or nics as `nics[0]` or `macs[02:08:20:aa:bb:cc]`, by destination: an IPv4 " +
    "address or network. Such a nic needs a static address. Changed later by `set_routes` " +
    "and `remove_routes`.",
  entriesOf(
    DESTINATION,
    kept(
      text(
        anyOf(IPV4, NIC_BY_PLACE, NIC_BY_MAC),
        'the IPv4 address of a gateway, or a nic as "nics[0]" or "macs[02:08:20:aa:bb:cc]"',
      ),
      (value) => value.startsWith("macs") ? `macs${wholeMac(value.slice("macs".length))}` : value,
    ),
    {
      countMax: ROUTES_MAX,
      countWords: "entries",
      nameWords: "must be named by an IPv4 address or network: 192.0.2.0/24",
      words: "an object of gateways by destination",
    },
  ),
);

/** Destinations whose routes are removed. */
export const destinations: Description<(string | null)[]> = listOf(
  text(DESTINATION, "an IPv4 address or network, such as 192.0.2.0/24"),
  ROUTES_MAX,
  "destinations",
);

/** Relations between memory limits, which vmadm would adjust silently. @see vmadm(8), max_locked_memory and max_swap */
export const MEMORY_LIMITS: Relation = {
  check(
    { max_physical_memory: most, max_locked_memory: locked, max_swap: swap },
    field,
    findings,
  ) {
    if (typeof most !== "number") return;
    if (typeof locked === "number" && locked > most) {
      const words = `must not be over max_physical_memory, ${most} MiB, found ${locked}`;
      findings.add(`${field}.max_locked_memory`, "Invalid", words, "memory_limits");
    }
    if (typeof swap === "number" && swap < most) {
      const words = `must not be below max_physical_memory, ${most} MiB, found ${swap}`;
      findings.add(`${field}.max_swap`, "Invalid", words, "memory_limits");
    }
  },
};

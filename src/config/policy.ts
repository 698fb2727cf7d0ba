// The operator's policy: what tasks and requests may ask of the host. Settings like the others, in
// the TOML table `[policy]`. The defaults are those of domain/policy.ts.

import { define, type Definition } from "./definition.ts";
import { type Read, readChoice, readInteger } from "./values.ts";
import { nearest } from "../domain/field_check.ts";
import {
  BRANDS,
  DEFAULT_POLICY,
  DEFAULT_POLICY as POLICY,
  type ForeignMachines,
  type Policy,
} from "../domain/policy.ts";

const VCPUS_MAX = 1024;
/** 64 TiB. */
const RAM_MIB_MAX = 67_108_864;
/** 1 PiB. */
const DISK_MIB_MAX = 1_073_741_824;
const QUOTA_GIB_MAX = 1_048_576;
/** Disks and nics of one machine; vmadm numbers neither further. */
const PARTS_MAX = 32;
/** Names in one list. */
const NAMES_MAX = 256;

const FOREIGN: readonly ForeignMachines[] = ["change", "read"];
const NIC_TAG = /^[A-Za-z0-9_/]{1,64}$/;

function size(flag: string, value: number, min: number, max: number, help: string) {
  return define(flag, value, readInteger(min, max), "N", help);
}

/** A list of words, or one text with commas between them; each is read by itself. */
function readWords<Word extends string>(read: (word: string) => Word): Read<readonly Word[]> {
  return (raw) => {
    const words: unknown = typeof raw === "string"
      ? raw.split(",").filter((word) => word !== "")
      : raw;
    if (!Array.isArray(words) || words.length > NAMES_MAX) {
      throw new Error(`expected a list of at most ${NAMES_MAX} names`);
    }
    return words.map((word) => {
      if (typeof word !== "string") throw new Error("expected a list of names");
      return read(word);
    });
  };
}

const brandWord = readChoice(BRANDS);

const readBrands: Read<readonly (typeof BRANDS[number])[]> = (raw, place) => {
  const brands = readWords((word) => brandWord(word, place))(raw, place);
  if (brands.length === 0) throw new Error(`expected at least one of ${BRANDS.join(", ")}`);
  return brands;
};

const readNicTags = readWords((word) => {
  if (NIC_TAG.test(word)) return word;
  throw new Error(`${JSON.stringify(word.slice(0, 80))} is not the name of a nic_tag`);
});

const readProperties = readWords((word) => {
  const known = forbiddableProperties();
  if (known.includes(word)) return word;
  const shown = JSON.stringify(word.slice(0, 80));
  throw new Error(
    `${shown} is no property that the policy allows, or none that can be left out` +
      nearest(word, known),
  );
});

/** The settings of the policy. @see docs/policy.md */
export const POLICY_TABLE = {
  allow_brand: {
    ...define<Policy["brands"]>(
      "allow-brand",
      POLICY.brands,
      readBrands,
      "BRAND",
      "brand that machines may have (repeatable)",
    ),
    many: true,
  },
  vcpus_max: size(
    "vcpus-max",
    POLICY.vcpusMax,
    1,
    VCPUS_MAX,
    "processors of one machine; cpu_cap may be 100 times as much",
  ),
  ram_mib_max: size("ram-mib-max", POLICY.ramMiBMax, 1, RAM_MIB_MAX, "MiB of a machine's memory"),
  disks_max: size("disks-max", POLICY.disksMax, 0, PARTS_MAX, "disks of one machine"),
  disk_mib_max: size("disk-mib-max", POLICY.diskMiBMax, 1, DISK_MIB_MAX, "MiB of one disk"),
  nics_max: size("nics-max", POLICY.nicsMax, 0, PARTS_MAX, "nics of one machine"),
  quota_gib_max: size("quota-gib-max", POLICY.quotaGiBMax, 1, QUOTA_GIB_MAX, "GiB of one zone"),
  allow_nic_tag: {
    ...define<readonly string[]>(
      "allow-nic-tag",
      POLICY.nicTags,
      readNicTags,
      "TAG",
      "network that nics may be on (repeatable); all unless one is given",
    ),
    many: true,
  },
  forbid_property: {
    ...define<readonly string[]>(
      "forbid-property",
      [],
      readProperties,
      "NAME",
      "property that no payload may have, such as quota or nics.mac (repeatable)",
    ),
    many: true,
  },
  foreign_machines: define<ForeignMachines>(
    "foreign-machines",
    POLICY.foreignMachines,
    readChoice(FOREIGN),
    "change|read",
    "what tasks may do with machines that no job made",
  ),
} satisfies Record<string, Definition<unknown>>;

type Values = {
  readonly [Name in keyof typeof POLICY_TABLE]: {
    readonly value: ReturnType<typeof POLICY_TABLE[Name]["read"]>;
  };
};

/** The policy that these settings make. */
export function policyOf(settings: Values): Policy {
  const policy: Policy = {
    ...POLICY,
    brands: settings.allow_brand.value,
    vcpusMax: settings.vcpus_max.value,
    ramMiBMax: settings.ram_mib_max.value,
    disksMax: settings.disks_max.value,
    diskMiBMax: settings.disk_mib_max.value,
    nicsMax: settings.nics_max.value,
    quotaGiBMax: settings.quota_gib_max.value,
    nicTags: settings.allow_nic_tag.value,
    foreignMachines: settings.foreign_machines.value,
  };
  return withoutProperties(policy, settings.forbid_property.value);
}

// The properties that an operator may take out of the policy, by the names that the settings have
// for them.

/** Properties without which no machine can be asked for. */
const REQUIRED_PROPERTIES = ["brand", "disks.model", "disks.size", "nics.nic_tag", "nics.model"];

/** What an operator may forbid: `quota`, `disks.compression`, `nics.mac`. */
export function forbiddableProperties(): string[] {
  const { machineProperties, diskProperties, nicProperties } = DEFAULT_POLICY;
  return [
    ...machineProperties,
    ...diskProperties.map((name) => `disks.${name}`),
    ...nicProperties.map((name) => `nics.${name}`),
  ].filter((name) => !REQUIRED_PROPERTIES.includes(name));
}

/** A policy without some properties, named as forbiddableProperties() does. */
export function withoutProperties(policy: Policy, forbidden: readonly string[]): Policy {
  const rest = (names: readonly string[], prefix: string) =>
    names.filter((name) => !forbidden.includes(prefix + name));
  return {
    ...policy,
    machineProperties: rest(policy.machineProperties, ""),
    diskProperties: rest(policy.diskProperties, "disks."),
    nicProperties: rest(policy.nicProperties, "nics."),
  };
}

// The operator's policy, in the TOML table [policy]: what tasks and requests may ask of the host.
// Defaults are those of domain/policy.ts.

import { isDigestValue } from "../domain/digest.ts";
import { choice, define, type Definition, integer, type Kind, list } from "./kinds.ts";
import { BUILTIN_ALONE, type Taking } from "../domain/taking.ts";
import { nearest } from "../domain/near_word.ts";
import { NIC_TAG } from "../domain/machine/nic.ts";
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
/** Most disks or nics that vmadm can number in one machine. */
const PARTS_MAX = 32;
/** Most names in one list of a policy. */
const NAMES_MAX = 256;

const FOREIGN_MACHINES: readonly ForeignMachines[] = ["change", "read"];

/** A list of words, each read separately. */
function names<Word extends string>(
  placeholder: string,
  read: (word: string) => Word,
): Kind<readonly Word[]> {
  return list(placeholder, {
    separator: ",",
    itemsMax: NAMES_MAX,
    what: "names",
    item(raw) {
      if (typeof raw !== "string") throw new Error("expected a list of names");
      return read(raw);
    },
  });
}

const BRAND = choice("BRAND", BRANDS);
const ANY_BRANDS = names("BRAND", (word) => BRAND.read(word, { folder: "/" }));

const ALLOWED_BRANDS: typeof ANY_BRANDS = {
  ...ANY_BRANDS,
  read(raw, place) {
    const brands = ANY_BRANDS.read(raw, place);
    if (brands.length === 0) throw new Error(`expected at least one of ${BRANDS.join(", ")}`);
    return brands;
  },
};

const NIC_TAGS = names("TAG", (word) => {
  if (NIC_TAG.test(word)) return word;
  throw new Error(`${JSON.stringify(word.slice(0, 80))} is not the name of a nic_tag`);
});

const PROPERTIES = names("NAME", (word) => {
  const known = forbiddableProperties();
  if (known.includes(word)) return word;
  const shown = JSON.stringify(word.slice(0, 80));
  throw new Error(
    `${shown} is not a property that the policy allows and a machine can do without` +
      nearest(word, known),
  );
});

/** A cut or mistyped digest would otherwise count as part of a name that no workflow has. */
const WORKFLOWS = names("NAME[@sha256:DIGEST]", (word) => {
  const [, digest] = /@sha256:(.*)$/s.exec(word) ?? [];
  if (word !== "" && (digest === undefined || isDigestValue("sha256", digest))) return word;
  throw new Error(
    `${
      JSON.stringify(word.slice(0, 120))
    } is not the name of a workflow, alone or with @sha256: and the ` +
      "64 hex digits of its tasks, which `zonewright workflow get` shows",
  );
});

const CALLER = /^(?:token:\S{1,64}|socket|loopback|unknown)$/;
const CALLERS = names("CALLER", (word) => {
  if (CALLER.test(word)) return word;
  throw new Error(
    `${
      JSON.stringify(word.slice(0, 80))
    } is not a caller, expected token:NAME, socket, loopback or unknown`,
  );
});

/** The settings of the policy. @see docs/policy.md */
export const POLICY_TABLE = {
  allow_brand: define<Policy["brands"]>(
    ALLOWED_BRANDS,
    POLICY.brands,
    "brand that machines may have (repeatable)",
  ),
  vcpus_max: define(
    integer("N", 1, VCPUS_MAX),
    POLICY.vcpusMax,
    "processors of one machine; cpu_cap may be 100 times as much",
  ),
  ram_mib_max: define(
    integer("MIB", 1, RAM_MIB_MAX),
    POLICY.ramMiBMax,
    "memory of one machine; max_physical_memory, max_locked_memory and max_swap may be 4096 more",
  ),
  disks_max: define(integer("N", 0, PARTS_MAX), POLICY.disksMax, "disks of one machine"),
  disk_mib_max: define(
    integer("MIB", 1, DISK_MIB_MAX),
    POLICY.diskMiBMax,
    "size and refreservation of one disk",
  ),
  nics_max: define(integer("N", 0, PARTS_MAX), POLICY.nicsMax, "nics of one machine"),
  quota_gib_max: define(
    integer("GIB", 1, QUOTA_GIB_MAX),
    POLICY.quotaGiBMax,
    "quota of one zone, and how far a medium may raise it",
  ),
  allow_nic_tag: define<readonly string[]>(
    NIC_TAGS,
    POLICY.nicTags,
    "network that nics may be on (repeatable); all of them unless one is given",
  ),
  forbid_property: define<readonly string[]>(
    PROPERTIES,
    [],
    "property that no payload and no change may have, such as quota or nics.mac (repeatable)",
  ),
  foreign_machines: define<ForeignMachines>(
    choice("change|read", FOREIGN_MACHINES),
    POLICY.foreignMachines,
    "what tasks may do with machines that no job made",
  ),
  allow_workflow: define<readonly string[]>(
    WORKFLOWS,
    [],
    "workflow whose jobs this host runs for those that share its store, by name or by name and digest of its " +
      `tasks (repeatable); all of them unless one is given, and with ${BUILTIN_ALONE} only those of the agent itself`,
  ),
  allow_caller: define<readonly string[]>(
    CALLERS,
    [],
    "caller whose jobs this host runs, such as token:NAME (repeatable); all of them unless one is given",
  ),
} satisfies Record<string, Definition<unknown>>;

type PolicySettings = {
  readonly [Name in keyof typeof POLICY_TABLE]: {
    readonly value: ReturnType<typeof POLICY_TABLE[Name]["fallback"]>;
  };
};

/** Which jobs of a shared store these settings allow. */
export function takingOf({ allow_workflow, allow_caller }: PolicySettings): Taking {
  return { allow_workflow: allow_workflow.value, allow_caller: allow_caller.value };
}

/** The policy of an agent with these settings; what they do not name is as in {@linkcode POLICY}. */
export function policyOf(settings: PolicySettings): Policy {
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

/** Properties that every description needs, so they cannot be forbidden. */
const REQUIRED_PROPERTIES = ["brand", "disks.model", "disks.size", "nics.nic_tag", "nics.model"];

/** Properties that the operator may forbid: `quota`, `disks.compression`, `nics.mac`. */
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

// Changes to an existing machine, as `vmadm update` accepts them: the sizes of a description, and attaching or
// detaching a medium, which is how a bhyve machine boots from one.

import {
  type Description,
  type Findings,
  openFindings,
  parse,
  refuseFindings,
} from "../description/description.ts";
import { type Fields, object, type Relation } from "../description/object.ts";
import { flag, listOf, oneOf, only } from "../description/value.ts";
import { type JsonObject, type JsonValue, objectsIn } from "../json.ts";
import {
  allowedFields,
  DEFAULT_POLICY,
  FORBIDDEN_WORDS,
  JOB_TAG,
  type MachineBrand,
  type Policy,
  POLICY_SETTINGS,
  refusedBy,
} from "../policy.ts";
import { ALL_DISK_MODELS, IDE_PLACES } from "./disk.ts";
import { mediumPath } from "./media.ts";
import {
  BRAND_OF,
  destinations,
  MEMORY_LIMITS,
  metadata,
  metadataKey,
  routes,
  settings,
  tags,
} from "./properties.ts";
import {
  mac,
  newNics,
  NIC_BRANDS,
  nicChange,
  nicRelations,
  refuseRoutes,
  refuseTaken,
  refuseTakenAddress,
  wholeMac,
} from "./nic.ts";
import { REFUSED_CHANGES } from "./refused_properties.ts";

/** Most media that one call attaches or detaches. */
const MEDIA_MAX = 4;
const REMOVED_MAX = 64;

const keys: Description<(string | null)[]> = listOf(metadataKey, REMOVED_MAX, "names");

/** Names of tags, except the one by which the agent recognizes its machines. */
const tagKeys = listOf(otherThan(JOB_TAG, metadataKey), REMOVED_MAX, "names");

function otherThan(name: string, description: Description<string>): Description<string> {
  return {
    ...description,
    read(value, field, findings) {
      if (value !== name) return description.read(value, field, findings);
      findings.add(field, "Invalid", `must be another tag, found "${name}": the agent sets it`);
      return undefined;
    },
    schema: (components) => ({ ...description.schema(components), not: { const: name } }),
  };
}

/** A placed medium as a disk. Without a model, vmadm uses that of the first disk, which a CD may not support. */
const medium: Description<JsonObject> = object({
  path: mediumPath,
  media: only("cdrom", "cdrom"),
  model: oneOf(ALL_DISK_MODELS),
}, { required: ["path", "media", "model"] });

/** The properties that a task may change with `vmadm.update()`. */
export function machineChanges(policy: Policy): Description<JsonObject> {
  const fields: Fields = {
    ...settings(policy),
    autoboot: flag,
    set_tags: tags,
    remove_tags: tagKeys,
    set_customer_metadata: metadata,
    remove_customer_metadata: keys,
    set_routes: routes,
    remove_routes: destinations,
    add_nics: newNics(policy, undefined),
    update_nics: listOf(nicChange(policy), REMOVED_MAX, "nics"),
    remove_nics: listOf(mac, REMOVED_MAX, "MAC addresses"),
    add_disks: listOf(medium, MEDIA_MAX, "media"),
    remove_disks: listOf(mediumPath, MEDIA_MAX, "media"),
  };
  const allowed = Object.keys(fields).filter((name) => !isForbidden(policy, name));
  const otherwise = refusedBy(fields, REFUSED_CHANGES);
  return object(allowedFields(fields, allowed), {
    refused: (name) => isForbidden(policy, name) ? FORBIDDEN_WORDS : otherwise(name),
    relations: [
      MEMORY_LIMITS,
      ...nicRelations("add_nics"),
      ...nicRelations("update_nics"),
      ADDED_BESIDE_UPDATED,
    ],
  });
}

/** Nics that are added and nics that are changed must not share a mac or an address. */
const ADDED_BESIDE_UPDATED: Relation = {
  check({ add_nics, update_nics }, field, findings) {
    refuseTaken(objectsIn(add_nics), objectsIn(update_nics), `${field}.add_nics`, findings);
  },
};

/** The argument of `vmadm.update()` that errors name. */
const CHANGES = "changes";

/**
 * Reads the changes of one machine.
 * @throws {AgentError} `invalid_argument` naming every incorrect field by its path
 */
export function parseMachineChanges(value: unknown, policy: Policy): JsonObject {
  return parse(machineChanges(policy), value, CHANGES, CHANGES);
}

/** Whether the machine itself is needed to check the changes. */
export function needsMachine(changes: JsonObject): boolean {
  return BESIDE_MACHINE.some((name) => changes[name] !== undefined) ||
    brandedIn(changes).length > 0;
}

const BESIDE_MACHINE = ["add_nics", "update_nics", "remove_nics", "set_routes", "add_disks"];

/** The changes with macs in the spelling that vmadm shows: it finds a nic only by that. */
export function withOwnMacs(changes: JsonObject, machine: JsonObject): JsonObject {
  const own = new Map(objectsIn(machine.nics).map(({ mac }) => [wholeMac(String(mac)), mac]));
  const spelt = (mac: JsonValue | undefined) => own.get(String(mac)) ?? mac ?? null;
  const { update_nics, remove_nics, ...rest } = changes;
  return {
    ...rest,
    ...(update_nics === undefined ? {} : {
      update_nics: objectsIn(update_nics).map((nic) => ({ ...nic, mac: spelt(nic.mac) })),
    }),
    ...(Array.isArray(remove_nics) ? { remove_nics: remove_nics.map(spelt) } : {}),
  };
}

/**
 * Checks changes against their machine: vmadm silently ignores properties of the other brand, and does not limit the
 * number of nics.
 * @param machine as vmadm describes it
 * @throws {AgentError} `invalid_argument` naming every incorrect field
 */
export function requireFitting(
  changes: JsonObject,
  machine: JsonObject,
  policy: Policy,
): void {
  const { brand } = machine;
  const findings = openFindings();
  const kept = nicsKept(changes, machine);
  const added = objectsIn(changes.add_nics);
  const nics = kept.length + added.length;
  if (changes.add_nics !== undefined && nics > policy.nicsMax) {
    const words = `must leave the machine with at most ${policy.nicsMax} nics (setting ` +
      `${POLICY_SETTINGS.nicsMax}), it would have ${nics}`;
    findings.add(`${CHANGES}.add_nics`, "TooLarge", words);
  }
  refuseTaken(added, kept, `${CHANGES}.add_nics`, findings);
  refuseMoves(changes, kept, `${CHANGES}.update_nics`, findings);
  refuseRoutes(changes.set_routes, [...kept, ...added], `${CHANGES}.set_routes`, findings);
  if (brand === "kvm") refuseHighPlaces(changes, machine, `${CHANGES}.add_disks`, findings);
  for (const [path, owner] of brandedIn(changes)) {
    if (owner === brand) continue;
    findings.add(
      `${CHANGES}.${path}`,
      "Invalid",
      `is only for machines of brand ${owner}, found ${brand}`,
    );
  }
  refuseFindings(findings, CHANGES);
}

/** Refuses an address that another remaining nic of the machine has. */
function refuseMoves(
  { update_nics }: JsonObject,
  kept: readonly JsonObject[],
  field: string,
  findings: Findings,
): void {
  for (const [index, update] of objectsIn(update_nics).entries()) {
    const others = kept.filter(({ mac }) => wholeMac(String(mac)) !== update.mac);
    refuseTakenAddress(update, others, `${field}[${index}]`, findings);
  }
}

/** The paths of properties that only one brand has, with that brand. */
function brandedIn(changes: JsonObject): [string, MachineBrand][] {
  const ownersIn = (
    object: JsonObject,
    owners: Readonly<Record<string, MachineBrand>>,
    prefix: string,
  ) =>
    Object.entries(owners).filter(([name]) => Object.hasOwn(object, name))
      .map(([name, owner]): [string, MachineBrand] => [prefix + name, owner]);
  return [
    ...ownersIn(changes, BRAND_OF, ""),
    ...["add_nics", "update_nics"].flatMap((list) =>
      objectsIn(changes[list]).flatMap((nic, index) =>
        ownersIn(nic, NIC_BRANDS, `${list}[${index}].`)
      )
    ),
  ];
}

/** Refuses media that would be IDE drives beyond the last place. */
function refuseHighPlaces(
  { add_disks, remove_disks }: JsonObject,
  { disks }: JsonObject,
  field: string,
  findings: Findings,
): void {
  const removed = Array.isArray(remove_disks) ? remove_disks : [];
  const before = objectsIn(disks).filter(({ path }) => !removed.includes(path ?? null)).length;
  for (const [index, { model }] of objectsIn(add_disks).entries()) {
    if (model !== "ide" || before + index < IDE_PLACES) continue;
    const words = `must not be ide: ${before + index} drives come before it, and only the first ` +
      `${IDE_PLACES} have a place there`;
    findings.add(`${field}[${index}].model`, "Invalid", words);
  }
}

/** The nics that the changes add or change, as they will be, with their paths. */
export function changedNics(
  changes: JsonObject,
  machine: JsonObject,
): { nic: JsonObject; path: string }[] {
  const kept = nicsKept(changes, machine);
  const nicNamed = (name: JsonValue | undefined) =>
    kept.find(({ mac }) => wholeMac(String(mac)) === name);
  return [
    ...objectsIn(changes.add_nics).map((nic, index) => ({
      nic,
      path: `${CHANGES}.add_nics[${index}]`,
    })),
    ...objectsIn(changes.update_nics).map((nic, index) => ({
      nic: nicNamed(nic.mac) ?? nic,
      path: `${CHANGES}.update_nics[${index}]`,
    })),
  ];
}

/** The nics of the machine after the changes. */
function nicsKept(changes: JsonObject, machine: JsonObject): JsonObject[] {
  const removed = Array.isArray(changes.remove_nics) ? changes.remove_nics : [];
  const updates = objectsIn(changes.update_nics);
  const nics = objectsIn(machine.nics).map((nic) => ({ nic, mac: wholeMac(String(nic.mac)) }));
  return nics.filter(({ mac }) => !removed.includes(mac)).map(({ nic, mac }) => {
    const update = updates.find((one) => one.mac === mac);
    if (update === undefined) return nic;
    // vmadm stores an address in both properties; a new one replaces both.
    const { ip: _ip, ips: _ips, ...rest } = nic;
    const moves = update.ip !== undefined || update.ips !== undefined;
    return { ...(moves ? rest : nic), ...update };
  });
}

/** Properties whose changes have another name: a forbidden property cannot be changed either. */
const PROPERTY_OF: Readonly<Record<string, string>> = {
  set_tags: "tags",
  remove_tags: "tags",
  set_customer_metadata: "customer_metadata",
  remove_customer_metadata: "customer_metadata",
  set_routes: "routes",
  remove_routes: "routes",
  add_nics: "nics",
  update_nics: "nics",
  remove_nics: "nics",
};

/** Whether the operator has forbidden the property that a change is about. */
function isForbidden(policy: Policy, change: string): boolean {
  const property = Object.hasOwn(PROPERTY_OF, change) ? PROPERTY_OF[change] ?? change : change;
  return DEFAULT_POLICY.machineProperties.includes(property) &&
    !policy.machineProperties.includes(property);
}

// Changes of a machine that is there, as `vmadm update` takes them: the sizes that a description has,
// and attaching or detaching a medium, which is how a bhyve machine boots from one.

import {
  type Check,
  flag,
  listOf,
  oneOf,
  openFindings,
  readObject,
  refuseFindings,
} from "../field_check.ts";
import { ALL_DISK_MODELS } from "./disk.ts";
import { type JsonObject, objectsIn } from "../json.ts";
import { mediumPath } from "./media.ts";
import { JOB_TAG, metadata, metadataKey, tags } from "./metadata.ts";
import { BRAND_OF, checkMemory, destinations, routes, settingChecks } from "./properties.ts";
import { checkNics, mac, nicChangeCheck, nicCheck, refuseTaken } from "./nic.ts";
import {
  DEFAULT_POLICY,
  FORBIDDEN_WORDS,
  listAtMost,
  type Policy,
  POLICY_SETTINGS,
  refusedBy,
} from "../policy.ts";
import { REFUSED_CHANGES } from "./refused_properties.ts";

/** Media that one call attaches or detaches. */
const MEDIA_MAX = 4;
const REMOVED_MAX = 64;

/**
 * Reads the changes of one machine.
 * @throws {AgentError} `invalid_argument` naming every incorrect field by its path
 */
export function parseMachineChanges(value: unknown, policy: Policy, field = "changes"): JsonObject {
  const findings = openFindings();
  const checks: Record<string, Check> = {
    ...settingChecks(policy, undefined),
    autoboot: flag,
    set_tags: tags,
    remove_tags: tagKeys,
    set_customer_metadata: metadata,
    remove_customer_metadata: keys,
    set_routes: routes,
    remove_routes: destinations,
    add_nics: listAtMost(policy, "nicsMax", nicCheck(policy), "nics"),
    update_nics: listOf(nicChangeCheck(policy), REMOVED_MAX, "nics"),
    remove_nics: listOf(mac, REMOVED_MAX, "MAC addresses"),
    add_disks: listOf(medium, MEDIA_MAX, "media"),
    remove_disks: listOf(mediumPath, MEDIA_MAX, "media"),
  };
  const reason = refusedBy(Object.keys(checks), Object.keys(checks), REFUSED_CHANGES);
  const refused = (name: string) => isForbidden(policy, name) ? FORBIDDEN_WORDS : reason(name);
  const changes = readObject(value, field, { checks, required: [], refused }, findings);
  if (changes !== undefined) checkMemory(changes, field, findings);
  for (const name of ["add_nics", "update_nics"]) {
    const nics = changes?.[name];
    if (Array.isArray(nics)) checkNics(nics, `${field}.${name}`, findings);
  }
  refuseFindings(findings, "changes");
  return changes ?? {};
}

/** Whether it takes the machine to tell if changes fit it. */
export function needsMachine(changes: JsonObject): boolean {
  return changes.add_nics !== undefined ||
    Object.keys(changes).some((name) => Object.hasOwn(BRAND_OF, name));
}

/**
 * Holds changes against their machine: vmadm would drop what is of the other brand without a word, and
 * bounds no number of nics.
 * @param machine as vmadm describes it
 * @throws {AgentError} `invalid_argument` naming every field that does not fit
 */
export function requireFitting(
  changes: JsonObject,
  machine: JsonObject,
  policy: Policy,
  field = "changes",
): void {
  const { brand } = machine;
  const findings = openFindings();
  const kept = nicsKept(changes, machine);
  const added = objectsIn(changes.add_nics);
  const nics = kept.length + added.length;
  if (changes.add_nics !== undefined && nics > policy.nicsMax) {
    const words = `must leave the machine with at most ${policy.nicsMax} nics (setting ` +
      `${POLICY_SETTINGS.nicsMax}), it would have ${nics}`;
    findings.add(`${field}.add_nics`, "TooLarge", words);
  }
  refuseTaken(added, kept, `${field}.add_nics`, findings);
  for (const name of Object.keys(changes)) {
    const owner = Object.hasOwn(BRAND_OF, name) ? BRAND_OF[name] : undefined;
    if (owner === undefined || owner === brand) continue;
    findings.add(`${field}.${name}`, "Invalid", `is only for machines of brand ${owner}`);
  }
  refuseFindings(findings, "changes");
}

/** The nics of a machine as they are once others are removed and some of them changed. */
function nicsKept(changes: JsonObject, machine: JsonObject): JsonObject[] {
  const removed = Array.isArray(changes.remove_nics) ? changes.remove_nics : [];
  const updates = objectsIn(changes.update_nics);
  return objectsIn(machine.nics).filter(({ mac }) => !removed.includes(mac ?? null)).map((nic) => {
    const update = updates.find(({ mac }) => mac === nic.mac);
    if (update === undefined) return nic;
    // vmadm tells an address both ways; a new one replaces what stood in either.
    const { ip: _ip, ips: _ips, ...rest } = nic;
    const moves = update.ip !== undefined || update.ips !== undefined;
    return { ...(moves ? rest : nic), ...update };
  });
}

/** The property that a change is of, where it has another name: a forbidden one cannot be changed. */
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

const keys: Check = listOf(metadataKey, REMOVED_MAX, "names");

/** Whether the operator has taken the property of a change out of the policy. */
function isForbidden(policy: Policy, change: string): boolean {
  const property = Object.hasOwn(PROPERTY_OF, change) ? PROPERTY_OF[change] ?? change : change;
  return DEFAULT_POLICY.machineProperties.includes(property) &&
    !policy.machineProperties.includes(property);
}

/** Names of tags, without that by which the agent knows its machines. */
const tagKeys: Check = (value, field, findings) => {
  if (!Array.isArray(value) || !value.includes(JOB_TAG)) return keys(value, field, findings);
  findings.add(`${field}[${value.indexOf(JOB_TAG)}]`, "Invalid", "is set by the agent itself");
  return undefined;
};

const medium: Check = (value, field, findings) =>
  readObject(value, field, {
    checks: {
      path: mediumPath,
      media: oneOf(["cdrom"]),
      model: oneOf(ALL_DISK_MODELS),
    },
    // Without a model vmadm takes that of the first disk, which a CD may not be able to have.
    required: ["path", "media", "model"],
  }, findings);

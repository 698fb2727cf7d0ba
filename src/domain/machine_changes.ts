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
  text,
} from "./field_check.ts";
import { DISK_MODELS } from "./disk.ts";
import type { JsonObject } from "./json.ts";
import { isMediaName, mediaKind } from "./media.ts";
import { JOB_TAG, metadata, tags } from "./metadata.ts";
import {
  DEFAULT_POLICY,
  FORBIDDEN_WORDS,
  OTHER_MACHINE_PROPERTIES,
  type Policy,
  refusedBy,
} from "./policy.ts";
import { atMost } from "./policy_check.ts";

/** Media that one call attaches or detaches. */
const MEDIA_MAX = 4;
const KEY = /^[^\p{Cc}]{1,255}$/u;
const REMOVED_MAX = 64;

/**
 * Reads the changes of one machine.
 * @throws {AgentError} `invalid_argument` naming every incorrect field by its path
 */
export function parseMachineChanges(value: unknown, policy: Policy, field = "changes"): JsonObject {
  const findings = openFindings();
  const checks: Record<string, Check> = {
    vcpus: atMost(policy, "vcpusMax"),
    ram: atMost(policy, "ramMiBMax"),
    quota: atMost(policy, "quotaGiBMax"),
    autoboot: flag,
    set_tags: tags,
    remove_tags: tagKeys,
    set_customer_metadata: metadata,
    remove_customer_metadata: keys,
    add_disks: listOf(medium, MEDIA_MAX, "media"),
    remove_disks: listOf(mediumPath, MEDIA_MAX, "media"),
  };
  const others = [...OTHER_MACHINE_PROPERTIES, ...OTHER_CHANGES, ...policy.machineProperties];
  const reason = refusedBy(Object.keys(checks), Object.keys(checks), others);
  const refused = (name: string) => isForbidden(policy, name) ? FORBIDDEN_WORDS : reason(name);
  const changes = readObject(value, field, { checks, required: [], refused }, findings);
  refuseFindings(findings, "changes");
  return changes ?? {};
}

/** The property that a change is of, where it has another name: a forbidden one cannot be changed. */
const PROPERTY_OF: Readonly<Record<string, string>> = {
  set_tags: "tags",
  remove_tags: "tags",
  set_customer_metadata: "customer_metadata",
  remove_customer_metadata: "customer_metadata",
};

/** Changes that vmadm knows besides the properties. */
const OTHER_CHANGES: readonly string[] = [
  "add_filesystems",
  "add_nics",
  "remove_filesystems",
  "remove_internal_metadata",
  "remove_nics",
  "remove_routes",
  "set_internal_metadata",
  "set_routes",
  "update_disks",
  "update_filesystems",
  "update_nics",
  "uuid",
];

const keys: Check = listOf(text(KEY, "a name of 1 to 255 characters"), REMOVED_MAX, "names");

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

/** A medium as it is seen from inside the zone; any other path would be a device of the host. */
const mediumPath: Check = (value, field, findings) => {
  if (typeof value === "string" && value.startsWith("/")) {
    const name = value.slice(1);
    if (isMediaName(name) && mediaKind(name) !== undefined) return value;
  }
  findings.add(field, "Invalid", "must be the path of a medium in the zone, such as /name.iso");
  return undefined;
};

const medium: Check = (value, field, findings) =>
  readObject(value, field, {
    checks: {
      path: mediumPath,
      media: oneOf(["cdrom"]),
      model: oneOf([...new Set(Object.values(DISK_MODELS).flat())]),
    },
    // Without a model vmadm takes that of the first disk, which a CD may not be able to have.
    required: ["path", "media", "model"],
  }, findings);

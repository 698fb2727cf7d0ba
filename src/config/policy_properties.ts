// The properties that an operator may take out of the policy, by the names that the settings have
// for them.

import { DEFAULT_POLICY, type Policy } from "../domain/policy.ts";

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

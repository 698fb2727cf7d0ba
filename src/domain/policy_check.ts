// The operator's policy as checks of fields: the one place where a size, a count or a word is held
// against it. machine.ts, machine_changes.ts, disk.ts and nic.ts build their shapes from these, so
// that a task and a request over HTTP meet the same refusals, which name the setting behind them.

import { AgentError } from "./error.ts";
import { type Check, integer, listOf, oneOf } from "./field_check.ts";
import type { JsonObject } from "./json.ts";
import { JOB_TAG } from "./machine/metadata.ts";
import { type Policy, POLICY_SETTINGS } from "./policy.ts";

/** The fields of a policy that are largest values. */
type Largest = "vcpusMax" | "ramMiBMax" | "diskMiBMax" | "quotaGiBMax" | "disksMax" | "nicsMax";

/** How a field's largest value is made of the policy's; least values are 1 unless told. */
export interface Bound {
  readonly min?: number;
  readonly times?: number;
  readonly plus?: number;
}

/** A whole number that the policy bounds. */
export function atMost(
  policy: Policy,
  name: Exclude<Largest, "disksMax" | "nicsMax">,
  { min = 1, times = 1, plus = 0 }: Bound = {},
): Check {
  const max = policy[name] * times + plus;
  const check = integer(min, max);
  return (value, field, findings) => {
    if (typeof value !== "number" || !Number.isInteger(value) || value <= max) {
      return check(value, field, findings);
    }
    const words = `must be an integer from ${min} to ${max} (setting ${POLICY_SETTINGS[name]})`;
    findings.add(field, "TooLarge", words);
    return undefined;
  };
}

/** A list whose length the policy bounds. */
export function listAtMost(
  policy: Policy,
  name: "disksMax" | "nicsMax",
  check: Check,
  noun: string,
): Check {
  const max = policy[name];
  const read = listOf(check, max, noun);
  return (value, field, findings) => {
    if (!Array.isArray(value) || value.length <= max) return read(value, field, findings);
    const words = `must hold at most ${max} ${noun} (setting ${POLICY_SETTINGS[name]})`;
    findings.add(field, "TooLarge", words);
    return undefined;
  };
}

/** A brand that may be made. */
export function allowedBrand(policy: Policy, known: readonly string[]): Check {
  const check = oneOf(policy.brands);
  return (value, field, findings) => {
    const refused = typeof value === "string" && known.includes(value) &&
      !policy.brands.some((brand) => brand === value);
    if (!refused) return check(value, field, findings);
    const words = `must be one of ${policy.brands.join(", ")} (setting ${POLICY_SETTINGS.brands})`;
    findings.add(field, "Invalid", words);
    return undefined;
  };
}

/** The name of a network on which nics may be; `check` reads its form. */
export function allowedNicTag({ nicTags }: Policy, check: Check): Check {
  if (nicTags.length === 0) return check;
  return (value, field, findings) => {
    if (typeof value !== "string" || nicTags.includes(value)) return check(value, field, findings);
    const words = `must be one of ${nicTags.join(", ")} (setting ${POLICY_SETTINGS.nicTags})`;
    findings.add(field, "Invalid", words);
    return undefined;
  };
}

/**
 * Refuses to act on a machine that no job made, where the policy says so.
 * @param machine The machine as vmadm describes it
 * @throws {AgentError} `forbidden`
 */
export function requireOwnMachine(policy: Policy, uuid: string, machine: JsonObject): void {
  if (policy.foreignMachines === "change") return;
  const tags = machine.tags;
  const made = typeof tags === "object" && tags !== null && Object.hasOwn(tags, JOB_TAG);
  if (made) return;
  const message = `Cannot act on machine ${uuid}: no job made it, and the policy allows only to ` +
    `read such machines (setting ${POLICY_SETTINGS.foreignMachines})`;
  throw new AgentError("forbidden", message);
}

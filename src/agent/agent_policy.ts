// The operator's policy as the agent holds it: one object that requests and tasks are held against,
// and that follows the configuration when it is read again.

import type { Config } from "../config/config.ts";
import { policyOf } from "../config/policy.ts";
import type { Policy } from "../domain/policy.ts";
import type { Reloads } from "./reload.ts";

/** What a policy is made of. */
export interface PolicyGround {
  readonly config: Config;
  readonly follow: Reloads["follow"];
}

/** The policy of the configuration; what is refused from then on changes with it. */
export function openPolicy({ config, follow }: PolicyGround): Policy {
  const policy = policyOf(config.policy);
  follow(["policy"], (next) => void Object.assign(policy, policyOf(next.policy)));
  return policy;
}

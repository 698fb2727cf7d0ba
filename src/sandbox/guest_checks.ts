// What a guest has proved at its start: whether that is all that is asked for.

import { GUEST_PERMISSIONS, type GuestCheck } from "./protocol.ts";

/**
 * Why a guest may be given no task, in words, or undefined when each permission was tried and
 * refused. One that was not tried counts as open.
 */
export function openWords(checks: readonly GuestCheck[]): string | undefined {
  const failed = checks.filter(({ ok }) => !ok).map(({ detail }) => `it ${detail}`);
  const untried = GUEST_PERMISSIONS.filter((name) => !checks.some(({ check }) => check === name))
    .map((name) => `it did not try "${name}"`);
  const words = [...failed, ...untried];
  return words.length === 0 ? undefined : words.join(", ");
}

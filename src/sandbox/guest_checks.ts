// What a guest or a decoder has proved at its start: whether that is all that is asked for.

import { GUEST_CHECKS, type GuestCheck } from "./protocol.ts";

/**
 * Why a process may be given no work, in words, or undefined when it has proved all that is asked for.
 * What was not tried counts as open.
 * @param asked the checks that count: all for a guest, the permissions for a decoder
 */
export function openWords(
  checks: readonly GuestCheck[],
  asked: readonly string[] = GUEST_CHECKS,
): string | undefined {
  const failed = checks.filter(({ ok }) => !ok).map(({ detail }) => `it ${detail}`);
  const untried = asked.filter((name) => !checks.some(({ check }) => check === name))
    .map((name) => `it did not try "${name}"`);
  const words = [...failed, ...untried];
  return words.length === 0 ? undefined : words.join(", ");
}

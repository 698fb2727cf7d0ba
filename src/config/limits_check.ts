// Limits that are fine alone and wrong together: what one lets in, the next must be able to carry.

import type { Config } from "./config.ts";
import type { Misfit } from "./access_check.ts";

/** Each limit with the one that must be as large: whatever keeps to the first is a part of the second. */
const CARRIED = [
  ["params_chars_max", "job_left_chars_max"],
  ["job_left_chars_max", "job_chars_max"],
  ["result_chars_max", "job_chars_max"],
  // A log line is an entry of the info as well.
  ["task_log_chars_max", "task_info_chars_max"],
] as const;

/** What is wrong with the limits. */
export function limitMisfits({ limits }: Config): Misfit[] {
  return CARRIED.flatMap(([inner, outer]) => {
    if (limits[inner].value <= limits[outer].value) return [];
    // The one that was set is told of: the other may be a default, which nobody has written.
    const [key, other, wanted] = limits[inner].origin.kind === "default"
      ? [outer, inner, "at least"] as const
      : [inner, outer, "at most"] as const;
    const why = `${limits[key].value} does not fit ${other}: expected ${wanted} ` +
      `${limits[other].value}, which that is`;
    return [{ setting: limits[key], key, why }];
  });
}

// The configured limits, under the names that the HTTP room gives them.

import type { Config } from "./config.ts";
import type { HttpLimits } from "./http/app_deps.ts";

/** What requests may be at the largest. */
export function httpLimits({ limits, callback_hosts }: Config): HttpLimits {
  const callbackHosts = callback_hosts.value;
  return {
    bodyBytesMax: limits.body_bytes_max.value,
    jsonDepthMax: limits.json_depth_max.value,
    requestsMax: limits.requests_max.value,
    waitsMax: limits.waits_max.value,
    tasksMax: limits.tasks_max.value,
    sourceCharsMax: limits.source_chars_max.value,
    retryMax: limits.retry_max.value,
    timeoutSecondsMax: limits.timeout_seconds_max.value,
    targetCharsMax: limits.target_chars_max.value,
    paramsCharsMax: limits.params_chars_max.value,
    infoEntryBytesMax: limits.info_entry_bytes_max.value,
    infoEntriesMax: limits.info_entries_max.value,
    unfinishedJobsMax: limits.unfinished_jobs_max.value,
    workflowsMax: limits.workflows_max.value,
    callbackHosts,
  };
}

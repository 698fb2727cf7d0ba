// The configured limits, under the names that the rooms give them.

import type { CapabilityLimits } from "../capabilities/capability.ts";
import type { Config } from "../config/config.ts";
import type { HttpLimits } from "../http/context.ts";
import type { ConnectionLimits } from "../http/listen/connection_watch.ts";
import type { TaskLimits } from "../sandbox/task_limits.ts";

/** How many connections there may be, and how long they may take. */
export function connectionLimits({ limits }: Config): ConnectionLimits {
  return {
    connectionsMax: limits.connections_max.value,
    headSeconds: limits.head_seconds.value,
    idleSeconds: limits.idle_seconds.value,
    answerSeconds: limits.answer_seconds.value,
  };
}

/** What requests may be at the largest. */
export function httpLimits({ limits, callback_hosts }: Config): HttpLimits {
  const callbackHosts = callback_hosts.value;
  return {
    headerFieldsMax: limits.header_fields_max.value,
    headerCharsMax: limits.header_chars_max.value,
    bodyBytesMax: limits.body_bytes_max.value,
    smallBodyBytesMax: limits.small_body_bytes_max.value,
    bodySeconds: limits.body_seconds.value,
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
    consolesMax: limits.consoles_max.value,
    machineConsolesMax: limits.machine_consoles_max.value,
    consoleIdleSeconds: limits.console_idle_seconds.value,
    consoleTicketSeconds: limits.console_ticket_seconds.value,
    consoleTicketsMax: limits.console_tickets_max.value,
    unfinishedJobsMax: limits.unfinished_jobs_max.value,
    workflowsMax: limits.workflows_max.value,
    callbackHosts,
  };
}

/** What tasks may return, change and say. */
export function taskLimits({ limits }: Config): TaskLimits {
  return {
    resultCharsMax: limits.result_chars_max.value,
    errorCharsMax: limits.error_chars_max.value,
    jobCharsMax: limits.job_chars_max.value,
    jobLeftCharsMax: limits.job_left_chars_max.value,
    callCharsMax: limits.call_chars_max.value,
    logLinesMax: limits.task_log_lines_max.value,
    logCharsMax: limits.task_log_chars_max.value,
  };
}

/** What one execution of a task may ask for and write. */
export function capabilityLimits({ limits }: Config): CapabilityLimits {
  return {
    callsMax: limits.task_calls_max.value,
    taskInfoEntriesMax: limits.task_info_entries_max.value,
    taskInfoCharsMax: limits.task_info_chars_max.value,
    logCharsMax: limits.task_log_chars_max.value,
  };
}

// Every fault of the simulated host as the fault matrix strikes with it: its words, and the words by
// which a job that fails under it has to name the cause.

import type { FaultName } from "../../src/simulator/fault.ts";

export interface Strike {
  readonly fault: FaultName;
  /** The value of the fault, such as a subcommand. */
  readonly value?: string;
  /** What the error of a failed job tells. */
  readonly cause: RegExp;
}

/** Subcommands that provisioning and its undoing make. */
const CALLS = [
  "validate",
  "lookup",
  "create",
  "update",
  "start",
  "info",
] as const;

const NOT_BELIEVED =
  /cannot be read|is not|no such machine|does not exist|says|reports|expected|nothing|wrote|no JSON|not the/i;

const LATE = /was not done after|no answer within/;

/** Faults of one subcommand, by what the error has to tell of them. */
const OF_CALLS = [
  ["hang", LATE],
  ["hang_after", LATE],
  ["killed", /SIGKILL|killed/],
  ["aborted", /SIGABRT|abort/i],
  ["empty", NOT_BELIEVED],
  ["garbage", NOT_BELIEVED],
  ["flood", /more than|at most|bytes|MiB/i],
  ["noise_stdout", NOT_BELIEVED],
  ["noise_stderr", NOT_BELIEVED],
] as const;

const OTHERS: readonly Strike[] = [
  { fault: "out_of_space", cause: /out of space/ },
  { fault: "conflict", cause: /Conflict detected with another vm/ },
  { fault: "create_killed_after_datasets", cause: /SIGKILL|killed/ },
  { fault: "create_killed_after_zonecfg", cause: /SIGKILL|killed/ },
  { fault: "create_killed_after_install", cause: /SIGKILL|killed/ },
  { fault: "create_without_message", cause: NOT_BELIEVED },
  { fault: "create_without_machine", cause: /does not exist/ },
  { fault: "provision_timeout", cause: /timed out/ },
  { fault: "validate_refuses", cause: /ram/ },
  { fault: "start_failure", cause: /call to zoneadmd failed/ },
  { fault: "start_timeout", cause: /timeout exceeded/ },
  { fault: "start_dies", cause: /the fault start_dies ends this hypervisor/ },
  { fault: "acpi_ignored", cause: /never/ },
  { fault: "delete_busy", cause: /never/ },
  { fault: "delete_leaks", cause: /never/ },
  { fault: "info_empty", cause: /reports no address/ },
  { fault: "info_500", cause: /reports no address|returned 500/ },
  { fault: "info_refused", cause: /ECONNREFUSED/ },
  { fault: "info_cut", cause: NOT_BELIEVED },
  { fault: "info_missing_port", cause: /reports no address|port/ },
  { fault: "info_missing_host", cause: /reports no address|host/ },
  { fault: "info_wrong_host", value: "127.0.0.2", cause: /127\.0\.0\.2/ },
  { fault: "vnc_refuse", cause: /refused/i },
  { fault: "vnc_silent", cause: /RFB version/ },
  { fault: "vnc_close", cause: /closed|RFB version/ },
  { fault: "vnc_old", cause: /never/ },
  { fault: "vnc_slow", value: "400", cause: /never/ },
  { fault: "slow", value: "100", cause: /never/ },
  { fault: "vminfod_down", cause: /ECONNREFUSED/ },
  { fault: "vmadmd_down", cause: /ECONNREFUSED/ },
  { fault: "no_global_zone", cause: /not running in the global zone/ },
  { fault: "no_root", cause: /not running as root/ },
];

/** Every strike of the matrix. */
export const STRIKES: readonly Strike[] = [
  ...OTHERS,
  ...OF_CALLS.flatMap(([fault, cause]) => CALLS.map((value) => ({ fault, value, cause }))),
];

/** How a strike is called in the name of a test. */
export function strikeName({ fault, value }: Strike): string {
  return value === undefined ? fault : `${fault} ${value}`;
}

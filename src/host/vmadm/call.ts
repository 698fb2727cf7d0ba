// One call of vmadm: its arguments, its deadline and its errors, which carry the command and both streams
// without secrets.

import { AgentError } from "../../domain/error.ts";
import type { JsonObject } from "../../domain/json.ts";
import type { waitOrAbort } from "../../runtime/wait.ts";
import type { CommandResult } from "../program.ts";
import { describeResult, secretsOf } from "../program_output.ts";
import type { Transport } from "../transport.ts";
import { codeOf } from "./output.ts";

/** Milliseconds per operation; vmadm's own timeouts are shorter. */
const DEADLINES_MS = {
  validate: 60_000,
  create: 600_000,
  lookup: 60_000,
  /** vmadm waits up to 300 s for the machine to run. */
  boot: 360_000,
  /** A guest has 180 s to power off, then vmadm waits up to 300 s for the zone. */
  stop: 540_000,
  /** A guest has 3 minutes to power off, then vmadm starts it, as in `stop` and `boot`. */
  reboot: 900_000,
  update: 120_000,
  delete: 300_000,
  info: 30_000,
} as const;

/** What operations need to run vmadm. */
export interface VmadmHost {
  readonly transport: Transport;
  /** Waits between two checks of a machine: waitOrAbort(), or a test's own clock. */
  readonly wait: typeof waitOrAbort;
}

/** One run of vmadm, with the deadline of its operation. */
export interface VmadmCall {
  readonly operation: keyof typeof DEADLINES_MS;
  /** The action, with which errors begin: `Cannot boot machine <uuid>`. */
  readonly action: string;
  readonly args: readonly string[];
  /** Sent as JSON on standard input. */
  readonly payload?: JsonObject;
  readonly signal?: AbortSignal | undefined;
  /** Instead of `signal`: the call continues when it fires; see CommandOptions. */
  readonly released?: AbortSignal | undefined;
}

/**
 * Makes the call. An exit code other than 0 is a result.
 * @throws {AgentError} `timeout`, `aborted`, `host`, naming the command
 */
export async function callVmadm(host: VmadmHost, call: VmadmCall): Promise<CommandResult> {
  try {
    return await host.transport.vmadm(call.args, {
      deadlineMs: DEADLINES_MS[call.operation],
      ...(call.payload === undefined ? {} : { stdin: JSON.stringify(call.payload) }),
      ...(call.signal === undefined ? {} : { signal: call.signal }),
      ...(call.released === undefined ? {} : { released: call.released }),
    });
  } catch (cause) {
    if (!(cause instanceof AgentError)) throw cause;
    const message = `${call.action} by ${commandOf(call)}: ${cause.message}`;
    throw new AgentError(cause.code, message, { cause });
  }
}

/** The error of a failed call, with everything vmadm printed. */
export function failureOf(call: VmadmCall, result: CommandResult): AgentError {
  const said = describeResult(result, secretsOf(call.payload));
  return new AgentError(codeOf(result), `${call.action}: ${commandOf(call)} ${said}`);
}

/**
 * Parses what a successful call printed.
 * @throws {AgentError} that of the parser, with the command and its standard error
 */
export function parsed<T>(
  call: VmadmCall,
  result: CommandResult,
  parse: (stdout: string) => T,
): T {
  try {
    return parse(result.stdout);
  } catch (cause) {
    if (!(cause instanceof AgentError)) throw cause;
    const said = describeResult(result, secretsOf(call.payload), cause.message);
    const message = `${call.action}: ${commandOf(call)} ${said}`;
    throw new AgentError(cause.code, message, { cause });
  }
}

/** The command line of a call, quoted as errors show it. */
export function commandOf({ args }: VmadmCall): string {
  return JSON.stringify(["vmadm", ...args].join(" "));
}

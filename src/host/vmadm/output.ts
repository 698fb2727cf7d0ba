// Parses what vmadm prints. Messages, of success and failure alike, are on standard error; standard output is
// data only. vmadm has no error codes, so every message that the agent acts on is matched here, and nowhere
// else. All functions are pure; their errors quote the raw text, bounded and without secrets.

import { AgentError, type ErrorCode, type FieldError, isNoSpace } from "../../domain/error.ts";
import { isUuid, type MachineUuid } from "../../domain/id.ts";
import { PORT_MAX } from "../../domain/ip_address.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import type { CommandResult } from "../program.ts";
import { messageOfOutput, shown } from "../program_output.ts";
import { PORT_MIN } from "./vnc.ts";

/** A failure of one of several parallel steps begins with this. */
const FIRST_OF = /\bfirst of \d+ errors?: /;

/** What vmadm prints before the uuid of the machine after a successful operation. */
const SUCCESS_LINES = {
  boot: "Successfully started VM",
  stop: "Successfully completed stop for VM",
  reboot: "Successfully completed reboot for VM",
  update: "Successfully updated VM",
  delete: "Successfully deleted VM",
} as const;

/** Lines of both streams, without log lines and prefixes of failures. */
function linesOf({ stdout, stderr }: CommandResult): string[] {
  return [...messageOfOutput(stderr).split("\n"), ...stdout.split("\n")]
    .map((line) => line.trim().replace(FIRST_OF, ""));
}

/** Whether vmadm has done this to the machine: exit code 0 and its success message. */
export function isDone(
  result: CommandResult,
  operation: keyof typeof SUCCESS_LINES,
  uuid: MachineUuid,
): boolean {
  return result.code === 0 && linesOf(result).includes(`${SUCCESS_LINES[operation]} ${uuid}`);
}

/** Whether a boot found the machine running: the text of an error, with exit code 0. */
export function isRunningAlready(result: CommandResult, uuid: MachineUuid): boolean {
  const sentence = `Unable to start VM ${uuid}: VM ${uuid} is already 'running'`;
  return result.code === 0 && linesOf(result).includes(sentence);
}

/**
 * The state in which a stop did nothing, such as `stopped` or `stopping`; null if vmadm does not report that.
 * The exit code is then 0, or 1 with force.
 */
export function stateBeforeStop(result: CommandResult, uuid: MachineUuid): string | null {
  const sentence = new RegExp(`^VM ${uuid} is already not 'running' \\(currently: (\\w+)\\)$`);
  for (const line of linesOf(result)) {
    const state = sentence.exec(line)?.[1];
    if (state !== undefined) return state;
  }
  return null;
}

/** Whether `validate create` accepts the payload. */
export function isValid(result: CommandResult): boolean {
  return result.code === 0 && /^VALID 'create' payload/m.test(messageOfOutput(result.stderr));
}

/** Whether `info` found a hypervisor that has started and does not answer vmadmd yet. */
export function isNotAnsweringYet({ stderr }: CommandResult): boolean {
  return /query returned 500\./.test(messageOfOutput(stderr));
}

/** The uuid in the success message of a create; null without such a message. */
export function createdUuid(result: CommandResult): string | null {
  const sentence = /^Successfully created VM (\S+)\s*$/m;
  const match = sentence.exec(messageOfOutput(result.stderr)) ?? sentence.exec(result.stdout);
  return match?.[1] ?? null;
}

/** The codes of failures with certain texts, besides a full pool; all others are `host`. */
const CODES: readonly (readonly [RegExp, ErrorCode])[] = [
  [/^VM with UUID \S+ already exists/, "already_exists"],
  // A create that still runs or has died has made a volume or zone with this uuid.
  [/(?:dataset|zone) already exists$/, "already_exists"],
  [/^Conflict detected with another vm/, "conflict"],
  [/Cannot start vm from state/, "conflict"],
];

/** The code of a failed call. */
export function codeOf(result: CommandResult): ErrorCode {
  const lines = result.code === 0 ? [] : linesOf({ ...result, stdout: "" });
  if (lines.some(isNoSpace)) return "storage_full";
  return CODES.find(([text]) => lines.some((line) => text.test(line)))?.[1] ?? "host";
}

/**
 * The array that `lookup -j` prints.
 * @throws {AgentError} `host`
 */
export function parseMachines(stdout: string): JsonObject[] {
  const value = parseJson("the list of machines", stdout);
  if (!Array.isArray(value) || !value.every(isJsonObject)) {
    throw unexpected("the list of machines", "an array of objects", stdout);
  }
  if (!value.every((machine) => isUuid(machine.uuid))) {
    throw unexpected("the list of machines", "objects with a uuid", stdout);
  }
  return value;
}

/**
 * The one machine of `lookup -j uuid=U`; null for an empty array.
 * @throws {AgentError} `host` for any other answer
 */
export function parseMachine(stdout: string, uuid: MachineUuid): JsonObject | null {
  const machines = parseMachines(stdout);
  const [machine] = machines;
  if (machine === undefined) return null;
  if (machines.length > 1 || machine.uuid !== uuid) {
    throw unexpected(`machine ${uuid}`, "this machine only", stdout);
  }
  return machine;
}

/**
 * The address that `info U vnc` prints, and the password if there is one.
 * @returns null while nothing listens: `{"vnc": {}}`
 * @throws {AgentError} `host`
 */
export function parseVnc(
  stdout: string,
): { host: string; port: number; display?: number; password?: string } | null {
  const what = "the VNC address";
  const value = parseJson(what, stdout);
  if (!isJsonObject(value) || !isJsonObject(value.vnc)) {
    throw unexpected(what, 'an object with "vnc"', stdout);
  }
  const { host, port, display, password } = value.vnc;
  if (port === undefined && host === undefined) return null;
  if (typeof port !== "number" || !Number.isInteger(port) || port < PORT_MIN || port > PORT_MAX) {
    throw unexpected(what, `a port from ${PORT_MIN} to ${PORT_MAX}`, stdout);
  }
  if (typeof host !== "string" || !/^[A-Za-z0-9][A-Za-z0-9.:-]{0,252}$/.test(host)) {
    throw unexpected(what, "a host", stdout);
  }
  return {
    host,
    port,
    ...(typeof display === "number" && Number.isInteger(display) ? { display } : {}),
    ...(typeof password === "string" && password !== "" ? { password } : {}),
  };
}

/** Keys of the output of `validate create`, and what each means for the properties it lists. */
const PROBLEMS = {
  bad_brand: { code: "Invalid", says: "is not a brand of this host" },
  bad_values: { code: "Invalid", says: "has a value refused by vmadm" },
  bad_properties: { code: "UnknownField", says: "is not a property of this brand" },
  missing_properties: { code: "Missing", says: "is missing: vmadm requires it" },
} as const satisfies Record<string, { code: FieldError["code"]; says: string }>;

/**
 * The findings of `validate create` as fields of the request, such as `machine.ram`.
 * @returns null for any other text
 */
export function parseValidation(stderr: string): FieldError[] | null {
  let value: unknown;
  try {
    value = JSON.parse(messageOfOutput(stderr));
  } catch {
    return null;
  }
  if (!isJsonObject(value)) return null;
  const errors = Object.entries(PROBLEMS).flatMap(([key, problem]) => {
    const found = value[key];
    const names = key === "bad_brand" ? (found === undefined ? [] : ["brand"]) : found;
    if (!Array.isArray(names)) return [];
    return names.map((name) => {
      const field = `machine.${String(name)}`;
      return { field, code: problem.code, message: `${field} ${problem.says}` };
    });
  });
  return errors.length === 0 ? null : errors;
}

function parseJson(what: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Without the cause, whose message would quote the text, passwords included.
    throw unexpected(what, "JSON", text);
  }
}

function unexpected(what: string, wanted: string, text: string): AgentError {
  const found = text.trim() === "" ? "nothing" : shown(text.trim());
  return new AgentError("host", `Cannot read ${what}, expected ${wanted}, vmadm wrote ${found}`);
}

/** A machine as vmadm describes it, without the passwords of its console. */
export function withoutSecrets(machine: JsonObject): JsonObject {
  const { vnc_password: _vnc, spice_password: _spice, ...rest } = machine;
  return rest;
}

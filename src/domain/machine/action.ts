// Actions on an existing machine: their options, and the states that allow them. Each action is a job of a built-in
// workflow.

import { object, type Relation } from "../description/object.ts";
import { type Description, foundText, parse } from "../description/description.ts";
import { about, flag, ignored, integer, listOf, oneOf, text } from "../description/value.ts";
import { AgentError, unreachable } from "../error.ts";
import type { MachineUuid, WorkflowUuid } from "../id.ts";
import { isJsonObject, type JsonObject } from "../json.ts";
import { BRANDS } from "../policy.ts";
import { IDE_PLACES } from "./disk.ts";
import { mediumPath } from "./media.ts";

/** The actions on an existing machine; each has a built-in workflow. */
export const MACHINE_ACTIONS = ["boot", "stop", "reboot", "eject", "delete"] as const;
/** An action. `delete` is requested by `DELETE /agent/v1/machines/{uuid}`, the others by a `POST` each. */
export type MachineAction = typeof MACHINE_ACTIONS[number];

/**
 * The workflow of `delete`: after a job of it has succeeded, no host has the machine. A constant in the form of a
 * uuid.
 */
export const DELETE_WORKFLOW = "6dbf7bd5-d1b8-4a0c-9ea1-f7a6ffec10b4" as WorkflowUuid;

/** Longest time for a guest to power off, seconds; also vmadm's default. */
export const STOP_SECONDS_MAX = 180;
/** Most media that one eject takes out. */
const FILES_MAX = 8;
/** Each letter at most once; host/vmadm/power.ts knows what the letters mean. */
const ORDER = /^(?!.*(.).*\1)[cdn]{1,3}$/;

/** A stop by force does not wait for the guest, so it has no timeout. */
const NO_TIMEOUT_BY_FORCE: Relation = {
  check(_, field, findings, { force, timeout }) {
    if (force !== true || timeout === undefined) return;
    const name = field === "" ? "timeout" : `${field}.timeout`;
    const words = `must be absent with force, found ${
      foundText(timeout, name)
    }: force waits for no guest`;
    findings.add(name, "Invalid", words);
  },
  schema: {
    not: { properties: { force: { const: true } }, required: ["force", "timeout"] },
  },
};

const STOP_FIELDS = {
  force: about(
    "At once. Otherwise the guest is asked, and forced after `timeout`.",
    flag,
    { default: false },
  ),
  timeout: about(
    "Seconds for the guest to power off; not together with `force`.",
    integer(1, STOP_SECONDS_MAX),
    { default: STOP_SECONDS_MAX },
  ),
};

/** How a machine is stopped. */
export const stopOptions = object(STOP_FIELDS, { relations: [NO_TIMEOUT_BY_FORCE] });

/** What a boot order consists of, as errors say it. */
export const BOOT_ORDER_WORDS = "letters of c (disk), d (CD) and n (network), each once";

const FIELDS = {
  boot: {
    order: about(
      "Letters tried in turn: c disk, d CD, n network.",
      text(ORDER, BOOT_ORDER_WORDS),
    ),
    once: about("Tried first, until a reset: c disk, d CD, n network.", oneOf(["c", "d", "n"])),
    cdrom: about("An ISO in the zone, by the path that the machine sees.", mediumPath),
    disk: about("The image of a disk in the zone.", mediumPath),
  },
  stop: STOP_FIELDS,
  reboot: STOP_FIELDS,
  eject: {
    files: about(
      "By the paths that the machine sees; by default, all known media.",
      listOf(mediumPath, FILES_MAX, "media"),
    ),
  },
  delete: {},
} as const;

/** Options that apply to one start of a machine only. */
export const BOOT_OPTIONS: readonly string[] = Object.keys(FIELDS.boot);

/** The options of an action, all of them optional. @param others further fields to allow, which other code reads */
export function actionOptions(
  action: MachineAction,
  others: readonly string[] = [],
): Description<JsonObject> {
  const foreign = Object.fromEntries(others.map((name) => [name, ignored]));
  const relations = action === "stop" || action === "reboot" ? [NO_TIMEOUT_BY_FORCE] : [];
  return object({ ...FIELDS[action], ...foreign }, { relations });
}

/**
 * Reads the options of an action.
 * @throws {AgentError} `invalid_argument` naming every incorrect field
 */
export function parseActionOptions(
  action: MachineAction,
  body: unknown,
  others: readonly string[] = [],
): JsonObject {
  return parse(actionOptions(action, others), body, "", action);
}

/** The error for a machine that the host does not have. */
export function machineNotFound(uuid: MachineUuid): AgentError {
  return new AgentError(
    "not_found",
    `Cannot find machine ${uuid}: no machine of the host has this uuid`,
  );
}

/**
 * Refuses an action that the machine's state or brand does not allow; the job checks again when it runs.
 * @param machine as vmadm describes it
 * @throws {AgentError} `conflict` naming the state or brand found, and those expected
 */
export function requireActable(
  action: MachineAction,
  uuid: string,
  machine: JsonObject,
  options: JsonObject,
): void {
  const { brand, state } = machine;
  if (!BRANDS.some((known) => known === brand)) {
    throw refused(action, uuid, "brand", brand, BRANDS);
  }
  const states = statesFor(action);
  if (states !== null && !states.some((known) => known === state)) {
    throw refused(action, uuid, "state", state, states);
  }
  if (action === "boot" && brand === "bhyve" && Object.keys(options).length > 0) {
    // bhyve checks these options and then ignores them; the caller should know.
    const message = `Cannot boot machine ${uuid} with ${Object.keys(options).join(", ")}: ` +
      'brand "bhyve" boots its disks as they are attached, expected no options';
    throw new AgentError("conflict", message);
  }
  if (action === "boot" && brand === "kvm") requirePlaces(uuid, machine, options);
}

/**
 * Files given for a start are IDE drives after all of the machine's own.
 * @throws {AgentError} `conflict` when no IDE place is left for them
 */
function requirePlaces(uuid: string, { disks }: JsonObject, options: JsonObject): void {
  const files = ["cdrom", "disk"].filter((name) => options[name] !== undefined);
  const own = Array.isArray(disks) ? disks.length : 0;
  if (files.length === 0 || own + files.length <= IDE_PLACES) return;
  const message = `Cannot boot machine ${uuid} with ${files.join(" and ")}: it has ${own} disks, ` +
    `and the hypervisor has a place for a medium among the first ${IDE_PLACES} drives only`;
  throw new AgentError("conflict", message);
}

/** States in which a machine may have a console. */
const CONSOLE_STATES = ["running", "stopping"];

/**
 * Refuses a console that the machine's state or brand does not allow.
 * @throws {AgentError} `conflict` naming the state or brand found, and those expected
 */
export function requireConsole(uuid: string, { brand, state }: JsonObject): void {
  const verb = "show the console of";
  if (!BRANDS.some((known) => known === brand)) throw refused(verb, uuid, "brand", brand, BRANDS);
  if (!CONSOLE_STATES.some((known) => known === state)) {
    throw refused(verb, uuid, "state", state, CONSOLE_STATES);
  }
}

/** States of a machine that is being created. */
export const UNSETTLED = ["configured", "incomplete", "provisioning"] as const;
/** States of a machine whose create died: it is unusable and may have no tags yet. */
export const HALF_MADE = [...UNSETTLED, "failed"] as const;

/** States that allow an action, including those in which there is nothing to do; null for all states. */
function statesFor(action: MachineAction): readonly string[] | null {
  switch (action) {
    case "boot":
      return ["stopped", "ready", "running"];
    case "stop":
      return ["running", "stopping", "ready", "shutting_down", "down", "stopped"];
    case "reboot":
      return ["running"];
    case "eject":
      // The hypervisor of a running machine has the file open, and could replace other files in its folder.
      return ["stopped"];
    case "delete":
      return null;
    default:
      return unreachable(action);
  }
}

function refused(
  verb: MachineAction | "show the console of",
  uuid: string,
  what: "brand" | "state",
  found: unknown,
  expected: readonly string[],
): AgentError {
  const message = `Cannot ${verb} machine ${uuid}: its ${what} is ` +
    `${JSON.stringify(found ?? null)}, expected ${expected.join(" or ")}`;
  return new AgentError("conflict", message);
}

/** Media attached to a machine, from vmadm's description. Media of kvm are given only at boot. */
export function attachedMedia({ disks }: JsonObject): string[] {
  return (Array.isArray(disks) ? disks : []).filter(isJsonObject)
    .filter(({ media }) => media === "cdrom")
    .map(({ path }) => path)
    .filter((path): path is string => typeof path === "string");
}

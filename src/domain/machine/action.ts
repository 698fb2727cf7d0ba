// What may be done to a machine once it exists: the actions, the options
// of each, and the states that allow it. Each is a job of a built-in workflow.

import { object, type Relation } from "../description/object.ts";
import { type Description, parse } from "../description/description.ts";
import { about, flag, ignored, integer, listOf, oneOf, text } from "../description/value.ts";
import { AgentError, unreachable } from "../error.ts";
import type { MachineUuid, WorkflowUuid } from "../id.ts";
import { isJsonObject, type JsonObject } from "../json.ts";
import { BRANDS } from "../policy.ts";
import { IDE_PLACES } from "./disk.ts";
import { mediumPath } from "./media.ts";

/** What can be done with a machine that exists; each action has a built-in workflow. */
export const MACHINE_ACTIONS = ["boot", "stop", "reboot", "eject", "delete"] as const;
/** Requests for `delete` are `DELETE /agent/v1/machines/{uuid}`; the others are a `POST` each. */
export type MachineAction = typeof MACHINE_ACTIONS[number];

/** The workflow of `delete`: once a job of it has succeeded, no host has the machine. A literal in the form of a uuid. */
export const DELETE_WORKFLOW = "6dbf7bd5-d1b8-4a0c-9ea1-f7a6ffec10b4" as WorkflowUuid;

/** Seconds that a guest may have to power off; vmadm gives it as many unless a call names fewer. */
export const STOP_SECONDS_MAX = 180;
/** Media that one eject takes out. */
const FILES_MAX = 8;
/** Each letter once; the words that host/vmadm/power.ts knows. */
const ORDER = /^(?!.*(.).*\1)[cdn]{1,3}$/;

/** A stop by force waits for no guest. */
const NO_TIMEOUT_BY_FORCE: Relation = {
  check(_, field, findings, { force, timeout }) {
    if (force !== true || timeout === undefined) return;
    const name = field === "" ? "timeout" : `${field}.timeout`;
    findings.add(name, "Invalid", "must be absent with force, which waits for no guest");
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

/** What a boot order consists of, in errors. */
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

/** What a start of a machine may name for this one time. */
export const BOOT_OPTIONS: readonly string[] = Object.keys(FIELDS.boot);

/**
 * The options of an action, none of which is required.
 * @param others fields that are allowed beside the options, and read elsewhere
 */
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
 * Checks whether the machine's present state and brand allow an action; the job checks again when it runs.
 * @param machine The machine as vmadm describes it
 * @throws {AgentError} `conflict` naming the state or the brand that was found and those expected
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
    // bhyve checks these options and then ignores them; their author should know.
    const message = `Cannot boot machine ${uuid} with ${Object.keys(options).join(", ")}: its ` +
      'brand is "bhyve", which boots its disks as they are attached; expected no options';
    throw new AgentError("conflict", message);
  }
  if (action === "boot" && brand === "kvm") requirePlaces(uuid, machine, options);
}

/**
 * Files of a start are IDE drives behind all of the machine's own.
 * @throws {AgentError} `conflict` when IDE has no place for them
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
 * Checks whether the machine's present state and brand allow a console.
 * @throws {AgentError} `conflict` naming the state or the brand that was found and those expected
 */
export function requireConsole(uuid: string, { brand, state }: JsonObject): void {
  const verb = "show the console of";
  if (!BRANDS.some((known) => known === brand)) throw refused(verb, uuid, "brand", brand, BRANDS);
  if (!CONSOLE_STATES.some((known) => known === state)) {
    throw refused(verb, uuid, "state", state, CONSOLE_STATES);
  }
}

/** States that allow an action, those in which nothing is left to do included; null for all. */
function statesFor(action: MachineAction): readonly string[] | null {
  switch (action) {
    case "boot":
      return ["stopped", "ready", "running"];
    case "stop":
      return ["running", "stopping", "ready", "shutting_down", "down", "stopped"];
    case "reboot":
      return ["running"];
    case "eject":
      // The hypervisor of a running machine holds the file open, and could replace other files in the folder.
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

/** The media that vmadm shows as attached to a machine; those of kvm are given at boot only. */
export function attachedMedia({ disks }: JsonObject): string[] {
  return (Array.isArray(disks) ? disks : []).filter(isJsonObject)
    .filter(({ media }) => media === "cdrom")
    .map(({ path }) => path)
    .filter((path): path is string => typeof path === "string");
}

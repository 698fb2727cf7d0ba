// What may be done to a machine after it was made: the actions of its later life, what each may be
// asked for, and the states that allow it. Each is a job of a built-in workflow.

import { AgentError, unreachable } from "../error.ts";
import {
  type Check,
  type Findings,
  flag,
  integer,
  listOf,
  openFindings,
  readObject,
  refuseFindings,
  text,
} from "../field_check.ts";
import { isJsonObject, type JsonObject } from "../json.ts";
import { mediumPath } from "./media.ts";
import { BRANDS } from "../policy.ts";

export const MACHINE_ACTIONS = ["boot", "stop", "reboot", "eject", "delete"] as const;
/** One of the actions. */
export type MachineAction = typeof MACHINE_ACTIONS[number];

/** Seconds that a guest may have to power off; vmadm gives it as many unless it is told less. */
export const STOP_SECONDS_MAX = 180;
/** Media that one eject takes out. */
const FILES_MAX = 8;
/** Each letter once; the words that host/boot_words.ts knows. */
const ORDER = /^(?!.*(.).*\1)[cdn]{1,3}$/;

/** How a machine is stopped; checkStop() tells what does not go together. */
export const STOP_CHECKS: Readonly<Record<string, Check>> = {
  force: flag,
  timeout: integer(1, STOP_SECONDS_MAX),
};

/** @param field what the options are called in errors, empty for a body */
export function checkStop(options: JsonObject, field: string, findings: Findings): void {
  if (options.force !== true || options.timeout === undefined) return;
  const name = field === "" ? "timeout" : `${field}.timeout`;
  findings.add(name, "Invalid", "must be absent with force, which waits for no guest");
}

/** What each action may be asked for; all of it may be left out. */
const OPTIONS: Readonly<Record<MachineAction, Readonly<Record<string, Check>>>> = {
  boot: {
    order: text(ORDER, "letters of c (disk), d (CD) and n (network), each once"),
    once: text(/^[cdn]$/, "c (disk), d (CD) or n (network)"),
    cdrom: mediumPath,
    disk: mediumPath,
  },
  stop: STOP_CHECKS,
  reboot: STOP_CHECKS,
  eject: { files: listOf(mediumPath, FILES_MAX, "media") },
  delete: {},
};

/**
 * Reads what an action is asked for.
 * @param others fields that may stand beside the options and are somebody else's
 * @throws {AgentError} `invalid_argument` naming every incorrect field
 */
export function parseActionOptions(
  action: MachineAction,
  body: unknown,
  others: readonly string[] = [],
): JsonObject {
  const ignored: Check = () => undefined;
  const checks = {
    ...OPTIONS[action],
    ...Object.fromEntries(others.map((name) => [name, ignored])),
  };
  const findings = openFindings();
  const options = readObject(body, "", { checks, required: [] }, findings) ?? {};
  checkStop(options, "", findings);
  refuseFindings(findings, action);
  return options;
}

/**
 * Holds an action against the machine as it is; the job does so again when its turn has come.
 * @param machine The machine as vmadm describes it
 * @throws {AgentError} `conflict` naming the state or the brand that was found and those wanted
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
    // bhyve checks these words and then ignores them; whoever wrote them should know.
    const message = `Cannot boot machine ${uuid} with ${Object.keys(options).join(", ")}: its ` +
      'brand is "bhyve", which boots its disks as they are attached; expected no options';
    throw new AgentError("conflict", message);
  }
}

/** States in which a machine may have a console. */
const CONSOLE_STATES = ["running", "stopping"];

/**
 * Holds the wish for a console against the machine as it is.
 * @throws {AgentError} `conflict` naming the state or the brand that was found and those wanted
 */
export function requireConsole(uuid: string, { brand, state }: JsonObject): void {
  const deed = "tell the console of";
  if (!BRANDS.some((known) => known === brand)) throw refused(deed, uuid, "brand", brand, BRANDS);
  if (!CONSOLE_STATES.some((known) => known === state)) {
    throw refused(deed, uuid, "state", state, CONSOLE_STATES);
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
      // The hypervisor of a running machine holds the file open, and may exchange what is beside it.
      return ["stopped"];
    case "delete":
      return null;
    default:
      return unreachable(action);
  }
}

function refused(
  deed: MachineAction | "tell the console of",
  uuid: string,
  what: "brand" | "state",
  found: unknown,
  wanted: readonly string[],
): AgentError {
  const message = `Cannot ${deed} machine ${uuid}: its ${what} is ` +
    `${JSON.stringify(found ?? null)}, expected ${wanted.join(" or ")}`;
  return new AgentError("conflict", message);
}

/** The media that vmadm shows as attached to a machine; those of kvm are given at boot only. */
export function attachedMedia({ disks }: JsonObject): string[] {
  return (Array.isArray(disks) ? disks : []).filter(isJsonObject)
    .filter(({ media }) => media === "cdrom")
    .map(({ path }) => path)
    .filter((path): path is string => typeof path === "string");
}

// Identifiers. An id is made by a parse or a new function of this file and is branded, so that a
// bare string never travels as an id.

import { AgentError, invalidArgument } from "./error.ts";
import { kindOf } from "./json.ts";

declare const brand: unique symbol;
type Id<Name extends string> = string & { readonly [brand]: Name };

/** Chosen by the caller that creates the workflow, or random. */
export type WorkflowUuid = Id<"workflow">;
/** Chosen with the workflow, or random. Results name a task by it that has no name. */
export type TaskUuid = Id<"task">;
/** Also that of the machine which a job of `POST /jobs` makes without naming one. */
export type JobUuid = Id<"job">;
/** The name of the machine's zone, too. */
export type MachineUuid = Id<"machine">;
/** Names the runner of a state folder as the owner of running jobs. */
export type RunnerId = Id<"runner">;
/** Names a host: the runner of its state folder has the same id. */
export type HostUuid = RunnerId;
/** Identifies one agent process as a runner, from its start to its end. */
export type Incarnation = Id<"incarnation">;

/** A UUID in lower case, the only spelling that vmadm accepts in payloads. */
export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Whether a value matches {@linkcode UUID}. */
export function isUuid(text: unknown): text is string {
  return typeof text === "string" && UUID.test(text);
}

/** Characters of a wrong uuid that its error repeats. */
const SHOWN_CHARS = 64;

function shown(text: string): string {
  return JSON.stringify(text.slice(0, SHOWN_CHARS));
}

/**
 * The uuid of a path parameter, folded to lower case. A text that is not a uuid cannot name anything,
 * so it is answered as a missing resource.
 * @throws {AgentError} `not_found`
 */
export function parsePathUuid<T extends WorkflowUuid | JobUuid | MachineUuid>(
  text: string,
  noun: "workflow" | "job" | "machine",
): T {
  const folded = text.toLowerCase();
  if (!isUuid(folded)) {
    throw new AgentError("not_found", `Cannot find ${noun} ${shown(text)}, expected a uuid`);
  }
  return folded as T;
}

/**
 * The uuid in a request parameter.
 * @throws {AgentError} `invalid_argument` naming `field`
 */
export function parseUuid<T extends WorkflowUuid | TaskUuid | JobUuid | MachineUuid>(
  value: unknown,
  field: string,
): T {
  if (value === undefined) {
    throw invalidArgument(field, `Cannot read ${field}: it is missing, expected a uuid`, "Missing");
  }
  const folded = typeof value === "string" ? value.toLowerCase() : value;
  if (!isUuid(folded)) {
    const found = typeof value === "string" ? shown(value) : kindOf(value);
    throw invalidArgument(field, `Cannot read ${field}: it is ${found}, expected a uuid`);
  }
  return folded as T;
}

/** Makes ids. Passed as an argument, so that tests can choose them. */
export type NewUuid = <
  T extends WorkflowUuid | TaskUuid | JobUuid | MachineUuid | RunnerId | Incarnation,
>() => T;

/** Random ids (RFC 9562, version 4). */
export const randomUuid: NewUuid = <
  T extends WorkflowUuid | TaskUuid | JobUuid | MachineUuid | RunnerId | Incarnation,
>() => {
  const uuid: string = crypto.randomUUID();
  // New ids are branded here.
  return uuid as T;
};

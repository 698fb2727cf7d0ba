// The schemas of what is sent, made of the descriptions by which it is read: they show the bounds of this
// agent, as its operator has set them.

import type { Fields } from "../../domain/description/object.ts";
import { type Description, named } from "../../domain/description/value.ts";
import type { JsonObject } from "../../domain/json.ts";
import { actionOptions } from "../../domain/machine/action.ts";
import { machineRequest } from "../../domain/machine/machine.ts";
import { mediaRequest } from "../../domain/machine/media.ts";
import type { Policy } from "../../domain/policy.ts";
import type { HttpLimits } from "../context.ts";
import { ticketRequest } from "../routes/machine_console.ts";

/** What an agent's operator has set. */
export interface AgentBounds {
  readonly policy: Policy;
  readonly limits: HttpLimits;
}

/** The body of every request that is described by a schema with a name, by that name. */
export function requestBodies({ policy }: AgentBounds): Readonly<Record<string, Description>> {
  return {
    MachineRequest: machineRequest(policy) as Description,
    MachineBoot: actionOptions("boot"),
    MachineForce: actionOptions("stop"),
    MachineEject: actionOptions("eject"),
    ConsoleTicketRequest: ticketRequest,
    MediumRequest: mediaRequest("kept"),
  };
}

/** The schemas of all bodies, and those that they refer to. */
export function requestSchemas(bounds: AgentBounds): JsonObject {
  const components: JsonObject = {};
  for (const [name, description] of Object.entries(requestBodies(bounds))) {
    named(name, description).schema(components);
  }
  return components;
}

/** The parameters of a query, made of the fields by which it is read. */
export function queryParameters(
  fields: Fields,
  examples: JsonObject,
  required: readonly string[] = [],
): JsonObject[] {
  return Object.entries(fields).map(([name, field]) => {
    const { description = "", ...schema } = field.schema({});
    const example = examples[name] ?? null;
    return { name, in: "query", description, schema, example, required: required.includes(name) };
  });
}

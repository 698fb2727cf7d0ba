// The schemas of request bodies and queries, derived from the descriptions that check them, with the limits
// that the operator has configured.

import type { Fields } from "../../domain/description/object.ts";
import { about, type Description, named } from "../../domain/description/value.ts";
import type { JsonObject } from "../../domain/json.ts";
import { cancelRequest, jobRequest, resumeRequest } from "../../domain/job/request.ts";
import { workflowRequest } from "../../domain/job/workflow.ts";
import { actionOptions } from "../../domain/machine/action.ts";
import { machineRequest } from "../../domain/machine/machine.ts";
import { mediaRequest } from "../../domain/machine/media.ts";
import type { Policy } from "../../domain/policy.ts";
import type { HttpLimits } from "../context.ts";
import { hostRequest } from "../routes/hosts.ts";
import { syncRequest } from "../routes/index/sync.ts";
import { CANCELABLE, jobSelection, RETRYABLE } from "../routes/jobs/bulk.ts";
import { pruneRequest } from "../routes/jobs/bulk.ts";
import { infoRequest } from "../routes/jobs/info.ts";
import { retryRequest } from "../routes/jobs/retry.ts";
import { signInRequest } from "../routes/session.ts";
import { ticketRequest } from "../routes/machine_console.ts";
import { verifyRequest } from "../routes/media.ts";

/** The configured limits and policy. */
export interface AgentBounds {
  readonly policy: Policy;
  readonly limits: HttpLimits;
}

/** The bodies of requests that have a named schema, by that name. */
export function requestBodies(
  { policy, limits }: AgentBounds,
): Readonly<Record<string, Description<unknown>>> {
  return {
    WorkflowRequest: about("A workflow as it is sent.", workflowRequest(limits)),
    JobRequest: about(
      "A job as it is sent. Every further key becomes one of its `params`, of at most " +
        `${limits.paramsCharsMax} characters of JSON together.`,
      jobRequest(limits),
    ),
    CancelRequest: about("A cancel has no options.", cancelRequest),
    ResumeRequest: about("The outcome of a waiting task.", resumeRequest),
    InfoRequest: infoRequest,
    RetryRequest: about("Where a job begins again.", retryRequest),
    CancelSelection: about("Which jobs to change.", jobSelection(CANCELABLE)),
    RetrySelection: about("Which jobs to change.", jobSelection(RETRYABLE)),
    PruneRequest: about("Which finished jobs to remove.", pruneRequest),
    MachineRequest: about("A machine to create.", machineRequest(policy)),
    MachineBoot: about(
      "How a kvm machine boots this time; a bhyve machine takes none of these.",
      actionOptions("boot"),
    ),
    MachineForce: about("How a machine is stopped.", actionOptions("stop")),
    MachineEject: about("Which media to eject.", actionOptions("eject")),
    SignInRequest: about("The sign-in of a browser.", signInRequest),
    ConsoleTicketRequest: about("A request for a ticket has no options.", ticketRequest),
    HostChange: about("A change of a host has no options.", hostRequest),
    MediumRequest: mediaRequest("kept"),
    MediumVerification: about("A verification has no options.", verifyRequest),
    SyncRequest: syncRequest,
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
    const parameter = { name, in: "query", description, schema, example };
    return required.includes(name) ? { ...parameter, required: true } : parameter;
  });
}

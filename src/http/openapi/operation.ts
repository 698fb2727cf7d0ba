// Builders for the parts of the OpenAPI document: references, parameters, headers, bodies and answers. The parts
// themselves are data; these functions add what OpenAPI requires around them. The schemas of bodies and queries are
// derived from the descriptions that check them, with the limits that the operator has configured.

import { type Shape, TEXT } from "../../domain/description/answer.ts";
import type { Fields } from "../../domain/description/object.ts";
import type { Description } from "../../domain/description/description.ts";
import { about, named } from "../../domain/description/value.ts";
import { IDEMPOTENCY_KEY_TEXT } from "../../domain/job/idempotency.ts";
import { cancelRequest, jobRequest, resumeRequest } from "../../domain/job/request.ts";
import { workflowRequest } from "../../domain/job/workflow.ts";
import type { JsonObject, JsonValue } from "../../domain/json.ts";
import { actionOptions } from "../../domain/machine/action.ts";
import { machineRequest } from "../../domain/machine/machine.ts";
import { mediaRequest } from "../../domain/machine/media.ts";
import type { Policy } from "../../domain/policy.ts";
import type { HttpLimits } from "../limits.ts";
import { hostRequest } from "../routes/hosts.ts";
import { syncRequest } from "../routes/index/mirror.ts";
import { CANCELABLE, jobSelection, RETRYABLE } from "../routes/jobs/bulk.ts";
import { pruneRequest } from "../routes/jobs/prune.ts";
import { infoRequest } from "../routes/jobs/info.ts";
import { retryRequest } from "../routes/jobs/retry.ts";
import { ticketRequest } from "../routes/machines/console_ticket.ts";
import { verifyRequest } from "../routes/media/media.ts";
import { signInRequest } from "../routes/agent.ts";

/** What one resource adds to the document. */
export interface OpenapiPart {
  readonly tag: { readonly name: string; readonly description: string };
  /** Operations by path and method in lower case; their tag is added to each. */
  readonly paths: Readonly<Record<string, Readonly<Record<string, JsonObject>>>>;
  readonly schemas: JsonObject;
  readonly parameters: JsonObject;
}

/** @param name of a member of `components.parameters` */
export function parameterRef(name: string): JsonObject {
  return { $ref: `#/components/parameters/${name}` };
}

/** @param name one of {@linkcode HEADERS} */
export function headerRef(name: string): JsonObject {
  return { $ref: `#/components/headers/${name}` };
}

/** Parameters of a path are always required. */
export function inPath(
  name: string,
  description: string,
  schema: JsonObject,
  example: JsonValue,
): JsonObject {
  return { name, in: "path", required: true, description, schema, example };
}

/**
 * A body of JSON. It is required even when all its fields are optional, since the content type is.
 * @param examples whole bodies by name
 */
export function jsonBody(
  description: string,
  schema: JsonObject,
  examples: Readonly<Record<string, JsonObject>>,
): JsonObject {
  const [only, ...others] = Object.values(examples);
  const named = Object.fromEntries(
    Object.entries(examples).map(([name, value]) => [name, { value }]),
  );
  const shown = only !== undefined && others.length === 0 ? { example: only } : { examples: named };
  return { description, required: true, content: { "application/json": { schema, ...shown } } };
}

/**
 * A successful answer with a JSON body.
 * @param headers names of its headers besides the request id
 */
export function jsonAnswer<T>(
  description: string,
  schema: Shape<T>,
  example: NoInfer<T>,
  headers: readonly string[] = [],
): JsonObject {
  return {
    ...emptyAnswer(description, headers),
    // An example is made of the values that its shape describes.
    content: { "application/json": { schema, example: example as JsonValue } },
  };
}

/** An answer that is all headers. @param headers their names besides the request id */
export function emptyAnswer(description: string, headers: readonly string[] = []): JsonObject {
  const names = [...headers, "X-Request-Id"];
  return {
    description,
    headers: Object.fromEntries(names.map((name) => [name, headerRef(name)])),
  };
}

/** `components.headers`, by the names of the headers. */
export const HEADERS: JsonObject = {
  "X-Request-Id": {
    required: true,
    description: "The id of the request: the caller's, or a new one.",
    schema: TEXT,
  },
  "Location": {
    required: true,
    description: "The path of what was created, ending in its uuid.",
    schema: { type: "string", format: "uri-reference" },
  },
  "Request-Id": {
    description:
      'With `compat = "node-workflow"`: the uuid of what was created or read, unless the ' +
      "caller sent an id of the request.",
    schema: TEXT,
  },
  "Idempotency-Replayed": {
    description: "Present if an earlier request with the same key created the job.",
    schema: { type: "string", enum: ["true"] },
  },
  "X-Count": {
    required: true,
    description: "The number of matches on all pages.",
    schema: { type: "integer", minimum: 0 },
  },
  "Age": {
    description: "Seconds since this was read; absent if it was read for this answer.",
    schema: { type: "integer", minimum: 0 },
  },
  "X-Stale": {
    description:
      "Present while the database that agents share is away: the answer is what the host knows without it.",
    schema: { type: "string", enum: ["database"] },
  },
  "Upload-Offset": {
    required: true,
    description: "Bytes received: where the next part begins.",
    schema: { type: "integer", minimum: 0 },
  },
  "Upload-Complete": {
    required: true,
    description: "Whether the file is complete.",
    schema: { type: "string", enum: ["?0", "?1"] },
  },
  "Allow": { required: true, description: "The methods of the path.", schema: TEXT },
  "WWW-Authenticate": {
    required: true,
    description: "The scheme of authentication: a bearer token.",
    schema: TEXT,
  },
  "Retry-After": {
    description: "Seconds after which the same request may succeed.",
    schema: { type: "integer", minimum: 0 },
  },
  "ETag": {
    required: true,
    description: "Strong tag of exactly these bytes; a compressed answer has another one.",
    schema: { type: "string", pattern: '^"[^"]+"$' },
  },
  "Last-Modified": { required: true, description: "An HTTP date.", schema: TEXT },
  "X-Index-Age": {
    description:
      "Seconds since the index was last compared with its upstream. Present if that is over " +
      "a day ago, or the latest attempt failed.",
    schema: { type: "integer", minimum: 0 },
  },
};

/** `components.parameters`: those that are headers. */
export const HEADER_PARAMETERS: JsonObject = {
  RequestId: {
    name: "X-Request-Id",
    in: "header",
    description:
      "The caller's id of the request, which the answer and the agent's log repeat: at most " +
      "128 letters, digits and `_ . : @ / + = -`. Other characters are removed.",
    schema: TEXT,
    example: "deploy-42",
  },
  IdempotencyKey: {
    name: "Idempotency-Key",
    in: "header",
    description:
      "Makes the request safe to repeat: sent again with the same key within a day, it " +
      "returns the first job and creates no other. A different request with the same key is " +
      "refused.",
    schema: { type: "string", pattern: IDEMPOTENCY_KEY_TEXT.source },
    example: "stop-42",
  },
  IfMatch: {
    name: "If-Match",
    in: "header",
    description: "Entity tags, or `*`; 412 if the answer would have none of them.",
    schema: TEXT,
    example: "*",
  },
  IfUnmodifiedSince: {
    name: "If-Unmodified-Since",
    in: "header",
    description: "An HTTP date. Without `If-Match`, 412 if something has changed since.",
    schema: TEXT,
    example: "Fri, 01 Jan 2100 00:00:00 GMT",
  },
  IfNoneMatch: {
    name: "If-None-Match",
    in: "header",
    description: "Entity tags that the caller has; 304 if one is current.",
    schema: TEXT,
    example: '"0b0a1c"',
  },
  IfModifiedSince: {
    name: "If-Modified-Since",
    in: "header",
    description: "An HTTP date. Without `If-None-Match`, 304 if nothing has changed since.",
    schema: TEXT,
    example: "Thu, 01 Jan 2026 00:00:00 GMT",
  },
};

/** Parameters of operations that answer 304 and 412. */
export const CONDITIONS: JsonObject[] = [
  parameterRef("IfMatch"),
  parameterRef("IfUnmodifiedSince"),
  parameterRef("IfNoneMatch"),
  parameterRef("IfModifiedSince"),
];

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

/** @param fields by which the query is read */
export function queryParameters(fields: Fields, examples: JsonObject): JsonObject[] {
  return Object.entries(fields).map(([name, field]) => {
    const { description = "", ...schema } = field.schema({});
    return { name, in: "query", description, schema, example: examples[name] ?? null };
  });
}

// The OpenAPI 3.1 document of the whole agent, assembled from one part per noun. Loaded on the first request
// for it; see app.ts.

import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { VERSION } from "../../runtime/executable.ts";
import type { HttpLimits } from "../limits.ts";
import { AGENT, SESSIONS } from "./agent.ts";
import { EVENTS } from "./events.ts";
import { ERROR_RESPONSES, ERROR_SCHEMAS, onlyRefusals } from "./errors.ts";
import {
  type AgentBounds,
  HEADER_PARAMETERS,
  HEADERS,
  type OpenapiPart,
  parameterRef,
  requestSchemas,
} from "./operation.ts";
import { HOSTS } from "./hosts.ts";
import { IMAGES, MIRROR } from "./mirror.ts";
import { INDEX } from "./index_tree.ts";
import { JOBS } from "./jobs.ts";
import { MACHINES } from "./machines.ts";
import { MEDIA_FILES, MEDIA_LIBRARY } from "./media.ts";
import { WORKFLOWS } from "./workflows.ts";

const rules = ({ bodyBytesMax, jsonDepthMax }: HttpLimits) =>
  `A host agent for SmartOS: durable workflows of sandboxed tasks, a mirror of a cloud \
image index, and virtual machines that boot from installation media.

Rules of every path:

- Requests and answers are JSON. POST and PUT need a JSON content type, even without a body: 415 otherwise. \
A body has at most ${bodyBytesMax} bytes and ${jsonDepthMax} levels.
- Every error is an \`Error\`. A missing or incorrect parameter is refused with 409, and \
\`errors\` names each one. So is an unknown query parameter below \`/agent/v1/\`, and of any operation \
with query parameters, except \`GET /jobs\`, where it names one of the params.
- An unknown path gets 404, a method that a path does not have 405 with \`Allow\`. HEAD works wherever \
GET does, with the same headers.
- Every answer has \`X-Request-Id\`.
- On loopback addresses and on the unix socket, which only its owner may open, no token is \
needed unless the agent is configured to require one. Elsewhere a bearer token is required: 401 without one. \
\`/healthz\` and \`/readyz\` answer without a token, but only with the status. Over TCP, an unknown \`Host\` or \
\`Origin\` gets 403.
- Answers may have fields that are not described here; ignore them.`;

const PARTS: readonly OpenapiPart[] = [
  WORKFLOWS,
  JOBS,
  EVENTS,
  MACHINES,
  HOSTS,
  INDEX,
  IMAGES,
  MEDIA_FILES,
  MEDIA_LIBRARY,
  MIRROR,
  AGENT,
  SESSIONS,
];

/** Every path takes a request id, and each operation is tagged with its noun. */
function pathsOf({ tag, paths }: OpenapiPart): JsonObject {
  return Object.fromEntries(
    Object.entries(paths).map(([path, operations]) => {
      const tagged = Object.entries(operations).map(
        ([method, operation]) => [
          method,
          { tags: [tag.name], ...operation, responses: responsesOf(path, operation) },
        ],
      );
      return [path, { parameters: [parameterRef("RequestId")], ...Object.fromEntries(tagged) }];
    }),
  );
}

/** The agent's own paths refuse unknown query parameters, whatever else they take. */
function responsesOf(path: string, { responses }: JsonObject): JsonObject {
  const described = isJsonObject(responses) ? responses : {};
  return path.startsWith("/agent/v1/") ? { ...described, ...onlyRefusals("409") } : described;
}

function merged(objects: readonly JsonObject[]): JsonObject {
  return Object.assign({}, ...objects);
}

/**
 * The OpenAPI document of an agent with these bounds.
 * @see OpenAPI Specification 3.1.0
 */
export function openapiDocument(bounds: AgentBounds): JsonObject {
  return {
    openapi: "3.1.0",
    info: {
      title: "zonewright",
      version: VERSION,
      description: rules(bounds.limits),
      license: { name: "Mozilla Public License 2.0", identifier: "MPL-2.0" },
    },
    servers: [{ url: "/", description: "The agent that serves this document." }],
    // On loopback and on the unix socket no token is needed, unless the operator requires one.
    security: [{}, { token: [] }],
    tags: PARTS.map(({ tag }) => ({ ...tag })),
    paths: merged(PARTS.map(pathsOf)),
    components: {
      schemas: merged([
        requestSchemas(bounds),
        ...PARTS.map(({ schemas }) => schemas),
        ERROR_SCHEMAS,
      ]),
      parameters: merged([...PARTS.map(({ parameters }) => parameters), HEADER_PARAMETERS]),
      headers: HEADERS,
      responses: ERROR_RESPONSES,
      securitySchemes: {
        token: {
          type: "http",
          scheme: "bearer",
          description:
            "A token from `zonewright token create`. The scope `read` cannot change anything.",
        },
      },
    },
  };
}

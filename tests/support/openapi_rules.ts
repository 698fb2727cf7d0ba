// The rules of OpenAPI 3.1 for the objects that the agent's description uses, as one JSON Schema. It
// is narrower than the specification on purpose: a field that no reader of ours expects is an error.
// @see OpenAPI Specification 3.1.0, section 4.8

import type { JsonObject } from "../../src/domain/json.ts";

const TEXT: JsonObject = { type: "string", minLength: 1 };
const ANY: JsonObject = {};

function ref(name: string): JsonObject {
  return { $ref: `#/$defs/${name}` };
}

function map(schema: JsonObject): JsonObject {
  return { type: "object", additionalProperties: schema };
}

function object(required: string[], properties: JsonObject): JsonObject {
  return { type: "object", required, properties, additionalProperties: false };
}

function listOf(items: JsonObject): JsonObject {
  return { type: "array", items };
}

/** The object itself, or a reference to one of the components. */
function orRef(name: string, kind: string): JsonObject {
  const pattern = `^#/components/${kind}/[A-Za-z0-9._-]+$`;
  return { oneOf: [ref(name), object(["$ref"], { $ref: { type: "string", pattern } })] };
}

const METHODS = ["get", "put", "post", "delete"];
const TYPES = ["null", "boolean", "object", "array", "number", "string", "integer"];
const TYPE: JsonObject = { type: "string", enum: TYPES };
const SIZE: JsonObject = { type: "integer", minimum: 0 };
const SCHEMAS: JsonObject = listOf(ref("schema"));

const SCHEMA: JsonObject = object([], {
  $ref: { type: "string", pattern: "^#/components/schemas/[A-Za-z0-9]+$" },
  type: { anyOf: [TYPE, listOf(TYPE)] },
  description: TEXT,
  default: ANY,
  enum: { type: "array" },
  const: ANY,
  format: TEXT,
  pattern: TEXT,
  minimum: { type: "number" },
  maximum: { type: "number" },
  minLength: SIZE,
  maxLength: SIZE,
  maxItems: SIZE,
  minProperties: SIZE,
  maxProperties: SIZE,
  required: listOf(TEXT),
  properties: map(ref("schema")),
  additionalProperties: { anyOf: [{ type: "boolean" }, ref("schema")] },
  items: ref("schema"),
  contains: ref("schema"),
  minContains: SIZE,
  maxContains: SIZE,
  propertyNames: ref("schema"),
  dependentRequired: map(listOf(TEXT)),
  if: ref("schema"),
  then: ref("schema"),
  else: ref("schema"),
  not: ref("schema"),
  contentSchema: ref("schema"),
  allOf: SCHEMAS,
  anyOf: SCHEMAS,
  oneOf: SCHEMAS,
});

const EXAMPLES: JsonObject = map(object(["value"], { value: ANY }));

const PARAMETER_FIELDS: JsonObject = {
  name: TEXT,
  description: TEXT,
  required: { type: "boolean" },
  schema: ref("schema"),
  example: ANY,
};

const PARAMETER: JsonObject = {
  oneOf: [
    object(["name", "in", "required", "description", "schema", "example"], {
      ...PARAMETER_FIELDS,
      in: { const: "path" },
      required: { const: true },
    }),
    object(["name", "in", "description", "schema", "example"], {
      ...PARAMETER_FIELDS,
      in: { enum: ["query", "header"] },
    }),
  ],
};

const MEDIA: JsonObject = object(["schema"], {
  schema: ref("schema"),
  example: ANY,
  examples: EXAMPLES,
});
const RESPONSE_CONTENT: JsonObject = {
  anyOf: [
    object(["application/json"], { "application/json": MEDIA }),
    object(["text/plain"], { "text/plain": MEDIA }),
    object(["text/event-stream"], { "text/event-stream": MEDIA }),
  ],
};

const OPERATION: JsonObject = object(["operationId", "summary", "tags", "responses"], {
  operationId: { type: "string", pattern: "^[a-z][a-z0-9_]*$" },
  summary: { type: "string", minLength: 1, maxLength: 100 },
  description: TEXT,
  tags: listOf(TEXT),
  parameters: listOf(orRef("parameter", "parameters")),
  requestBody: object(["description", "required", "content"], {
    description: TEXT,
    required: { const: true },
    content: {
      anyOf: [
        RESPONSE_CONTENT,
        object(["application/octet-stream"], { "application/octet-stream": MEDIA }),
      ],
    },
  }),
  responses: { ...map(orRef("response", "responses")), minProperties: 1 },
});

/** A document that keeps the rules fits this; references are checked where they are resolved. */
export const OPENAPI_RULES: JsonObject = {
  ...object(["openapi", "info", "servers", "security", "tags", "paths", "components"], {
    openapi: { const: "3.1.0" },
    info: object(["title", "version", "description", "license"], {
      title: TEXT,
      version: { type: "string", pattern: "^\\d+\\.\\d+\\.\\d+" },
      description: TEXT,
      license: object(["name", "identifier"], { name: TEXT, identifier: TEXT }),
    }),
    // Where it is, the reader knows: it has just been asked.
    servers: listOf(object(["url"], { url: { const: "/" }, description: TEXT })),
    security: listOf(object([], { token: { type: "array", maxItems: 0 } })),
    tags: listOf(object(["name", "description"], { name: TEXT, description: TEXT })),
    paths: map(object([], {
      parameters: listOf(orRef("parameter", "parameters")),
      ...Object.fromEntries(METHODS.map((method) => [method, ref("operation")])),
    })),
    components: object(["schemas", "parameters", "headers", "responses", "securitySchemes"], {
      schemas: map(ref("schema")),
      parameters: map(ref("parameter")),
      headers: map(ref("header")),
      responses: map(ref("response")),
      securitySchemes: map(object(["type", "scheme", "description"], {
        type: { const: "http" },
        scheme: { const: "bearer" },
        description: TEXT,
      })),
    }),
  }),
};

/** What the rules refer to, for schemaProblems(). */
export const OPENAPI_DEFINITIONS: JsonObject = {
  $defs: {
    schema: SCHEMA,
    parameter: PARAMETER,
    header: object(["description", "schema"], {
      description: TEXT,
      required: { type: "boolean" },
      schema: ref("schema"),
    }),
    response: object(["description", "headers"], {
      description: TEXT,
      headers: map(orRef("header", "headers")),
      content: RESPONSE_CONTENT,
    }),
    operation: OPERATION,
  },
};

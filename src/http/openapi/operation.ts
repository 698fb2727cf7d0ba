// What the parts of the description are made of: references, parameters, bodies and answers. The
// parts are data; these functions only spare them the words that OpenAPI wants around each.

import type { JsonObject, JsonValue } from "../../domain/json.ts";

/** What one noun adds to the description. */
export interface OpenapiPart {
  readonly tag: { readonly name: string; readonly description: string };
  /** Operations by path and method in lower case; their tag is added to each. */
  readonly paths: Readonly<Record<string, Readonly<Record<string, JsonObject>>>>;
  readonly schemas: JsonObject;
  readonly parameters: JsonObject;
}

/** Any text. */
export const TEXT: JsonObject = { type: "string" };
/** A uuid. */
export const UUID: JsonObject = { type: "string", format: "uuid" };
/** A uuid, or null. */
export const NULLABLE_UUID: JsonObject = { type: ["string", "null"], format: "uuid" };
/** An instant as responses show it. */
export const INSTANT: JsonObject = {
  type: "string",
  format: "date-time",
  description: "ISO 8601 in UTC with milliseconds.",
};
/** A number of things. */
export const COUNT: JsonObject = { type: "integer", minimum: 0 };

/** A reference to a schema of the description. */
export function schemaRef(name: string): JsonObject {
  return { $ref: `#/components/schemas/${name}` };
}

/** A reference to a parameter of the description. */
export function parameterRef(name: string): JsonObject {
  return { $ref: `#/components/parameters/${name}` };
}

/** A reference to a header of the description. */
export function headerRef(name: string): JsonObject {
  return { $ref: `#/components/headers/${name}` };
}

/** A list of such items. */
export function listOf(items: JsonObject): JsonObject {
  return { type: "array", items };
}

/**
 * An object of known properties. What others may stand beside them: with `open` the caller's own,
 * with `closed` none, else those that a later version adds.
 */
export function objectOf(
  description: string,
  required: readonly string[],
  properties: JsonObject,
  others?: "open" | "closed",
): JsonObject {
  return {
    type: "object",
    description,
    ...(required.length > 0 ? { required: [...required] } : {}),
    properties,
    ...(others === undefined ? {} : { additionalProperties: others === "open" }),
  };
}

/** A part of the path, which is always required. */
export function inPath(
  name: string,
  description: string,
  schema: JsonObject,
  example: JsonValue,
): JsonObject {
  return { name, in: "path", required: true, description, schema, example };
}

/** A query parameter, which is always optional. */
export function inQuery(
  name: string,
  description: string,
  schema: JsonObject,
  example: JsonValue,
): JsonObject {
  return { name, in: "query", description, schema, example };
}

/**
 * A body that must be sent with a JSON content type, even where each of its fields may be left out.
 * @param examples by name; each is a whole body
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
 * @param headers names of the headers it has besides the request id
 */
export function jsonAnswer(
  description: string,
  schema: JsonObject,
  example: JsonValue,
  headers: readonly string[] = [],
): JsonObject {
  return {
    ...emptyAnswer(description, headers),
    content: { "application/json": { schema, example } },
  };
}

/** A successful answer without a body. */
export function emptyAnswer(description: string, headers: readonly string[] = []): JsonObject {
  const names = [...headers, "X-Request-Id"];
  return {
    description,
    headers: Object.fromEntries(names.map((name) => [name, headerRef(name)])),
  };
}

// Descriptions of answers. A shape is a JSON Schema from which the compiler knows the type of its values, so the
// code that makes an answer must agree with /openapi.json. Nothing checks answers at run time; for requests,
// which other programs send, see value.ts.

import type { Instant } from "../instant.ts";
import type { JsonObject, JsonValue } from "../json.ts";

declare const OF: unique symbol;

/** A JSON Schema of values of one type. */
export type Shape<T> = JsonObject & { readonly [OF]?: T };

/** The type of the values of a shape; unknown for a schema that is not a shape. */
export type ShapeOf<S> = S extends { readonly [OF]?: infer T } ? T : unknown;

/** An object with these properties, all of them present. */
type WholeOf<P> = { readonly [Name in keyof P]: ShapeOf<P[Name]> };

/** Any string; the name of a thing, or a sentence for people. */
export const TEXT: Shape<string> = { type: "string" };
/** A boolean: answers have no `0`, `1`, `yes` or `no`. */
export const FLAG: Shape<boolean> = { type: "boolean" };
/** The uuid of a job, workflow or machine. */
export const UUID: Shape<string> = { type: "string", format: "uuid" };
/** An absolute URI with its scheme. @see RFC 3986 */
export const URI: Shape<string> = { type: "string", format: "uri" };
/** A URI without its scheme and host. */
export const URI_REFERENCE: Shape<string> = { type: "string", format: "uri-reference" };
/** A time as answers show it. */
export const INSTANT: Shape<Instant> = {
  type: "string",
  format: "date-time",
  description: "ISO 8601 in UTC with milliseconds.",
};
/** A number of things, 0 included. */
export const COUNT: Shape<number> = { type: "integer", minimum: 0 };
/** A whole number, which may be negative. */
export const NUMBER: Shape<number> = { type: "integer" };
/** A duration in seconds, with fractions. */
export const SECONDS: Shape<number> = { type: "number", minimum: 0 };
/** Any JSON value: what a caller or a task has sent, unchanged. */
export const ANY_VALUE: Shape<JsonValue> = {};
/** A limit in whole seconds, at least 1. */
export const WHOLE_SECONDS: Shape<number> = { type: "integer", minimum: 1 };
/** An object whose keys are the caller's. */
export const ANY_OBJECT: Shape<JsonObject> = { type: "object", additionalProperties: true };

/** For links to jobs and machines that may be missing: answers show null instead of leaving the field out. */
export const NULLABLE_UUID: Shape<string | null> = orNull(UUID);
/** Null, not an empty text, where nothing is known. */
export const NULLABLE_TEXT: Shape<string | null> = orNull(TEXT);
/** A time in UTC, or null for one that has not come. */
export const NULLABLE_INSTANT: Shape<Instant | null> = orNull(INSTANT);
/** Null, not 0, where the number is not known. */
export const NULLABLE_COUNT: Shape<number | null> = orNull(COUNT);

/** JSON Schema has no word for "or null": `type` becomes a list where that is possible, else `anyOf` is used. */
export function orNull<T>(shape: Shape<T>): Shape<T | null> {
  const { type, enum: words } = shape;
  if (typeof type !== "string" || type === "array" || shape.properties !== undefined) {
    return { anyOf: [shape, { type: "null" }] };
  }
  return {
    ...shape,
    type: [type, "null"],
    ...(Array.isArray(words) ? { enum: [...words, null] } : {}),
  };
}

/** For closed lists: a client may switch over the words, and a new one is a change of the API. */
export function wordOf<const W extends string>(words: readonly W[]): Shape<W> {
  return { type: "string", enum: [...words] };
}

/** A shape with only this value. */
export function always<const V extends string | boolean>(value: V): Shape<V> {
  return { const: value };
}

/** An array without a bound; lists with pages have their own shapes. */
export function listOf<T>(items: Shape<T>): Shape<readonly T[]> {
  return { type: "array", items };
}

/** An object of such values, under any names. */
export function mapOf<T>(value: Shape<T>): Shape<Readonly<Record<string, T>>> {
  return { type: "object", additionalProperties: value };
}

/**
 * An object with known properties.
 * @param others further properties: `open` for the caller's own, `closed` for none; if left out, a later version may
 *   add some
 */
export function objectOf<P extends JsonObject, R extends keyof P = string>(
  description: string,
  required: readonly R[],
  properties: P,
  others?: "open" | "closed",
): Shape<WholeOf<Pick<P, R>> & Partial<WholeOf<Omit<P, R>>>> {
  return {
    type: "object",
    description,
    ...(required.length > 0 ? { required: required.map(String) } : {}),
    properties,
    ...(others === undefined ? {} : { additionalProperties: others === "open" }),
  };
}

/** An object with all its properties required. */
export function whole<P extends JsonObject>(description: string, properties: P): Shape<WholeOf<P>> {
  return { type: "object", description, required: Object.keys(properties), properties };
}

/** A reference to a schema of the document. @param name under which the document has it */
export function shapeRef<T>(name: string, _shape: Shape<T>): Shape<T> {
  return schemaRef(name);
}

/** A reference to a schema without a type in the code. */
export function schemaRef(name: string): JsonObject {
  return { $ref: `#/components/schemas/${name}` };
}

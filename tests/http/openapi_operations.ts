// The agent's description as tests read it: its operations, with what they refer to in place.

import { assert, assertEquals } from "@std/assert";
import { isJsonObject, type JsonObject, type JsonValue } from "../../src/domain/json.ts";
import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
import { openapiDocument } from "../../src/http/openapi/document.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { resolved, schemaProblems } from "../support/json_schema.ts";
import type { Answer } from "./http_agent.ts";

/** The description of an agent without settings. */
export const OPENAPI: JsonObject = openapiDocument({
  policy: DEFAULT_POLICY,
  limits: DEFAULT_HTTP_LIMITS,
});

export interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly schema: JsonObject;
  readonly example: JsonValue;
}

/** What a body is made of. */
export interface Content {
  /** Its media type without parameters. */
  readonly type: string;
  readonly schema: JsonObject;
  readonly examples: readonly JsonValue[];
}

export interface Operation {
  readonly id: string;
  /** In capitals. */
  readonly method: string;
  /** With its parts in braces. */
  readonly path: string;
  readonly tags: JsonValue;
  readonly parameters: readonly Parameter[];
  /** Schema and examples of the body, where the operation has one. */
  readonly body: Content | undefined;
  /** The answers by their status. */
  readonly responses: ReadonlyMap<string, JsonObject>;
}

const METHODS = ["get", "put", "post", "delete"];

/** An object of the document, or what it refers to. */
export function inPlace(value: JsonValue | undefined): JsonObject {
  const found = isJsonObject(value) && value.$ref !== undefined
    ? resolved(OPENAPI, value.$ref)
    : value;
  assert(isJsonObject(found), `${JSON.stringify(value)} leads to no object`);
  return found;
}

/** The members of an object of the document; none when it is absent. */
export function membersOf(value: JsonValue | undefined): [string, JsonObject][] {
  if (value === undefined) return [];
  return Object.entries(inPlace(value)).map(([name, inner]) => [name, inPlace(inner)]);
}

function listOf(value: JsonValue | undefined): JsonValue[] {
  return Array.isArray(value) ? value : [];
}

/** The examples of a parameter, a body or an answer. */
export function examplesOf(value: JsonObject): JsonValue[] {
  const single = value.example === undefined ? [] : [value.example];
  return [...single, ...membersOf(value.examples).map(([, example]) => example.value ?? null)];
}

/** Type, schema and examples of content; undefined without any. */
export function contentOf(value: JsonObject): Content | undefined {
  if (value.content === undefined) return undefined;
  const [[type, media] = []] = membersOf(value.content);
  assert(type !== undefined && media !== undefined, "content has a type");
  return { type, schema: inPlace(media.schema), examples: examplesOf(media) };
}

function operationOf(
  path: string,
  method: string,
  shared: JsonValue[],
  value: JsonObject,
): Operation {
  const parameters = [...shared, ...listOf(value.parameters)].map((parameter) => {
    const { name, in: place, required, schema, example } = inPlace(parameter);
    return {
      name: String(name),
      in: String(place),
      required: required === true,
      schema: inPlace(schema),
      example: example ?? null,
    };
  });
  return {
    id: String(value.operationId),
    method: method.toUpperCase(),
    path,
    tags: value.tags ?? null,
    parameters,
    body: value.requestBody === undefined ? undefined : contentOf(inPlace(value.requestBody)),
    responses: new Map(membersOf(value.responses)),
  };
}

/** Every operation of the document. */
export const OPERATIONS: readonly Operation[] = membersOf(OPENAPI.paths).flatMap(([path, item]) =>
  METHODS.filter((method) => item[method] !== undefined).map((method) =>
    operationOf(path, method, listOf(item.parameters), inPlace(item[method]))
  )
);

/** Whether the document has the operation only to say that there is none. */
export function isRefused({ responses }: Operation): boolean {
  return [...responses.keys()].join() === "405";
}

/** The operation of this name. */
export function operation(id: string): Operation {
  const found = OPERATIONS.find((one) => one.id === id);
  assert(found !== undefined, `there is an operation ${id}`);
  return found;
}

/** The path of an operation with these values, or else its examples, in place of its parts. */
export function pathOf(
  { path, parameters }: Operation,
  values: Record<string, string> = {},
): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const example = parameters.find((one) => one.in === "path" && one.name === name)?.example;
    return encodeURIComponent(values[name] ?? String(example));
  });
}

/** The properties that answers had so far, by the `properties` of the document that describe them. */
export const SEEN: Map<unknown, Set<string>> = new Map();

/** Asserts that an answer is one that the operation has in the document, in every field. */
export function assertDescribed(one: Operation, answer: Answer): void {
  const { status, headers, text, body } = answer;
  const response = one.responses.get(String(status));
  const place = `${one.id}, status ${status}: ${text.slice(0, 500)}`;
  assert(response !== undefined, `${place} is not described`);
  for (const [name, header] of membersOf(response.headers)) {
    const value = headers.get(name);
    assert(value !== null || header.required !== true, `${place} has no ${name}`);
    if (value === null) continue;
    const { schema } = header;
    const typed = inPlace(schema).type === "integer" ? Number(value) : value;
    assertEquals(schemaProblems(typed, schema, OPENAPI), [], `${place}, ${name}`);
  }
  const content = contentOf(response);
  if (content === undefined) return assertEquals(text, "", place);
  const [type] = headers.get("content-type")?.split(";") ?? [];
  assertEquals(type, content.type, place);
  assertEquals(
    schemaProblems(body, content.schema, OPENAPI, { named: true, seen: SEEN }),
    [],
    place,
  );
}

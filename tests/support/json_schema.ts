// Holds values against schemas: the part of JSON Schema 2020-12 that the agent's description uses.
// A keyword that is not known here is an error, so that no rule is passed over silently.

import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";

/** Words about a value for people and tools, which no value can break. */
const NOTES = ["description", "default", "example", "examples", "title"];

type Keyword = (
  value: unknown,
  rule: unknown,
  at: string,
  check: Checker,
  schema: JsonObject,
) => string[];
type Checker = (value: unknown, schema: unknown, at: string) => string[];

const FORMATS: Readonly<Record<string, RegExp>> = {
  "uuid": /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  "date-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/,
  "date": /^\d{4}-\d\d-\d\d$/,
  "ipv4": /^\d{1,3}(?:\.\d{1,3}){3}$/,
  "uri": /^[a-z]+:\S+$/,
  "uri-reference": /^\S+$/,
  "hostname": /^[A-Za-z0-9.-]+$/,
  "uint64": /^/,
};

const KEYWORDS: Readonly<Record<string, Keyword>> = {
  type: (value, rule, at) =>
    list(rule).some((type) => isOf(value, type)) ? [] : [`${at} is not of type ${list(rule)}`],
  enum: (value, rule, at) =>
    list(rule).includes(value) ? [] : [`${at} is none of ${JSON.stringify(rule)}`],
  const: (value, rule, at) => value === rule ? [] : [`${at} is not ${JSON.stringify(rule)}`],
  minimum: (value, rule, at) => limit(typeof value !== "number" || value >= Number(rule), at, rule),
  maximum: (value, rule, at) => limit(typeof value !== "number" || value <= Number(rule), at, rule),
  minLength: (value, rule, at) =>
    limit(typeof value !== "string" || value.length >= Number(rule), at, rule),
  maxLength: (value, rule, at) =>
    limit(typeof value !== "string" || value.length <= Number(rule), at, rule),
  exclusiveMinimum: (value, rule, at) =>
    limit(typeof value !== "number" || value > Number(rule), at, rule),
  contains: (value, rule, at, check, { minContains = 1, maxContains = Infinity }) => {
    if (!Array.isArray(value)) return [];
    const count = value.filter((item) => check(item, rule, at).length === 0).length;
    return limit(count >= Number(minContains) && count <= Number(maxContains), at, rule);
  },
  minContains: () => [],
  // Says what a text holds; it is no rule for the text.
  contentSchema: () => [],
  maxContains: () => [],
  propertyNames: (value, rule, at, check) =>
    !isJsonObject(value) ? [] : Object.keys(value).flatMap((name) => check(name, rule, at)),
  dependentRequired: (value, rule, at) =>
    !isJsonObject(value) || !isJsonObject(rule) ? [] : Object.entries(rule)
      .filter(([name]) => Object.hasOwn(value, name))
      .flatMap(([, names]) => list(names))
      .filter((name) => !Object.hasOwn(value, String(name)))
      .map((name) => `${at}.${name} is missing`),
  not: (value, rule, at, check) => check(value, rule, at).length > 0 ? [] : [`${at} is refused`],
  if: (value, rule, at, check, schema) => {
    const then = check(value, rule, at).length === 0 ? schema.then : schema.else;
    return then === undefined ? [] : check(value, then, at);
  },
  then: () => [],
  else: () => [],
  maxItems: (value, rule, at) =>
    limit(!Array.isArray(value) || value.length <= Number(rule), at, rule),
  minProperties: (value, rule, at) =>
    limit(!isJsonObject(value) || Object.keys(value).length >= Number(rule), at, rule),
  maxProperties: (value, rule, at) =>
    limit(!isJsonObject(value) || Object.keys(value).length <= Number(rule), at, rule),
  pattern: (value, rule, at) =>
    typeof value !== "string" || new RegExp(String(rule), "u").test(value)
      ? []
      : [`${at} does not match ${rule}`],
  format: (value, rule, at) => {
    const format = FORMATS[String(rule)];
    if (format === undefined) return [`${at} has the unknown format ${rule}`];
    return typeof value !== "string" || format.test(value) ? [] : [`${at} is no ${rule}`];
  },
  required: (value, rule, at) =>
    !isJsonObject(value) ? [] : list(rule)
      .filter((name) => !Object.hasOwn(value, String(name)))
      .map((name) => `${at}.${name} is missing`),
  properties: (value, rule, at, check) =>
    !isJsonObject(value) || !isJsonObject(rule) ? [] : Object.entries(rule)
      .filter(([name]) => Object.hasOwn(value, name))
      .flatMap(([name, schema]) => check(value[name], schema, `${at}.${name}`)),
  additionalProperties: (value, rule, at, check, schema) =>
    others(value, schema).flatMap(([name, inner]) => {
      if (rule === true) return [];
      return rule === false ? [`${at}.${name} is unknown`] : check(inner, rule, `${at}.${name}`);
    }),
  items: (value, rule, at, check) =>
    !Array.isArray(value)
      ? []
      : value.flatMap((item, index) => check(item, rule, `${at}[${index}]`)),
  allOf: (value, rule, at, check) => list(rule).flatMap((schema) => check(value, schema, at)),
  anyOf: (value, rule, at, check) => fits(value, rule, at, check, (count) => count > 0),
  oneOf: (value, rule, at, check) => fits(value, rule, at, check, (count) => count === 1),
};

/** What a checker is to hold against. */
export interface CheckOptions {
  /**
   * Takes properties that an object's schema does not name for errors, unless the schema says that
   * it has others: what an agent answers is then wholly described, or the test fails.
   */
  readonly named: boolean;
  /** Collects the properties that values had, by the `properties` that describe them. */
  readonly seen?: Map<unknown, Set<string>>;
}

/**
 * What is wrong with a value, each with its place; empty when nothing is.
 * @param document holds what `$ref` points to
 */
export function schemaProblems(
  value: unknown,
  schema: unknown,
  document: JsonObject,
  options: CheckOptions = { named: false },
): string[] {
  const check: Checker = (inner, rules, at) => {
    if (!isJsonObject(rules)) return [`${at} has no schema`];
    const { $ref, ...rest } = rules;
    const referred = $ref === undefined ? [] : check(inner, resolved(document, $ref), at);
    const closed = options.named && rest.type === "object" && isJsonObject(rest.properties) &&
      rest.additionalProperties === undefined;
    const applied = closed ? { ...rest, additionalProperties: false } : rest;
    if (isJsonObject(inner) && isJsonObject(rest.properties)) {
      const names = options.seen?.get(rest.properties) ?? new Set();
      for (const name of Object.keys(inner)) names.add(name);
      options.seen?.set(rest.properties, names);
    }
    const found = Object.entries(applied).flatMap(([name, rule]) => {
      if (NOTES.includes(name)) return [];
      const keyword = Object.hasOwn(KEYWORDS, name) ? KEYWORDS[name] : undefined;
      return keyword?.(inner, rule, at, check, applied) ?? [`${at} has the unknown rule ${name}`];
    });
    return [...referred, ...found];
  };
  return check(value, schema, "$");
}

/** What a reference of this document points to, or undefined. */
export function resolved(document: JsonObject, reference: unknown): unknown {
  const [root, ...names] = String(reference).split("/");
  if (root !== "#") return undefined;
  return names.reduce<unknown>((place, name) => {
    const key = name.replaceAll("~1", "/").replaceAll("~0", "~");
    return isJsonObject(place) && Object.hasOwn(place, key) ? place[key] : undefined;
  }, document);
}

function list(rule: unknown): unknown[] {
  return Array.isArray(rule) ? rule : [rule];
}

function isOf(value: unknown, type: unknown): boolean {
  switch (type) {
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return isJsonObject(value);
    case "integer":
      return Number.isInteger(value);
    case "string":
      return typeof value === "string";
    case "number":
      return typeof value === "number";
    case "boolean":
      return typeof value === "boolean";
    default:
      return false;
  }
}

function limit(kept: boolean, at: string, rule: unknown): string[] {
  return kept ? [] : [`${at} passes the limit ${rule}`];
}

function others(value: unknown, { properties }: JsonObject): [string, unknown][] {
  if (!isJsonObject(value)) return [];
  return Object.entries(value).filter(([name]) =>
    !isJsonObject(properties) || !Object.hasOwn(properties, name)
  );
}

function fits(
  value: unknown,
  rule: unknown,
  at: string,
  check: Checker,
  enough: (count: number) => boolean,
): string[] {
  const found = list(rule).map((schema) => check(value, schema, at));
  const count = found.filter((problems) => problems.length === 0).length;
  return enough(count) ? [] : [`${at} fits ${count} of its choices: ${found.flat().join("; ")}`];
}

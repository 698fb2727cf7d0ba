// Descriptions of objects: which fields they have, which of them are required, and what
// happens to unknown names.

import { nearName, nearWord, wordList } from "../near_word.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../json.ts";
import {
  type Described,
  type Description,
  type Findings,
  refuseValue,
  type UnstatedRule,
} from "./description.ts";

/** Characters of an unknown name that are shown, and compared with known names. */
const NAME_CHARS_MAX = 64;

/** The fields of an object. */
export type Fields = Readonly<Record<string, Description>>;

/** The type of an object of these fields, of which some are required. */
export type ObjectOf<F extends Fields, R extends keyof F> = string extends keyof F ? JsonObject
  :
    & { [Name in R]: Described<F[Name]> }
    & { [Name in Exclude<keyof F, R>]?: Described<F[Name]> };

/** A rule between fields of one object. */
export interface Relation {
  /** @param object the fields read so far @param sent the object as it was sent */
  check(object: JsonObject, field: string, findings: Findings, sent: JsonObject): void;
  /** The same as JSON Schema; without it, check() names the rule that no schema states. */
  readonly schema?: JsonObject;
}

interface ObjectOptions<R> {
  readonly required?: readonly R[];
  /** Why a known name is refused, in words that follow the field's path. */
  readonly refused?: (name: string) => string | undefined;
  /**
   * What happens to unknown names: an error, unless they are `kept`. `distinct` keeps those that
   * are not nearly the name of a field that is missing.
   */
  readonly others?: "kept" | "distinct";
  readonly namesMin?: number;
  readonly relations?: readonly Relation[];
}

/** An object of known fields. With an empty `field` it is the whole body. */
export function object<F extends Fields, const R extends keyof F & string = never>(
  fields: F,
  options: ObjectOptions<R> = {},
): Description<ObjectOf<F, R>> {
  const { required = [], relations = [], namesMin = 0 } = options;
  return {
    words: "an object",
    read(value, field, findings) {
      const sent = objectIn(value, field, findings);
      if (sent === undefined) return undefined;
      if (namesMin > 0 && Object.keys(sent).length < namesMin) {
        findings.add(field || "body", "Missing", "must name at least one key, found none");
      }
      for (const name of required) {
        if (!Object.hasOwn(sent, name) || sent[name] === undefined) {
          findings.add(
            within(field, name),
            "Missing",
            `is missing, expected ${fields[name]?.words}`,
          );
        }
      }
      const kept = Object.fromEntries(readFields(sent, field, fields, options, findings));
      for (const relation of relations) relation.check(kept, field, findings, sent);
      // Each field was read by its own description.
      return required.every((name) => Object.hasOwn(kept, name))
        ? kept as ObjectOf<F, R>
        : undefined;
    },
    schema: (components) => ({
      type: "object",
      ...(required.length > 0 ? { required: [...required] } : {}),
      properties: Object.fromEntries(
        Object.entries(fields).map(([name, field]) => [name, field.schema(components)]),
      ),
      ...others(options),
      ...(namesMin > 0 ? { minProperties: namesMin } : {}),
      ...relationSchemas(relations),
    }),
  };
}

function others(options: ObjectOptions<string>): JsonObject {
  return { additionalProperties: options.others !== undefined };
}

function relationSchemas(relations: readonly Relation[]): JsonObject {
  const stated = relations.flatMap(({ schema }) => schema === undefined ? [] : [schema]);
  return stated.length === 0 ? {} : { allOf: stated };
}

function objectIn(value: unknown, field: string, findings: Findings): JsonObject | undefined {
  if (isJsonObject(value)) return value;
  if (value !== undefined) return void refuseValue(value, field, "an object", findings);
  findings.add(field === "" ? "body" : field, "Missing", "is missing, expected an object");
  return undefined;
}

function readFields(
  sent: JsonObject,
  field: string,
  fields: Fields,
  { refused, others }: ObjectOptions<string>,
  findings: Findings,
): [string, JsonValue][] {
  const kept: [string, JsonValue][] = [];
  // Object.entries() would read all values of an object with a hundred thousand names; this loop stops early.
  for (const name of Object.keys(sent)) {
    if (findings.isFull()) break;
    const inner = sent[name];
    if (inner === undefined) continue;
    const path = within(field, name);
    const description = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (description !== undefined) {
      const read = description.read(inner, path, findings);
      if (read !== undefined) kept.push([name, read]);
      continue;
    }
    const reason = refused?.(name);
    if (reason !== undefined) findings.add(path, "Invalid", reason);
    else if (others === undefined) reportUnknown(name, field, Object.keys(fields), findings);
    else if (others === "distinct" && findings.mayCompare() && isMisspelt(name, sent, fields)) {
      reportUnknown(name, field, Object.keys(fields), findings, "misspelling");
    } else kept.push([name, inner]);
  }
  return kept;
}

/** Whether an unknown name is probably a misspelling of a field that is missing. */
function isMisspelt(name: string, sent: JsonObject, fields: Fields): boolean {
  const near = nearName(name, Object.keys(fields));
  return near !== undefined && !Object.hasOwn(sent, near);
}

function reportUnknown(
  name: string,
  field: string,
  known: readonly string[],
  findings: Findings,
  rule?: UnstatedRule,
): void {
  const shown = name.slice(0, NAME_CHARS_MAX);
  const near = name.length > NAME_CHARS_MAX || !findings.mayCompare()
    ? undefined
    : nearName(shown, known) ?? nearWord(shown, known);
  const words = near === undefined
    ? `is unknown, expected ${wordList(known) || "no keys"}`
    : `is unknown: the nearest known name is "${near}"`;
  findings.add(within(field, shown), "UnknownField", words, rule);
}

function within(field: string, name: string): string {
  return field === "" ? name : `${field}.${name}`;
}

/** Limits and wording for an object with arbitrary names. */
interface EntryBounds {
  readonly countMax?: number;
  readonly countMin?: number;
  /** Words that follow the path of an entry with an unacceptable name. */
  readonly nameWords: string;
  /** UTF-16 units of a name whose pattern bounds its characters; rare ones are two units. */
  readonly nameUnitsMax?: number;
  /** Follow "must be" when the value is not an object. */
  readonly words: string;
  /** Reasons for refusing names that match the pattern, by name. */
  readonly refused?: Readonly<Record<string, string>>;
  /** Words for too many entries, `must have at most 64 entries`. */
  readonly countWords: string;
}

/** Characters of an entry's name that are shown. */
const ENTRY_CHARS_MAX = 255;

/** An object whose names are the caller's. */
export function entriesOf<T extends JsonValue>(
  name: RegExp,
  value: Description<T>,
  bounds: EntryBounds,
): Description<JsonObject> {
  const { countMax = Infinity, countMin = 0, nameUnitsMax = Infinity, refused = {} } = bounds;
  const { words, countWords, nameWords } = bounds;
  return {
    words,
    read(given, field, findings) {
      if (!isJsonObject(given)) {
        return void refuseValue(given, field, words, findings);
      }
      const entries = Object.entries(given);
      if (entries.length < countMin) {
        findings.add(field, "Missing", "must name at least one key, found none");
      }
      if (entries.length > countMax) {
        const most = `must have at most ${countMax} ${countWords}`;
        findings.add(field, "TooLarge", `${most}, found ${entries.length}`);
        return undefined;
      }
      const kept = entries.map(([key, inner]): [string, JsonValue] => {
        const path = within(field, key.slice(0, ENTRY_CHARS_MAX));
        const reason = Object.hasOwn(refused, key) ? refused[key] : undefined;
        if (reason !== undefined) findings.add(path, "Invalid", reason);
        else if (!name.test(key)) findings.add(path, "Invalid", nameWords);
        else if (key.length > nameUnitsMax) {
          findings.add(path, "Invalid", nameWords, "text_units");
        } else return [key, value.read(inner, path, findings) ?? null];
        return [key, null];
      });
      return Object.fromEntries(kept);
    },
    schema: (components) => ({
      type: "object",
      ...(countMin > 0 ? { minProperties: countMin } : {}),
      ...(countMax === Infinity ? {} : { maxProperties: countMax }),
      propertyNames: {
        pattern: name.source,
        ...(Object.keys(refused).length > 0 ? { not: { enum: Object.keys(refused) } } : {}),
      },
      additionalProperties: value.schema(components),
    }),
  };
}

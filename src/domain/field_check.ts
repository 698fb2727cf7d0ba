// Reading an object from outside field by field. Every incorrect field is reported, not only the
// first, each by its path such as `machine.disks[0].size`, so that one round mends them all.

import { AgentError, type FieldError } from "./error.ts";
import { isUuid } from "./id.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "./json.ts";
import { nearWord } from "./near_word.ts";

/** Findings of one reading; what is found beyond this is not listed. */
const FINDINGS_MAX = 64;
/** Characters of a name for which the nearest known one is looked for. */
const NAME_CHARS_MAX = 64;

/** Collects what is wrong. `words` follow the field's path: `must be an integer from 1 to 8`. */
export interface Findings {
  readonly list: readonly FieldError[];
  add(field: string, code: FieldError["code"], words: string): void;
}

/** Reads one value: what is kept of it, or undefined once it was reported why nothing is. */
export type Check = (value: unknown, field: string, findings: Findings) => JsonValue | undefined;

/** The fields that an object may have. */
export interface Shape {
  readonly checks: Readonly<Record<string, Check>>;
  readonly required: readonly string[];
  /** Names that exist in the world but are refused here, with the reason in words. */
  readonly refused?: (name: string) => string | undefined;
}

/** An empty collection of findings. */
export function openFindings(): Findings {
  const list: FieldError[] = [];
  return {
    list,
    add(field, code, words) {
      if (list.length < FINDINGS_MAX) list.push({ field, code, message: `${field} ${words}` });
    },
  };
}

/**
 * Throws when something was found.
 * @throws {AgentError} `invalid_argument` naming every field that was found incorrect
 */
export function refuseFindings(findings: Findings, noun: string): void {
  const [first] = findings.list;
  if (first === undefined) return;
  const more = findings.list.length > 1 ? ` (and ${findings.list.length - 1} more)` : "";
  throw new AgentError("invalid_argument", `Cannot accept the ${noun}: ${first.message}${more}`, {
    errors: findings.list,
  });
}

/**
 * Reads an object: known fields by their checks, every other name is reported. With an empty `field`
 * the object is the whole body, whose fields have no path before their names.
 */
export function readObject(
  value: unknown,
  field: string,
  shape: Shape,
  findings: Findings,
): JsonObject | undefined {
  if (!isJsonObject(value)) {
    const name = field === "" ? "body" : field;
    if (value === undefined) findings.add(name, "Missing", "is missing: expected an object");
    else findings.add(name, "Invalid", "must be an object");
    return undefined;
  }
  const kept: [string, JsonValue][] = [];
  for (const name of shape.required) {
    if (!Object.hasOwn(value, name)) findings.add(within(field, name), "Missing", "is missing");
  }
  for (const [name, inner] of Object.entries(value)) {
    const reason = shape.refused?.(name);
    const path = within(field, name);
    if (reason !== undefined) findings.add(path, "Invalid", reason);
    else if (!Object.hasOwn(shape.checks, name)) reportUnknown(name, field, shape, findings);
    else {
      const read = shape.checks[name]?.(inner, path, findings);
      if (read !== undefined) kept.push([name, read]);
    }
  }
  return Object.fromEntries(kept);
}

function reportUnknown(name: string, field: string, shape: Shape, findings: Findings): void {
  if (findings.list.length >= FINDINGS_MAX) return;
  const shown = name.slice(0, NAME_CHARS_MAX);
  const known = Object.keys(shape.checks);
  const near = name.length > NAME_CHARS_MAX ? undefined : nearWord(shown, known);
  const nearest = near === undefined ? "" : `: the nearest known name is "${near}"`;
  findings.add(within(field, shown), "UnknownField", `is unknown${nearest}`);
}

function within(field: string, name: string): string {
  return field === "" ? name : `${field}.${name}`;
}

/** A whole number of a range, limits included. */
export function integer(min: number, max: number): Check {
  return (value, field, findings) => {
    if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) {
      return value;
    }
    const over = typeof value === "number" && Number.isInteger(value) && value > max;
    const words = `must be an integer from ${min} to ${max}`;
    findings.add(field, over ? "TooLarge" : "Invalid", words);
    return undefined;
  };
}

/** A text that matches a pattern; `words` say which texts do. */
export function text(pattern: RegExp, words: string): Check {
  return (value, field, findings) => {
    if (typeof value === "string" && pattern.test(value)) return value;
    findings.add(field, "Invalid", `must be ${words}`);
    return undefined;
  };
}

/** One of a closed list of words. */
export function oneOf(words: readonly string[]): Check {
  return (value, field, findings) => {
    if (typeof value === "string" && words.includes(value)) return value;
    findings.add(field, "Invalid", `must be one of ${words.join(", ")}`);
    return undefined;
  };
}

/** A boolean. */
export const flag: Check = (value, field, findings) => {
  if (typeof value === "boolean") return value;
  findings.add(field, "Invalid", "must be true or false");
  return undefined;
};

/** A uuid, written as vmadm takes it. */
export const uuid: Check = (value, field, findings) => {
  if (isUuid(value)) return value;
  findings.add(field, "Invalid", "must be a uuid in lower case");
  return undefined;
};

/** A list of at most so many items, each read by the same check. */
export function listOf(check: Check, countMax: number, noun: string): Check {
  return (value, field, findings) => {
    if (!Array.isArray(value)) {
      findings.add(field, "Invalid", `must be a list of ${noun}`);
      return undefined;
    }
    if (value.length > countMax) {
      findings.add(field, "TooLarge", `must hold at most ${countMax} ${noun}`);
      return undefined;
    }
    return value.map((item, index) => check(item, `${field}[${index}]`, findings) ?? null);
  };
}

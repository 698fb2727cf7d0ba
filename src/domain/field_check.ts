// Reading an object from outside field by field. Every incorrect field is reported, not only the
// first, each by its path such as `machine.disks[0].size`, so that one round mends them all.

import { AgentError, type FieldError } from "./error.ts";
import { isUuid } from "./id.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "./json.ts";
import { closestString } from "@std/text/closest-string";

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

// The word that somebody probably meant.

/** Share of a known word's letters that a suggestion must have in common with what was typed. */
const LETTERS_SHARE_MIN = 0.5;
/** Characters by which the two may differ in length, or half of the known word. */
const LENGTH_DIFFERENCE_MAX = 2;

/** `: did you mean "x"?` when one of the known words is near, else the empty text. */
export function nearest(word: string, known: readonly string[]): string {
  const near = nearWord(word, known);
  return near === undefined ? "" : `: did you mean ${JSON.stringify(near)}?`;
}

/** The known word that was probably meant; undefined when all are far away. */
export function nearWord(word: string, known: readonly string[]): string | undefined {
  if (known.length === 0 || word.length === 0) return undefined;
  const near = closestString(word, known);
  const head = commonHead(known);
  const start = word.startsWith(head) ? head.length : 0;
  // The nearest of words that are all far away would be a guess, not a suggestion.
  const typed = word.slice(start).toLowerCase();
  const meant = near.slice(start).toLowerCase();
  const shared = [...meant].filter((letter) => typed.includes(letter)).length;
  const difference = Math.abs(meant.length - typed.length);
  const likely = shared >= meant.length * LETTERS_SHARE_MIN &&
    difference <= Math.max(LENGTH_DIFFERENCE_MAX, meant.length * LETTERS_SHARE_MIN);
  return likely ? near : undefined;
}

/** `job `, `--` or `ZONEWRIGHT_`: what all of the words begin with says nothing about which is meant. */
function commonHead([first = "", ...others]: readonly string[]): string {
  let length = first.length;
  while (!others.every((other) => other.startsWith(first.slice(0, length)))) length -= 1;
  return /^.*[^A-Za-z0-9]/.exec(first.slice(0, length))?.[0] ?? "";
}

// Descriptions of values: numbers, texts, choices, lists. Limits are arguments, so that a check and its schema
// both have the limits of this agent.

import { nearest } from "../near_word.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../json.ts";
import {
  type Description,
  foundText,
  openFindings,
  refuseValue,
  type UnstatedRule,
} from "./description.ts";

/** Longest text that is compared with known words, characters. */
const WORD_CHARS_MAX = 64;

/** A description with a test function. */
function tested<T>(
  words: string,
  fits: (value: unknown) => value is T,
  schema: JsonObject,
  fromText?: (text: string) => unknown,
): Description<T> {
  return {
    words,
    read(value, field, findings) {
      if (fits(value)) return value;
      return void refuseValue(value, field, words, findings);
    },
    schema: () => schema,
    ...(fromText === undefined ? {} : { fromText }),
  };
}

/** Why a limit or a list of words is as it is, if the operator chose it. */
interface ChosenBy {
  readonly setting?: string;
  /** Why smaller values are refused. */
  readonly below?: string;
}

function chosenBy({ setting }: ChosenBy): string {
  return setting === undefined ? "" : ` (setting ${setting})`;
}

/** Enough digits for any integer that a double holds exactly. */
export const DIGITS = /^[0-9]{1,16}$/;
/** A whole number of a range, limits included. */
export function integer(min: number, max: number, chosen: ChosenBy = {}): Description<number> {
  const words = `an integer from ${min} to ${max}`;
  return {
    words,
    read(value, field, findings) {
      const whole = typeof value === "number" && Number.isInteger(value);
      if (whole && value >= min && value <= max) return value;
      const isLarge = whole && value > max;
      const below = whole && chosen.below !== undefined ? `: ${chosen.below}` : "";
      return void refuseValue(value, field, `${words}${below}`, findings, {
        code: isLarge ? "TooLarge" : "Invalid",
        chosen: isLarge ? chosenBy(chosen) : "",
      });
    },
    schema: () => ({ type: "integer", minimum: min, maximum: max }),
    fromText: (text) => DIGITS.test(text) ? Number(text) : text,
  };
}

/** A positive number, at most `max` of a unit. */
export function positive(max: number, unit: string): Description<number> {
  return tested(
    `${unit} above 0, at most ${max}`,
    (value): value is number => typeof value === "number" && value > 0 && value <= max,
    { type: "number", exclusiveMinimum: 0, maximum: max },
  );
}

/** A text that matches a pattern, which has no flag but `u`. `words` say which texts do. */
export function text(pattern: RegExp, words: string): Description<string> {
  return tested(
    words,
    (value): value is string => typeof value === "string" && pattern.test(value),
    { type: "string", pattern: pattern.source },
  );
}

/** A pattern of a word of ASCII in either case. */
export function inEitherCase(word: string): string {
  return word.replace(/[a-z]/g, (letter) => `[${letter.toUpperCase()}${letter}]`);
}

/** No NUL, and only characters that UTF-8 can encode. */
export const WHOLE_TEXT = /^[^\0\p{Cs}]*$/u;

/** A text of 1 to `charsMax` characters that the store can keep unchanged. */
export function wholeText(charsMax: number): Description<string> {
  const words = `a text of 1 to ${charsMax} characters`;
  return {
    words,
    read(value, field, findings) {
      if (typeof value !== "string" || value === "") {
        refuseValue(value, field, words, findings);
      } else if (value.length > charsMax) {
        const rule = unitsRule(value, charsMax);
        refuseValue(value, field, words, findings, { code: "TooLarge", rule });
      } else if (!WHOLE_TEXT.test(value)) {
        const place = value.search(/[\0\p{Cs}]/u) + 1;
        const expected = "must be text without NUL and half characters";
        findings.add(field, "Invalid", `${expected}, found one as character ${place}`);
      } else return value;
      return undefined;
    },
    schema: () => ({
      type: "string",
      minLength: 1,
      maxLength: charsMax,
      pattern: WHOLE_TEXT.source,
    }),
  };
}

/** A text of at most `max` characters, then read by another description. */
export function atMostChars(
  charsMax: number,
  description: Description<string>,
): Description<string> {
  const words = `${description.words} of at most ${charsMax} characters`;
  return {
    words,
    read(value, field, findings) {
      if (typeof value !== "string" || value.length <= charsMax) {
        return description.read(value, field, findings);
      }
      const rule = unitsRule(value, charsMax);
      return void refuseValue(value, field, words, findings, { rule });
    },
    schema: (components) => ({ ...description.schema(components), maxLength: charsMax }),
  };
}

function unitsRule(value: string, charsMax: number): UnstatedRule | undefined {
  return [...value].length <= charsMax ? "text_units" : undefined;
}

/** A text that every one of several descriptions accepts, tried in order. */
export function each(
  first: Description<string>,
  ...others: readonly Description<string>[]
): Description<string> {
  const all = [first, ...others];
  return {
    words: all.map(({ words }) => words).join(", "),
    read: (value, field, findings) =>
      all.every((one) => one.read(value, field, findings) !== undefined)
        ? value as string // The first one has taken it: it is a text.
        : undefined,
    schema: (components) => ({ allOf: all.map((one) => one.schema(components)) }),
  };
}

/** One of a closed list of words. */
export function oneOf<const W extends string>(
  known: readonly W[],
  chosen: ChosenBy = {},
): Description<W> {
  const words = `one of ${known.join(", ")}${chosenBy(chosen)}`;
  return {
    words,
    read(value, field, findings) {
      const found = known.find((one) => one === value);
      if (found !== undefined) return found;
      const isWord = typeof value === "string" && value.length <= WORD_CHARS_MAX;
      const near = isWord ? nearest(value, known) : "";
      const given = `${foundText(value, field)}${near}`;
      return void findings.add(field, "Invalid", `must be ${words}, found ${given}`);
    },
    schema: () => ({ type: "string", enum: [...known] }),
  };
}

/** Exactly one value, with the description's own words for anything else. */
export function only<const V extends string | number | boolean>(
  wanted: V,
  words: string,
): Description<V> {
  return tested(words, (value): value is V => value === wanted, { const: wanted });
}

/** True or false; in a query, the words `true` and `false`. */
export const flag: Description<boolean> = tested(
  "true or false",
  (value): value is boolean => typeof value === "boolean",
  { type: "boolean" },
  (text) => text === "true" || (text === "false" ? false : text),
);

/** Any text of at most `charsMax` characters. */
export function anyText(charsMax = Infinity): Description<string> {
  return {
    words: "a text",
    read(value, field, findings) {
      if (typeof value !== "string") refuseValue(value, field, "a text", findings);
      else if (value.length > charsMax) {
        const words = `a text of at most ${charsMax} characters`;
        const rule = unitsRule(value, charsMax);
        refuseValue(value, field, words, findings, { code: "TooLarge", rule });
      } else return value;
      return undefined;
    },
    schema: () =>
      charsMax === Infinity ? { type: "string" } : { type: "string", maxLength: charsMax },
  };
}

/** One of a few numbers. */
export function oneNumber(known: readonly number[], words: string): Description<number> {
  return tested(
    words,
    (value): value is number => known.some((one) => one === value),
    { type: "integer", enum: [...known] },
  );
}

/** A text that `texts` accepts, a number or a boolean, and null if requested. */
export function scalar(
  texts: Description<string>,
  words: string,
  types: readonly ("number" | "boolean" | "null")[] = ["number", "boolean"],
): Description<string | number | boolean | null> {
  return {
    words,
    read(value, field, findings) {
      if (typeof value === "string") return texts.read(value, field, findings);
      const type = value === null ? "null" : typeof value;
      if (types.some((one) => one === type)) return value as number | boolean | null;
      return void refuseValue(value, field, words, findings);
    },
    schema: (components) => ({ anyOf: [texts.schema(components), { type: [...types] }] }),
  };
}

/** A known field that is always refused; `words` follow its path. */
export function refused(words: string): Description<never> {
  return {
    words: "absent",
    read(_, field, findings) {
      findings.add(field, "Invalid", words);
      return undefined;
    },
    schema: () => ({ not: {} }),
  };
}

/** A field that other code reads: accepted, but not stored. */
export const ignored: Description<never> = {
  words: "any JSON value",
  read: () => undefined,
  schema: () => ({}),
};

/** Any JSON value, unchecked. */
export const anything: Description = {
  words: "any JSON value",
  read: (value) => value as JsonValue, // It was read from JSON.
  schema: () => ({}),
};

/** A list of at most `max` items. */
export function listOf<T extends JsonValue>(
  item: Description<T>,
  countMax: number,
  noun: string,
  chosen: ChosenBy = {},
): Description<(T | null)[]> {
  return {
    words: `a list of at most ${countMax} ${noun}`,
    read(value, field, findings) {
      if (!Array.isArray(value)) {
        return void refuseValue(value, field, `a list of ${noun}`, findings);
      }
      if (value.length > countMax) {
        const words = `must hold at most ${countMax} ${noun}${chosenBy(chosen)}`;
        findings.add(field, "TooLarge", `${words}, found ${value.length}`);
        return undefined;
      }
      // Null replaces a refused item, so that the indexes of the others stay right.
      return value.map((one, index) => item.read(one, `${field}[${index}]`, findings) ?? null);
    },
    schema: (components) => ({
      type: "array",
      maxItems: countMax,
      items: item.schema(components),
    }),
  };
}

/** A value that at least one of several descriptions accepts; the first that does decides what is kept. */
export function either<T>(words: string, ...ways: readonly Description<T>[]): Description<T> {
  return {
    words,
    read(value, field, findings) {
      let rule: UnstatedRule | null | undefined;
      for (const way of ways) {
        const found = openFindings();
        const read = way.read(value, field, found);
        if (found.list.length === 0) return read;
        rule ??= found.rules.find((one) => one !== null);
      }
      return void refuseValue(value, field, words, findings, { rule: rule ?? undefined });
    },
    schema: (components) => ({ anyOf: ways.map((way) => way.schema(components)) }),
  };
}

/** The same description, with one message for every mistake. */
export function worded<T>(words: string, description: Description<T>): Description<T> {
  return { ...either(words, description), schema: description.schema };
}

/** Converts a value after reading. If `keep` returns undefined, nothing is stored. */
export function kept<T, K>(
  description: Description<T>,
  keep: (value: T) => K | undefined,
): Description<K> {
  return {
    ...description,
    read(value, field, findings) {
      const read = description.read(value, field, findings);
      return read === undefined ? undefined : keep(read);
    },
  };
}

/** Adds a rule that JSON Schema cannot express. */
export function unless<T>(
  description: Description<T>,
  rule: UnstatedRule,
  problem: (value: T) => string | undefined,
): Description<T> {
  return {
    ...description,
    read(value, field, findings) {
      const read = description.read(value, field, findings);
      const words = read === undefined ? undefined : problem(read);
      if (words === undefined) return read;
      findings.add(field, "Invalid", words, rule);
      return undefined;
    },
  };
}

/** Adds a description for people, such as the unit, and more of the schema, such as a default. */
export function about<T>(
  note: string,
  description: Description<T>,
  shown: JsonObject = {},
): Description<T> {
  return {
    ...description,
    schema: (components) => ({ ...description.schema(components), description: note, ...shown }),
  };
}

/** Gives the schema a name under which others refer to it. */
export function named<T>(name: string, description: Description<T>): Description<T> {
  return {
    ...description,
    schema(components) {
      if (!isJsonObject(components[name])) components[name] = description.schema(components);
      return { $ref: `#/components/schemas/${name}` };
    },
  };
}

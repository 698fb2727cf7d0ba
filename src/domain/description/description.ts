// A description says once what a value may be: read() checks a value and says what is wrong, schema() gives the same
// rule as JSON Schema, for /openapi.json. All incorrect fields of a document are reported at once, each by its path,
// such as `machine.disks[0].size`, so that a caller can correct them together.

import { type Shape, TEXT, whole, wordOf } from "./answer.ts";
import { AgentError, FIELD_ERROR_CODES, type FieldError } from "../error.ts";
import { type JsonObject, type JsonValue, kindOf } from "../json.ts";
import { holdsSecrets, isSecretName } from "../masking.ts";

/** Describes which values are accepted, and what is kept of them. */
export interface Description<T = JsonValue> {
  /** Follow "must be": `an integer from 1 to 8`. */
  readonly words: string;
  /** Reads one value. Undefined when nothing is kept of it; the reason has then been reported. */
  read(value: unknown, field: string, findings: Findings): T | undefined;
  /** As JSON Schema 2020-12. @param components where named schemas go, by their names */
  schema(components: JsonObject): JsonObject;
  /** Converts a text of a query to a value; without it, the text is the value. */
  readonly fromText?: (text: string) => unknown;
}

/** The type of the values that a description keeps. */
export type Described<D> = D extends Description<infer T> ? T : never;

/** Most findings of one reading; further ones are dropped. */
const FINDINGS_MAX = 64;
/** Most unknown names of one reading that are compared with known ones: a document with more was not typed by hand. */
const COMPARED_MAX = 1_000;

/**
 * Rules that JSON Schema cannot state, with the reasons. `/openapi.json` describes a document completely but for
 * these. A few rules are checked after the description and are not findings: whether `locks` is a valid pattern (its
 * engine is loaded with the first one), whether `callback_host` allows a callback (403), and the size of all params
 * of a job or of one info entry (measured as JSON, over all fields).
 */
export const UNSTATED_RULES = {
  digits: "compares the number that a text stands for",
  memory_limits: "compares the numbers of two fields",
  reservation: "compares the numbers of two fields",
  distinct_disks: "compares one field of every item of a list",
  distinct_nics: "compares the addresses of every item of a list",
  joined_text: "counts the characters of all items of a list together",
  route_nic: "compares the values of an object with the items of a list",
  boot_medium: "what a medium is follows from the end of its name, after its compression's",
  address: "only the URL parser knows which texts are addresses, and what their parts are",
  calendar: "which days, hours and offsets exist depends on one another",
  misspelling: "compares names that are not known with those of fields that are missing",
  text_units: "the agent counts UTF-16 units, JSON Schema characters: rare ones are two units",
} as const satisfies Readonly<Record<string, string>>;

/** The name of such a rule, by which tests tell it from what the schema states. */
export type UnstatedRule = keyof typeof UNSTATED_RULES;

/** Collects findings. `words` follow the field's path: `must be an integer from 1 to 8`. */
export interface Findings {
  readonly list: readonly FieldError[];
  /** For each finding, the rule that no schema states; null if the schema states it. */
  readonly rules: readonly (UnstatedRule | null)[];
  add(field: string, code: FieldError["code"], words: string, rule?: UnstatedRule): void;
  /** Whether the list is full: then nothing more would be reported. */
  isFull(): boolean;
  /** Whether one more unknown name may be compared with known ones, which is slow. */
  mayCompare(): boolean;
}

/** An empty collection of findings. */
export function openFindings(): Findings {
  const list: FieldError[] = [];
  const rules: (UnstatedRule | null)[] = [];
  let compared = 0;
  return {
    list,
    rules,
    add(field, code, words, rule) {
      if (list.length >= FINDINGS_MAX) return;
      list.push({ field, code, message: `${field} ${words}` });
      rules.push(rule ?? null);
    },
    isFull: () => list.length >= FINDINGS_MAX,
    mayCompare: () => list.length < FINDINGS_MAX && ++compared <= COMPARED_MAX,
  };
}

/** Characters of a wrong value that its error repeats. */
const FOUND_CHARS_MAX = 32;

/** Whether a part of a path may hold a secret, which no error repeats. */
function isSecret(part: string): boolean {
  return isSecretName(part) || holdsSecrets(part);
}

/** A wrong value as its error shows it: short ones themselves, others by their kind, secrets never. */
export function foundText(value: unknown, field: string): string {
  if (field.split(/[.[\]]+/).some(isSecret)) return `${kindOf(value)}, which is not shown`;
  if (typeof value === "string") {
    if (value.length > FOUND_CHARS_MAX) return `a text of ${value.length} characters`;
    return JSON.stringify(value);
  }
  if (typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER) {
    return "a number of 2^53 or more"; // Its digits were rounded when it was read.
  }
  // No method of a task's object is called.
  return ["number", "boolean"].includes(typeof value) ? String(value) : kindOf(value);
}

/** More about a refusal than its value and its words. */
interface RefusalOptions {
  /** `Invalid` by default. */
  readonly code?: FieldError["code"];
  readonly rule?: UnstatedRule | undefined;
  /** Follows what was wanted: `(setting policy.ram_mib_max)`. */
  readonly chosen?: string;
}

/**
 * Reports a value that is not what its description wants: `must be an integer from 1 to 8, found 9`.
 * @param words follow "must be"; a reason after their first colon stays at the end
 */
export function refuseValue(
  value: unknown,
  field: string,
  words: string,
  findings: Findings,
  { code = "Invalid", rule, chosen = "" }: RefusalOptions = {},
): void {
  const [wanted = "", ...reasons] = words.split(": ");
  const found = value === undefined ? "nothing" : foundText(value, field);
  const message = [`must be ${wanted}${chosen}, found ${found}`, ...reasons].join(": ");
  findings.add(field === "" ? "body" : field, code, message, rule);
}

/**
 * Reads one value, and throws if it is refused.
 * @param field the path of the value in errors, empty for a body
 * @param noun names the value: `Cannot accept the ${noun}: ...`
 * @throws {AgentError} `invalid_argument` naming every incorrect field by its path
 */
export function parse<T>(
  description: Description<T>,
  value: unknown,
  field: string,
  noun: string,
): T {
  const findings = openFindings();
  return accepted(description.read(value, field, findings), findings, noun);
}

/**
 * The value of a check that reported no finding.
 * @param read undefined when the check refused something
 * @throws {AgentError} `invalid_argument` naming every incorrect field; `internal` for a check that returned no value
 *   and reported no finding
 */
export function accepted<T>(read: T | undefined, findings: Findings, noun: string): T {
  refuseFindings(findings, noun);
  if (read !== undefined) return read;
  const message =
    `Cannot read the ${noun}: its check returned no value and refused no field, expected ` +
    "one of the two";
  throw new AgentError("internal", message);
}

/** Throws if there are findings. @throws {AgentError} `invalid_argument` naming every incorrect field */
export function refuseFindings({ list }: Pick<Findings, "list">, noun: string): void {
  const [first] = list;
  if (first === undefined) return;
  const more = list.length > 1 ? ` (and ${list.length - 1} more)` : "";
  throw new AgentError("invalid_argument", `Cannot accept the ${noun}: ${first.message}${more}`, {
    errors: list,
  });
}

/** A finding as answers show it. Not in error.ts, whose errors descriptions throw. */
export const FIELD_ERROR: Shape<FieldError> = whole("One incorrect parameter.", {
  field: { ...TEXT, description: "Its path in the body, such as `chain[1].timeout`." },
  code: wordOf(FIELD_ERROR_CODES),
  message: TEXT,
});

// Documents at random, made after a JSON Schema: mostly what it admits, with some mistakes of every kind
// in between. The same seed makes the same documents.

import { isJsonObject, type JsonObject, type JsonValue } from "../../src/domain/json.ts";
import { resolved } from "../support/json_schema.ts";

/** Texts that some pattern takes, and some that are nearly so. */
const TEXTS = [
  ...["", "a", "web1", "a b", "x".repeat(190), "é", "\0", "\ud800", "😀", "true", "5", "None"],
  ...["order=cd", "order=d,once=c", "cd", "c", "d", "cc", "order=cc", "once=d"],
  ...["02:08:20:AA:bb:cc", "02:08:20:aa:bb:cd", "03:08:20:aa:bb:cc", "00:00:00:00:00:00"],
  ...["192.0.2.7", "999.999.999.999", "192.0.2.07", "192.0.2.0/24", "192.0.2.0/33", "10.0.0.1/8"],
  ...["2001:db8::7", "::", "1::2::3", "2001:db8::7/64", "2001:db8::7/129", "dhcp", "addrconf"],
  ...["255.255.255.0", "255.0.255.0", "0.0.0.0", "nics[0]", "nics[31]", "nics[32]"],
  ...["nics[1]", "nics[2]", "nics[7]", "macs[2:8:20:aa:bb:c]", "macs[02:08:20:aa:bb:cd]"],
  ...["macs[03:08:20:aa:bb:cd]", "a_b", "255.255.255.255"],
  ...[
    "1",
    "02",
    "64",
    "9999999999999999",
    "17000000000000000",
    "-1",
    "1.5",
    `0x${"ab".repeat(254)}`,
  ],
  ...["512", "512/4096", "1000", "000512", "0:4:1", "5:1", "3", "6", "0:30:0", "256:1:1", "1:6:0"],
  ...["0x0a", "0x", "0xabc", "1.2.3.4.5", "0.0.0.0.0", "latest", "b c", "/installer.iso"],
  ...["/media/a.iso", "a.IMG", "/media/../a.iso", "../a.iso", "./a.raw", "a.txt", "/a.qcow2", "."],
  ...["https://images.example.com/a.iso", "http://x/a.img", "ftp://x/a.iso", "https://u:p@x/a.iso"],
  ...[
    "https://images.example.com/a.iso.xz",
    "https://images.example.com/disk",
    "https://",
    "hooks",
  ],
  "https://hooks.example.com/done",
  ...["2026-01-31", "2026-02-31", "2026-01-31T18:30:00Z", " 2026-01-31 ", "2026-01-31T25:00:00Z"],
  ...["2026-01-31T18:30:00", "1770000000000", "999999999999999", "2026-01-31T18:30:00+24:00"],
  "0f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f",
  "0F5C9A2E-6D1B-4C3A-9E8F-1A2B3C4D5E6F",
  "6c1e8f0a-6a53-4c0c-9a3b-0d1f4e0a7a11",
  `sha256:${"a".repeat(64)}`,
  ` SHA256:${"B".repeat(64)} `,
  `sha512:${"0".repeat(128)}`,
  `sha256:${"a".repeat(63)}`,
];

/** Values that hardly any field takes. */
const JUNK: readonly JsonValue[] = [null, true, false, -1, 0, 1, 1.5, 2 ** 53, "", "x", [], {}, [
  {},
]];

/** Names that objects of any names may have, and names of fields that stand elsewhere. */
const NAMES = [
  ...["role", "user-script", "a", "", "a\nb", "a b", "zonewright_job", "zonewright_x", "machine"],
  ...["192.0.2.0/24", "203.0.113.7", "2001:db8::/64", "uuid", "vcpus", "ram", "modules", "message"],
  ...[
    "wf_uuid",
    "chain[]",
    "chian",
    "time_out",
    "retries",
    "x".repeat(64),
    "x".repeat(65),
    "x".repeat(256),
    "😀".repeat(130),
  ],
];

/** Longest text that is made to pass a limit. */
const CHARS_MAX = 3000;

export interface RandomDocuments {
  /** The next one for a schema, whose references lead into `document`. */
  next(schema: JsonObject): JsonValue;
}

/** Opens a source. Each value is replaced by a mistake with a chance of one in `MISTAKES`. */
export function randomDocuments(seed: number, document: JsonObject): RandomDocuments {
  const chance = openChance(seed);
  const junk = () => structuredClone(chance.one(JUNK));
  const next = (given: JsonObject): JsonValue => {
    const schema = given.$ref === undefined ? given : resolved(document, given.$ref) as JsonObject;
    if (chance.in(MISTAKES)) return junk();
    if (isJsonObject(schema.then) && isJsonObject(schema.else)) {
      return next(chance.in(2) ? schema.then : schema.else);
    }
    if (Array.isArray(schema.oneOf)) return next(chance.one(schema.oneOf) as JsonObject);
    if (schema.properties === undefined && Array.isArray(schema.anyOf)) {
      return next(chance.one(schema.anyOf) as JsonObject);
    }
    if (schema.const !== undefined) return schema.const;
    if (Array.isArray(schema.enum)) return chance.one(schema.enum);
    const type = Array.isArray(schema.type) ? chance.one(schema.type) : schema.type;
    switch (type) {
      case "object":
        return anObject(schema, next, chance);
      case "array":
        return aList(schema, next, chance);
      case "integer":
      case "number":
        return aNumber(schema, chance);
      case "boolean":
        return chance.in(2);
      case "null":
        return null;
      case "string":
        return aText(schema, chance);
      default:
        return Array.isArray(schema.allOf) ? aText(schema, chance) : junk();
    }
  };
  return { next };
}

const MISTAKES = 40;

interface Chance {
  /** True once in so many times. */
  in(times: number): boolean;
  below(limit: number): number;
  one<T>(list: readonly T[]): T;
}

/** A mulberry32 generator. */
function openChance(seed: number): Chance {
  let state = seed;
  const fraction = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number) => Math.floor(fraction() * limit);
  return {
    in: (times) => below(times) === 0,
    below,
    one: (list) => list[below(list.length)] as typeof list[number],
  };
}

function anObject(
  schema: JsonObject,
  next: (schema: JsonObject) => JsonValue,
  chance: Chance,
): JsonObject {
  const fields = Object.entries(isJsonObject(schema.properties) ? schema.properties : {});
  const required = Array.isArray(schema.required) ? schema.required : [];
  // Few fields at a time, so that most objects are without a mistake.
  const share = Math.max(2, Math.ceil(fields.length / 4));
  const entries = fields
    .filter(([name]) => required.includes(name) ? !chance.in(60) : chance.in(share))
    .map(([name, field]): [string, JsonValue] => [name, next(field as JsonObject)]);
  const rest = schema.additionalProperties;
  const extra = isJsonObject(rest) ? chance.below(4) : chance.in(rest === false ? 40 : 8) ? 1 : 0;
  const count = chance.in(60) ? extra + 65 : extra;
  for (let index = 0; index < count; index++) {
    const name = count > 60 ? `n${index}` : chance.one(NAMES);
    entries.push([name, isJsonObject(rest) ? next(rest) : chance.one(JUNK)]);
  }
  return Object.fromEntries(entries);
}

function aList(
  { items, maxItems }: JsonObject,
  next: (schema: JsonObject) => JsonValue,
  chance: Chance,
): JsonValue[] {
  const past = typeof maxItems === "number" && maxItems < 100 && chance.in(20);
  const length = past ? maxItems + chance.below(2) : chance.below(4);
  const list: JsonValue[] = [];
  for (let index = 0; index < length; index++) {
    const before = list.at(-1);
    list.push(before !== undefined && chance.in(4) ? before : next(items as JsonObject));
  }
  return list;
}

function aNumber({ minimum, maximum }: JsonObject, chance: Chance): number {
  const least = typeof minimum === "number" ? minimum : 0;
  const most = typeof maximum === "number" ? maximum : 1000;
  if (chance.in(30)) return chance.one([least - 1, most + 1, least + 0.5]);
  if (chance.in(3)) return chance.one([least, most]);
  return least + chance.below(Math.min(most - least + 1, 5000));
}

function aText(schema: JsonObject, chance: Chance): string {
  const { maxLength, allOf } = schema;
  if (typeof maxLength === "number" && maxLength < CHARS_MAX && chance.in(15)) {
    return chance.one([
      "x".repeat(maxLength),
      "x".repeat(maxLength + 1),
      "😀".repeat(Math.ceil((maxLength + 1) / 2)),
      `https://hooks.example.com/${"😀".repeat(Math.ceil((maxLength + 1) / 2))}`,
    ]);
  }
  if (chance.in(15)) return chance.one(TEXTS);
  const all = [schema, ...(Array.isArray(allOf) ? allOf : [])].filter(isJsonObject);
  const patterns = all.flatMap(({ pattern }) =>
    typeof pattern === "string" ? [new RegExp(pattern, "u")] : []
  );
  const fitting = TEXTS.filter((text) => patterns.every((pattern) => pattern.test(text)));
  return chance.one(fitting.length > 0 ? fitting : TEXTS);
}

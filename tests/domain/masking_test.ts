// Masking of texts, held against masking of values.

import { assertEquals } from "@std/assert";
import { isJsonObject, type JsonObject, type JsonValue } from "../../src/domain/json.ts";
import {
  holdsSecrets,
  isSecretName,
  JsonMasking,
  MASK,
  type MaskRules,
} from "../../src/domain/masking.ts";

const RULES: MaskRules = { names: new Set(["license_key", 'q"\\ü']), member: "params" };

/** The text in parts of a size. */
function maskText(text: string, size: number, rules = RULES): string {
  const masking = new JsonMasking(rules);
  const bytes = new TextEncoder().encode(text);
  const decoder = new TextDecoder();
  let shown = "";
  for (let at = 0; at < bytes.length; at += size) {
    shown += decoder.decode(masking.write(bytes.subarray(at, at + size)), { stream: true });
  }
  return shown;
}

function maskValue(value: JsonValue, outermost = true): JsonValue {
  if (Array.isArray(value)) return value.map((inner) => maskValue(inner, false));
  if (!isJsonObject(value)) return value;
  return mapValues(value, (inner, name) => {
    if (isSecretName(name) || RULES.names.has(name)) return MASK;
    const secrets = holdsSecrets(name) || (outermost && name === RULES.member);
    if (!secrets) return maskValue(inner, false);
    return isJsonObject(inner) ? mapValues(inner, () => MASK) : MASK;
  });
}

function mapValues(
  object: JsonObject,
  change: (value: JsonValue, name: string) => JsonValue,
): JsonObject {
  return Object.fromEntries(
    Object.entries(object).map(([name, value]) => [name, change(value, name)]),
  );
}

/** Numbers from 0 to 1, the same in each run. */
function openRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296;
    return state / 4_294_967_296;
  };
}

const NAMES = [
  ...["a", "params", "customer_metadata", "internal_metadata", "root_pw", "vnc_password"],
  ...["license_key", 'q"\\ü', "", "passwords", "apitoken", "\u0001", "x".repeat(1_100) + "secret"],
];
const SCALARS = ["", '"', "\\", '{"password":1}', ":,[]{}", "ü☃😀", 0, -1.5e-9, true, false, null];

function anyValue(random: () => number, depth: number): JsonValue {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const kind = random();
  if (depth === 0 || kind < 0.4) return pick(SCALARS);
  const size = Math.floor(random() * 5);
  const inner = () => anyValue(random, depth - 1);
  if (kind < 0.6) return Array.from({ length: size }, inner);
  return Object.fromEntries(Array.from({ length: size }, () => [pick(NAMES), inner()]));
}

Deno.test("masking a text gives the text of the masked value, however the input is cut", () => {
  const random = openRandom(13);
  for (let round = 0; round < 500; round++) {
    const value = anyValue(random, 6);
    const expected = JSON.stringify(maskValue(value));
    const text = JSON.stringify(value);
    for (const size of [1, 2, 7, 1 + Math.floor(random() * 64), 1 << 20]) {
      assertEquals(maskText(text, size), expected, text);
    }
  }
});

Deno.test("several texts with commas between them are masked one by one", () => {
  const text = '{"params":{"a":1}},{"params":[1]},{"b":{"params":{"a":1}}},1,"params"';
  const shown = '{"params":{"a":"***"}},{"params":"***"},{"b":{"params":{"a":1}}},1,"params"';
  for (const size of [1, 3, 100]) assertEquals(maskText(text, size), shown);
});

Deno.test("a name is recognized even when written with escapes", () => {
  const rules = { names: new Set(["\u0001".repeat(255)]) };
  const text = JSON.stringify({ ["\u0001".repeat(255)]: "x" });
  assertEquals(maskText(text, 100, rules), text.replace('"x"', '"***"'));
  assertEquals(maskText('{"p\\u0061ssword":"x","a":1}', 4), '{"p\\u0061ssword":"***","a":1}');
});

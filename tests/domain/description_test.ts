// What every description says of a value that it refuses: the value that was found, and the one that is expected.

import { assertEquals, assertMatch } from "@std/assert";
import { type Description, openFindings } from "../../src/domain/description/description.ts";
import * as formats from "../../src/domain/description/formats.ts";
import { entriesOf, object } from "../../src/domain/description/object.ts";
import * as values from "../../src/domain/description/value.ts";
import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
import { machineChanges } from "../../src/domain/machine/changes.ts";
import { machineRequest } from "../../src/domain/machine/machine.ts";
import { mediaRequest } from "../../src/domain/machine/media.ts";

const NAMES = { words: "an object of names", nameWords: "must be a name", countWords: "names" };

/** One of each kind of description. */
const DESCRIPTIONS: Readonly<Record<string, Description<unknown>>> = {
  integer: values.integer(1, 8),
  positive: values.positive(8, "seconds"),
  text: values.text(/^[a-z]$/, "a letter"),
  wholeText: values.wholeText(8),
  atMostChars: values.atMostChars(8, values.text(/^[a-z]+$/, "letters")),
  each: values.each(values.text(/^[a-z]+$/, "letters"), values.text(/^.$/, "one character")),
  oneOf: values.oneOf(["one", "other"]),
  only: values.only(false, "false: it is off"),
  flag: values.flag,
  anyText: values.anyText(8),
  oneNumber: values.oneNumber([1, 2], "one or two"),
  scalar: values.scalar(values.wholeText(8), "a text, a number or a boolean"),
  listOf: values.listOf(values.flag, 2, "answers"),
  either: values.either("1 to 8 or above 90", values.integer(1, 8), values.integer(91, 99)),
  worded: values.worded("a yes or a no", values.flag),
  object: object({ size: values.integer(1, 8) }, { required: ["size"] }),
  entriesOf: entriesOf(/^[a-z]$/, values.flag, { ...NAMES, countMax: 2, countMin: 1 }),
  uuid: formats.uuid,
  uuidOf: formats.uuidOf(),
  uuidBeginning: formats.uuidBeginning,
  ipv4: formats.ipv4,
  ipAddress: formats.ipAddress,
  nicAddress: formats.nicAddress,
  networkAddress: formats.networkAddress,
  netmask: formats.netmask,
  webAddress: formats.webAddress(values.anyText(64)),
  instant: formats.instant,
  spanEnd: formats.spanEnd,
  orDigits: formats.orDigits(values.integer(1, 8)),
  machineRequest: machineRequest(DEFAULT_POLICY),
  machineChanges: machineChanges(DEFAULT_POLICY),
  mediaRequest: mediaRequest("booted"),
};

/** Values of every kind, which most descriptions refuse. */
const VALUES: readonly unknown[] = [
  null,
  -1,
  9,
  0.5,
  1e300,
  "",
  "no such value",
  "x".repeat(70),
  "a\0b",
  [],
  [1, "x", {}],
  {},
  { size: "big" },
  { siize: 1 },
  { A: 1, b: 2, c: 3 },
];

function refusals(description: Description<unknown>, value: unknown, field: string): string[] {
  const findings = openFindings();
  description.read(value, field, findings);
  return findings.list.map(({ message }) => message);
}

for (const [name, description] of Object.entries(DESCRIPTIONS)) {
  Deno.test(`a refusal by ${name} says what was found and what is expected`, () => {
    const said = VALUES.flatMap((value) => refusals(description, value, "place"));
    assertEquals(said.length > 5, true);
    for (const message of said) {
      assertMatch(message, /, found |is missing, |is unknown[,:] |must be a name/, message);
      assertMatch(message, /must |expected |nearest known name/, message);
      assertEquals(message.length < 700, true, message);
    }
  });
}

Deno.test("a refusal repeats no secret, and no more than 32 characters", () => {
  for (const [name, description] of Object.entries(DESCRIPTIONS)) {
    for (const field of ["root_pw", "machine.customer_metadata.key", "token", "list[0].api_key"]) {
      for (const message of refusals(description, "hunter 2", field)) {
        assertEquals([name, message.includes("hunter")], [name, false]);
      }
    }
    const long = "secret".repeat(6);
    for (const message of refusals(description, long, "place")) {
      assertEquals([name, message.includes("secret")], [name, false]);
    }
  }
});

Deno.test("a reason stays behind the value that was found", () => {
  const [said] = refusals(values.only(false, "false or absent: it is off"), true, "place");
  assertEquals(said, "place must be false or absent, found true: it is off");
});

// The lines that the agent writes to its guests, and what guests read from them.
// ZONEWRIGHT_CHAOS=full tries a hundred thousand, as protocol_fuzz_test.ts does of the other way.

import { assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { DEFAULT_LIMITS, LIMITS, limitValues } from "../../src/config/limits.ts";
import { readConfig } from "../../src/config/sources.ts";
import { ENGINE_FIELDS } from "../../src/domain/job/wire.ts";
import { agentLine, type AgentMessage, readAgentLine } from "../../src/wall/protocol.ts";
import {
  AGENT_MESSAGE_BYTES_MAX,
  CALL_CHARS_MAX,
  ERROR_CHARS_MAX,
  guestMessageBytesMax,
  JOB_CHARS_MAX,
  JOB_LEFT_CHARS_MAX,
  readTaskLimitsWord,
  REPLY_CHARS_MAX,
  UNREAD_CHARS_MAX,
} from "../../src/wall/task_limits.ts";

const MESSAGES = Deno.env.get("ZONEWRIGHT_CHAOS") === "full" ? 100_000 : 1000;
/** Bytes of a character of JSON text in UTF-8, at most. */
const CHAR_BYTES_MAX = 3;
/** Characters of the text of a task, at the largest that may be configured. */
const SOURCE_CHARS_MAX = 16 * 1024 * 1024;
/** Characters of a source as a JSON text: each may be written as an escape. */
const ESCAPED = 6;

Deno.test("readAgentLine() reads any text that agentLine() has written", () => {
  const text = fc.string({ unit: "binary" });
  const json = fc.json();
  const run = fc.record({
    type: fc.constant("run" as const),
    run: fc.nat(),
    kind: fc.constantFrom("body" as const, "fallback" as const),
    source: text,
    task_name: text,
    engine_fields: fc.constant([...ENGINE_FIELDS].join(" ")),
    job: fc.oneof(json, text.map((value) => JSON.stringify(value))),
    error: json,
  });
  const head = { type: fc.constant("reply" as const), run: fc.nat(), call: fc.nat() };
  const answer = fc.record({ ...head, ok: fc.constant(true as const), value: json });
  const refusal = fc.record({
    ...head,
    ok: fc.constant(false as const),
    code: text,
    message: text,
  });
  fc.assert(
    fc.property(fc.oneof(run, answer, refusal), (message: AgentMessage) => {
      // fc.json() may hold a tab between its values; what the agent writes never does.
      const plain = "value" in message
        ? { ...message, value: JSON.stringify(JSON.parse(message.value)) }
        : "job" in message
        ? {
          ...message,
          job: JSON.stringify(JSON.parse(message.job)),
          error: JSON.stringify(JSON.parse(message.error)),
        }
        : message;
      const line = agentLine(plain);
      assertEquals(line.includes("\n"), false);
      assertEquals<unknown>(readAgentLine(line), plain);
    }),
    { numRuns: MESSAGES },
  );
});

/** All limits at their largest. */
const LARGEST_LIMITS = limitValues(
  readConfig({
    flags: Object.fromEntries(
      Object.entries(LIMITS).map(([name, { kind }]) => {
        return [name.replaceAll("_", "-"), String(kind.range?.max)];
      }),
    ),
    env: {},
    cwd: "/",
    os: "linux",
  }).limits,
);

Deno.test("the limits of single values fit into the limits of messages", () => {
  const head = 64 * 1024;
  const place = { folder: "/" };
  assertEquals(LIMITS.source_chars_max.kind.read(SOURCE_CHARS_MAX, place), SOURCE_CHARS_MAX);
  assertThrows(() => LIMITS.source_chars_max.kind.read(SOURCE_CHARS_MAX + 1, place));
  const run = JOB_CHARS_MAX + SOURCE_CHARS_MAX * ESCAPED / CHAR_BYTES_MAX + ERROR_CHARS_MAX + head;
  const toGuest = Math.max(run, REPLY_CHARS_MAX + head);
  assertEquals(toGuest * CHAR_BYTES_MAX <= AGENT_MESSAGE_BYTES_MAX, true);
  assertEquals(run < UNREAD_CHARS_MAX, true);
  for (const limits of [DEFAULT_LIMITS, LARGEST_LIMITS]) {
    const reported = Math.max(limits.resultCharsMax, ERROR_CHARS_MAX * ESCAPED / CHAR_BYTES_MAX);
    const fromGuest = Math.max(JOB_LEFT_CHARS_MAX + reported, CALL_CHARS_MAX) + head;
    assertEquals(fromGuest * CHAR_BYTES_MAX <= guestMessageBytesMax(limits), true);
    // The job that a task is given holds the results and what the tasks before it left.
    assertEquals(Math.max(limits.resultCharsMax, limits.paramsCharsMax) <= JOB_CHARS_MAX, true);
    assertEquals(limits.paramsCharsMax <= JOB_LEFT_CHARS_MAX, true);
  }
});

Deno.test("readTaskLimitsWord() reads the limit on a guest's command line, and refuses other words", () => {
  assertEquals(readTaskLimitsWord("1048576"), { resultCharsMax: 1_048_576 });
  for (const word of ["", "1,2", "x", "-7", "0", "1.5"]) {
    assertThrows(() => readTaskLimitsWord(word), Error, "its limits are not on the command line");
  }
});

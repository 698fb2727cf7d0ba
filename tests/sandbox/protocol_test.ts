// The lines that the agent writes to its guests, and what guests read from them.
// ZONEWRIGHT_CHAOS=full tries a hundred thousand, as protocol_fuzz_test.ts does of the other way.

import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { ENGINE_FIELDS } from "../../src/domain/job_wire.ts";
import {
  AGENT_MESSAGE_BYTES_MAX,
  agentLine,
  type AgentMessage,
  ARGS_CHARS_MAX,
  ERROR_CHARS_MAX,
  JOB_CHARS_MAX,
  JOB_LEFT_CHARS_MAX,
  MESSAGE_BYTES_MAX,
  readAgentLine,
  REPLY_CHARS_MAX,
  RESULT_CHARS_MAX,
} from "../../src/sandbox/protocol.ts";

const MESSAGES = Deno.env.get("ZONEWRIGHT_CHAOS") === "full" ? 100_000 : 1000;
/** Bytes of a character of JSON text in UTF-8, at most. */
const CHAR_BYTES_MAX = 3;
/** Characters of the text of a task, as document 2's interface takes it. */
const SOURCE_CHARS_MAX = 256 * 1024;
/** Characters of a source as a JSON text: each may be written as an escape. */
const ESCAPED = 6;

Deno.test("readAgentLine() reads what agentLine() has written, whatever the texts", () => {
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

Deno.test("the limits of single values fit into the limits of messages", () => {
  const head = 64 * 1024;
  const run = JOB_CHARS_MAX + SOURCE_CHARS_MAX * ESCAPED / CHAR_BYTES_MAX + ERROR_CHARS_MAX + head;
  const toGuest = Math.max(run, REPLY_CHARS_MAX + head);
  const told = Math.max(RESULT_CHARS_MAX, ERROR_CHARS_MAX * ESCAPED / CHAR_BYTES_MAX);
  const fromGuest = Math.max(JOB_LEFT_CHARS_MAX + told, ARGS_CHARS_MAX) + head;
  assertEquals(toGuest * CHAR_BYTES_MAX <= AGENT_MESSAGE_BYTES_MAX, true);
  assertEquals(fromGuest * CHAR_BYTES_MAX <= MESSAGE_BYTES_MAX, true);
});

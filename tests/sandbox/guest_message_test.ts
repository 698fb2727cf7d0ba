// The parser of what guests send: a guest is not believed.

import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import fc from "fast-check";
import { DEFAULT_LIMITS as LIMITS } from "../../src/config/limits.ts";
import { AgentError } from "../../src/domain/error.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { parseGuestMessage } from "../../src/sandbox/untrusted_message.ts";
import {
  CALL_CHARS_MAX,
  CALL_VALUES_MAX,
  END_VALUES_MAX,
  ERROR_JSON_CHARS_MAX,
  JOB_LEFT_CHARS_MAX,
  LOG_CHARS_MAX,
} from "../../src/wall/task_limits.ts";

const nested = (levels: number) => "[".repeat(levels) + "]".repeat(levels);
const parseLine = (line: string) => parseGuestMessage(line, LIMITS);
const parse = (message: unknown) => parseLine(JSON.stringify(message));

function refuses(line: string, why: string): void {
  const error = assertThrows(() => parseLine(line), AgentError, why);
  assertEquals(error.code, "malformed");
}

const CHECK = { check: "read", ok: true, detail: "refused" };

Deno.test("parseGuestMessage() reads each message of the protocol", () => {
  assertEquals(parse({ type: "ready", checks: [CHECK] }), { type: "ready", checks: [CHECK] });
  const call = { type: "call", run: 1, call: 2, name: "vmadm.get", args: ["x", { a: [null] }] };
  assertEquals<unknown>(parse(call), call);
  const log = { type: "log", run: 1, level: "warn", message: "m", fields: { a: 1 } };
  assertEquals<unknown>(parse(log), log);
  assertEquals(parse({ type: "closed", run: 3, spent: false }), {
    type: "closed",
    run: 3,
    spent: false,
  });
  for (
    const outcome of [
      { kind: "success", result: null, job: {} },
      { kind: "failure", error: "no", job: null },
      { kind: "failure", error: { name: "E", message: "m" }, job: { a: 1 } },
      { kind: "signal", word: "wait", result: "OK", job: {} },
    ]
  ) {
    assertEquals<unknown>(parse({ type: "end", run: 1, outcome }), {
      type: "end",
      run: 1,
      outcome,
    });
  }
});

Deno.test("parseGuestMessage() leaves out what does not belong to a message", () => {
  assertEquals(parse({ type: "closed", run: 1, spent: true, uuid: "x", execution: "succeeded" }), {
    type: "closed",
    spent: true,
    run: 1,
  });
});

Deno.test("parseGuestMessage() refuses anything but a message, and says why", () => {
  refuses("", "it is not JSON");
  refuses("{", "it is not JSON");
  refuses("[]", "it is not an object");
  refuses("null", "it is not an object");
  refuses('"end"', "it is not an object");
  refuses("{}", "its type is unknown");
  refuses('{"type":"run","run":1}', "its type is unknown");
  refuses('{"type":"closed"}', "run is not a counter");
  refuses('{"type":"closed","run":1,"spent":0}', "spent is not true or false");
  refuses('{"type":"closed","run":-1}', "run is not a counter");
  refuses('{"type":"closed","run":1.5}', "run is not a counter");
  refuses('{"type":"closed","run":"1"}', "run is not a counter");
  refuses('{"type":"closed","run":1e300}', "run is not a counter");
  refuses('{"type":"ready"}', "checks is not a list");
  refuses('{"type":"ready","checks":[7]}', "a check is not an object");
  refuses('{"type":"ready","checks":[{"check":"read","ok":1,"detail":""}]}', "ok is not true or");
  refuses('{"type":"ready","checks":[{"check":"read","ok":true}]}', "detail is not a text");
});

Deno.test("parseGuestMessage() refuses calls of anything but a capability", () => {
  const call = { type: "call", run: 1, call: 1, args: [] };
  for (const name of ["vmadm.destroy", "__proto__", "constructor", "", 7, null, ["info"]]) {
    refuses(JSON.stringify({ ...call, name }), "name is not one of the known words");
  }
  refuses(JSON.stringify({ ...call, name: "info", args: {} }), "args is not a list");
  refuses(JSON.stringify({ ...call, name: "info", args: Array(9).fill(1) }), "more than 8 members");
});

Deno.test("parseGuestMessage() refuses an outcome that is not whole", () => {
  const end = (outcome: unknown) => JSON.stringify({ type: "end", run: 1, outcome });
  refuses(end(null), "outcome is not an object");
  refuses(end({ kind: "timeout" }), "kind is not one of the known words");
  refuses(end({ kind: "success", job: {} }), "result is missing");
  refuses(end({ kind: "success", result: 1, job: [] }), "job is not an object");
  refuses(end({ kind: "success", result: 1, job: null }), "job is not an object");
  refuses(end({ kind: "signal", word: "queued", result: 1, job: {} }), "word is not one");
});

Deno.test("parseGuestMessage() drops keys named __proto__ at every level", () => {
  const line = '{"type":"call","run":1,"call":1,"name":"info","__proto__":{"name":"x"},' +
    '"args":[{"a":1,"__proto__":{"polluted":true},"b":[{"\\u005f_proto__":{"polluted":1}}]}]}';
  const message = parseLine(line);
  assert(message.type === "call");
  assertEquals(JSON.stringify(message.args), '[{"a":1,"b":[{}]}]');
  assert(!("flaw" in message.args));
  assertEquals("polluted" in Object.assign({}, Object(message.args[0])), false);
});

Deno.test("parseGuestMessage() takes no field from a prototype", () => {
  refuses('{"type":"closed","__proto__":{"run":1}}', "run is not a counter");
});

Deno.test("parseGuestMessage() makes what is nested too deep an error of its task", () => {
  for (const levels of [101, 9_000]) {
    const deep = nested(levels);
    const call = parseLine(
      `{"type":"call","run":1,"call":1,"name":"info","args":[${deep}]}`,
    );
    assert(call.type === "call");
    assertEquals(call.args, { flaw: "is nested deeper than 100 levels" });
    const log = parseLine(
      `{"type":"log","run":1,"level":"info","message":"m","fields":{"a":${deep}}}`,
    );
    assert(log.type === "log");
    assertEquals(log.fields, { fields: "is nested deeper than 100 levels" });
    const reported = (outcome: string) => {
      const message = parseLine(`{"type":"end","run":1,"outcome":${outcome}}`);
      assert(message.type === "end");
      return message.outcome;
    };
    const failed = (noun: string, job: JsonObject | null) => {
      const message = `Cannot record the ${noun}: it is nested deeper than 100 levels`;
      return { kind: "failure" as const, error: { name: "RangeError", message }, job };
    };
    const job = { a: 1 };
    const kept = JSON.stringify(job);
    assertEquals(
      reported(`{"kind":"success","result":${deep},"job":${kept}}`),
      failed("result", job),
    );
    assertEquals(
      reported(`{"kind":"success","result":1,"job":{"a":${deep}}}`),
      failed("job", null),
    );
    assertEquals(
      reported(`{"kind":"failure","error":${deep},"job":${kept}}`),
      failed("error", job),
    );
    assertEquals(
      reported(`{"kind":"signal","word":"wait","result":${deep},"job":${kept}}`),
      failed("result", job),
    );
  }
});

Deno.test("parseGuestMessage() takes values up to the limit of nesting", () => {
  const line = `{"type":"call","run":1,"call":1,"name":"info","args":[${nested(100)}]}`;
  const call = parseLine(line);
  assert(call.type === "call");
  assertEquals(JSON.stringify(call.args), `[${nested(100)}]`);
});

Deno.test("parseGuestMessage() makes a number that is too large an error of its task", () => {
  const end = parseLine(
    `{"type":"end","run":1,"outcome":{"kind":"success","result":[{"n":1e400}],"job":{}}}`,
  );
  assert(end.type === "end");
  const message = "Cannot record the result: it has a number that is too large";
  const error = { name: "RangeError", message };
  assertEquals(end.outcome, { kind: "failure", error, job: {} });
  const call = parseLine(
    `{"type":"call","run":1,"call":1,"name":"info","args":[-1e400]}`,
  );
  assert(call.type === "call");
  assertEquals(call.args, { flaw: "has a number that is too large" });
});

Deno.test("parseGuestMessage() makes what is over its limit an error of its task", () => {
  const end = (outcome: JsonObject) => {
    const message = parse({ type: "end", run: 1, outcome });
    assert(message.type === "end");
    return message.outcome;
  };
  const text = (chars: number) => "x".repeat(chars - 2);
  const limits: readonly (readonly [string, number, (value: string) => JsonObject])[] = [
    ["error", ERROR_JSON_CHARS_MAX, (error) => ({ kind: "failure", error, job: {} })],
    ["result", LIMITS.resultCharsMax, (result) => ({ kind: "success", result, job: {} })],
    [
      "result",
      LIMITS.resultCharsMax,
      (result) => ({ kind: "signal", word: "wait", result, job: {} }),
    ],
    [
      "job",
      JOB_LEFT_CHARS_MAX,
      (a) => ({ kind: "success", result: 1, job: { a: a.slice(6) } }),
    ],
  ];
  for (const [noun, charsMax, outcome] of limits) {
    assertEquals(end(outcome(text(charsMax))), outcome(text(charsMax)));
    const reported = `it has ${charsMax + 1} characters of JSON, over ${charsMax}`;
    const error = { name: "RangeError", message: `Cannot record the ${noun}: ${reported}` };
    const job = noun === "job" ? null : {};
    assertEquals(end(outcome(text(charsMax + 1))), { kind: "failure", error, job });
  }
  const call = parse({
    type: "call",
    run: 1,
    call: 1,
    name: "info",
    args: [text(CALL_CHARS_MAX + 1)],
  });
  assert(call.type === "call");
  const flaw = `has ${CALL_CHARS_MAX + 1} characters of JSON, over ${CALL_CHARS_MAX}`;
  assertEquals(call.args, { flaw });
  const fields = { a: text(LOG_CHARS_MAX) };
  const log = parse({ type: "log", run: 1, level: "info", message: "m", fields });
  assert(log.type === "log");
  assertEquals(log.fields, {
    fields: `has ${LOG_CHARS_MAX + 6} characters of JSON, over 8192`,
  });
});

Deno.test("parseGuestMessage() throws nothing but `malformed` for any JSON", () => {
  fc.assert(fc.property(fc.json(), fc.constantFrom("call", "log", "end", "ready"), (json, type) => {
    for (const line of [json, `{"type":"${type}","run":1,"outcome":${json},"args":${json}}`]) {
      try {
        parseLine(line);
      } catch (error) {
        assert(error instanceof AgentError && error.code === "malformed");
      }
    }
  }));
});

/** A line as a guest writes it: what is large stands in front. */
const callLine = (args: string) =>
  `{"args":${args},"name":"vmadm.create","call":7,"type":"call","run":3}`;
const manyKeys = (count: number) =>
  JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, key) => [`k${key}`, 1])));

Deno.test("parseGuestMessage() takes no call, line or end of too many values, and parses none", () => {
  const call = { type: "call", run: 3, call: 7, name: "vmadm.create" };
  assertEquals<unknown>(parseLine(callLine(`[${manyKeys(CALL_VALUES_MAX + 1)}]`)), {
    ...call,
    args: { flaw: "has more than 10000 values" },
  });
  const kept = parseLine(callLine(`[${manyKeys(CALL_VALUES_MAX - 8)}]`));
  assert(kept.type === "call" && Array.isArray(kept.args));
  // Commas in a text are no values.
  const commas = parseLine(callLine(`[${JSON.stringify(",".repeat(200_000))}]`));
  assert(commas.type === "call" && Array.isArray(commas.args));
  const fields = manyKeys(CALL_VALUES_MAX + 1);
  assertEquals<unknown>(
    parseLine(`{"fields":${fields},"message":"m","level":"warn","type":"log","run":3}`),
    {
      type: "log",
      run: 3,
      level: "warn",
      message: "The line has more than 10000 values",
      fields: {},
    },
  );
  const end = (values: number) =>
    `{"outcome":{"kind":"success","result":[0${
      ",0".repeat(values)
    }],"job":{}},"type":"end","run":3}`;
  const over = parseLine(end(END_VALUES_MAX));
  assert(over.type === "end" && over.outcome.kind === "failure");
  assertEquals([over.run, over.outcome.job], [3, null]);
  assertStringIncludes(JSON.stringify(over.outcome.error), "it has more than 1000000 values");
  const fits = parseLine(end(400_000));
  assert(fits.type === "end" && fits.outcome.kind === "success");
  refuses(`[0${",0".repeat(CALL_VALUES_MAX)}]`, "it has too many values");
  refuses(callLine(`[${manyKeys(CALL_VALUES_MAX + 1)}]`).replace("create", "nothing"), "too many");
});

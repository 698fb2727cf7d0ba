// The parser of what guests send: a guest is not believed.

import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { AgentError } from "../../src/domain/error.ts";
import { parseGuestMessage } from "../../src/sandbox/guest_message.ts";

const parse = (message: unknown) => parseGuestMessage(JSON.stringify(message));

function refuses(line: string, why: string): void {
  const error = assertThrows(() => parseGuestMessage(line), AgentError, why);
  assertEquals(error.code, "malformed");
}

Deno.test("parseGuestMessage() reads each message of the protocol", () => {
  assertEquals(parse({ type: "ready", problems: [] }), { type: "ready", problems: [] });
  const call = { type: "call", run: 1, call: 2, name: "vmadm.get", args: ["x", { a: [null] }] };
  assertEquals<unknown>(parse(call), call);
  const log = { type: "log", run: 1, level: "warn", message: "m", fields: { a: 1 } };
  assertEquals<unknown>(parse(log), log);
  assertEquals(parse({ type: "closed", run: 3 }), { type: "closed", run: 3 });
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
  assertEquals(parse({ type: "closed", run: 1, uuid: "x", execution: "succeeded" }), {
    type: "closed",
    run: 1,
  });
});

Deno.test("parseGuestMessage() refuses what is no message, and says why", () => {
  refuses("", "it is not JSON");
  refuses("{", "it is not JSON");
  refuses("[]", "it is not an object");
  refuses("null", "it is not an object");
  refuses('"end"', "it is not an object");
  refuses("{}", "its type is unknown");
  refuses('{"type":"run","run":1}', "its type is unknown");
  refuses('{"type":"closed"}', "run is not a counter");
  refuses('{"type":"closed","run":-1}', "run is not a counter");
  refuses('{"type":"closed","run":1.5}', "run is not a counter");
  refuses('{"type":"closed","run":"1"}', "run is not a counter");
  refuses('{"type":"closed","run":1e300}', "run is not a counter");
  refuses('{"type":"ready"}', "problems is no list");
});

Deno.test("parseGuestMessage() refuses calls of anything but a capability", () => {
  const call = { type: "call", run: 1, call: 1, args: [] };
  for (const name of ["vmadm.destroy", "__proto__", "constructor", "", 7, null, ["info"]]) {
    refuses(JSON.stringify({ ...call, name }), "name is not one of the known words");
  }
  refuses(JSON.stringify({ ...call, name: "info", args: {} }), "args is not a list");
  refuses(JSON.stringify({ ...call, name: "info", args: Array(9).fill(1) }), "over 8 members");
});

Deno.test("parseGuestMessage() refuses an outcome that is not whole", () => {
  const end = (outcome: unknown) => JSON.stringify({ type: "end", run: 1, outcome });
  refuses(end(null), "outcome is not an object");
  refuses(end({ kind: "timeout" }), "the kind of its outcome is unknown");
  refuses(end({ kind: "success", job: {} }), "result is missing");
  refuses(end({ kind: "success", result: 1, job: [] }), "job is not an object");
  refuses(end({ kind: "success", result: 1, job: null }), "job is not an object");
  refuses(end({ kind: "signal", word: "queued", result: 1, job: {} }), "word is not one");
});

Deno.test("parseGuestMessage() drops keys named __proto__ at every level", () => {
  const line = '{"type":"call","run":1,"call":1,"name":"info","__proto__":{"name":"x"},' +
    '"args":[{"a":1,"__proto__":{"polluted":true},"b":[{"\\u005f_proto__":{"polluted":1}}]}]}';
  const message = parseGuestMessage(line);
  assert(message.type === "call");
  assertEquals(JSON.stringify(message.args), '[{"a":1,"b":[{}]}]');
  assertEquals("polluted" in Object.assign({}, Object(message.args[0])), false);
});

Deno.test("parseGuestMessage() takes no field from a prototype", () => {
  refuses('{"type":"closed","__proto__":{"run":1}}', "run is not a counter");
});

Deno.test("parseGuestMessage() refuses what is nested too deep, without overflowing", () => {
  const deep = (levels: number) =>
    `{"type":"call","run":1,"call":1,"name":"info","args":[${"[".repeat(levels)}${
      "]".repeat(levels)
    }]}`;
  assertEquals(parseGuestMessage(deep(90)).type, "call");
  refuses(deep(110), "nested deeper than 100");
  refuses(deep(1_000_000), "nested deeper than 100");
});

Deno.test("parseGuestMessage() throws nothing but `malformed` for any JSON", () => {
  fc.assert(fc.property(fc.json(), fc.constantFrom("call", "log", "end", "ready"), (json, type) => {
    for (const line of [json, `{"type":"${type}","run":1,"outcome":${json},"args":${json}}`]) {
      try {
        parseGuestMessage(line);
      } catch (error) {
        assert(error instanceof AgentError && error.code === "malformed");
      }
    }
  }));
});

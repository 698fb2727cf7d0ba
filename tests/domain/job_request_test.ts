import { assertEquals, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { WorkflowUuid } from "../../src/domain/id.ts";
import { type JobLimits, parseJobRequest, parseResume } from "../../src/domain/job/request.ts";
import { uuidOf } from "../support/job.ts";

const LIMITS: JobLimits = {
  targetCharsMax: 10,
  paramsCharsMax: 40,
  callbackHosts: ["tell.example", "tell.example:8443", "[::1]:9000"],
};
const workflow = uuidOf<WorkflowUuid>(1);

function refusal(body: unknown, limits = LIMITS): AgentError {
  return assertThrows(() => parseJobRequest(body, limits), AgentError);
}

Deno.test("parseJobRequest() turns every other key into a param", () => {
  const request = parseJobRequest({ workflow, a: 1, uuid: "x", params: { b: 2 } }, LIMITS);
  assertEquals(request, {
    workflow_uuid: workflow,
    exec_after: null,
    target: null,
    locks: null,
    callback_url: null,
    params: { a: 1, uuid: "x", params: { b: 2 } },
  });
});

Deno.test("parseJobRequest() accepts target and params at their limits and refuses longer ones", () => {
  const text = "x".repeat(40 - '{"a":""}'.length);
  parseJobRequest({ workflow, target: "t".repeat(10), a: text }, LIMITS);
  assertEquals(refusal({ workflow, a: `${text}x` }).code, "too_large");
  const long = refusal({ workflow, target: "t".repeat(11) });
  assertEquals(long.errors, [{
    field: "target",
    code: "TooLarge",
    message: 'target must be a text of 1 to 10 characters, found "ttttttttttt"',
  }]);
});

Deno.test("parseJobRequest() accepts a lock of 256 characters and refuses one of 257", () => {
  const locks = "l".repeat(256);
  assertEquals(parseJobRequest({ workflow, locks }, LIMITS).locks, locks);
  assertEquals(refusal({ workflow, locks: `${locks}l` }).errors[0]?.code, "TooLarge");
});

Deno.test("parseJobRequest() refuses null and the empty text for typed fields", () => {
  for (const field of ["workflow", "target", "exec_after", "locks", "callback_url"]) {
    for (const value of [null, "", 7, [], {}, true]) {
      const error = refusal({ workflow, [field]: value });
      assertEquals(error.errors.map((found) => found.field), [field]);
    }
  }
});

Deno.test("parseJobRequest() refuses a text that a column cannot hold", () => {
  for (const field of ["target", "locks", "callback_url"]) {
    for (const value of ["a\0b", "half \ud83d"]) {
      assertEquals(refusal({ workflow, [field]: value }).errors[0]?.field, field);
    }
  }
});

Deno.test("parseJobRequest() keeps __proto__ as a param", () => {
  const body = JSON.parse(`{"workflow":"${workflow}","__proto__":{"target":"x"}}`);
  const request = parseJobRequest(body, LIMITS);
  assertEquals(request.target, null);
  assertEquals(JSON.stringify(request.params), '{"__proto__":{"target":"x"}}');
});

Deno.test("parseJobRequest() accepts a callback to a listed host, port included", () => {
  for (
    const url of [
      "http://tell.example/",
      "https://tell.example/done?job=1",
      "https://tell.example:443/",
      "http://tell.example:8443/",
      "http://[::1]:9000/",
    ]
  ) {
    const { callback_url } = parseJobRequest({ workflow, callback_url: url }, LIMITS);
    assertEquals(callback_url, new URL(url).href);
  }
  for (
    const url of [
      "http://tell.example:8080/",
      "http://127.0.0.1/",
      "http://tell.example.evil/",
      "http://evil/?tell.example",
      "http://evil\\@tell.example:1/",
    ]
  ) {
    const error = refusal({ workflow, callback_url: url });
    assertEquals([error.code, error.errors[0]?.field], ["forbidden", "callback_url"]);
  }
});

Deno.test("parseJobRequest() refuses every callback while no host is allowed", () => {
  const error = refusal({ workflow, callback_url: "http://tell.example/" }, {
    ...LIMITS,
    callbackHosts: [],
  });
  assertEquals(error.code, "forbidden");
});

Deno.test("parseJobRequest() refuses a callback that is not a plain URL", () => {
  for (
    const callback_url of [
      "tell.example",
      "file:///etc/passwd",
      "javascript:alert(1)",
      "ftp://tell.example/",
      "http://user@tell.example/",
      "http://user:secret@tell.example/",
      "http://tell.example/#part",
      "http://",
    ]
  ) {
    const error = refusal({ workflow, callback_url });
    assertEquals([error.code, error.errors[0]?.field], ["invalid_argument", "callback_url"]);
  }
});

Deno.test("parseResume() fails the job when error is given, whatever its value", () => {
  for (const error of ["x", "", null, 0, false, {}, []]) {
    assertEquals(parseResume({ error }).kind, "error");
  }
  assertEquals(parseResume({}), { kind: "result", result: "OK" });
  assertEquals(parseResume({ result: null }), { kind: "result", result: null });
  for (const body of [null, [], "x", 1]) assertThrows(() => parseResume(body), AgentError);
});

Deno.test("parseResume() keeps an error that is not a text as JSON, beside the result", () => {
  assertEquals(parseResume({ error: { code: 7 }, result: [1] }), {
    kind: "error",
    error: '{"code":7}',
    result: [1],
  });
});

Deno.test("parseResume() by node-workflow's rules ignores a falsy error", () => {
  const rules = { defaultResult: "External task: OK", falsyErrorFails: false };
  for (const error of ["", null, 0, false]) {
    assertEquals(parseResume({ error }, rules), { kind: "result", result: "External task: OK" });
  }
  assertEquals(parseResume({ error: {} }, rules).kind, "error");
});

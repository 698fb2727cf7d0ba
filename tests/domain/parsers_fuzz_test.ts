// What comes from outside, at random: every parser either reads a value, which reads back the same,
// or refuses it with an AgentError. Nothing else is ever thrown, and no input takes long.

import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { AgentError, type ErrorCode } from "../../src/domain/error.ts";
import { randomUuid, type WorkflowUuid } from "../../src/domain/id.ts";
import { instantOf } from "../../src/domain/instant.ts";
import { parseJobRequest, parseLockPattern, parseResume } from "../../src/domain/job/request.ts";
import { executionOnWire, parseExecutionFilter } from "../../src/domain/job/wire.ts";
import { functionProblem } from "../../src/decoder/work/task_sources.ts";
import { parseWorkflow } from "../support/parsed_workflow.ts";
import { uuidOf } from "../support/job.ts";

/** Inputs in all of an ordinary run; the long run names another number. */
const INPUTS = Number(Deno.env.get("ZONEWRIGHT_TEST_INPUTS") ?? 14_000);
const PARSERS = 7;
/** Far beyond what any input takes: what passes it would hold up the whole agent. */
const LONGEST_MS = 5_000;

const UUID = uuidOf<WorkflowUuid>(7);
const REFUSALS: readonly ErrorCode[] = ["invalid_argument", "too_large", "forbidden"];

/** What a parser has read, or undefined when it has refused it as it should. */
function read<T>(parse: () => T): T | undefined {
  const began = performance.now();
  try {
    return parse();
  } catch (error) {
    return refusal(error);
  } finally {
    const tookMs = performance.now() - began;
    assert(tookMs < LONGEST_MS, `one input took ${tookMs} ms`);
  }
}

function refusal(error: unknown): undefined {
  if (!(error instanceof AgentError)) throw error;
  assert(REFUSALS.includes(error.code), `refused as ${error.code}`);
  assert(error.message.startsWith("Cannot "), error.message);
}

function fuzz<T>(name: string, inputs: fc.Arbitrary<T>, check: (input: T) => void): void {
  const numRuns = Math.ceil(INPUTS / PARSERS);
  Deno.test(`${name} reads or refuses ${numRuns} inputs at random`, () => {
    fc.assert(fc.property(inputs, check), { numRuns });
  });
}

/** Texts of any code units, also halves of characters. */
const anyText = fc.oneof(
  fc.string({ unit: "grapheme" }),
  fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)) }),
);
const anyJson = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom(null, "", 0, -1, 1.5, 1e300, true, [], {}, "x".repeat(300)),
  anyText,
);
/** Texts that are put together from the words of a language. */
const textOf = (words: readonly string[], maxLength: number) =>
  fc.array(fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...words) }, anyText), { maxLength })
    .map((parts) => parts.join(""));
/** An object of which each field is as it should be, anything else, or not there. */
const objectOf = (fields: Record<string, fc.Arbitrary<unknown>>) =>
  fc.tuple(
    fc.record(
      Object.fromEntries(
        Object.entries(fields).map(([key, value]) =>
          [key, fc.oneof({ weight: 25, arbitrary: value }, anyJson)] as const
        ),
      ),
      { requiredKeys: [] },
    ),
    fc.dictionary(fc.oneof(anyText, fc.constantFrom("__proto__", "uuid", "constructor")), anyJson, {
      maxKeys: 3,
    }),
  ).map(([known, other]) => asSent({ ...other, ...known }));

/** A value as it comes out of the JSON of a request. */
function asSent(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value) ?? "null");
}

const CODE = (
  "function async await yield => ( ) { } [ ] , ; : ? ?. . ... = == + - ! * ** / // /* */ ` ${ ' \" " +
  "job cb err x 0 0x 1n 1e 08 .5 \\ \\u{61} #a class extends super new new.target this import " +
  "import( return var let const if for while do switch case try catch throw delete typeof in of " +
  "arguments eval static get set label: <!-- --> /(?<n>a)/u /[/ /a/v \\8 @"
).split(" ").concat(" ", "\n", "\u2028", "\0", "(job, cb)", "{ cb(); }");
const NESTING = [
  "(",
  "[",
  "{",
  "!",
  "-",
  "a=>",
  "async(",
  "`${",
  "new ",
  "a?",
  "function(){",
  "/(",
  "a=[",
  "({a:",
  "class{a=",
  "if(a)",
  "a.b(",
  "...",
  "a**",
  "await ",
];
const anySource = fc.oneof(
  { weight: 300, arbitrary: textOf(CODE, 30) },
  { weight: 300, arbitrary: textOf(CODE, 20).map((body) => `function (job, cb) {${body}}`) },
  { weight: 150, arbitrary: textOf(CODE, 20).map((body) => `async (job, cb) => ${body}`) },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.constantFrom(...NESTING), fc.integer({ min: 1, max: 20_000 }))
      .map(([open, times]) => open.repeat(times)),
  },
);

fuzz("functionProblem()", anySource, (source) => {
  if (read(() => functionProblem(source)) !== undefined) return;
  // What the parser takes for a function the engine can compile; nothing of it is run. Beyond ASCII
  // they go by different editions of Unicode.
  if (/^[\0-\x7f]*$/.test(source)) new Function(`return (${source}\n)`);
});

const LIMITS = { tasksMax: 3, sourceCharsMax: 80, retryMax: 5, timeoutSecondsMax: 100 };
const anyTask = objectOf({
  uuid: fc.constantFrom(UUID, UUID.toUpperCase()),
  name: anyText,
  body: fc.oneof(fc.constant("function (job, cb) { cb(); }"), textOf(CODE, 10)),
  fallback: fc.constant("(err, job, cb) => cb()"),
  retry: fc.integer({ min: -1, max: 6 }),
  timeout: fc.integer({ min: -1, max: 101 }),
  retry_delay: fc.integer({ min: -1, max: 101 }),
});
const anyTasks = fc.array(anyTask, { maxLength: 4 });
const anyWorkflow = objectOf({
  name: anyText,
  chain: anyTasks,
  "chain[]": anyTasks,
  onerror: anyTasks,
  "onerror[]": anyTasks,
  oncancel: anyTasks,
  timeout: fc.integer({ min: -1, max: 101 }),
  wf_uuid: fc.constant(UUID),
});

fuzz("parseWorkflow()", fc.oneof({ weight: 9, arbitrary: anyWorkflow }, anyJson), (body) => {
  const workflow = read(() => parseWorkflow(body, UUID, randomUuid, LIMITS));
  if (workflow === undefined) return;
  assertEquals(parseWorkflow(asSent(workflow), UUID, randomUuid, LIMITS), workflow);
  const tasks = [...workflow.chain, ...workflow.onerror, ...workflow.oncancel ?? []];
  for (const { uuid, body } of tasks) {
    assertEquals([typeof uuid, typeof body], ["string", "string"]);
  }
});

const JOB_LIMITS = { targetCharsMax: 20, paramsCharsMax: 200, callbackHosts: ["tell.example"] };
const URLS = [
  "http",
  "https",
  ":",
  "//",
  "/",
  "tell.example",
  "@",
  "#",
  "?",
  "%",
  "\\",
  ":80",
  "user",
];
const anyJob = objectOf({
  workflow: fc.constantFrom(UUID, UUID.toUpperCase()),
  exec_after: fc.constantFrom("2026-01-01", "2026-01-01T00:00:00+05:30", "2026-02-30"),
  target: anyText,
  locks: anyText,
  callback_url: fc.oneof(fc.constant("http://tell.example/x"), textOf(URLS, 8)),
});

fuzz("parseJobRequest()", fc.oneof({ weight: 9, arbitrary: anyJob }, anyJson), (body) => {
  const request = read(() => parseJobRequest(body, JOB_LIMITS));
  if (request === undefined) return;
  const { workflow_uuid: workflow, params, ...named } = request;
  const given = Object.entries(named).filter(([, value]) => value !== null);
  const again = { ...params, workflow, ...Object.fromEntries(given) };
  assertEquals(parseJobRequest(asSent(again), JOB_LIMITS), request);
});

const RULES = [
  { defaultResult: "OK", falsyErrorFails: true },
  { defaultResult: "External task: OK", falsyErrorFails: false },
];
const anyResume = fc.oneof(objectOf({ error: anyJson, result: anyJson }), anyJson);

fuzz("parseResume()", fc.tuple(anyResume, fc.constantFrom(...RULES)), ([body, rules]) => {
  const resume = read(() => parseResume(body, rules));
  if (resume === undefined) return;
  // An empty error is none to clients of node-workflow; read back it would be another outcome.
  if (resume.kind === "error" && resume.error === "") return;
  const { kind: _kind, ...again } = resume;
  assertEquals(parseResume(asSent(again), rules), resume);
});

const DATES =
  "2026 0000 9999 -01 -12 -13 -31 -30 -00 T Z 00 23 24 :00 :59 :60 .000 .5 ,123456789 +00:00 " +
  "+23:59 -24:00 +05 t z";
const anyDate = fc.oneof(
  textOf(DATES.split(" ").concat(" ", "\n"), 10),
  fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
  fc.tuple(
    fc.date({ min: new Date(0), max: new Date(4e12), noInvalidDate: true }),
    fc.constantFrom("+14:00", "-0330", "+00"),
  ).map(
    ([date, offset]) => date.toISOString().replace("Z", offset),
  ),
);

fuzz("instantOf()", anyDate, (text) => {
  const instant = instantOf(text);
  if (instant === undefined) return;
  assertEquals(new Date(instant).toISOString(), instant);
  assertEquals(instantOf(instant), instant);
  // Where the platform reads the text too, it reads the same.
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)$/.test(text)) {
    assertEquals(new Date(text).toISOString(), instant);
  }
});

const WORDS = [
  "succeeded",
  "success",
  "failed",
  "failure",
  "queued",
  "running",
  "waiting",
  "canceled",
  "retried",
  "Queued",
  "cancelled",
  " ",
  ",",
  "constructor",
];

fuzz("parseExecutionFilter()", textOf(WORDS, 2), (word) => {
  const execution = read(() => parseExecutionFilter(word));
  if (execution === undefined) return;
  const words = [execution, executionOnWire(execution, "document")];
  assert(words.includes(word), `${word} is read as ${execution}`);
});

const PATTERNS = (
  "( ) (?: (?i) (?s: (?P<n> (?<n> (?= (?! (?<= [ ] [^ [[:alpha:]] [a- -z] { } {2} {2,} {0,9} {1000} {1001} " +
  "* + ? *? ++ | ^ $ . \\ \\d \\W \\b \\B \\A \\z \\Z \\1 \\k<n> \\pL \\p{Greek} \\P{Lu} \\x{10ffff} \\x{110000} " +
  "\\x4 \\Q \\E \\C \\u0061 a b / - , é"
).split(" ").concat(" ", "\n", "\0");
const anyPattern = fc.tuple(textOf(PATTERNS, 40).map((text) => text.slice(0, 256)), anyText);

Deno.test("parseLockPattern() reads or refuses patterns at random", async () => {
  const numRuns = Math.ceil(INPUTS / PARSERS);
  await fc.assert(
    fc.asyncProperty(anyPattern, async ([text, target]) => {
      const pattern = await parseLockPattern(text).catch(refusal);
      if (pattern === undefined) return;
      const found = read(() => pattern.matches(target));
      assertEquals((await parseLockPattern(text)).matches(target), found);
      for (const other of ["", "/machines/7", "a".repeat(200)]) read(() => pattern.matches(other));
    }),
    { numRuns },
  );
});

// `workflow validate`: what it says to files, and that this is what an agent would say.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { readObject } from "../../src/cli/client/answer.ts";
import { withWorkflowCheck } from "../../src/cli/workflow/check.ts";
import { tasksDigest } from "../../src/domain/taking.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { withHttpAgent } from "../http/http_agent.ts";
import { withFolder } from "../support/until.ts";
import { document, openScreen } from "./screen.ts";

const GREET = { name: "greet", body: "(job, cb) => cb(null, 'Hello')" };
const HELLO = { name: "hello", chain: [GREET] };
const BROKEN = {
  name: "broken",
  chain: [GREET, {
    name: "ask",
    body: "async function ask(job, cb) {\n\tconst x = 1;\n\tcb(null 'asked');\n}",
  }],
};

/** Runs the command in a folder with these files, or with this on standard input. */
async function validate(
  files: Readonly<Record<string, unknown>>,
  args: readonly string[],
  input = "",
) {
  return await withFolder(async (cwd) => {
    for (const [name, value] of Object.entries(files)) {
      const text = typeof value === "string" ? value : JSON.stringify(value);
      await Deno.writeTextFile(join(cwd, name), text);
    }
    const screen = openScreen({ cwd, input });
    const code = await screen.run("workflow", "validate", ...args);
    return { ...screen, code };
  });
}

Deno.test("a file of the name /dev/stdin is standard input, as - is", async () => {
  for (const name of ["-", "/dev/stdin"]) {
    const { code, err } = await validate({}, [name], JSON.stringify(HELLO));
    assertEquals([name, code], [name, 0], err());
  }
});

Deno.test("a byte order mark at the start of a file is passed over", async () => {
  const { code, err } = await validate({ "a.json": `\uFEFF${JSON.stringify(HELLO)}` }, ["a.json"]);
  assertEquals(code, 0, err());
});

Deno.test("workflow validate says ok for a file that an agent would accept", async () => {
  const { code, out, err } = await validate({ "hello.json": HELLO }, ["-f", "hello.json"]);
  assertEquals([code, out(), err()], [0, 'hello.json: ok: workflow "hello" with 1 task\n', ""]);
});

Deno.test("workflow validate names the task, and line and column as its author counts", async () => {
  const { code, out } = await validate({ "a.json": BROKEN }, ["-f", "a.json"]);
  const message = 'chain[1].body (task "ask") is not a function definition: ' +
    'found an unexpected "\'"';
  assertEquals(code, 2);
  assertEquals(
    out(),
    `a.json: error: ${message} in line 3, column 10\n` +
      "     cb(null 'asked');\n" +
      "             ^\n",
  );
});

Deno.test("workflow validate shows the part of a long line in which the error is", async () => {
  const body = `(job, cb) => { ${"cb(); ".repeat(40)} cb(1 2); ${"cb(); ".repeat(40)} }`;
  const column = body.indexOf("2);") + 1;
  const workflow = { name: "long", chain: [{ body }] };
  const { out } = await validate({ "a.json": workflow }, ["-f", "a.json"]);
  const [head = "", line = "", mark = ""] = out().split("\n");
  assertStringIncludes(head, `in line 1, column ${column}`);
  assertEquals(line[mark.indexOf("^")], "2");
  assertEquals([line.trim()[0], line.at(-1), line.length < 80], ["…", "…", true]);
});

Deno.test("workflow validate --json has one entry for every finding of every file", async () => {
  const files = {
    "good.json": HELLO,
    "bad.json": { ...BROKEN, chain: [...BROKEN.chain, GREET], timeout: 0, onEror: [] },
  };
  const screen = await validate(files, ["-f", "good.json", "bad.json", "--json"]);
  assertEquals(screen.code, 2);
  assertEquals(document(screen), {
    ok: false,
    files: [
      {
        ...{ file: "good.json", ok: true, name: "hello", tasks: 1, errors: [], warnings: [] },
        digest: await tasksDigest({ ...HELLO, onerror: [] }),
      },
      {
        file: "bad.json",
        ok: false,
        errors: [
          {
            field: "timeout",
            code: "Invalid",
            message: "timeout must be an integer from 1 to 2592000, found 0",
          },
          {
            field: "onEror",
            code: "UnknownField",
            message: 'onEror is unknown: the nearest known name is "onerror"',
          },
          {
            field: "chain[1].body",
            code: "Invalid",
            message: "chain[1].body is not a function definition: " +
              `found an unexpected "'" in line 3, column 10`,
            task: "ask",
            line: 3,
            column: 10,
          },
        ],
        warnings: [{
          field: "chain[2].name",
          code: "LikelyMistake",
          message:
            "chain[2].name is also that of chain[0]: results, logs and retries cannot tell " +
            "them apart",
          task: "greet",
        }],
      },
    ],
  });
});

Deno.test("workflow validate reads standard input, and reports text that is not a workflow", async () => {
  const said = async (input: string) => {
    const { code, out } = await validate({}, ["-f", "-"], input);
    return [code, out().split("\n")[0]];
  };
  assertEquals(await said(JSON.stringify(HELLO)), [
    0,
    'standard input: ok: workflow "hello" with 1 task',
  ]);
  assertEquals(await said('{"name": }'), [
    2,
    "standard input: error: the workflow is not JSON: " +
    'found "}" in line 1, column 10, expected a value',
  ]);
  assertEquals(await said("[]"), [
    2,
    "standard input: error: Cannot accept the workflow: body must be an object, found a list",
  ]);
  const deep = `{"name":"deep","chain":[],"x":${"[".repeat(100)}${"]".repeat(100)}}`;
  assertEquals(await said(deep), [
    2,
    "standard input: error: the workflow is nested deeper than 64 levels",
  ]);
  assertEquals(await said('{"name":"large","x":1e999}'), [
    2,
    "standard input: error: the workflow holds a number beyond the range of a double",
  ]);
  const large = JSON.stringify({ ...HELLO, x: "x".repeat(2 * 1024 * 1024) });
  const size = `has ${large.length} bytes, expected at most 2097152`;
  assertEquals(await said(large), [2, `standard input: error: the workflow ${size}`]);
});

Deno.test("workflow validate warns of mistakes and still exits 0", async () => {
  const workflow = { name: "mistakes", chain: [{ ...GREET, timeout: 30_000 }] };
  const { code, out } = await validate({ "a.json": workflow }, ["a.json"]);
  assertEquals(code, 0);
  assertEquals(
    out(),
    'a.json: warning: chain[0].timeout (task "greet") is in seconds: if 30000 means milliseconds, ' +
      'write 30\na.json: ok: workflow "mistakes" with 1 task\n',
  );
});

Deno.test("workflow validate refuses a command line without files, and files that are not there", async () => {
  const none = await validate({}, []);
  assertEquals([none.code, none.out()], [2, ""]);
  assertStringIncludes(none.err(), "-f FILE is missing");
  const missing = await validate({ "a.json": HELLO }, ["-f", "a.json", "-f", "none.json"]);
  assertEquals([missing.code, missing.out()], [4, ""]);
  assertStringIncludes(missing.err(), 'Cannot read "none.json": it does not exist');
  const twice = await validate({}, ["-f", "-", "-"]);
  assertEquals(twice.code, 2);
});

Deno.test("text of a workflow cannot move the cursor of who validates it", async () => {
  const body = "(job, cb) => {\x1b[2J cb(1 2) }";
  const workflow = { name: "x", chain: [{ name: "\x1b[31m", body }] };
  const { out } = await validate({ "a.json": workflow }, ["a.json"]);
  assertEquals(out().includes("\x1b"), false);
});

/** Bodies that POST /workflows refuses, each for other reasons. */
const REFUSED: readonly JsonObject[] = [
  {},
  { name: "", chain: "x" },
  { name: "x".repeat(256), onerror: {}, oncancel: [1] },
  { name: "x", timeout: "60", chain: [{}, { body: 3 }, { body: "function () {" }] },
  { name: "x", chain: [{ body: "1 + 1" }, { body: "function* () {}" }, { body: "a => a; b" }] },
  { name: "x", chain: [{ ...GREET, retry: -1, timeout: 0.5, retry_delay: "1", modules: {} }] },
  { name: "x", "chain[]": [{ name: 3, body: "()=>1", fallback: "(" }] },
  { name: "x", chain: Array.from({ length: 1001 }, () => GREET) },
  { name: "x", chain: [{ body: `() => "${"x".repeat(256 * 1024)}"` }] },
];

Deno.test("workflow validate finds what POST /workflows finds", () =>
  withHttpAgent(async (agent) => {
    await withWorkflowCheck(async (check) => {
      for (const body of REFUSED) {
        const answer = await agent.call("POST", "/workflows", body);
        const { errors } = await check(JSON.stringify(body));
        const found = errors.map(({ field, code, message }) => ({ field, code, message }));
        const refused = readObject(answer.body, "the refusal");
        assertEquals([answer.status, refused.errors], [409, found]);
      }
    });
  }));

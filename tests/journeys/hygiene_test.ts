// What an agent leaves behind after callers who want it to leave too much: lines of its log and its
// audit that are forged or torn, secrets in either, and files that others could read.

import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { mapLimited } from "../../src/runtime/run.ts";
import { type Program, runProgram, startAgentProcess } from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";
import { hostileTexts } from "./hostile_text.ts";
import { eachProgram } from "../support/each_program.ts";

const TEXTS = 500;
const AT_A_TIME = 8;
const UUID = "0f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f";
/** Where each stands it may stand, and nowhere else. */
const CANARIES = { params: "canary-zq81-params", body: "canary-zq82-body", token: "zwt_" };
/** What a line must not hold as it is: a terminal that shows it would do what it says. */
// deno-lint-ignore no-control-regex
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/;

interface Asked {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

type Ask = (method: string, path: string, body?: unknown) => Promise<Asked>;

/** Sends a text in every field that takes one, and in some that do not. */
async function sendEverywhere(ask: Ask, text: string, n: number): Promise<Asked[]> {
  const key = `${text}${n}`;
  const task = { name: text, body: "function (job, cb) { cb(null, job.params.text); }" };
  const answers = [
    await ask("POST", "/workflows", { name: key, chain: [task], onerror: [task] }),
    await ask("POST", "/workflows", { name: `plain ${n}`, chain: [{ ...task, body: text }] }),
    await ask("POST", "/jobs", { workflow: text, target: text }),
    await ask("POST", "/agent/v1/machines", {
      uuid: text,
      machine: { brand: text, alias: text, hostname: text, ram: text, [text]: text },
      media: { path: text },
    }),
    await ask("POST", "/agent/v1/media", { url: text, digest: text }),
    await ask("POST", "/agent/v1/index/sync", { distro: text }),
    await ask("POST", `/agent/v1/machines/${encoded(text)}/stop`, {}),
    await ask("GET", `/jobs/${encoded(text)}`),
    await ask("GET", `/${encoded(text)}?${encoded(text)}=${encoded(text)}`),
    await ask("GET", `/jobs?execution=${encoded(text)}&target=${encoded(text)}`),
    await ask("GET", `/v1/distros/${encoded(text)}/index.json`),
  ];
  const made = answers[0];
  if (made?.status !== 201) return answers;
  const { uuid } = JSON.parse(made.text);
  const job = await ask("POST", "/jobs", {
    ...{ workflow: uuid, target: `/${text}`, text, [`p${text}`]: text, secret: CANARIES.params },
  });
  answers.push(job);
  if (job.status !== 201) return answers;
  const path = `/jobs/${JSON.parse(job.text).uuid}`;
  answers.push(await ask("POST", `${path}/info`, { message: text, [text]: { [text]: text } }));
  answers.push(await ask("POST", `${path}/cancel`, { [text]: text }));
  return answers;
}

/** A lone half of a character has no place in a URL. */
function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

/** Reads lines of JSON; none may be torn or hold what a terminal would obey. */
function linesOf(text: string, what: string): JsonObject[] {
  assert(text.endsWith("\n"), `the last line of ${what} is torn`);
  return text.slice(0, -1).split("\n").map((line) => {
    assert(!CONTROL.test(line), `${what}: ${JSON.stringify(line)}`);
    return JSON.parse(line);
  });
}

/** Every file and folder below a folder that others may read, write or enter. */
async function openToOthers(folder: string): Promise<string[]> {
  const open: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = join(folder, name);
    const { mode, isSymlink } = await Deno.lstat(path);
    if (!isSymlink && ((mode ?? 0) & 0o077) !== 0) {
      open.push(`${path} ${((mode ?? 0) & 0o777).toString(8)}`);
    }
    if (isDirectory) open.push(...await openToOthers(path));
  }
  return open;
}

async function tokenOf(program: Program, state: string, name: string): Promise<string> {
  await Deno.mkdir(state, { recursive: true });
  const words = ["token", "create", "--name", name, "--scope", "admin", "--state-dir", state];
  const { code, stdout, stderr } = await runProgram(program, words);
  assertEquals(code, 0, stderr);
  return stdout.trim();
}

eachProgram(
  "500 hostile texts in every field forge no line, and secrets and files stay closed",
  (program) =>
    withFolder(async (folder) => {
      const state = join(folder, "state");
      const token = await tokenOf(program, state, "hygiene");
      const audit = join(folder, "audit.log");
      const socket = join(folder, "agent.sock");
      const agent = await startAgentProcess(program, state, [
        ...["--dev", "--require-token", "--audit-file", audit, "--socket", socket],
        ...["--log-level", "debug"],
      ]);
      const ask: Ask = async (method, path, body) => {
        const response = await fetch(agent.url + path, {
          method,
          headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
        return { status: response.status, headers: response.headers, text: await response.text() };
      };
      try {
        const chain = [{ name: "t", body: `function (job, cb) { cb("${CANARIES.body}"); }` }];
        assertEquals((await ask("POST", "/workflows", { name: "canary", chain })).status, 201);
        const forged = `${CANARIES.token}${"A".repeat(43)}`;
        const refused = await fetch(`${agent.url}/jobs`, {
          headers: { authorization: `Bearer ${forged}` },
        });
        assertEquals([refused.status, await refused.text().then(() => "read")], [401, "read"]);
        let sent = 0;
        await mapLimited([...hostileTexts(TEXTS).entries()], AT_A_TIME, async ([n, text]) => {
          for (const { status, headers, text: answer } of await sendEverywhere(ask, text, n)) {
            sent += 1;
            assert(
              status < 500 && status >= 200,
              `${status} to ${JSON.stringify(text)}: ${answer}`,
            );
            assertEquals(headers.get("x-content-type-options"), "nosniff");
            const type = headers.get("content-type") ?? "";
            assert(answer === "" || type.startsWith("application/json"), `${type}: ${answer}`);
            assert(!/\bat \w+ \(|\.ts:\d|SQLITE/.test(answer), answer);
          }
        });
        assert(sent >= 11 * TEXTS, `${sent}`);
        // A text in the path cannot be the name of a series.
        assert(!(await ask("GET", "/metrics")).text.includes("forged"));
        const marked = await ask("DELETE", `/workflows/${UUID}`);
        assertEquals(marked.status, 404);
        // The log counts lines of a caller with so many calls together; the audit has each.
        await until(
          "the last line of the audit",
          async () => (await Deno.readTextFile(audit)).includes(UUID),
        );
        assertEquals(await openToOthers(state), []);
        for (const path of [audit, socket, state]) {
          assertEquals(((await Deno.lstat(path)).mode ?? 0) & 0o077, 0, path);
        }
      } finally {
        assertEquals(await agent.stop(), 0);
      }
      const kept = await Deno.readTextFile(audit);
      const audited = linesOf(kept, "the audit");
      assert(audited.length > 5 * TEXTS, `${audited.length}`);
      assert(audited.every(({ who }) => who === "token:hygiene"), "somebody else was let in");
      const lines = linesOf(agent.log(), "the log");
      assertEquals(lines.filter(({ msg }) => msg === "forged"), []);
      assert(lines.every(({ ts, level, msg }) => ts && level && msg), "a line lacks its head");
      for (const secret of [CANARIES.params, CANARIES.body, CANARIES.token, token]) {
        assert(!agent.log().includes(secret), `the log holds ${secret}`);
        assert(!kept.includes(secret), `the audit holds ${secret}`);
      }
    }),
);

// All settings at their smallest values, at their defaults and at their largest start an agent that
// answers and runs a job; what lies beyond is refused by name. Three agents are enough: at the ends all
// settings are set at once, so that limits that must fit together are met together.

import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { SETTING_ROWS, type SettingRow, valueText } from "../../src/config/settings.ts";
import { type FlagValue, readConfig } from "../../src/config/sources.ts";
import { AgentError } from "../../src/domain/error.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { makeCertificate } from "../http/tls_files.ts";
import { programOfRun, runProgram } from "../support/agent_process.ts";
import { programTest } from "../support/program.ts";
import { until, withFolder } from "../support/until.ts";
import { BODY } from "./limit_case.ts";
import { endsOf, OTHERS, type SettingFiles, wordsOf } from "./setting_values.ts";
import { isoBytes } from "../support/medium.ts";

/** Calls an agent by its socket. */
type Ask = (method: string, path: string, body?: JsonObject) => Promise<[number, JsonObject]>;

/** The socket is not there before the agent listens. */
function notYet(error: unknown): readonly [null] {
  if (error instanceof TypeError) return [null];
  throw error;
}

/** Starts an agent with these words, waits until it answers, and stops it in the end. */
async function withStarted(
  words: readonly string[],
  { socket, token }: { socket: string; token: string | null },
  run: (ask: Ask) => Promise<void>,
): Promise<void> {
  const { program, args, env } = programOfRun();
  const process = new Deno.Command(program, {
    args: [...args, "serve", ...words],
    env,
    clearEnv: true,
    cwd: "/",
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const reported = new Response(process.stderr).text();
  let ended = false;
  const status = process.status.finally(() => ended = true);
  const client = Deno.createHttpClient({ proxy: { transport: "unix", path: socket } });
  const ask: Ask = async (method, path, body) => {
    const headers = new Headers({ "content-type": "application/json" });
    if (token !== null) headers.set("authorization", `Bearer ${token}`);
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const answer = await fetch(`http://localhost${path}`, { method, headers, client, ...sent });
    const text = await answer.text();
    return [answer.status, text === "" ? {} : JSON.parse(text) as JsonObject];
  };
  try {
    await until("the agent to answer", async () => {
      if (ended) throw new Error(`The agent ended before it answered:\n${await reported}`);
      const [status] = await ask("GET", "/healthz").catch(notYet);
      if (status === null) return false;
      assertEquals(status, 200);
      return true;
    });
    await run(ask);
    process.kill("SIGTERM");
    assertEquals((await status).code, 0, await reported);
  } catch (error) {
    if (!ended) process.kill("SIGKILL");
    await status;
    throw new Error(`The agent has logged:\n${await reported}`, { cause: error });
  } finally {
    client.close();
  }
}

/** Posts a workflow of one task, and runs a job of it. */
async function runJob(ask: Ask): Promise<void> {
  const [made, { uuid: workflow = "" }] = await ask("POST", "/workflows", {
    name: "one",
    chain: [{ name: "only", body: BODY }],
  });
  assertEquals(made, 201);
  await finished(ask, await ask("POST", "/jobs", { workflow }));
}

/** Waits until the job of an answer has succeeded. */
async function finished(ask: Ask, [status, body]: [number, JsonObject]): Promise<void> {
  assert(status === 201 || status === 202, JSON.stringify(body));
  const path = `/jobs/${body.job_uuid ?? body.uuid}`;
  const job = await until("the job to end", async () => {
    const [, job] = await ask("GET", path);
    return ["queued", "running"].includes(String(job.execution)) ? undefined : job;
  });
  // Of its end, and of the wording of both interfaces, the one thing that is of interest here.
  const { chain: _, onerror: _other, ...rest } = job;
  assertStringIncludes(String(job.execution), "succe", JSON.stringify(rest));
}

/** Runs a test with the files that settings name. */
async function withFiles(run: (files: SettingFiles) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const tls = await makeCertificate(folder, "agent");
    await Deno.writeTextFile(`${folder}/secret`, "secret-of-the-index\n", { mode: 0o600 });
    await Deno.writeFile(`${folder}/one.iso`, isoBytes(40_960));
    await run({ folder, tls });
  });
}

/** The command line that sets every setting to one of its ends. */
function allAt(end: "smallest" | "largest", files: SettingFiles): string[] {
  return SETTING_ROWS.flatMap((row) => wordsOf(row, endsOf(row)[end](files)));
}

programTest(
  "openssl",
  "every setting at its smallest value starts an agent that makes a machine",
  () =>
    withFiles(async (files) => {
      const socket = `${files.folder}/smallest.sock`;
      await withStarted(allAt("smallest", files), { socket, token: null }, async (ask) => {
        await runJob(ask);
        const machine = { brand: "kvm", ram: 1, vcpus: 1 };
        const media = { path: `${files.folder}/one.iso` };
        await finished(ask, await ask("POST", "/agent/v1/machines", { machine, media }));
      });
    }),
);

programTest(
  "openssl",
  "every setting at its largest value starts an agent that runs a job",
  () =>
    withFiles(async (files) => {
      const socket = `${files.folder}/largest.sock`;
      const state = `${files.folder}/largest`;
      await Deno.mkdir(state, { mode: 0o700 });
      const words = ["token", "create", "--name", "t", "--scope", "admin", "--state-dir", state];
      const made = await runProgram(programOfRun(), words);
      assertEquals([made.code, made.stderr], [0, ""]);
      const token = made.stdout.trim();
      await withStarted(allAt("largest", files), { socket, token }, runJob);
    }),
);

Deno.test("every setting at its default starts an agent that runs a job", () =>
  withFolder(async (folder) => {
    const socket = `${folder}/default.sock`;
    // The port and the folder of a real agent are not a test's.
    const words = ["--listen", "off", "--socket", socket, "--state-dir", `${folder}/state`];
    await withStarted(words, { socket, token: null }, runJob);
  }));

/** What the configuration says against these flags, one text each. */
function problemsOf(values: ReadonlyMap<SettingRow, string>): string[] {
  const flags = Object.fromEntries(
    Array.from(values, ([{ flag, kind }, value]): [string, FlagValue] => {
      return [flag, kind.repeatable ? [value] : value];
    }),
  );
  const place = { env: {}, cwd: "/", os: "linux" };
  const { errors } = assertThrows(() => readConfig({ flags, ...place }), AgentError);
  return errors.map(({ message }) => message);
}

/** Fails unless every flag is refused by its name and the value that it was given. */
function assertRefused(
  values: ReadonlyMap<SettingRow, string>,
  expected: (row: SettingRow) => readonly string[],
): void {
  const problems = problemsOf(values);
  for (const [row, value] of values) {
    const own = problems.filter((text) => text.startsWith(`--${row.flag}: `));
    assertEquals([row.flag, own.length], [row.flag, 1]);
    for (const words of [value, ...expected(row)]) assertStringIncludes(own[0] ?? "", words);
  }
}

Deno.test("a number below the smallest or above the largest is refused with both", () => {
  const numbers = SETTING_ROWS.flatMap((row) => {
    const { range } = row.kind;
    return range === undefined ? [] : [{ row, ...range }];
  });
  const bounds = ({ kind: { range } }: SettingRow) => [`from ${range?.min} to ${range?.max}`];
  assertRefused(new Map(numbers.map(({ row, min }) => [row, String(min - 1)])), bounds);
  assertRefused(new Map(numbers.map(({ row, max }) => [row, String(max + 1)])), bounds);
});

Deno.test("a value of the wrong type is refused, naming the setting", () => {
  const others = SETTING_ROWS.filter(({ kind }) => kind.range === undefined);
  assertRefused(
    new Map(others.map((row) => [row, endsOf(row).refused])),
    ({ kind }) => kind.words ?? [],
  );
});

Deno.test("every default and every listed word is a valid value of its setting", () => {
  for (const row of SETTING_ROWS) {
    const { kind, fallback, flag } = row;
    for (const word of kind.words ?? []) assertEquals(kind.read(word, { folder: "/" }), word);
    const value = fallback({ dev: false, cwd: "/", os: "linux" });
    const text = valueText(row, value);
    if (text !== "-") assertEquals([flag, kind.read(text, { folder: "/" })], [flag, value]);
  }
});

Deno.test("every setting that is neither a number nor a word has sample values in these tests", () => {
  const described = SETTING_ROWS.filter(({ kind }) => (kind.range ?? kind.words) === undefined);
  assertEquals(described.map(({ key }) => key).sort(), Object.keys(OTHERS).sort());
});

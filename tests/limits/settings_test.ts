// All settings at their smallest values, at their defaults and at their largest start an agent that
// answers and runs a job; what lies beyond is refused by name. Three agents are enough: at the ends all
// settings are set at once, so that limits that must fit together are met together.

import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import type { Definition } from "../../src/config/definition.ts";
import { type FlagValue, readConfig } from "../../src/config/sources.ts";
import { AgentError } from "../../src/domain/error.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { makeCertificate } from "../http/tls_files.ts";
import { runProgram, sourceProgram } from "../support/agent_process.ts";
import { programTest } from "../support/program.ts";
import { until, withFolder } from "../support/until.ts";
import { BODY } from "./limit_case.ts";
import {
  DEFINITIONS,
  endsOf,
  nameOf,
  OTHERS,
  type SettingFiles,
  wordsOf,
} from "./setting_values.ts";

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
  const { program, args, env } = sourceProgram();
  const process = new Deno.Command(program, {
    args: [...args, "serve", ...words],
    env,
    clearEnv: true,
    cwd: "/",
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const told = new Response(process.stderr).text();
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
      if (ended) throw new Error(`The agent ended before it answered:\n${await told}`);
      const [status] = await ask("GET", "/healthz").catch(notYet);
      if (status === null) return false;
      assertEquals(status, 200);
      return true;
    });
    await run(ask);
    process.kill("SIGTERM");
    assertEquals((await status).code, 0, await told);
  } catch (error) {
    if (!ended) process.kill("SIGKILL");
    await status;
    throw new Error(`The agent has logged:\n${await told}`, { cause: error });
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
    await Deno.writeFile(`${folder}/one.iso`, new Uint8Array(4096).fill(7));
    await run({ folder, tls });
  });
}

/** The command line that sets every setting to one of its ends. */
function allAt(end: "smallest" | "largest", files: SettingFiles): string[] {
  return DEFINITIONS.flatMap((one) => wordsOf(one, endsOf(one)[end](files)));
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
      const made = await runProgram(sourceProgram(), words);
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
function problemsOf(values: ReadonlyMap<Definition<unknown>, string>): string[] {
  const flags = Object.fromEntries(
    Array.from(values, ([{ flag, many }, value]): [string, FlagValue] => {
      return [flag, many ? [value] : value];
    }),
  );
  const place = { env: {}, cwd: "/", os: "linux" };
  const { errors } = assertThrows(() => readConfig({ flags, ...place }), AgentError);
  return errors.map(({ message }) => message);
}

/** Fails unless every flag is refused by its name and the value that it was given. */
function assertRefused(
  values: ReadonlyMap<Definition<unknown>, string>,
  expected: (definition: Definition<unknown>) => readonly string[],
): void {
  const problems = problemsOf(values);
  for (const [one, value] of values) {
    const own = problems.filter((text) => text.startsWith(`--${one.flag}: `));
    assertEquals([one.flag, own.length], [one.flag, 1]);
    for (const words of [value, ...expected(one)]) assertStringIncludes(own[0] ?? "", words);
  }
}

Deno.test("a number below the smallest or above the largest is refused with both", () => {
  const numbers = DEFINITIONS.filter(({ read }) => read.range !== undefined);
  const rangeOf = ({ read }: Definition<unknown>) => read.range ?? { min: 0, max: 0 };
  const bounds = (one: Definition<unknown>) => [`from ${rangeOf(one).min} to ${rangeOf(one).max}`];
  assertRefused(new Map(numbers.map((one) => [one, String(rangeOf(one).min - 1)])), bounds);
  assertRefused(new Map(numbers.map((one) => [one, String(rangeOf(one).max + 1)])), bounds);
});

Deno.test("what is no value of a setting is refused by its name", () => {
  const others = DEFINITIONS.filter(({ read }) => read.range === undefined);
  assertRefused(
    new Map(others.map((one) => [one, endsOf(one).refused])),
    ({ read }) => read.words ?? [],
  );
});

Deno.test("every word of a setting is taken, and no row of the table is idle", () => {
  for (const { read } of DEFINITIONS) {
    for (const word of read.words ?? []) assertEquals(read(word, { folder: "/" }), word);
  }
  const described = DEFINITIONS.filter(({ read }) => (read.range ?? read.words) === undefined);
  assertEquals(described.map(nameOf).sort(), Object.keys(OTHERS).sort());
});

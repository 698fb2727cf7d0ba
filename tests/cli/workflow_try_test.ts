// `workflow try`: what a person sees of a trial, and what is left when the program has ended.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { eachProgram } from "../support/each_program.ts";
import type { Program } from "../support/agent_process.ts";
import { childrenOf } from "../support/processes.ts";
import { until, withFolder } from "../support/until.ts";
import { document, openScreen, type ScreenOptions } from "./screen.ts";

const GREET = { name: "greet", body: "(job, cb) => cb(null, 'Hello ' + job.params.whom)" };
const ASK = {
  name: "asking",
  chain: [
    { name: "ask", body: "(job, cb) => cb('wait')" },
    { name: "go_on", body: "(job, cb) => cb(null, job.chain_results[0].result)" },
  ],
};

/** Tries a workflow that comes on standard input. */
async function tried(
  workflow: JsonObject,
  args: readonly string[] = [],
  options: ScreenOptions = {},
) {
  const screen = openScreen({ input: JSON.stringify(workflow), ...options });
  const code = await screen.run("workflow", "try", "-f", "-", ...args);
  return { ...screen, code };
}

Deno.test("workflow try prints the steps while they run, and then the results", async () => {
  const workflow = { name: "hello", chain: [GREET, { ...GREET, name: "again", retry: 1 }] };
  const { code, out, err } = await tried(workflow, ["-p", "whom=you"]);
  assertEquals(code, 0);
  assertMatch(err(), /^greet ok [\d.]+ s\nagain ok [\d.]+ s\n$/);
  assertMatch(
    out(),
    new RegExp(
      "^workflow  hello\nstate     succeeded\nelapsed   [\\d.]+ s\n\n" +
        'TASK   STATE +TIME  TRIES  RESULT\ngreet  done +[\\d.]+ s +1  "Hello you"\n' +
        'again  done +[\\d.]+ s +1  "Hello you"\n\n' +
        "the simulated host has no machines\n$",
    ),
  );
});

Deno.test("workflow try masks what the workflow calls secret, and what is secret by its name", async () => {
  const body = "async (job, cb) => { await info({ license_key: 'hid' + 'den' }); " +
    "log.info('m', { a: [job.params] }); cb(null, job.params); }";
  const workflow = { name: "x", secret_params: ["license_key"], chain: [{ name: "one", body }] };
  const params = ["-p", "license_key=hidden", "-p", "password=hidden", "-p", "plain=shown"];
  for (const flags of [[], ["--json"]]) {
    const { code, out, err } = await tried(workflow, [...params, ...flags]);
    assertEquals([code, (out() + err()).includes("hidden")], [0, false], out() + err());
    assertStringIncludes(out(), "shown");
  }
});

Deno.test("workflow try shows everything that a body logs and reports", async () => {
  const body = "async (job, cb) => { await info({ task: 'talk', message: 'first' }); " +
    "log.warn('second', { a: 1 }); console.log('third %d', 3); await info({ b: [2] }); " +
    "job.log.error(new Error('fourth')); cb(); }";
  const workflow = { name: "x", chain: [{ name: "talk", body }] };
  const lines = [
    "talk: first",
    'talk: warn: second {"a":1}',
    "talk: info: third 3",
    '{"b":[2]}',
    'talk: error: Error: fourth {"error":"Error: fourth"}',
  ];
  const plain = await tried(workflow);
  assertEquals(plain.err().split("\n").slice(0, -2).toSorted(), lines.toSorted());
  const moving = await tried(workflow, [], { isTerminal: true, columns: 120 });
  for (const line of lines) assertStringIncludes(moving.err(), `\r\x1b[2K  ${line}\n`);
  assertEquals([plain.code, moving.code], [0, 0]);
});

Deno.test("workflow try exits as job run --wait does", async () => {
  const one = (body: string, more: JsonObject = {}) => ({
    name: "x",
    chain: [{ name: "t", body }],
    ...more,
  });
  const failed = await tried(one("(job, cb) => {\n  throw new Error('oh');\n  cb();\n}", {
    onerror: [{ name: "undo", body: "(job, cb) => cb(null, 'undone')" }],
  }));
  assertEquals(failed.code, 5);
  assertStringIncludes(failed.err(), 'zonewright: The job failed in t: oh (task "t", line 2)\n');
  assertMatch(failed.out(), /\nt +failed .* oh \(task "t", line 2\)\nundo +done .* "undone"\n/);
  const canceled = await tried(one("(job, cb) => cb('cancel')"), ["--json"]);
  assertEquals(canceled.code, 7);
  const { code, message, exit_code } = JSON.parse(
    canceled.err().trimEnd().split("\n").at(-1) ?? "",
  );
  assertEquals([code, message, exit_code], ["canceled", "The job was canceled", 7]);
  assertEquals((await tried(one("(job, cb) => cb('retry')"))).code, 5);
  const late = await tried(one("async (job, cb) => { await sleep(60000); cb(); }"), [
    "--timeout",
    "1s",
  ]);
  assertEquals(late.code, 124);
  assertStringIncludes(
    late.err(),
    "zonewright: Gave up the trial: the job has not ended in time",
  );
});

Deno.test("workflow try of a body that never calls back ends at the timeout, and says so", async () => {
  const bodies = [
    "function (job, cb) { job.cb = typeof cb; }",
    "async (job, cb) => { await new Promise(() => cb.name); }",
    "(job, cb) => { for (;;) job.n = typeof cb; }",
    "(job, cb) => { const again = () => setTimeout(again, 10, cb); again(); }",
  ];
  await Promise.all(bodies.map(async (body) => {
    const ofTask = await tried({ name: "x", chain: [{ name: "t", body, timeout: 1 }] });
    assertEquals(ofTask.code, 5, body);
    const words = "The job failed in t: task timeout error: it did not call back within 1 s\n";
    assertStringIncludes(ofTask.err(), words);
    assertMatch(ofTask.out(), /\nt +failed .* 1 +task timeout error\n/);
  }));
  const ofChain = await tried({
    name: "x",
    timeout: 1,
    chain: [{ name: "t", body: bodies[0] ?? "" }],
  });
  assertEquals(ofChain.code, 5);
  const words = "in t: workflow timeout: the chain did not end within 1 s\n";
  assertStringIncludes(ofChain.err(), words);
});

Deno.test("workflow try says how to end a task that runs for long", async () => {
  const body = "function (job, cb) { job.cb = typeof cb; }";
  const said = async (workflow: JsonObject, task: JsonObject) => {
    // Each look at this clock takes some seconds, so that the test need not.
    let ms = 0;
    const nowMs = () => ms += 4000;
    const chain = [{ name: "t", body, ...task }];
    const { code, err } = await tried({ name: "x", chain, ...workflow }, [], { nowMs });
    assertEquals(code, 5);
    return err();
  };
  const long = "t has run for 10 s without calling back: ";
  const limited = await said({}, { timeout: 2 });
  assertStringIncludes(limited, `${long}its timeout is 2 s\n`);
  assertEquals(limited.split(long).length, 2, "it is said once");
  const words =
    "it has no timeout, and that of the workflow is 2 s; --timeout ends the trial before";
  assertStringIncludes(await said({ timeout: 2 }, {}), long + words);
});

Deno.test("workflow try ends at a waiting task, says how it can continue, and exits 0", async () => {
  const { code, out, err } = await tried(ASK);
  assertEquals(code, 0);
  assertMatch(out(), /^workflow +asking\nstate +waiting\n/);
  assertStringIncludes(err(), "zonewright job resume");
  assertStringIncludes(err(), `hint: --resume-with '{"result": "OK"}'`);
  assertEquals(err().includes("queued"), false);
});

Deno.test("workflow try --resume-with resumes waiting tasks one after the other", async () => {
  const given = await tried(ASK, ["--resume-with", '{"result": {"disk": 1}}']);
  assertEquals(given.code, 0);
  assertMatch(given.out(), /go_on +done .* {"disk":1}\n/);
  const refused = await tried(ASK, ["--resume-with", '{"error": "no disk"}']);
  assertEquals(refused.code, 5);
  assertStringIncludes(refused.err(), "The job failed in ask: no disk");
  const twice = { name: "x", chain: [ASK.chain[0] ?? {}, { ...ASK.chain[0], name: "more" }] };
  const once = await tried(twice, ["--resume-with", "{}"]);
  assertMatch(once.out(), /^workflow +x\nstate +waiting\n/);
  const both = await tried(twice, ["--resume-with", "{}", "--resume-with", "{}"]);
  assertMatch(both.out(), /^workflow +x\nstate +succeeded\n/);
  assertEquals((await tried(ASK, ["--resume-with", "OK"])).code, 2);
});

Deno.test("workflow try lists the machines of the host, and --json has every result", async () => {
  const body =
    "async (job, cb) => { await vmadm.create({ uuid: job.uuid, brand: 'kvm', ram: 128, " +
    "alias: 'made' }); await info({ made: 1 }); cb(null, { uuid: job.uuid }); }";
  const workflow = { name: "make", chain: [{ name: "create", body }] };
  const shown = await tried(workflow);
  assertMatch(
    shown.out(),
    /\nMACHINE +ALIAS +BRAND +STATE +RAM\n[0-9a-f-]{36} +made +kvm +stopped +128 MiB\n$/,
  );
  const screen = await tried(workflow, ["--json"]);
  const answer = document(screen);
  assert(isJsonObject(answer) && isJsonObject(answer.job) && Array.isArray(answer.machines));
  const [machine] = answer.machines;
  assert(isJsonObject(machine));
  assertEquals([answer.outcome, answer.job.execution], ["ended", "success"]);
  assert(Array.isArray(answer.info));
  assertEquals(answer.info.at(-1), { made: 1 });
  // What the agent tells of vmadm.create() comes before it.
  assertEquals(answer.info.length, 2);
  assertEquals([machine.uuid, machine.state], [answer.job.uuid, "stopped"]);
});

Deno.test("workflow try reads params from a file; single ones take precedence", async () => {
  await withFolder(async (cwd) => {
    const body = "(job, cb) => cb(null, job.params)";
    await Deno.writeTextFile(join(cwd, "p.json"), '{"whom":"file","more":{"a":1}}');
    await Deno.writeTextFile(join(cwd, "w.json"), JSON.stringify({ name: "x", chain: [{ body }] }));
    const screen = openScreen({ cwd });
    const args = ["-f", "w.json", "--params", "p.json", "-p", "whom=you", "-p", "n:=[1]"];
    assertEquals(await screen.run("workflow", "try", ...args), 0);
    assertStringIncludes(screen.out(), '{"whom":"you","more":{"a":1},"n":[1]}');
  });
});

Deno.test("workflow try says what is wrong with a workflow, and does not run it", async () => {
  const broken = await tried({
    name: "x",
    chain: [{ ...GREET, timeOut: 1, body: "(job, cb) => cb(" }],
  });
  assertEquals([broken.code, broken.out()], [2, ""]);
  assertStringIncludes(
    broken.err(),
    'standard input: error: chain[0].body (task "greet") is not a',
  );
  assertStringIncludes(broken.err(), 'is unknown: the nearest known name is "timeout"');
  const mistake = await tried({ name: "x", chain: [{ ...GREET, timeout: 5000 }] });
  assertEquals(mistake.code, 0);
  assertStringIncludes(mistake.err(), "standard input: warning: ");
  const reserved = await tried({ name: "x", chain: [GREET] }, ["-p", "locks=x"]);
  assertEquals(reserved.code, 2);
  assertStringIncludes(reserved.err(), 'Cannot use "locks" as a parameter');
  const folder = await tried({ name: "x", chain: [GREET] }, ["--media-dir", "/none"]);
  assertEquals(folder.code, 2);
});

Deno.test("workflow try handles Ctrl-C at any time, even twice", async () => {
  const body = "async (job, cb) => { await info({ message: 'began' }); await sleep(60000); cb(); }";
  const screen = openScreen({ input: JSON.stringify({ name: "x", chain: [{ name: "t", body }] }) });
  const ended = screen.run("workflow", "try", "-f", "-");
  await until("the task to begin", () => screen.err().includes("began"));
  screen.interrupt();
  screen.interrupt();
  assertEquals(await ended, 130);
  assertMatch(screen.out(), /^workflow +x\nstate +running\n$/);
  assertStringIncludes(screen.err(), "zonewright: Gave up the trial: it was interrupted");
});

const SLOW = {
  name: "slow",
  chain: [{
    name: "create",
    body: "async (job, cb) => { await vmadm.create({ uuid: job.uuid, brand: 'kvm', ram: 128 }); " +
      "await vmadm.boot(job.uuid); const { host, port } = await vnc.wait(job.uuid); " +
      "await info({ message: `console at ${port}` }); await sleep(60000); cb(); }",
  }],
};

/** Starts the program on a workflow, and reads what it says. */
async function startTrial(program: Program, temporary: string, workflow: JsonObject) {
  const process = new Deno.Command(program.program, {
    args: [...program.args, "workflow", "try", "-f", "-"],
    env: { ...program.env, TMPDIR: temporary },
    clearEnv: true,
    cwd: "/",
    stdin: "piped",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const writer = process.stdin.getWriter();
  await writer.write(new TextEncoder().encode(JSON.stringify(workflow)));
  await writer.close();
  let text = "";
  const reading = process.stderr.pipeThrough(new TextDecoderStream()).pipeTo(
    new WritableStream({ write: (more) => void (text += more) }),
  );
  let exited = false;
  const status = process.status.finally(() => exited = true);
  return {
    process,
    said: (words: RegExp) =>
      until(`${words}`, () => {
        if (exited) throw new Error(`The program ended without ${words}:\n${text}`);
        return words.exec(text) ?? undefined;
      }),
    ended: async () => {
      const { code } = await status;
      await reading;
      return { code, said: text };
    },
  };
}

/** Runs the program until a machine of the trial listens, sends the signal, and waits for its end. */
async function stopped(program: Program, signal: Deno.Signal, temporary: string) {
  const trial = await startTrial(program, temporary, SLOW);
  const [, port] = await trial.said(/console at (\d+)/);
  const before = await Array.fromAsync(Deno.readDir(temporary), ({ name }) => name);
  trial.process.kill(signal);
  const end = await trial.ended();
  const after = await Array.fromAsync(Deno.readDir(temporary), ({ name }) => name);
  return { ...end, before, after, port: Number(port) };
}

async function assertNothingLeft(program: Program, signal: Deno.Signal): Promise<void> {
  await withFolder(async (temporary) => {
    // Guests may run as another user, who has to pass through.
    await Deno.chmod(temporary, 0o711);
    const { code, said, before, after, port } = await stopped(program, signal, temporary);
    assertEquals([code, after], [130, []], said);
    assert(before.some((name) => name.startsWith("zonewright-try-")), before.join(" "));
    const answers = await Deno.connect({ hostname: "127.0.0.1", port }).then(
      (connection) => {
        connection.close();
        return true;
      },
      () => false,
    );
    assertEquals(answers, false);
  });
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  eachProgram(
    `${signal} in the middle of a trial leaves nothing behind`,
    (program) => assertNothingLeft(program, signal),
  );
}

eachProgram("a trial for which no guest starts fails with the reason", async (program) => {
  await withFolder(async (folder) => {
    await Deno.chmod(folder, 0o711);
    const path = join(folder, "program");
    await Deno.copyFile(program.program, path);
    const workflow = {
      name: "lost",
      chain: [{
        retry: 1,
        body:
          "async (job, cb) => { await info({ message: 'under way' }); await sleep(60000); cb(); }",
      }],
    };
    const trial = await startTrial({ ...program, program: path }, folder, workflow);
    await trial.said(/under way/);
    await Deno.remove(path);
    const children = await childrenOf(`${trial.process.pid}`);
    for (const pid of children.keys()) Deno.kill(pid, "SIGKILL");
    const { code, said } = await trial.ended();
    assertEquals(code, 1, said);
    assertStringIncludes(said, "zonewright: Cannot try the workflow: guests do not start: ");
  });
});

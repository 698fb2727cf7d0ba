// The command line as a program: streams, exit codes and signals that only a process has.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { shellQuoted } from "../../src/cli/client/api_call.ts";
import { newJob, withHttpAgent } from "../http/http_agent.ts";
import { programTest } from "../support/program.ts";
import { until, withFolder } from "../support/until.ts";
import { selfOfRun } from "../support/agent_process.ts";

const SELF = selfOfRun();

interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

function command(args: readonly string[], env: Record<string, string> = {}): Deno.Command {
  return new Deno.Command(SELF.program, {
    args: [...SELF.args, ...args],
    clearEnv: true,
    env: { ...SELF.env, HOME: Deno.env.get("HOME") ?? "/", ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
}

async function run(args: readonly string[], env: Record<string, string> = {}): Promise<Ended> {
  const { code, stdout, stderr } = await command(args, env).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, out: text(stdout), err: text(stderr) };
}

Deno.test("the program exits with the code of its table and keeps its streams apart", () =>
  withHttpAgent(async (agent) => {
    const env = { ZONEWRIGHT_URL: agent.url };
    const uuid = await newJob(agent);
    const list = await run(["job", "list", "--json"], env);
    assertEquals([list.code, list.err], [0, ""]);
    assertEquals(JSON.parse(list.out)[0].uuid, uuid);
    const usage = await run(["job", "lsit"], env);
    assertEquals([usage.code, usage.out], [2, ""]);
    assert(usage.err.startsWith("zonewright: "), usage.err);
    assertEquals((await run(["job", "get", "none"], env)).code, 4);
  }));

Deno.test("the program keeps no compiled code in the temporary folder, where others could put theirs", () =>
  withFolder(async (folder) => {
    assertEquals((await run(["help"], { TMPDIR: folder })).code, 0);
    assertEquals(await Array.fromAsync(Deno.readDir(folder)), []);
  }));

Deno.test("the program speaks over a unix socket", () =>
  withFolder(async (folder) => {
    const path = `${folder}/agent.sock`;
    const server = Deno.serve({ path, onListen: () => {} }, () =>
      Response.json({ jobs: [], next: null }));
    try {
      const env = { ZONEWRIGHT_SOCKET: path };
      assertEquals(await run(["job", "list", "--json"], env), { code: 0, out: "[]\n", err: "" });
    } finally {
      await server.shutdown();
    }
  }));

Deno.test("the program ends silently when its reader is gone", () =>
  withHttpAgent(async (agent) => {
    await newJob(agent, { text: "x".repeat(1_000_000) });
    const child = command(["api", "GET", "/jobs"], { ZONEWRIGHT_URL: agent.url }).spawn();
    await child.stdout.cancel();
    const err = await new Response(child.stderr).text();
    assertEquals([(await child.status).code, err], [0, ""]);
  }));

Deno.test({
  name: "the program says so when its output cannot be written",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const words = [SELF.program, ...SELF.args, "version"].map(shellQuoted).join(" ");
    const { code, stderr } = await new Deno.Command("/bin/sh", {
      args: ["-c", `${words} > /dev/full`],
      env: { ...SELF.env },
    }).output();
    const err = new TextDecoder().decode(stderr);
    assertEquals(code, 1);
    assertStringIncludes(err, "zonewright: Cannot write to standard output: No space left");
    assertStringIncludes(err, "hint: send standard output to a file or pipe");
  },
});

Deno.test("Ctrl-C while a job is followed exits 130, and the job continues", () =>
  withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    const child = command(["job", "wait", uuid], { ZONEWRIGHT_URL: agent.url }).spawn();
    // It listens for Ctrl-C before it asks for the first time.
    await until(
      "the first request",
      () => agent.log.some((line) => line.path === `/agent/v1/jobs/${uuid}`),
    );
    child.kill("SIGINT");
    const { code, stderr } = await child.output();
    assertEquals(code, 130);
    assertStringIncludes(new TextDecoder().decode(stderr), "it continues");
    assertEquals((await agent.store.jobs.get(uuid))?.execution, "queued");
  }));

/** Elsewhere than on Linux a program of this name takes other flags. */
const SCRIPT = Deno.build.os === "linux" ? "script" : "script of util-linux";

programTest(
  SCRIPT,
  "the program asks on a terminal before it changes many jobs",
  () =>
    withHttpAgent(async (agent) => {
      const uuid = await newJob(agent);
      const words = [SELF.program, ...SELF.args, "job", "cancel", "--execution", "queued"];
      const asked = async (answer: string) => {
        const child = new Deno.Command(SCRIPT, {
          args: ["-qec", words.map(shellQuoted).join(" "), "/dev/null"],
          env: { ...SELF.env, ZONEWRIGHT_URL: agent.url, TERM: "dumb" },
          stdin: "piped",
          stdout: "piped",
          stderr: "null",
        }).spawn();
        const decoder = new TextDecoder();
        let screen = "";
        const typing = child.stdin.getWriter();
        for await (const part of child.stdout) {
          const before = screen.includes("[y/N] ");
          screen += decoder.decode(part, { stream: true });
          if (!before && screen.includes("[y/N] ")) {
            await typing.write(new TextEncoder().encode(answer));
          }
        }
        await typing.close();
        return { code: (await child.status).code, screen };
      };
      const no = await asked("n\n");
      assertEquals(no.code, 1);
      assertStringIncludes(no.screen, 'Cancel 1 job with execution "queued"? [y/N] ');
      assertStringIncludes(no.screen, "nothing changed");
      assertEquals((await agent.store.jobs.get(uuid))?.execution, "queued");
      const yes = await asked("y\n");
      assertEquals(yes.code, 0);
      assertStringIncludes(yes.screen, `${uuid} canceled`);
      assertEquals((await agent.store.jobs.get(uuid))?.execution, "canceled");
    }),
);

Deno.test("serve with an invalid configuration exits 2 before it opens anything", () =>
  withFolder(async (folder) => {
    const { code, out, err } = await run(["serve", "--listen", "0.0.0.0:1", "--state-dir", folder]);
    assertEquals([code, out], [2, ""]);
    assertStringIncludes(err, "is not a loopback address");
    assertEquals(Array.from(Deno.readDirSync(folder)), []);
  }));

Deno.test("serve answers, ignores SIGUSR1, and stops in order on SIGTERM", () =>
  withFolder(async (folder) => {
    const socket = `${folder}/agent.sock`;
    const flags = [
      "--dev",
      "--listen",
      "off",
      "--socket",
      socket,
      "--state-dir",
      `${folder}/state`,
    ];
    const child = command(["serve", ...flags]).spawn();
    let log = "";
    const reading = (async () => {
      const decoder = new TextDecoder();
      for await (const part of child.stderr) log += decoder.decode(part, { stream: true });
    })();
    try {
      await until("the agent", () => {
        assert(!log.includes("rror: "), log);
        return log.includes("agent started");
      });
      child.kill("SIGUSR1");
      await until("the ignored signal", () => log.includes("signal ignored"));
      const status = await run(["status", "--json"], { ZONEWRIGHT_SOCKET: socket });
      assertEquals(status.code, 0, status.err);
    } finally {
      child.kill("SIGTERM");
    }
    assertEquals((await child.status).code, 0);
    await reading;
    await child.stdout.cancel();
    // Off a terminal every line is JSON.
    for (const line of log.trim().split("\n")) JSON.parse(line);
    assertStringIncludes(log, '"msg":"agent asked to stop","signal":"SIGTERM"');
  }));

// README.md as a newcomer reads it: every command in it is run, exactly as written, in a fresh folder.
// The environment alone is the test's: a free port, and a real sshd with the simulator behind it.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { findSshd, withSshServer } from "../host/ssh_server.ts";
import { writeVmadm } from "../host/test_host.ts";
import { mayRunSystemd, PROGRAM_DIR, withSystemd } from "../service/systemd_host.ts";
import { binaryProgram } from "../support/agent_process.ts";
import { findProgram, programTest } from "../support/program.ts";
import { until, withFolder } from "../support/until.ts";

const ROOT = fromFileUrl(new URL("../..", import.meta.url));
const README = await Deno.readTextFile(`${ROOT}/README.md`);
const WORDS_MAX = 900;
const BINARY = "dist/zonewright";
const required = Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") === "all";

type Env = Readonly<Record<string, string>>;

/** The fenced blocks of a language below a heading, in their order. */
function blocks(heading: string, language: string): string[] {
  const section = README.split(/^## /m).find((one) => one.startsWith(`${heading}\n`));
  assert(section !== undefined, `README.md has no section ${heading}`);
  const found = section.matchAll(/^```(\w+)\n(.*?)^```$/gms);
  return Array.from(found).filter(([, word]) => word === language).map(([, , text = ""]) => text);
}

/** Lines of the blocks that this pattern does, or does not, fit. */
function linesOf(all: readonly string[], pattern: RegExp, fits = true): string[] {
  return all.join("").split("\n").filter((line) => line !== "" && pattern.test(line) === fits);
}

/** The last line of a block that starts an agent, and what stands before it. */
function serveBlock(heading: string): string {
  const found = blocks(heading, "sh").filter((block) => /^zonewright serve/m.test(block));
  assertEquals(found.length, 1, heading);
  return linesOf(found, /^make /, false).join("\n");
}

/** Runs a program without the variables of this run: zonewright refuses those that it does not know. */
async function run(cwd: string, own: Env, program: string, ...args: string[]): Promise<string> {
  const env = { PATH: Deno.env.get("PATH") ?? "", ...own };
  const child = new Deno.Command(program, { args, cwd, clearEnv: true, env, stdin: "null" });
  const { code, stdout, stderr } = await child.output();
  const text = new TextDecoder().decode(stdout);
  assertEquals(code, 0, `${args.join(" ")}\n${text}\n${new TextDecoder().decode(stderr)}`);
  return text;
}

function shell(cwd: string, env: Env, script: string): Promise<string> {
  return run(cwd, env, "bash", "-euo", "pipefail", "-c", script);
}

function freePort(): number {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  return port;
}

/** Runs the block of a section that starts an agent; gives the environment of a second terminal. */
async function withAgentOf(
  heading: string,
  folder: string,
  extra: Env,
  use: (env: Env) => Promise<void>,
): Promise<void> {
  await Deno.symlink(`${ROOT}/dist`, `${folder}/dist`);
  const address = `127.0.0.1:${freePort()}`;
  const env = {
    PATH: `${folder}/dist:${Deno.env.get("PATH") ?? ""}`,
    HOME: folder,
    ZONEWRIGHT_LISTEN: address,
    ZONEWRIGHT_URL: `http://${address}`,
    ZONEWRIGHT_STATE_DIR: `${folder}/run`,
    ...extra,
  };
  const agent = new Deno.Command("bash", {
    args: ["-euc", serveBlock(heading).replace(/^(zonewright serve.*)$/m, "exec $1")],
    cwd: folder,
    clearEnv: true,
    env,
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  let log = "";
  let ended = false;
  const reading = agent.stderr.pipeThrough(new TextDecoderStream()).pipeTo(
    new WritableStream({ write: (text) => void (log += text) }),
  );
  const status = agent.status.finally(() => ended = true);
  try {
    await until("the agent to listen", () => {
      if (ended) throw new Error(log);
      return log.includes("agent started");
    });
    await use(env);
  } finally {
    if (!ended) agent.kill("SIGTERM");
    await status;
    await reading;
  }
}

function readmeTest(name: string, needs: string, missing: boolean, fn: () => Promise<void>): void {
  Deno.test({ name: `README.md: ${name} [needs ${needs}]`, ignore: missing && !required, fn });
}

const noBinary = binaryProgram() === undefined;
/** A Python that has the package: the first one of the path, or the system's. */
const python = ["python3", "/usr/bin/python3"].find((program) => {
  try {
    const args = ["-c", "import requests"];
    return new Deno.Command(program, { args, stdout: "null", stderr: "null" }).outputSync().success;
  } catch {
    return false;
  }
});

Deno.test(`README.md has at most ${WORDS_MAX} words`, () => {
  assert(
    README.trim().split(/\s+/).length <= WORDS_MAX,
    `${README.trim().split(/\s+/).length} words`,
  );
});

Deno.test("README.md has no block of commands that no test of this file runs", () => {
  const run = ["Try it in 60 seconds", "Install", "Recipes", "Backup and upgrade"]
    .flatMap((heading) => ["sh", "python", "yaml"].flatMap((word) => blocks(heading, word)));
  assertEquals(README.match(/^```\w*$/gm)?.length, 2 * run.length);
});

// `make test` runs this test and `make build` has made what it runs, so only their commands are looked at.
programTest("make", "README.md: make run makes a machine; the other targets exist", async () => {
  const targets = linesOf(blocks("Try it in 60 seconds", "sh"), /^make /);
  assertEquals(targets.map((line) => line.split(" ")[1]), ["run", "test", "build"]);
  for (const line of targets) {
    await shell(ROOT, {}, line.replace(/^make/, "make --dry-run --always-make"));
  }
  // A session of its own, as a terminal's, so that Ctrl-C reaches every process of it.
  const make = new Deno.Command("setsid", {
    args: ["sh", "-c", targets[0] ?? ""],
    cwd: ROOT,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let shown = "";
  const sink = () => new WritableStream<string>({ write: (text) => void (shown += text) });
  const reading = Promise.all([
    make.stdout.pipeThrough(new TextDecoderStream()).pipeTo(sink()),
    make.stderr.pipeThrough(new TextDecoderStream()).pipeTo(sink()),
  ]);
  try {
    await until(() => `the tour:\n${shown}`, () => shown.includes("Any VNC client can open"));
  } finally {
    await new Deno.Command("kill", { args: ["-INT", "--", `-${make.pid}`] }).output();
    await make.status;
    await reading;
  }
  assertStringIncludes(shown, "The agent and its machines have ended.");
});

readmeTest(
  "the recipes run as written",
  `${BINARY}, curl, python3 with requests`,
  noBinary || python === undefined,
  () =>
    withFolder((folder) =>
      withAgentOf("Try it in 60 seconds", folder, {}, async (env) => {
        const shown = await shell(folder, env, blocks("Recipes", "sh").join("\n"));
        assertStringIncludes(shown, "deleted");
        for (const text of blocks("Recipes", "python")) {
          assertStringIncludes(await run(folder, env, python ?? "python3", "-c", text), " success");
        }
      })
    ),
);

readmeTest(
  "the playbook runs as written, and may be repeated",
  `${BINARY}, ansible-playbook`,
  noBinary || findProgram("ansible-playbook") === undefined,
  () =>
    withFolder((folder) =>
      withAgentOf("Try it in 60 seconds", folder, {}, async (env) => {
        const [first = ""] = blocks("Recipes", "sh");
        await shell(folder, env, first.slice(0, first.indexOf("zonewright machine create")));
        const [playbook = ""] = blocks("Recipes", "yaml");
        await Deno.writeTextFile(`${folder}/play.yml`, playbook);
        await run(folder, env, "ansible-playbook", "play.yml");
        await run(folder, env, "ansible-playbook", "play.yml");
        const machines = await shell(folder, env, "zonewright machine list --json");
        assertEquals(JSON.parse(machines).length, 1);
      })
    ),
);

readmeTest(
  "a host behind ssh is managed as written",
  `sshd, ${BINARY}`,
  noBinary || findSshd() === undefined,
  () =>
    withFolder(async (temporary) => {
      const folder = await Deno.realPath(temporary);
      const far = `${folder}/far`;
      const vmadm = await writeVmadm(folder, far);
      await withSshServer(folder, async ({ host, port }) => {
        const reach = {
          GZ: `ssh://${host.destination}:${port}`,
          ZONEWRIGHT_SSH_IDENTITY: host.identityFile ?? "",
          ZONEWRIGHT_SSH_KNOWN_HOSTS: host.knownHostsFile ?? "",
          ZONEWRIGHT_VMADM: vmadm,
          ZONEWRIGHT_ZONES: `${far}/zones`,
        };
        await withAgentOf("Install", folder, reach, async (env) => {
          assertEquals(await shell(folder, env, "zonewright machine list --json"), "[]\n");
          const check = await shell(folder, env, `zonewright doctor --host "$GZ" --run vmadm`);
          assertStringIncludes(check, "vmadm");
        });
      });
    }),
);

readmeTest(
  "installing, backing up and restoring run as written",
  `root, systemd, ${BINARY}`,
  noBinary || !mayRunSystemd(),
  () =>
    withSystemd(`${ROOT}/dist`, async (shell) => {
      // Nothing of the distribution is to be started before it.
      await shell(
        "mkdir -p /etc/systemd/system/zonewright.service.d; " +
          "printf '[Unit]\\nDefaultDependencies=no\\n' " +
          "> /etc/systemd/system/zonewright.service.d/test.conf",
      );
      const [install = ""] = blocks("Install", "sh");
      await shell(`set -e; cd /tmp; ln -s ${PROGRAM_DIR} dist\n${install}`);
      assertStringIncludes(await shell("zonewright config show"), "ssh://root@192.0.2.10");
      await shell(`set -e\n${blocks("Backup and upgrade", "sh").join("\n")}`);
      assertEquals((await shell("systemctl is-active zonewright")).trim(), "active");
    }),
);

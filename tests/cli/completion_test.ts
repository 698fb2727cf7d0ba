// Completion as a shell does it: a real bash runs the real program, which asks a real agent.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { COMPLETION_SCRIPTS } from "../../src/cli/command/completion_scripts.ts";
import { newJob, withHttpAgent } from "../http/http_agent.ts";
import { programTest } from "../support/program.ts";
import { withFolder } from "../support/until.ts";
import { selfOfRun } from "../support/agent_process.ts";

const SELF = selfOfRun();

/** The program under its name on PATH, as a shell finds it. */
async function installIn(folder: string): Promise<void> {
  const quoted = [SELF.program, ...SELF.args].map((word) => `'${word}'`).join(" ");
  const path = join(folder, "zonewright");
  await Deno.writeTextFile(path, `#!/bin/sh\nexec ${quoted} "$@"\n`);
  await Deno.chmod(path, 0o755);
}

/** What bash offers at the end of a line, whose words it parts at `:` and `=` too. */
async function offeredOnLine(line: string): Promise<string[]> {
  const [, ...parts] = line.match(/[:=]+|[^\s:=]+/g) ?? [];
  return await offered(parts, undefined, line);
}

/** What bash offers for the last of the words. */
async function offered(
  words: readonly string[],
  url = "http://127.0.0.1:1",
  line = "",
): Promise<string[]> {
  return await withFolder(async (folder) => {
    await installIn(folder);
    await Deno.writeTextFile(join(folder, "machine.json"), "{}");
    const script = `source <(zonewright completion bash)
COMP_WORDS=(zonewright "$@"); COMP_CWORD=$#
_zonewright; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout, stderr } = await new Deno.Command("bash", {
      args: ["-c", script, "bash", ...words],
      cwd: folder,
      env: {
        ...SELF.env,
        PATH: `${folder}:${Deno.env.get("PATH")}`,
        ZONEWRIGHT_URL: url,
        COMP_LINE: line,
      },
    }).output();
    assertEquals(new TextDecoder().decode(stderr), "");
    return new TextDecoder().decode(stdout).split("\n").filter((line) => line !== "");
  });
}

programTest("bash", "bash completes commands, verbs and flags without an agent", async () => {
  assertEquals(await offered(["wor"]), ["workflow"]);
  const verbs = await offered(["job", ""]);
  assert(verbs.includes("run") && verbs.includes("cancel"), verbs.join());
  assertEquals(await offered(["job", "get", "--js"]), ["--json"]);
  assertEquals(await offered(["install", "sm"]), ["smf"]);
  assertEquals(await offered(["job", "list", "--execution", "que"]), ["queued"]);
  assertEquals(await offered(["job", "list", "--state", "que"]), ["queued"]);
  assertEquals(await offered(["serve", "--log-level", "w"]), ["warn"]);
  assertEquals(await offered(["serve", "--simulated-engine", ""]), ["fake", "qemu", "auto"]);
  assertEquals(await offered(["media", "add", "--check", "si"]), ["signature"]);
  assertEquals(await offered(["nonsense", ""]), []);
  assertEquals(await offered(["job", "get", ""]), []);
});

programTest("bash", "bash completes files where a file belongs", async () => {
  assertEquals(await offered(["db", "backup", "mach"]), ["machine.json"]);
  assertEquals(await offered(["machine", "create", "-f", "mach"]), ["machine.json"]);
});

programTest(
  "bash",
  "bash completes jobs and workflows that the agent knows",
  () =>
    withHttpAgent(async (agent) => {
      const uuid = await newJob(agent);
      assertEquals(await offered(["job", "get", uuid.slice(0, 8)], agent.url), [uuid]);
      const { body } = await agent.call("GET", "/workflows");
      const [{ name }] = body as [{ name: string }];
      assertEquals(await offered(["job", "run", name.slice(0, 2)], agent.url), [name]);
      assertEquals(await offered(["job", "list", "--workflow", name.slice(0, 2)], agent.url), [
        name,
      ]);
    }),
);

programTest(
  "bash",
  "bash completes media by the names and digests that the agent knows, and paths as files",
  () =>
    withFolder((folder) =>
      withHttpAgent(
        async ({ url, call }) => {
          assertEquals((await call("PUT", "/agent/v1/media/library/a.iso", "x")).status, 201);
          assertEquals(await offered(["media", "rm", ""], url), ["a.iso"]);
          const [digest = ""] = await offered(["media", "verify", ""], url);
          assertMatch(digest, /^[0-9a-f]{64}$/);
          for (const words of [["media", "add"], ["machine", "create", "--iso"]]) {
            assertEquals(await offered([...words, ""], url), ["a.iso"]);
            assertEquals(await offered([...words, "./mach"], url), ["./machine.json"]);
          }
        },
        {},
        folder,
      )
    ),
);

programTest(
  "bash",
  "what bash completes is one word that it reads as text, whatever somebody has called it",
  () =>
    withHttpAgent(async (agent) => {
      const named = async (name: string) => {
        const chain = [{ body: "function (job, cb) { cb(); }" }];
        assertEquals((await agent.call("POST", "/workflows", { name, chain })).status, 201);
      };
      for (let n = 0; n < 100; n++) await named(`many ${n}`);
      const evil = "evil; touch '$HOME' `id` & \"x\"";
      for (const name of [evil, evil, "evil\n:files", ":files"]) await named(name);
      const inBash = async (...typed: string[]) => {
        const words = await offered(["job", "run", ...typed], agent.url);
        const args = ["-c", `printf '%s\\n' ${words.join(" ")}`];
        const { stdout } = await new Deno.Command("bash", { args }).output();
        return new TextDecoder().decode(stdout).trimEnd().split("\n");
      };
      assertEquals(await inBash("evil"), [evil]);
      assertEquals(await offered(["job", "run", '"evil'], agent.url), []);
      assertEquals(await offered(["job", "run", "'evil"], agent.url), []);
      assertEquals(await offered(["job", "run", '"many 99'], agent.url), ["many 99"]);
      assertEquals((await offered(["job", "run", ""], agent.url)).length, 100);
    }),
);

programTest(
  "bash",
  "bash completes behind an address and behind an equals sign",
  () =>
    withHttpAgent(async (agent) => {
      await newJob(agent);
      const { body } = await agent.call("GET", "/workflows");
      const [{ name }] = body as [{ name: string }];
      const list = `zonewright job list --url ${agent.url} --workflow`;
      assertEquals(await offeredOnLine(`${list} ${name.slice(0, 2)}`), [name]);
      assertEquals(await offeredOnLine(`${list}=${name.slice(0, 2)}`), [name]);
      assert((await offeredOnLine(`${list}=`)).includes(name));
    }),
);

for (const shell of ["zsh", "fish"]) {
  programTest(shell, `${shell} can read its script`, () =>
    withFolder(async (folder) => {
      const path = join(folder, "script");
      await Deno.writeTextFile(path, COMPLETION_SCRIPTS[shell] ?? "");
      const { code, stderr } = await new Deno.Command(shell, { args: ["-n", path] }).output();
      assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
    }));
}

programTest(
  "groff",
  "the manual page is sound, and names every command and exit code",
  () =>
    withFolder(async (folder) => {
      const { stdout } = await new Deno.Command(SELF.program, {
        args: [...SELF.args, "man"],
        env: SELF.env,
      }).output();
      const path = join(folder, "zonewright.8");
      await Deno.writeFile(path, stdout);
      const { stdout: page, stderr } = await new Deno.Command("groff", {
        args: ["-man", "-ww", "-Tutf8", "-P-c", path],
      }).output();
      assertEquals(new TextDecoder().decode(stderr), "");
      // Terminals print bold as a letter over itself.
      const text = new TextDecoder().decode(page).split("\b").map((part, at, all) =>
        at === all.length - 1 ? part : part.slice(0, -1)
      ).join("");
      const variables = ["ZONEWRIGHT_URL", "ZONEWRIGHT_TOKEN_FILE", "ZONEWRIGHT_CA"];
      for (const words of ["zonewright job run", "zonewright db backup", "124", ...variables]) {
        assertStringIncludes(text, words);
      }
    }),
);

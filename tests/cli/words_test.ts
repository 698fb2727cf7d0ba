// What is said of the mistakes of a first day: the fact, what was expected, and the next command.

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { withHttpAgent } from "../http/http_agent.ts";
import { withFolder } from "../support/until.ts";
import { openScreen, said, screenFor } from "./screen.ts";

/** Runs a command that must fail. @returns its exit code and its lines on standard error */
async function failed(...words: string[]): Promise<{ code: number; error: string; hint: string }> {
  const screen = openScreen();
  const code = await screen.run(...words);
  assertEquals(screen.out(), "", words.join(" "));
  const lines = screen.err().trimEnd().split("\n").filter((line) => !line.startsWith("{"));
  const [error = "", hint = ""] = lines;
  assertEquals(lines.length, 2, screen.err());
  return { code, error, hint };
}

const DEV = ["--dev", "--listen", "127.0.0.1:0"];

Deno.test("a state folder below a file, or one that is a file, is not reported as a bug", () =>
  withFolder(async (folder) => {
    const file = join(folder, "file");
    await Deno.writeTextFile(file, "");
    for (const stateDir of [file, join(file, "state")]) {
      for (const command of [["serve", ...DEV], ["token", "list", "--dev"]]) {
        const { code, error, hint } = await failed(...command, "--state-dir", stateDir);
        // A command that makes no folder looks at the path itself first.
        const isSeen = command[0] === "token" && stateDir === file;
        const words = isSeen
          ? `Cannot use ${stateDir}: it is not a folder`
          : `Cannot use ${stateDir} as the state folder: it, or a folder of its path, is a file`;
        assertStringIncludes(error, words);
        assertMatch(String(code), /^[16]$/);
        assertStringIncludes(hint, "zonewright doctor --run state");
      }
    }
  }));

Deno.test("a read-only state folder is named, with --state-dir", async () => {
  const { error } = await failed("serve", ...DEV, "--state-dir", "/proc/zonewright");
  assertStringIncludes(error, "Cannot use /proc/zonewright as the state folder: ");
  assertStringIncludes(error, "--state-dir names another");
});

Deno.test({
  name:
    "a port that is taken names the process that has it, and how to choose another [needs Linux]",
  ignore: Deno.build.os !== "linux",
  fn: () =>
    withFolder(async (folder) => {
      const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
      const { port } = listener.addr;
      try {
        const place = ["--state-dir", join(folder, "state"), "--listen", `127.0.0.1:${port}`];
        const { code, error, hint } = await failed("serve", "--dev", ...place);
        assertEquals(code, 6);
        assertStringIncludes(
          error,
          `Cannot listen on http://127.0.0.1:${port}: process ${Deno.pid} (`,
        );
        assertStringIncludes(error, "expected a free port; --listen HOST:PORT names another");
        assertStringIncludes(hint, "zonewright serve --listen 127.0.0.1:0");
      } finally {
        listener.close();
      }
    }),
});

Deno.test("a text without quotes in the configuration is shown with them, once", () =>
  withFolder(async (folder) => {
    const path = join(folder, "z.toml");
    const cases: [string, string][] = [
      ["listen = 127.0.0.1:8780", 'listen = "127.0.0.1:8780"'],
      ["host = simulated  # a note", 'host = "simulated"'],
      ["cache_max = 64GiB", 'cache_max = "64GiB"'],
      ["state_dir = /var/lib/zonewright", 'state_dir = "/var/lib/zonewright"'],
    ];
    for (const [line, corrected] of cases) {
      await Deno.writeTextFile(path, `slots = 2\n${line}\n`);
      const { code, error } = await failed("config", "check", "--config", path);
      assertEquals(code, 2);
      assertMatch(
        error,
        /^zonewright: Cannot read the configuration: \S+z\.toml:2:\d+: a text needs quotes/,
      );
      assertStringIncludes(error, `expected ${corrected}`);
    }
  }));

Deno.test("a configuration that is a folder, or missing, is named without system error numbers", () =>
  withFolder(async (folder) => {
    const { error } = await failed("config", "show", "--config", folder);
    assertEquals(
      error,
      `zonewright: Cannot read the configuration ${folder}: is a directory, ` +
        "expected a configuration file",
    );
    const missing = await failed("config", "show", "--config", join(folder, "none"));
    assertStringIncludes(missing.error, "none: no such file or directory");
    assertEquals(missing.code, 4);
  }));

Deno.test("https to an agent that speaks http fails and says so", () =>
  withHttpAgent(async (agent) => {
    const screen = screenFor(agent.url.replace("http:", "https:"));
    assertEquals(await screen.run("status"), 3);
    assertStringIncludes(
      screen.err(),
      "it speaks http, not https, expected an address with http://",
    );
  }));

Deno.test("both words for a state choose the same jobs", () =>
  withHttpAgent(async (agent) => {
    for (const words of [["success", "succeeded"], ["failure", "failed"]]) {
      const lists = await Promise.all(
        words.map(async (word) => (await said(agent, ["job", "list", "--state", word])).code),
      );
      assertEquals(lists, [0, 0]);
    }
  }));

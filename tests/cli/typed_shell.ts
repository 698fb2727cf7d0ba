// A shell in a terminal of its own, as somebody types into it: what a completion leaves on the line is
// seen by the program that the line then starts.

import { join } from "@std/path";
import { until } from "../support/until.ts";
import { selfOfRun } from "../support/agent_process.ts";

const SELF = selfOfRun();

/** How each shell is started without anybody's own settings, with our completion. */
const SHELLS = {
  bash: {
    start: "bash --norc --noprofile -i",
    load: "PS1='> '; source <(zonewright completion bash)",
  },
  zsh: {
    start: "zsh -f -i",
    load: "autoload -U compinit; compinit -D; source <(zonewright completion zsh)",
  },
  fish: { start: "fish --no-config -i", load: "zonewright completion fish | source" },
} as const;

export type Shell = keyof typeof SHELLS;

/** The program under its name: it completes, and writes down with which words it was started. */
async function installIn(folder: string): Promise<void> {
  const real = [SELF.program, ...SELF.args].map((word) => `'${word}'`).join(" ");
  const path = join(folder, "bin", "zonewright");
  await Deno.mkdir(join(folder, "bin"));
  await Deno.writeTextFile(
    path,
    `#!/bin/sh
case $1 in __complete | completion) exec ${real} "$@" ;; esac
printf '%s\\n' "$@" > '${folder}/words.new' && mv '${folder}/words.new' '${folder}/words'
`,
  );
  await Deno.chmod(path, 0o755);
}

/**
 * Types lines into a shell, each with a Tab where it says `\t`, and answers with which words each has
 * started the program.
 * @param folder where the shell works; its entries are what it can complete
 */
export async function typed(
  shell: Shell,
  folder: string,
  lines: readonly string[],
): Promise<string[][]> {
  const tools = await Deno.makeTempDir({ prefix: "zonewright-test-" });
  await installIn(tools);
  const { start, load } = SHELLS[shell];
  const process = new Deno.Command("script", {
    args: ["-qfc", start, "/dev/null"],
    cwd: folder,
    clearEnv: true,
    env: {
      ...SELF.env,
      HOME: tools,
      TERM: "dumb",
      PATH: `${join(tools, "bin")}:/usr/bin:/bin`,
      ZONEWRIGHT_URL: "http://127.0.0.1:1",
    },
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  let seen = "";
  const reading = process.stdout.pipeThrough(new TextDecoderStream()).pipeTo(
    new WritableStream({ write: (text) => void (seen += text) }),
  );
  const writer = process.stdin.getWriter();
  const type = (text: string) => writer.write(new TextEncoder().encode(text));
  try {
    await type(`${load}; touch '${tools}/ready'\n`);
    await until(`${shell} to be ready: ${seen}`, () => statOf(join(tools, "ready")));
    const all: string[][] = [];
    for (const line of lines) {
      await type(`${line}\n`);
      const path = join(tools, "words");
      await until(`${shell} to run ${JSON.stringify(line)}`, () => statOf(path)).catch((error) => {
        throw new Error(`${error.message}; it showed:\n${seen}`);
      });
      all.push((await Deno.readTextFile(path)).split("\n").slice(0, -1));
      await Deno.remove(path);
    }
    return all;
  } finally {
    // Closing the terminal ends the shell, whatever stands on its line.
    process.kill("SIGTERM");
    await writer.close().catch(() => {});
    await process.status;
    await reading;
    await Deno.remove(tools, { recursive: true });
  }
}

async function statOf(path: string): Promise<Deno.FileInfo | undefined> {
  return await Deno.stat(path).catch(() => undefined);
}

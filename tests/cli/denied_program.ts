// Every command that has to do with files, typed by a user who may not touch them. A process of its own, since
// root becomes another user in it for good. Prints a JSON line for every command, which denied_test.ts judges.

import { join } from "@std/path";
import process from "node:process";
import { COMMANDS } from "./hinted_commands.ts";
import { openScreen } from "./screen.ts";
// What `serve` would load when it is somebody else already, who may not read the sources.
import "../../src/agent/agent.ts";

/** Somebody who owns nothing here. */
const NOBODY = 65_534;

/** What became of one command. */
export interface Denied {
  readonly line: string;
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** How a state folder is closed: to everything, to looking into it, to writing. */
const CLOSED: Readonly<Record<string, number>> = {
  shut: 0o000,
  unlisted: 0o111,
  unwritable: 0o555,
};

/** What may be done in such a folder all the same, since nothing is there to be opened. */
const ALLOWED: Readonly<Record<string, RegExp>> = {
  unlisted: /^(?:token list|doctor)/,
  // An agent opens a folder of its own to itself.
  unwritable: /^(?:serve .*unwritable$|token (?:list|revoke)|db|doctor)/,
};

/** Command lines for a state folder. */
function stateLines(state: string): string[][] {
  const here = ["--dev", "--state-dir", state];
  return [
    ["serve", "--listen", "127.0.0.1:0", ...here],
    ["serve", "--listen", "127.0.0.1:0", "--dev", "--state-dir", join(state, "below")],
    ["token", "list", ...here],
    ["token", "create", "--name", "new", "--scope", "read", ...here],
    ["token", "revoke", "old", ...here],
    ["db", "check", "--state-dir", state],
    ["db", "backup", "/dev/null/backup.db", "--state-dir", state],
    ["doctor", "--run", "state", "--state-dir", state],
  ];
}

/** Command lines for a file that may not be read, and a folder that may not be written. */
function fileLines(file: string, folder: string): string[][] {
  return [
    ["config", "check", "--config", file],
    ["config", "set", "slots", "3", "--config", file],
    ["config", "init", join(folder, "new.toml")],
    ["media", "upload", file, "--name", "a.iso"],
    ["workflow", "create", "-f", file],
    ["workflow", "validate", file],
    ["status", "--token-file", file],
    ["status", "--ca", file, "--url", "https://127.0.0.1:1"],
    ["serve", "--dev", "--listen", "127.0.0.1:0", "--config", file],
  ];
}

async function play(folder: string): Promise<void> {
  const lines: string[][] = [];
  for (const [name, mode] of Object.entries(CLOSED)) {
    const state = join(folder, name);
    await Deno.mkdir(state);
    await Deno.chmod(state, mode);
    lines.push(...stateLines(state).filter((words) => !ALLOWED[name]?.test(words.join(" "))));
  }
  const file = join(folder, "closed.txt");
  await Deno.writeTextFile(file, "slots = 1\n", { mode: 0o600 });
  await Deno.chmod(file, 0o000);
  lines.push(...fileLines(file, join(folder, "unwritable")));
  const path = join(folder, "closed.sock");
  using _listener = Deno.listen({ transport: "unix", path });
  await Deno.chmod(path, 0o600);
  lines.push(["status", "--socket", path]);
  if (Deno.uid() === 0) {
    await Deno.chmod(folder, 0o755);
    process.setgid?.(NOBODY);
    process.setuid?.(NOBODY);
  }
  for (const words of lines) {
    const screen = openScreen({ cwd: "/" });
    const code = await screen.run(...words);
    const done: Denied = { line: words.join(" "), code, out: screen.out(), err: screen.err() };
    console.log(JSON.stringify(done));
  }
}

if (import.meta.main) {
  if (COMMANDS.size === 0) throw new Error("Cannot play: there are no commands");
  await play(Deno.args[0] ?? "");
}

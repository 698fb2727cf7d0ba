// What is said to a user who may not read or write what a command needs: also where the tests are root's.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import type { Denied } from "./denied_program.ts";
import { withFolder } from "../support/until.ts";
import { commandOf, linesIn } from "./hinted_commands.ts";

const PROGRAM = fromFileUrl(new URL("denied_program.ts", import.meta.url));

async function played(folder: string): Promise<Denied[]> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--cached-only", "--no-check", "--no-prompt", "-A", PROGRAM, folder],
    stdin: "null",
    env: { NO_COLOR: "1" },
  }).output();
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  const lines = new TextDecoder().decode(stdout).trim().split("\n");
  return lines.map((line) => JSON.parse(line) as Denied);
}

Deno.test("a missing permission is named with the file, and no command calls it a bug", () =>
  withFolder(async (folder) => {
    const all = await played(folder);
    assert(all.length >= 25, `${all.length} commands`);
    for (const { line, code, out, err } of all) {
      const text = `${line}\n${out}${err}`;
      const isSocket = line.startsWith("status --socket");
      assert((isSocket ? [3] : [1, 2]).includes(code), `${code}: ${text}`);
      if (isSocket) assertMatch(err, /expected its owner, root, or a user whom socket_mode/);
      assertMatch(text, /permission denied/, text);
      assertStringIncludes(out + err, folder, text);
      assertEquals(
        /internal error|os error|undefined|\[object/i.exec(out + err)?.[0],
        undefined,
        text,
      );
      if (line.startsWith("doctor")) {
        assertStringIncludes(out, "fix: run the doctor as the user of the agent, or as root");
        continue;
      }
      const hints = err.split("\n").filter((one) => one.startsWith("hint: ")).flatMap(linesIn);
      assert(hints.length > 0, text);
      for (const hint of hints) {
        commandOf(hint);
        assert(hint !== line, text);
      }
    }
    for (const name of ["shut", "unlisted", "unwritable"]) {
      await Deno.chmod(join(folder, name), 0o755);
    }
  }));

// Files of the state folder, when a user has laid other things under their names, or lets others at them.

import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { AgentError } from "../../src/domain/error.ts";
import { randomUuid } from "../../src/domain/id.ts";
import { examineOwnFolder, readOwnFile, replaceOwnFile } from "../../src/state_dir/own_file.ts";
import { takeStateDir } from "../../src/state_dir/state_dir.ts";
import { COMMANDS, KINDS, NAMES, type Outcome } from "./own_file_program.ts";
import { withFolder } from "../support/until.ts";

const PROGRAM = fromFileUrl(new URL("own_file_program.ts", import.meta.url));

/** Runs a part of the program beside this file, as root; its lines as JSON. */
async function played<T>(part: string): Promise<T[]> {
  return await withFolder(async (folder) => {
    // The user of the state folder comes as far as there, and no further.
    await Deno.chmod(folder, 0o711);
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "--quiet", "--cached-only", "--no-prompt", "-A", PROGRAM, folder, part],
      stdin: "null",
    }).output();
    assertEquals(code, 0, new TextDecoder().decode(stderr));
    const lines = new TextDecoder().decode(stdout).trim().split("\n");
    return lines.map((line) => JSON.parse(line) as T);
  });
}

const asRoot = { ignore: Deno.uid() !== 0 };

Deno.test({
  ...asRoot,
  name:
    "no command of root follows, waits for, or writes to what a user has laid in its state folder",
  async fn() {
    const outcomes = await played<Outcome>("laid");
    assertEquals(outcomes.length, Object.keys(COMMANDS).length * NAMES.length * KINDS.length);
    for (const { command, name, kind, code, said, harm } of outcomes) {
      const reported = [command, name, kind, said];
      assertEquals([...reported, harm, code], [...reported, "", 1]);
      assertStringIncludes(said, `/state/${name}: it is `);
    }
  },
});

Deno.test({
  ...asRoot,
  name:
    "root acts as the owner of a folder: what it opens there without a look is the owner's to open",
  async fn() {
    const [[text, mode, database, harm, read, after] = []] = await played<string[]>("blindly");
    assertStringIncludes(text ?? "", "PermissionDenied");
    assertStringIncludes(mode ?? "", "(os error");
    assertStringIncludes(database ?? "", "unable to open");
    assertEquals(harm, "");
    assertStringIncludes(read ?? "", "PermissionDenied");
    assertEquals(after, "root again");
  },
});

Deno.test({
  ...asRoot,
  name: "a user who lays links while root restores does no harm",
  async fn() {
    const [[harm, codes = ""] = []] = await played<string[]>("race");
    assertEquals([harm, codes.split(",").length], ["", 40]);
  },
});

Deno.test("a state folder is refused where others could put another in its place", () =>
  withFolder(async (folder) => {
    const state = join(folder, "between", "state");
    await Deno.mkdir(state, { recursive: true, mode: 0o700 });
    for (const mode of [0o777, 0o770, 0o702]) {
      await Deno.chmod(join(folder, "between"), mode);
      const error = assertThrows(() => examineOwnFolder(state), AgentError);
      assertEquals(error.code, "forbidden");
      assertStringIncludes(error.message, `whose mode is 0${mode.toString(8)}`);
      await assertRejects(() => takeStateDir(state, randomUuid), AgentError);
    }
    // As in a folder for temporary files.
    await Deno.chmod(join(folder, "between"), 0o1777);
    (await takeStateDir(state, randomUuid)).release();
  }));

Deno.test({
  ...asRoot,
  name: "an agent does not work in the folder of another user",
  fn: () =>
    withFolder(async (folder) => {
      const state = join(folder, "state");
      await Deno.mkdir(state, { mode: 0o700 });
      await Deno.chown(state, 12_345, 12_345);
      const error = await assertRejects(() => takeStateDir(state, randomUuid), AgentError);
      assertEquals(error.code, "forbidden");
      assertStringIncludes(error.message, "it belongs to user 12345, and this process runs as 0");
      assertEquals([...Deno.readDirSync(state)], []);
    }),
});

Deno.test("a file that cannot be replaced leaves nothing under its unfinished name", () =>
  withFolder(async (folder) => {
    const path = join(folder, "tokens.json");
    await Deno.mkdir(join(path, "in the way"), { recursive: true });
    await assertRejects(() => replaceOwnFile(path, "whole\n"), AgentError);
    assertEquals(Array.from(Deno.readDirSync(folder), ({ name }) => name), ["tokens.json"]);
  }));

Deno.test("a file is replaced as a whole, whatever a kill has left under its unfinished name", () =>
  withFolder(async (folder) => {
    const path = join(folder, "runner_id");
    await Deno.writeTextFile(`${path}.new`, "half");
    await replaceOwnFile(path, "whole\n");
    const { text, mode } = await readOwnFile(path) ?? { text: "", mode: 0 };
    assertEquals([text, mode & 0o777], ["whole\n", 0o600]);
    assertEquals(Array.from(Deno.readDirSync(folder), ({ name }) => name), ["runner_id"]);
    assertEquals(await readOwnFile(join(folder, "agent.pid")), undefined);
    const mine = await Deno.stat(path);
    assert((mine.nlink ?? 1) === 1);
  }));

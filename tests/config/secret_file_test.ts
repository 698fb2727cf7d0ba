// A file that holds one secret word: what it may hold, and what the doctor says of its mode.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import { indexTokenCheck } from "../../src/service/doctor/access.ts";
import { AgentError } from "../../src/domain/error.ts";
import { readSecretFile } from "../../src/state_dir/secret_file.ts";
import { withFolder } from "../support/until.ts";

Deno.test("a secret is one word of a private file, and no error repeats it", () =>
  withFolder(async (folder) => {
    const path = join(folder, "secret");
    const write = (text: string) => Deno.writeTextFile(path, text, { mode: 0o600 });
    await write("s3cret\r\n");
    assertEquals(await readSecretFile(path), "s3cret");
    for (const text of ["", "\n", "s3 cret", "s3cret\n\n", "s3cret\x01", "s3".repeat(2049)]) {
      await write(text);
      const error = await assertRejects(() => readSecretFile(path), AgentError, "one word");
      assert(!error.message.includes("s3"), error.message);
    }
    const check = indexTokenCheck({ path, read: readSecretFile });
    assertEquals((await check.examine()).outcome, "fail");
    await write("s3cret");
    assertEquals((await check.examine()).outcome, "ok");
    await Deno.chmod(path, 0o644);
    const error = await assertRejects(() => readSecretFile(path), AgentError, "mode is 0644");
    assertEquals(error.code, "forbidden");
    await (await check.examine()).repair?.();
    assertEquals((await check.examine()).outcome, "ok");
  }));

import { assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { AgentError } from "../src/domain/error.ts";
import { randomUuid } from "../src/domain/id.ts";
import { takeStateDir } from "../src/state/state_dir.ts";
import { changeTokenFile, tokenFilePath } from "../src/state/token_file.ts";
import { withFolder } from "./support/until.ts";

Deno.test("takeStateDir() keeps the runner's name over restarts", async () => {
  await withFolder(async (folder) => {
    const first = await takeStateDir(folder, randomUuid);
    first.release();
    const second = await takeStateDir(folder, randomUuid);
    second.release();
    assertEquals(second.runner_id, first.runner_id);
  });
});

Deno.test("takeStateDir() gives a new name where the file holds none", async () => {
  await withFolder(async (folder) => {
    const first = await takeStateDir(folder, randomUuid);
    first.release();
    await Deno.writeTextFile(`${folder}/runner_id`, "torn");
    const second = await takeStateDir(folder, randomUuid);
    second.release();
    assertNotEquals(second.runner_id, first.runner_id);
    assertEquals((await Deno.readTextFile(`${folder}/runner_id`)).trim(), second.runner_id);
  });
});

Deno.test("takeStateDir() refuses a folder that is taken, and closes it to others", async () => {
  await withFolder(async (folder) => {
    const first = await takeStateDir(folder, randomUuid);
    try {
      const error = await assertRejects(() => takeStateDir(folder, randomUuid), AgentError);
      assertEquals(error.code, "conflict");
      assertEquals(((await Deno.stat(folder)).mode ?? 0) & 0o777, 0o700);
    } finally {
      first.release();
    }
  });
});

Deno.test("takeStateDir() does not close a folder that others use", async () => {
  await withFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/passwd`, "");
    await Deno.chmod(folder, 0o755);
    const error = await assertRejects(() => takeStateDir(folder, randomUuid), AgentError);
    assertEquals(error.code, "conflict");
    assertEquals(((await Deno.stat(folder)).mode ?? 0) & 0o777, 0o755);
    assertEquals(Array.from(Deno.readDirSync(folder), ({ name }) => name), ["passwd"]);
  });
});

Deno.test("takeStateDir() takes a folder in which tokens were made before its first start", async () => {
  await withFolder(async (folder) => {
    await changeTokenFile(tokenFilePath(folder), (tokens) => tokens);
    await Deno.chmod(folder, 0o755);
    (await takeStateDir(folder, randomUuid)).release();
    assertEquals(((await Deno.stat(folder)).mode ?? 0) & 0o777, 0o700);
  });
});

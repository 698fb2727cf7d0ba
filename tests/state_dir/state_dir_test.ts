import { assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { randomUuid } from "../../src/domain/id.ts";
import { takeStateDir } from "../../src/state_dir/state_dir.ts";
import { changeTokenFile, tokenFilePath } from "../../src/state_dir/token_file.ts";
import { withFolder } from "../support/until.ts";

Deno.test("takeStateDir() keeps the runner's name over restarts", async () => {
  await withFolder(async (folder) => {
    const first = await takeStateDir(folder, randomUuid);
    first.release();
    const second = await takeStateDir(folder, randomUuid);
    second.release();
    const { life, earlier } = second.runner;
    assertEquals(life.runner_id, first.runner.life.runner_id);
    assertEquals(earlier, [first.runner.life.incarnation]);
    assertNotEquals(life.incarnation, first.runner.life.incarnation);
  });
});

Deno.test("a copy of a state folder gets a new runner id, without earlier lives", async () => {
  await withFolder(async (folder) => {
    const [original, copy] = [`${folder}/original`, `${folder}/copy`];
    const first = await takeStateDir(original, randomUuid);
    try {
      await Deno.mkdir(copy, { mode: 0o700 });
      await Deno.copyFile(`${original}/runner_id`, `${copy}/runner_id`);
      const second = await takeStateDir(copy, randomUuid);
      second.release();
      assertNotEquals(second.runner.life.runner_id, first.runner.life.runner_id);
      assertEquals(second.runner.earlier, []);
      const third = await takeStateDir(copy, randomUuid);
      third.release();
      assertEquals(third.runner.life.runner_id, second.runner.life.runner_id);
    } finally {
      first.release();
    }
  });
});

Deno.test("takeStateDir() remembers a bounded number of lives", async () => {
  await withFolder(async (folder) => {
    for (let life = 0; life < 70; life++) (await takeStateDir(folder, randomUuid)).release();
    const last = await takeStateDir(folder, randomUuid);
    last.release();
    assertEquals(last.runner.earlier.length, 64);
  });
});

Deno.test("takeStateDir() gives a new name where the file holds none", async () => {
  await withFolder(async (folder) => {
    const first = await takeStateDir(folder, randomUuid);
    first.release();
    await Deno.writeTextFile(`${folder}/runner_id`, "torn");
    const second = await takeStateDir(folder, randomUuid);
    second.release();
    const { life: { runner_id } } = second.runner;
    assertNotEquals(runner_id, first.runner.life.runner_id);
    assertEquals((await Deno.readTextFile(`${folder}/runner_id`)).split("\n")[0], runner_id);
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

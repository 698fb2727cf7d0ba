import { assertEquals, assertNotEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { randomUuid } from "../../src/domain/id.ts";
import { openHostKey } from "../../src/state_dir/host_key.ts";
import { takeStateDir } from "../../src/state_dir/state_dir.ts";
import { changeTokenFile, tokenFilePath } from "../../src/state_dir/token_file.ts";
import {
  requireJobsHere,
  type TransferMark,
  writeTransferMark,
} from "../../src/state_dir/transfer_mark.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { smallDiskTest, withSmallDisk } from "../support/small_disk.ts";
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

Deno.test("openHostKey() keeps the key of a host over restarts, in a file that others cannot read", async () => {
  await withFolder(async (folder) => {
    const first = await openHostKey(folder);
    assertEquals((await openHostKey(folder)).publicKey, first.publicKey);
    assertEquals(((await Deno.stat(`${folder}/host.key`)).mode ?? 0) & 0o777, 0o600);
  });
});

Deno.test("openHostKey() refuses a file that others can read, or that holds no key, and does not change it", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/host.key`;
    await openHostKey(folder);
    const text = await Deno.readTextFile(path);
    const refused = async (content: string, mode: number) => {
      await Deno.writeTextFile(path, content);
      await Deno.chmod(path, mode);
      const error = await assertRejects(() => openHostKey(folder), AgentError);
      assertEquals(await Deno.readTextFile(path), content);
      return error;
    };
    assertEquals((await refused(text, 0o640)).code, "forbidden");
    for (
      const content of ["", text.slice(0, 20), text.slice(0, -4), `${text.slice(0, -3)}\u00e9`]
    ) {
      const error = await refused(content, 0o600);
      assertEquals([content, error.code], [content, "invalid_argument"]);
      assertStringIncludes(error.message, "it holds no key");
    }
  });
});

Deno.test("requireJobsHere() allows a start only with the database to which all jobs were moved", async () => {
  const [url, host] = ["postgres://db.example.com/one", randomUuid()];
  await withFolder(async (folder) => {
    const start = (shared?: string) => requireJobsHere(folder, host, shared);
    await start();
    await start(url);
    await writeTransferMark(folder, { word: "moved", url, host });
    await start(url);
    const refused: [mark: TransferMark, shared: string | undefined, words: string][] = [
      [{ word: "moved", url, host }, undefined, `were moved to ${url}`],
      [{ word: "moved", url, host }, `${url}2`, `were moved to ${url}`],
      [{ word: "moving", url, host }, url, "continue with `zonewright db move`"],
      [{ word: "returning", url, host }, undefined, "continue with `zonewright db move --back`"],
      [{ word: "moved", url, host: randomUuid() }, url, "this folder is a copy"],
    ];
    for (const [mark, shared, words] of refused) {
      await writeTransferMark(folder, mark);
      const error = await assertRejects(() => start(shared), AgentError);
      assertEquals(error.code, "conflict");
      assertStringIncludes(error.message, words);
    }
    await Deno.writeTextFile(`${folder}/store.moved`, "mov");
    const torn = await assertRejects(() => start(url), AgentError);
    assertStringIncludes(torn.message, 'its first line is "mov", expected moving');
  });
});

smallDiskTest(
  "a disk on which no file can be made is named, though SQLite does not name it",
  () =>
    withFolder(async (folder) => {
      // Three: its root, this file, and the state folder.
      await withSmallDisk(folder, 8, async () => {
        await Deno.writeTextFile(`${folder}/other`, "");
        for (
          const open of [
            () => takeStateDir(`${folder}/state`, randomUuid),
            () => openSqliteStore(`${folder}/zonewright.db`),
          ]
        ) {
          const { code, message } = await assertRejects<AgentError>(open, AgentError);
          assertEquals(code, "storage_full", message);
          assertStringIncludes(message, "no space left on device");
        }
      }, 3);
    }),
);

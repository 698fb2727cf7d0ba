// What the doctor closes to others when that is asked for, and what it never touches.

import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { diagnose, type Diagnosis } from "../../src/service/doctor/check.ts";
import { closeFile, diskCheck, stateFolderCheck } from "../../src/service/doctor/folders.ts";
import { mayBeStateDir } from "../../src/state_dir/state_dir.ts";
import { smallDiskTest, withoutWrites, withSmallDisk } from "../support/small_disk.ts";
import { withFolder } from "../support/until.ts";

async function mended(state: string): Promise<Diagnosis | undefined> {
  const check = stateFolderCheck(state, mayBeStateDir);
  const [found] = await diagnose([check], { repair: true, onDiagnosis: () => {} });
  return found;
}

async function modeOf(path: string): Promise<number> {
  return ((await Deno.stat(path)).mode ?? 0) & 0o777;
}

smallDiskTest(
  "a state folder on a disk that takes no change is no place for an agent",
  () =>
    withFolder((folder) =>
      withSmallDisk(folder, 1, async () => {
        await Deno.chmod(folder, 0o700);
        const { examine } = stateFolderCheck(folder, mayBeStateDir);
        assertEquals(await examine(), { outcome: "ok", detail: folder });
        await withoutWrites(folder, async () => {
          const { outcome, detail } = await examine();
          assertEquals([outcome, detail], [
            "fail",
            `${folder} is on a read-only file system: no agent can start there`,
          ]);
        });
      })
    ),
);

Deno.test("one repair closes a state folder and the files in it", () =>
  withFolder(async (folder) => {
    const database = join(folder, "zonewright.db");
    await Deno.writeTextFile(database, "");
    for (const path of [database, folder]) await Deno.chmod(path, 0o755);
    const found = await mended(folder);
    assertEquals([found?.outcome, found?.repaired], ["ok", true]);
    assertEquals([await modeOf(folder), await modeOf(database)], [0o700, 0o600]);
  }));

Deno.test("where the disk is full, the doctor says what takes it in the state folder", () =>
  withFolder(async (folder) => {
    await Deno.mkdir(join(folder, "media"));
    await Deno.writeFile(join(folder, "media", "a.iso"), new Uint8Array(3 * 1024 ** 2).fill(1));
    await Deno.writeFile(join(folder, "zonewright.db"), new Uint8Array(1024 ** 2).fill(1));
    const { outcome, detail } = await diskCheck(folder, () => Promise.resolve(0)).examine();
    assertEquals(outcome, "fail");
    assertMatch(
      detail,
      /^0 B free below \S+, which holds media \(3 MiB\), zonewright\.db \(1 MiB\)$/,
    );
    const roomy = await diskCheck(folder, () => Promise.resolve(1024 ** 4)).examine();
    assertEquals(roomy, { outcome: "ok", detail: `1 TiB free below ${folder}` });
  }));

Deno.test("the largest parts of a full state folder are found while others come and go", () =>
  withFolder(async (folder) => {
    await Deno.writeFile(join(folder, "zonewright.db"), new Uint8Array(1024 ** 2).fill(1));
    let isOver = false;
    const churn = async (name: string) => {
      while (!isOver) {
        await Deno.mkdir(join(folder, name, "guest"), { recursive: true });
        await Deno.remove(join(folder, name), { recursive: true });
      }
    };
    const churning = Promise.all(["a", "b", "c", "d"].map(churn));
    try {
      for (let time = 1; time <= 100; time++) {
        const { detail } = await diskCheck(folder, () => Promise.resolve(0)).examine();
        assertStringIncludes(detail, "which holds zonewright.db (1 MiB)");
      }
    } finally {
      isOver = true;
      await churning;
    }
  }));

Deno.test("of many open files some are named, but never in a suggested command", () =>
  withFolder(async (folder) => {
    for (const name of ["a;id", "b", "c", "d", "e", "f", "g"]) {
      await Deno.writeTextFile(join(folder, name), "");
      await Deno.chmod(join(folder, name), 0o644);
    }
    const { detail, fix } = await stateFolderCheck(folder, mayBeStateDir).examine();
    assertStringIncludes(detail, " and 2 more in ");
    assertEquals(fix, "zonewright doctor --run state --fix");
  }));

Deno.test("a folder with foreign files keeps its mode, even if configured as the state folder", () =>
  withFolder(async (folder) => {
    await Deno.writeTextFile(join(folder, "passwd"), "");
    await Deno.chmod(folder, 0o755);
    const found = await mended(folder);
    assertEquals([found?.outcome, found?.repaired], ["fail", false]);
    assertStringIncludes(found?.detail ?? "", "holds files other");
    assertEquals(await modeOf(folder), 0o755);
  }));

Deno.test("a file with a second name is left to the operator", () =>
  withFolder(async (folder) => {
    const state = join(folder, "state");
    await Deno.mkdir(state, { mode: 0o700 });
    const other = join(folder, "passwd");
    await Deno.writeTextFile(other, "");
    await Deno.chmod(other, 0o644);
    await Deno.link(other, join(state, "zonewright.db"));
    const found = await mended(state);
    assertEquals([found?.outcome, found?.repaired], ["warn", false]);
    assertStringIncludes(found?.detail ?? "", "has another name");
    await Deno.symlink(other, join(state, "tokens.json"));
    await assertRejects(() => closeFile(join(state, "tokens.json")), Error, "is a link");
    assertEquals(await modeOf(other), 0o644);
  }));

// Which keys count for which distro.

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { basename, join } from "@std/path";
import { keysCheck } from "../../src/service/doctor/folders.ts";
import { AgentError } from "../../src/domain/error.ts";
import { readKeyFolder } from "../../src/mirror/media/openpgp_check.ts";
import { withFolder } from "../support/until.ts";

/** Makes files, by their paths below a folder. */
async function withKeys(
  paths: readonly string[],
  run: (folder: string, outside: string) => Promise<void>,
): Promise<void> {
  await withFolder(async (whole) => {
    const [folder, outside] = [join(whole, "keys"), join(whole, "elsewhere")];
    await Deno.mkdir(folder);
    await Deno.mkdir(outside);
    for (const path of paths) {
      await Deno.mkdir(join(folder, path, ".."), { recursive: true });
      await Deno.writeTextFile(join(folder, path), path);
    }
    await run(folder, outside);
  });
}

async function counting(folder: string, distro: string | null): Promise<string[]> {
  return (await readKeyFolder(folder, distro)).map(({ path, bytes }) => {
    assertEquals(new TextDecoder().decode(bytes), path.slice(folder.length + 1));
    return basename(path);
  });
}

async function refusal(folder: string, distro: string | null = null): Promise<string> {
  const error = await assertRejects(() => readKeyFolder(folder, distro), AgentError);
  assertEquals(error.code, "invalid_argument");
  assertEquals((await keysCheck(folder).examine()).outcome, "fail");
  return error.message;
}

Deno.test("the keys of a distro's folder alone count for it, those at the top for all others", async () => {
  const top = ["a.asc", "b.gpg", "notes.txt", ".hidden.asc"];
  await withKeys([...top, "debian/d.asc", "alpine/.x", ".git/k.asc"], async (folder) => {
    assertEquals(await counting(folder, "debian"), ["d.asc"]);
    assertEquals(await counting(folder, "ubuntu"), ["a.asc", "b.gpg"]);
    assertEquals(await counting(folder, null), ["a.asc", "b.gpg"]);
    // An empty folder: nobody signs for it.
    assertEquals(await counting(folder, "alpine"), []);
    assertEquals(await keysCheck(folder).examine(), {
      outcome: "ok",
      detail: `${folder}: 2 files for other distros, 0 files for alpine, 1 file for debian`,
    });
  });
});

Deno.test("a folder of keys with a name that no distro can have is refused for every distro", async () => {
  await withKeys(["a.asc", "my keys/k.asc"], async (folder) => {
    for (const distro of [null, "debian"]) {
      const message = await refusal(folder, distro);
      assertStringIncludes(message, '"my keys" in it cannot be the name of a distro');
    }
  });
});

Deno.test("no link leads out of the folder of keys, and one inside may be shared", async () => {
  await withKeys(["shared/k.asc"], async (folder, outside) => {
    await Deno.symlink(join(folder, "shared"), join(folder, "ubuntu"));
    await Deno.symlink(join("shared", "k.asc"), join(folder, "top.asc"));
    assertEquals((await readKeyFolder(folder, "ubuntu")).length, 1);
    assertEquals((await readKeyFolder(folder, null)).length, 1);
    await Deno.writeTextFile(join(outside, "k.asc"), "x");
    const ways = [
      [join(outside, "k.asc"), join(folder, "out.asc")],
      [outside, join(folder, "debian")],
      [join(outside, "k.asc"), join(folder, "shared", "out.asc")],
    ] as const;
    for (const [to, from] of ways) {
      await Deno.symlink(to, from);
      assertStringIncludes(await refusal(folder, "shared"), "is a link out of it");
      await Deno.remove(from);
    }
  });
});

Deno.test({
  name: "a key that is no regular file is not read",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withKeys(["a.asc"], async (folder) => {
      const pipe = join(folder, "b.asc");
      const { success } = await new Deno.Command("mkfifo", { args: [pipe] }).output();
      assertEquals(success, true);
      assertStringIncludes(await refusal(folder), '"b.asc" is not a regular file');
    }),
});

Deno.test("the doctor refuses keys that anybody may add to, and skips where there are none", async () => {
  await withKeys(["a.asc"], async (folder) => {
    await Deno.chmod(folder, 0o777);
    const { outcome, fix } = await keysCheck(folder).examine();
    assertEquals([outcome, fix], ["fail", `chmod o-w ${folder}`]);
  });
  assertEquals((await keysCheck(null).examine()).outcome, "skipped");
  assertEquals((await keysCheck("/nowhere/keys").examine()).outcome, "fail");
});

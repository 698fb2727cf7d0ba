// Installing where somebody else has put something: links, folders and files in the way.

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { dirname, join } from "@std/path";
import { AgentError } from "../../src/domain/error.ts";
import { installService, uninstallService } from "../../src/service/installation.ts";
import { SERVICE_PATHS } from "../../src/service/manager.ts";
import { inOwnProcess } from "../support/own_process.ts";
import { smallDiskTest, withSmallDisk } from "../support/small_disk.ts";
import { modeOf, withProgram } from "./program_below.ts";

Deno.test("an installation follows no link that is in the way, and gives folders their usual modes", () =>
  withProgram(async (program, root) => {
    const { binary, config, stateDir } = SERVICE_PATHS.systemd;
    const other = join(dirname(root), "other");
    await Deno.writeTextFile(other, "somebody else's");
    await Deno.mkdir(dirname(root + binary), { recursive: true });
    await Deno.symlink(other, `${root}${binary}.new`);
    await inOwnProcess(`
      import { installService } from "./src/service/installation.ts";
      Deno.umask(0);
      const request = { manager: "systemd", root: ${JSON.stringify(root)}, start: true };
      await installService(request, { program: ${JSON.stringify(program)} });`);
    assertEquals(await Deno.readTextFile(other), "somebody else's");
    assertEquals((await Deno.lstat(root + binary)).isFile, true);
    assertEquals([await modeOf(dirname(root + config)), await modeOf(root + stateDir)], [
      0o755,
      0o700,
    ]);
  }));

Deno.test("a state folder that is a file is refused, and what could not be finished is not left", () =>
  withProgram(async (program, root) => {
    const { binary, stateDir } = SERVICE_PATHS.systemd;
    const request = { manager: "systemd", root, start: true } as const;
    await Deno.mkdir(dirname(root + stateDir), { recursive: true });
    await Deno.writeTextFile(root + stateDir, "");
    const refused = await assertRejects(() => installService(request, { program }), AgentError);
    assertStringIncludes(refused.message, `${stateDir}: it is not a folder`);
    // A folder has the name of the program.
    await Deno.remove(root + binary);
    await Deno.mkdir(root + binary);
    const error = await assertRejects(() => installService(request, { program }), AgentError);
    assertEquals(error.code, "conflict");
    await assertRejects(() => Deno.lstat(`${root}${binary}.new`), Deno.errors.NotFound);
  }));

smallDiskTest(
  "a full disk is reported as such, and gets its room back",
  () =>
    withProgram(async (program, root) => {
      await Deno.mkdir(root);
      await Deno.truncate(program, 2 * 1024 * 1024);
      await withSmallDisk(root, 1, async () => {
        const request = { manager: "systemd", root, start: true } as const;
        const error = await assertRejects(() => installService(request, { program }), AgentError);
        assertEquals(error.code, "storage_full");
        const { binary } = SERVICE_PATHS.systemd;
        assertEquals(Array.from(Deno.readDirSync(dirname(root + binary))), []);
      });
    }),
);

Deno.test("a link that leads out of an image is refused, and nothing is written there", () =>
  withProgram(async (program, root) => {
    const outside = join(dirname(root), "outside");
    await Deno.mkdir(outside);
    await Deno.mkdir(join(root, "etc"), { recursive: true });
    // As /var/run has it; what stays within is followed.
    await Deno.mkdir(join(root, "volumes"));
    await Deno.symlink("volumes", join(root, "var"));
    const request = { manager: "systemd", root, start: true } as const;
    await Deno.symlink(outside, join(root, "etc/systemd"));
    for (
      const work of [
        () => installService(request, { program }),
        () => uninstallService(request, {}),
      ]
    ) {
      const error = await assertRejects(work, AgentError);
      assertStringIncludes(error.message, `leads out of ${root}`);
      assertEquals(error.code, "conflict");
    }
    assertEquals(Array.from(Deno.readDirSync(outside)), []);
    assertEquals(Array.from(Deno.readDirSync(join(root, "etc")), ({ name }) => name), ["systemd"]);
    await Deno.remove(join(root, "etc/systemd"));
    await installService(request, { program });
    assertEquals((await Deno.stat(join(root, "volumes/lib/zonewright"))).isDirectory, true);
  }));

Deno.test("an uninstall refuses a folder in the place of its binary", () =>
  withProgram(async (_program, root) => {
    const { binary } = SERVICE_PATHS.systemd;
    await Deno.mkdir(root + binary, { recursive: true });
    const request = { manager: "systemd", root } as const;
    const error = await assertRejects(() => uninstallService(request, {}), AgentError);
    assertStringIncludes(error.message, `${binary} is a folder`);
    assertEquals((await Deno.stat(root + binary)).isDirectory, true);
  }));

Deno.test("an uninstall also reports a blocked path", () =>
  withProgram(async (_program, root) => {
    await Deno.mkdir(root);
    await Deno.writeTextFile(join(root, "etc"), "");
    const request = { manager: "systemd", root } as const;
    const error = await assertRejects(() => uninstallService(request, {}), AgentError);
    assertEquals(error.code, "conflict");
    assertStringIncludes(error.message, SERVICE_PATHS.systemd.definition);
  }));

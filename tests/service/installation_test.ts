// Installing below a folder, as a package does, and in place with the programs of a service manager
// recorded: what is written, with which rights, and what is never touched.

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { dirname, join } from "@std/path";
import { AgentError } from "../../src/domain/error.ts";
import { installService, uninstallService } from "../../src/service/installation.ts";
import { SERVICE_MANAGERS, SERVICE_PATHS } from "../../src/service/manager.ts";
import { withFolder } from "../support/until.ts";
import { modeOf, withProgram } from "./program_below.ts";
import { smf, systemd } from "./service_managers.ts";

for (const manager of SERVICE_MANAGERS) {
  Deno.test(`an installation for ${manager} below a folder is complete, and repeated keeps the configuration`, () =>
    withFolder(async (folder) => {
      const program = join(folder, "download");
      await Deno.writeTextFile(program, "first");
      const root = join(folder, "root");
      const paths = SERVICE_PATHS[manager];
      const tools = { program };
      const request = { manager, root, start: true };
      const first = await installService(request, tools);
      assertEquals(first.kept, []);
      assertEquals(await Deno.readTextFile(root + paths.binary), "first");
      assertEquals(await modeOf(root + paths.binary), 0o755);
      assertEquals(await modeOf(root + paths.stateDir), 0o700);
      assertEquals(await modeOf(root + paths.config), 0o640);
      assertStringIncludes(await Deno.readTextFile(root + paths.definition), paths.binary);

      await Deno.writeTextFile(root + paths.config, "# mine\n");
      await Deno.writeTextFile(program, "second");
      const second = await installService(request, tools);
      assertEquals(second.kept, [paths.config]);
      assertEquals(await Deno.readTextFile(root + paths.binary), "second");
      assertEquals(await Deno.readTextFile(root + paths.config), "# mine\n");

      const removal = await uninstallService(request, {});
      assertEquals(removal.removed, [paths.definition, paths.binary]);
      assertEquals(removal.kept, [paths.config, paths.stateDir]);
      assertEquals((await uninstallService(request, {})).removed, []);
    }));
}

Deno.test("an installation that cannot be written says what could not be", () =>
  withFolder(async (folder) => {
    // Root may write everywhere but through a file.
    await Deno.writeTextFile(join(folder, "usr"), "");
    const program = join(folder, "download");
    await Deno.writeTextFile(program, "x");
    const request = { manager: "systemd", root: folder, start: true } as const;
    const error = await assertRejects(() => installService(request, { program }), AgentError);
    assertStringIncludes(error.message, `Cannot change ${folder}/usr/local/bin/zonewright`);
    assertEquals(await Deno.readTextFile(join(folder, "usr")), "");
  }));

Deno.test("systemd reloads the unit, and the service starts with the new binary", () =>
  withProgram(async (program, root) => {
    const request = { manager: "systemd", root, start: true } as const;
    const { run, asked, service } = systemd(root);
    await installService(request, { program, run });
    assertEquals([service.enabled, service.running], [true, true]);
    const first = await uninstallService(request, { run });
    assertEquals([first.known, service.enabled, service.running], [true, false, false]);
    assertEquals((await uninstallService(request, { run })).removed, []);
    assertEquals(asked, [
      "systemctl daemon-reload",
      "systemctl enable zonewright.service",
      "systemctl restart zonewright.service",
      "systemctl show --property=LoadState,ActiveState,FragmentPath zonewright.service",
      "systemctl disable --now zonewright.service",
      "systemctl daemon-reload",
    ]);
  }));

Deno.test("SMF restarts the service with the new binary", () =>
  withProgram(async (program, root) => {
    const request = { manager: "smf", root, start: true } as const;
    const { run, asked, service } = smf(root);
    await installService(request, { program, run });
    assertEquals(service.state, "online");
    assertEquals(asked, [
      "svccfg validate /opt/custom/smf/zonewright.xml",
      "svccfg import /opt/custom/smf/zonewright.xml",
      "svcadm disable -s svc:/application/zonewright:default",
      "svcadm enable -s svc:/application/zonewright:default",
    ]);
    assertEquals((await uninstallService(request, { run })).known, true);
    assertEquals(service.state, undefined);
  }));

Deno.test("SMF is left a disabled service without a start, and install starts it afterwards", () =>
  withProgram(async (program, root) => {
    const { run, service } = smf(root);
    const request = { manager: "smf", root } as const;
    await installService({ ...request, start: false }, { program, run });
    assertEquals([service.state, service.starts], ["disabled", 0]);
    // A global zone imports the manifests again when it boots.
    service.state = undefined;
    await run("/usr/sbin/svccfg", ["import", SERVICE_PATHS.smf.definition], { deadlineMs: 1 });
    assertEquals([service.state, service.starts], ["disabled", 0]);
    await installService({ ...request, start: true }, { program, run });
    assertEquals(service.state, "online");
  }));

Deno.test("a service that SMF never imported is removed, and said to be unknown", () =>
  withProgram(async (program, root) => {
    const request = { manager: "smf", root, start: false } as const;
    await installService(request, { program });
    const { run, asked } = smf(root);
    const { removed, kept, known, ran } = await uninstallService(request, { run });
    const paths = SERVICE_PATHS.smf;
    assertEquals([removed, kept], [[paths.definition, paths.binary], [
      paths.config,
      paths.stateDir,
    ]]);
    assertEquals([known, ran], [false, []]);
    assertEquals(asked, ["svcs -H -o state svc:/application/zonewright:default"]);
  }));

Deno.test("an unfinished installation is removed with its temporary files", () =>
  withProgram(async (program, root) => {
    for (const { manager, run } of [smf(root), systemd(root)]) {
      const { binary, definition, stateDir } = SERVICE_PATHS[manager];
      await installService({ manager, root, start: false }, { program });
      await Deno.rename(root + definition, `${root}${definition}.new`);
      const { removed, kept } = await uninstallService({ manager, root }, { run });
      assertEquals(removed, [binary, `${definition}.new`]);
      assertEquals(kept.at(-1), stateDir);
    }
  }));

Deno.test("an agent whose unit is gone, but which runs, is stopped", () =>
  withProgram(async (program, root) => {
    const { run, asked, service } = systemd(root);
    await installService({ manager: "systemd", root, start: true }, { program, run });
    await Deno.remove(root + SERVICE_PATHS.systemd.definition);
    await uninstallService({ manager: "systemd", root }, { run });
    assertEquals(service.running, false);
    assertEquals(asked.at(-1), "systemctl stop zonewright.service");
  }));

for (const manager of SERVICE_MANAGERS) {
  Deno.test(`a foreign definition for ${manager} is neither replaced nor removed`, () =>
    withProgram(async (program, root) => {
      const { binary, definition } = SERVICE_PATHS[manager];
      const { run, asked } = manager === "smf" ? smf(root) : systemd(root);
      await Deno.mkdir(dirname(root + definition), { recursive: true });
      for (
        const make of [
          () => Deno.writeTextFile(root + definition, "# of a package\n"),
          // What `systemctl mask` leaves.
          () => Deno.symlink("/dev/null", root + definition),
        ]
      ) {
        await make();
        const before = await Deno.lstat(root + definition);
        for (
          const work of [
            () => installService({ manager, root, start: true }, { program, run }),
            () => uninstallService({ manager, root }, { run }),
          ]
        ) {
          const error = await assertRejects(work, AgentError);
          assertStringIncludes(error.message, `${definition}: zonewright install did not write it`);
          assertEquals(error.code, "conflict");
        }
        assertEquals((await Deno.lstat(root + definition)).ino, before.ino);
        await assertRejects(() => Deno.lstat(root + binary), Deno.errors.NotFound);
        await Deno.remove(root + definition);
      }
      assertEquals(asked, []);
    }));
}

Deno.test("a unit of a package keeps running when only our binary is there", () =>
  withProgram(async (program, root) => {
    const { binary, definition } = SERVICE_PATHS.systemd;
    await installService({ manager: "systemd", root, start: false }, { program });
    await Deno.remove(root + definition);
    const { run, service } = systemd(root);
    Object.assign(service, {
      fragment: "/usr/lib/systemd/system/zonewright.service",
      running: true,
    });
    const error = await assertRejects(
      () => uninstallService({ manager: "systemd", root }, { run }),
      AgentError,
    );
    assertStringIncludes(error.message, "it comes from /usr/lib/systemd/system/zonewright.service");
    assertEquals(service.running, true);
    assertEquals((await Deno.lstat(root + binary)).isFile, true);
  }));

Deno.test("a service that runs as a user may read its configuration, and is given its state by systemd", () =>
  withProgram(async (program, root) => {
    const request = { manager: "systemd", user: "zw", root, start: false } as const;
    const { ran } = await installService(request, { program, run: systemd(root).run });
    assertEquals(ran, [
      "/usr/bin/chown :zw /etc/zonewright/zonewright.toml",
      "/usr/bin/systemctl daemon-reload",
    ]);
  }));

Deno.test("for a user that is not there nothing is installed", () =>
  withProgram(async (program, root) => {
    const request = { manager: "systemd", user: "zx", root, start: true } as const;
    const { run, asked } = systemd(root);
    const error = await assertRejects(() => installService(request, { program, run }), AgentError);
    assertEquals(error.code, "host");
    assertStringIncludes(error.message, '/id -u zx": it ended with exit code 2');
    assertEquals(asked, ["id -u zx"]);
    await assertRejects(() => Deno.lstat(root), Deno.errors.NotFound);
  }));

Deno.test("a service manager that refuses is named with its last words, and nothing is removed", () =>
  withProgram(async (program, root) => {
    const request = { manager: "smf", root, start: true } as const;
    const { run, service } = smf(root);
    await installService(request, { program, run });
    for (const refusing of ["svcs", "svcadm"]) {
      service.refusing = refusing;
      const error = await assertRejects(() => uninstallService(request, { run }), AgentError);
      assertStringIncludes(error.message, `/${refusing} `);
      assertStringIncludes(error.message, "no permission");
    }
    delete service.refusing;
    assertEquals((await uninstallService(request, { run })).removed.length, 2);
  }));

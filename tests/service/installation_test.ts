// Installing below a folder, as a package does, and in place with the programs of a service manager
// recorded: what is written, with which rights, and what is never touched.

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { AgentError } from "../../src/domain/error.ts";
import { installService, type Run, uninstallService } from "../../src/service/installation.ts";
import { SERVICE_MANAGERS, SERVICE_PATHS } from "../../src/service/service_paths.ts";
import { withFolder } from "../support/until.ts";

/** A service manager that answers what it is told to, and remembers what it was asked. */
function serviceManager(answer: { code: number; stderr: string }): { run: Run; asked: string[] } {
  const asked: string[] = [];
  const run: Run = (program, args) => {
    asked.push([program, ...args].join(" "));
    return Promise.resolve({ ...answer, signal: null, stdout: "", durationMs: 0 });
  };
  return { run, asked };
}

async function modeOf(path: string): Promise<number> {
  return ((await Deno.stat(path)).mode ?? 0) & 0o777;
}

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
    assertStringIncludes(error.message, "Cannot write /usr/local/bin/zonewright");
    assertEquals(await Deno.readTextFile(join(folder, "usr")), "");
  }));

Deno.test("systemd is told of the unit, and the service starts with the new binary", () =>
  withFolder(async (folder) => {
    const program = join(folder, "download");
    await Deno.writeTextFile(program, "x");
    const request = { manager: "systemd", root: join(folder, "root"), start: true } as const;
    const { run, asked } = serviceManager({ code: 0, stderr: "" });
    await installService(request, { program, run });
    await uninstallService(request, { run });
    await uninstallService(request, { run });
    assertEquals(asked, [
      "/usr/bin/systemctl daemon-reload",
      "/usr/bin/systemctl enable zonewright.service",
      "/usr/bin/systemctl restart zonewright.service",
      "/usr/bin/systemctl disable --now zonewright.service",
      "/usr/bin/systemctl daemon-reload",
    ]);
  }));

Deno.test("SMF starts the service anew, so that what ran before gives way to the new binary", () =>
  withFolder(async (folder) => {
    const program = join(folder, "download");
    await Deno.writeTextFile(program, "x");
    const request = { manager: "smf", root: join(folder, "root"), start: true } as const;
    const { run, asked } = serviceManager({ code: 0, stderr: "" });
    await installService(request, { program, run });
    assertEquals(asked, [
      "/usr/sbin/svccfg validate /opt/custom/smf/zonewright.xml",
      "/usr/sbin/svccfg import /opt/custom/smf/zonewright.xml",
      "/usr/sbin/svcadm disable -s svc:/application/zonewright:default",
      "/usr/sbin/svcadm enable -s svc:/application/zonewright:default",
    ]);
  }));

Deno.test("a service that runs as a user owns its state, and may read its configuration", () =>
  withFolder(async (folder) => {
    const program = join(folder, "download");
    await Deno.writeTextFile(program, "x");
    const root = join(folder, "root");
    const request = { manager: "systemd", user: "zw", root, start: false } as const;
    const { run } = serviceManager({ code: 0, stderr: "" });
    const { ran } = await installService(request, { program, run });
    assertEquals(ran, [
      "/usr/bin/chown zw: /var/lib/zonewright",
      "/usr/bin/chown :zw /etc/zonewright/zonewright.toml",
      "/usr/bin/systemctl daemon-reload",
    ]);
  }));

Deno.test("a service manager that refuses is named with its last words, and nothing is removed", () =>
  withFolder(async (folder) => {
    const program = join(folder, "download");
    await Deno.writeTextFile(program, "x");
    const request = { manager: "smf", root: join(folder, "root"), start: true } as const;
    await installService(request, { program });
    const { run } = serviceManager({ code: 1, stderr: "first\nsvcadm: no permission\n" });
    const error = await assertRejects(() => uninstallService(request, { run }), AgentError);
    assertStringIncludes(error.message, "svcadm disable -s");
    assertStringIncludes(error.message, "no permission");
    assertEquals((await uninstallService(request, {})).removed.length, 2);
  }));

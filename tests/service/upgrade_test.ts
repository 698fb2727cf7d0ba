// An upgrade: with the programs of systemd recorded, for what is verified and kept; and beside a real
// systemd, for one that works and one that is rolled back.

import { Database } from "@db/sqlite";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { basename, dirname, join } from "@std/path";
import { AgentError, type ErrorCode } from "../../src/domain/error.ts";
import { systemNow } from "../../src/domain/instant.ts";
import { runCommand } from "../../src/host/program.ts";
import type { Run } from "../../src/service/manager.ts";
import { installService, uninstallService } from "../../src/service/installation.ts";
import { VERIFIED } from "../../src/service/installed_files.ts";
import { SERVICE_PATHS } from "../../src/service/manager.ts";
import {
  installedManager,
  unmigrated,
  type UpgradeRequest,
  upgradeService,
  type UpgradeTools,
} from "../../src/service/upgrade.ts";
import { inspectState } from "../../src/state_dir/state_dir.ts";
import { binaryProgram, programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { withFolder } from "../support/until.ts";
import { systemd } from "./service_managers.ts";
import { mayRunSystemd, PROGRAM_DIR, type Shell, withSystemd } from "./systemd_host.ts";

/** A program that says its version. */
function programOf(version: string): string {
  return `#!/bin/sh\necho '{"version": "${version}"}'\n`;
}

interface Installed {
  readonly request: UpgradeRequest;
  readonly tools: UpgradeTools;
  readonly asked: string[];
  readonly binary: string;
  /** How often the agent is not ready before it is. */
  failures: number;
}

/** An agent of version 1 installed below a folder, with a database, and a file of version 2. */
async function withInstalled(run: (installed: Installed) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const root = join(folder, "root");
    const program = join(folder, "first");
    await Deno.writeTextFile(program, programOf("1"), { mode: 0o755 });
    const manager = systemd(root);
    await installService({ manager: "systemd", root, start: true }, { program, run: manager.run });
    const stateDir = join(folder, "state");
    await (await startAgentProcess(programOfRun(), stateDir, ["--dev"])).stop();
    const file = join(folder, "second");
    await Deno.writeTextFile(file, programOf("2"), { mode: 0o644 });
    manager.asked.length = 0;
    const either: Run = (name, args, options) =>
      name.startsWith(root) ? runCommand(name, args, options) : manager.run(name, args, options);
    const installed: Installed = {
      request: { file, sha256: await sha256Of(file), manager: "systemd", stateDir, root },
      tools: {
        run: either,
        now: systemNow,
        wasReady: false,
        ready: () => {
          if (installed.failures-- <= 0) return Promise.resolve();
          return Promise.reject(new AgentError("timeout", "it does not answer"));
        },
      },
      asked: manager.asked,
      binary: join(root, SERVICE_PATHS.systemd.binary),
      failures: 0,
    };
    await run(installed);
  });
}

async function sha256Of(path: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", await Deno.readFile(path));
  return new Uint8Array(digest).toHex();
}

Deno.test("an upgrade keeps the old binary and a copy of the database, and starts the new one", () =>
  withInstalled(async ({ request, tools, asked, binary }) => {
    assertEquals(await installedManager(request.root), "systemd");
    const report = await upgradeService(request, tools);
    assertEquals([report.version, report.sha256], ["2", request.sha256]);
    assertEquals(await Deno.readTextFile(binary), programOf("2"));
    assertEquals(await Deno.readTextFile(report.previous), programOf("1"));
    assertEquals(((await Deno.stat(binary)).mode ?? 0) & 0o777, 0o755);
    assertEquals(dirname(report.database ?? ""), request.stateDir);
    assert((await Deno.stat(report.database ?? "")).size > 0);
    assertEquals(asked.map((line) => line.replace(/ --property=\S+/, "")), [
      "systemctl show zonewright.service",
      "systemctl stop zonewright.service",
      "systemctl reset-failed zonewright.service",
      "systemctl restart zonewright.service",
    ]);
    assertEquals(namesIn(binary), ["zonewright", "zonewright.previous"]);
    const { removed } = await uninstallService(request, tools);
    assert(removed.includes(`${SERVICE_PATHS.systemd.binary}.previous`), removed.join(" "));
    assertEquals(namesIn(binary), []);
  }));

Deno.test("an upgrade that is repeated keeps the binary from before the first", () =>
  withInstalled(async ({ request, tools, binary }) => {
    for (let time = 1; time <= 2; time++) {
      const { previous } = await upgradeService(request, tools);
      assertEquals([await Deno.readTextFile(binary), await Deno.readTextFile(previous)], [
        programOf("2"),
        programOf("1"),
      ]);
    }
  }));

/** An upgrade that can neither finish nor go back, as if it had ended after the start of the new agent. */
async function cutOff(installed: Installed): Promise<void> {
  const { request, tools, binary } = installed;
  let stops = 0;
  const run: Run = (name, args, options) => {
    if (args[0] === "stop" && ++stops > 1) return Promise.reject(new Error("killed"));
    return tools.run(name, args, options);
  };
  installed.failures = 1;
  const cut = await assertRejects(() => upgradeService(request, { ...tools, run }), AgentError);
  assertStringIncludes(cut.message, "and cannot go back: killed");
  assertEquals(await Deno.readTextFile(binary), programOf("2"));
}

async function thirdOf({ request }: Installed): Promise<string> {
  const third = join(dirname(request.file), "third");
  await Deno.writeTextFile(third, programOf("3"));
  return third;
}

Deno.test("after an upgrade that was cut off, another goes back to the binary from before both", () =>
  withInstalled(async (installed) => {
    const { request, tools, binary } = installed;
    await cutOff(installed);
    for (const file of [await thirdOf(installed), request.file]) {
      installed.failures = 1;
      const again = { ...request, file, sha256: await sha256Of(file) };
      await assertRejects(
        () => upgradeService(again, tools),
        AgentError,
        "the one from before runs",
      );
      assertEquals(await Deno.readTextFile(binary), programOf("1"));
    }
    assertEquals(namesIn(binary), ["zonewright", "zonewright.previous"]);
  }));

Deno.test("after an upgrade that was cut off and whose agent is ready, another goes back to that agent", () =>
  withInstalled(async (installed) => {
    const { request, tools, binary } = installed;
    await cutOff(installed);
    const file = await thirdOf(installed);
    installed.failures = 1;
    await assertRejects(
      () => upgradeService({ ...request, file, sha256: null }, { ...tools, wasReady: true }),
      AgentError,
      "the one from before runs",
    );
    assertEquals(await Deno.readTextFile(binary), programOf("2"));
    assertEquals(namesIn(binary), ["zonewright", "zonewright.previous"]);
  }));

Deno.test("a binary that was installed already is not replaced by an older one when its agent is not ready", () =>
  withInstalled(async (installed) => {
    const { request, tools, binary } = installed;
    await upgradeService(request, tools);
    installed.failures = 1;
    const error = await assertRejects(() => upgradeService(request, tools), AgentError);
    assertStringIncludes(error.message, "it was installed already, and its agent is not ready");
    assertEquals(namesIn(binary), ["zonewright", "zonewright.previous"]);
    assertEquals(await Deno.readTextFile(binary), programOf("2"));
  }));

Deno.test("when a binary that was installed already cannot be put in place again, its agent is started", () =>
  withInstalled(async (installed) => {
    const { request, tools, binary, asked } = installed;
    await upgradeService(request, tools);
    asked.length = 0;
    const run: Run = async (name, args, options) => {
      if (args[0] === "stop") await Deno.remove(`${binary}${VERIFIED}`);
      return await tools.run(name, args, options);
    };
    await assertRejects(() => upgradeService(request, { ...tools, run }), Deno.errors.NotFound);
    assertEquals(asked.at(-1), "systemctl restart zonewright.service");
    assertEquals(await Deno.readTextFile(binary), programOf("2"));
  }));

Deno.test("of the copies of a database, an older binary gets the one from before its migration", () =>
  withFolder(async (folder) => {
    const copyOf = (name: string, version: number) => {
      const path = join(folder, name);
      const db = new Database(path);
      db.exec(`CREATE TABLE one (n); PRAGMA user_version = ${version}`);
      db.close();
      return path;
    };
    const [first, same, migrated] = [copyOf("first", 20), copyOf("same", 20), copyOf("new", 21)];
    assertEquals(await unmigrated(migrated, first), first);
    assertEquals(await unmigrated(same, first), same);
    assertEquals(await unmigrated(migrated, join(folder, "removed")), migrated);
    assertEquals(await unmigrated(migrated, null), migrated);
    assertEquals(await unmigrated(null, first), null);
  }));

Deno.test("of two upgrades at once each installs the file that it has verified", () =>
  withInstalled(async ({ request, tools, binary }) => {
    const third = join(dirname(request.file), "third");
    await Deno.writeTextFile(third, programOf("3"), { mode: 0o644 });
    const files = [request.file, third, third];
    const sums = [request.sha256, await sha256Of(third), "0".repeat(64)];
    const [second, newest, wrong] = await Promise.allSettled(files.map((file, n) => {
      return upgradeService({ ...request, file, sha256: sums[n] ?? null }, tools);
    }));
    assertEquals([second?.status, newest?.status, wrong?.status], [
      "fulfilled",
      "fulfilled",
      "rejected",
    ]);
    const left = [await Deno.readTextFile(binary), await Deno.readTextFile(`${binary}.previous`)];
    assertEquals(left.toSorted(), [programOf("2"), programOf("3")]);
    assertEquals(namesIn(binary), ["zonewright", "zonewright.previous"]);
  }));

function namesIn(binary: string): string[] {
  return Array.from(Deno.readDirSync(dirname(binary)), ({ name }) => name).toSorted();
}

Deno.test("an agent that is not ready is rolled back with its database, and runs again", () =>
  withInstalled(async (installed) => {
    const { request, tools, asked, binary } = installed;
    installed.failures = 1;
    const error = await assertRejects(() => upgradeService(request, tools), AgentError);
    assertEquals(error.code, "host");
    assertEquals(
      error.message,
      "Cannot upgrade: the new agent was not ready: it does not answer: the one from before runs " +
        "again, with its database",
    );
    assertEquals(await Deno.readTextFile(binary), programOf("1"));
    assertEquals((await inspectState(request.stateDir)).problems, []);
    const names = Array.from(Deno.readDirSync(request.stateDir), ({ name }) => name);
    assert(names.some((name) => name.startsWith("zonewright.db.before-restore-")), names.join(" "));
    assertEquals(asked.at(-1), "systemctl restart zonewright.service");
  }));

Deno.test("an upgrade that can neither finish nor go back says where the old parts are", () =>
  withInstalled(async (installed) => {
    installed.failures = 2;
    const { request, tools } = installed;
    const { message } = await assertRejects(() => upgradeService(request, tools), AgentError);
    assertStringIncludes(message, "and cannot go back: it does not answer, expected the binary ");
    assertStringIncludes(message, "zonewright.previous and the database ");
  }));

Deno.test("an agent whose stop is interrupted is started again, and nothing has changed", () =>
  withInstalled(async ({ request, tools, asked, binary }) => {
    const run: Run = async (name, args, options) => {
      const result = await tools.run(name, args, options);
      return args[0] === "stop" ? { ...result, code: 130, signal: "SIGINT" } : result;
    };
    const error = await assertRejects(() => upgradeService(request, { ...tools, run }), AgentError);
    assertEquals(error.code, "host");
    assertEquals(asked.at(-1), "systemctl restart zonewright.service");
    assertEquals(await Deno.readTextFile(binary), programOf("1"));
  }));

Deno.test("a file with another digest, or that is no zonewright, changes nothing", () =>
  withInstalled(async ({ request, tools, asked, binary }) => {
    const refused = async (changed: Partial<UpgradeRequest>, code: ErrorCode, why: string) => {
      const all = { ...request, ...changed };
      const error = await assertRejects(() => upgradeService(all, tools), AgentError);
      assertEquals(error.code, code);
      assertStringIncludes(error.message, why);
      assertEquals([await Deno.readTextFile(binary), asked, namesIn(binary)], [
        programOf("1"),
        [],
        ["zonewright"],
      ]);
    };
    await refused({ sha256: "0".repeat(64) }, "digest_mismatch", `expected ${"0".repeat(64)}`);
    const other = `${request.file}.other`;
    await Deno.writeTextFile(other, "#!/bin/sh\necho wrong >&2; exit 3\n");
    const sha256 = await sha256Of(other);
    await refused(
      { file: other, sha256 },
      "conflict",
      "it ended with exit code 3: wrong, expected a zonewright",
    );
    await Deno.writeTextFile(other, "\x7fELF nothing");
    await refused(
      { file: other, sha256: null },
      "conflict",
      "expected a zonewright of this system",
    );
  }));

const binary = binaryProgram();
const program = binary?.program ?? "";
const CONFIG = "/etc/zonewright/zonewright.toml";
const SOCKET = "/run/zonewright/zonewright.sock";

/** A program that says a version, and does not serve. */
const BROKEN = `#!/bin/sh
if [ "$1" = version ]; then echo '{"version": "9.9.9"}'; exit 0; fi
exit 1
`;

async function install(shell: Shell): Promise<void> {
  await shell(`${PROGRAM_DIR}/${basename(program)} install systemd --no-start`);
  await shell(`zonewright config set --config ${CONFIG} listen off`);
  await shell(`zonewright config set --config ${CONFIG} host simulated`);
  await shell(
    "mkdir -p /etc/systemd/system/zonewright.service.d; " +
      "printf '[Unit]\\nDefaultDependencies=no\\n' " +
      "> /etc/systemd/system/zonewright.service.d/test.conf; systemctl daemon-reload",
  );
  await shell("systemctl start zonewright");
}

Deno.test({
  name: "under systemd an upgrade starts the new binary, and a broken one is rolled back " +
    "[needs root, systemd, dist/zonewright]",
  ignore: binary === undefined || !mayRunSystemd(),
  fn: () =>
    withSystemd(dirname(program), async (shell) => {
      await install(shell);
      await shell(
        `cd /tmp; printf '{"name": "kept", "chain": []}' > w.json; ` +
          `zonewright workflow create -f w.json --socket ${SOCKET}`,
      );
      await shell(`cp ${PROGRAM_DIR}/${basename(program)} /tmp/new`);
      const unverified = await shell("zonewright upgrade /tmp/new 2>&1 || echo exit $?");
      assertStringIncludes(unverified, "it has no digest");
      assertStringIncludes(unverified, "exit 2");
      await shell("cd /tmp; sha256sum new > new.sha256");
      const done = await shell("zonewright upgrade /tmp/new");
      assertStringIncludes(done, "kept   /usr/local/bin/zonewright.previous\n");
      assertStringIncludes(done, "ready  zonewright ");

      await shell(`cat > /tmp/broken <<'END'\n${BROKEN}END`);
      const broken = await shell(
        "zonewright upgrade /tmp/broken --unverified 2>&1 || echo exit $?",
      );
      assertStringIncludes(broken, "Cannot upgrade: the new agent was not ready: ");
      assertStringIncludes(broken, "the one from before runs again, with its database");
      assertStringIncludes(broken, "exit 1");
      assertStringIncludes(
        await shell(`zonewright workflow list --socket ${SOCKET}`),
        "kept",
      );
      await shell("systemctl stop zonewright");
    }),
});

Deno.test({
  name: "under systemd an upgrade that loses its terminal goes on to its end " +
    "[needs root, systemd, dist/zonewright]",
  ignore: binary === undefined || !mayRunSystemd(),
  fn: () =>
    withSystemd(dirname(program), async (shell) => {
      await install(shell);
      await shell(
        "printf '[Service]\\nExecStopPost=+/bin/sh -c \"kill -HUP $$(cat /etc/zonewright/upgrade)\"\\n' " +
          "> /etc/systemd/system/zonewright.service.d/hangup.conf; systemctl daemon-reload",
      );
      await shell(`cp ${PROGRAM_DIR}/${basename(program)} /tmp/new`);
      const said = await shell(
        "sh -c 'echo $$ > /etc/zonewright/upgrade; exec zonewright upgrade /tmp/new --unverified' 2>&1 || echo exit $?",
      );
      assertStringIncludes(said, "the upgrade is not interrupted");
      assertStringIncludes(said, "ready  zonewright ");
      assertEquals((await shell("systemctl is-active zonewright")).trim(), "active");
      await shell("systemctl stop zonewright");
    }),
});

Deno.test({
  name: "under systemd an upgrade that was killed is repeated, and still goes back to the binary " +
    "from before it [needs root, systemd, dist/zonewright]",
  ignore: binary === undefined || !mayRunSystemd(),
  fn: () =>
    withSystemd(dirname(program), async (shell) => {
      await install(shell);
      await shell(`cat > /tmp/broken <<'END'\n${BROKEN}END`);
      const killed = await shell(
        "/usr/local/bin/zonewright upgrade /tmp/broken --unverified > /dev/null 2>&1 & " +
          "until cmp -s /tmp/broken /usr/local/bin/zonewright; do sleep 0.1; done; " +
          "kill -9 $!; wait $!; echo exit $?",
      );
      assertStringIncludes(killed, "exit 137");
      const again = await shell(
        "/usr/local/bin/zonewright.previous upgrade /tmp/broken --unverified 2>&1 || echo exit $?",
      );
      assertStringIncludes(again, "the one from before runs again, with its database");
      assertEquals((await shell("systemctl is-active zonewright")).trim(), "active");
      const names = await shell("ls /usr/local/bin | grep zonewright");
      assertEquals(names.trim(), "zonewright\nzonewright.previous");
      await shell("systemctl stop zonewright");
    }),
});

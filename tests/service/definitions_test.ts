// Unit and manifest, as the tools of their service managers judge them.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { EXIT } from "../../src/cli/command/command.ts";
import { definitionText } from "../../src/service/installation.ts";
import { SERVICE_PATHS, serviceCommand } from "../../src/service/manager.ts";
import type { Diagnosis } from "../../src/service/doctor/check.ts";
import { eachProgram } from "../support/each_program.ts";
import { programTest } from "../support/program.ts";
import { withFolder } from "../support/until.ts";

const DTD = fromFileUrl(new URL("service_bundle.dtd", import.meta.url));
/** Of 10; systemd calls everything below 5 fine. */
const EXPOSURE_MAX = 3;

async function output(
  program: string,
  args: string[],
): Promise<{ code: number; text: string }> {
  const { code, stdout, stderr } = await new Deno.Command(program, { args }).output();
  const decoder = new TextDecoder();
  return { code, text: decoder.decode(stdout) + decoder.decode(stderr) };
}

Deno.test("the command that shows a service is that of its manager, where one is installed", () => {
  const { systemd, smf } = SERVICE_PATHS;
  const commandWith = (definition: string) => serviceCommand((path) => path === definition);
  assertEquals(commandWith(systemd.definition), "systemctl status zonewright");
  assertEquals(commandWith(smf.definition), "svcs -xv zonewright");
  assertEquals(serviceCommand(() => false), undefined);
});

for (const start of [true, false]) {
  programTest(
    "xmllint",
    `the manifest is valid SMF, its instance enabled: ${start}`,
    () =>
      withFolder(async (folder) => {
        const path = join(folder, "zonewright.xml");
        await Deno.writeTextFile(path, definitionText({ manager: "smf", start }));
        const args = ["--noout", "--nonet", "--dtdvalid", DTD, path];
        const { code, text } = await output("xmllint", args);
        assertEquals(code, 0, text);
        const enabled = "string(//create_default_instance/@enabled)";
        assertEquals((await output("xmllint", ["--xpath", enabled, path])).text.trim(), `${start}`);
      }),
  );
}

Deno.test("the manifest of a program on Node names that Node, with any characters in its path", () => {
  const runtime = ["/opt/tools/bin/node", "--no-warnings", "/a b/50%/it's <\"&>"];
  const text = definitionText({ manager: "smf", start: true, runtime });
  const [, exec = ""] = /name="start" exec="([^"]*)"/.exec(text) ?? [];
  assertEquals(
    exec,
    "/opt/tools/bin/node --no-warnings '/a b/50%%/it'\\''s &lt;&quot;&amp;>' " +
      "/opt/custom/bin/zonewright serve --config /opt/custom/etc/zonewright/zonewright.toml",
  );
});

for (const [name, options] of [["root", {}], ["a user", { user: "zonewright" }]] as const) {
  programTest(
    "systemd-analyze",
    `the unit for ${name} exposes little`,
    () =>
      withFolder(async (folder) => {
        const path = join(folder, "zonewright.service");
        await Deno.writeTextFile(
          path,
          definitionText({ manager: "systemd", start: true, ...options }),
        );
        const { text } = await output("systemd-analyze", ["security", "--offline=yes", path]);
        const exposure = Number(/exposure level for \S+: ([\d.]+)/.exec(text)?.[1]);
        assert(exposure <= EXPOSURE_MAX, text);
        // A directive that systemd does not know is only warned of.
        const { text: verified } = await output("systemd-analyze", ["verify", path]);
        const about = verified.split("\n").filter((line) => line.includes(path));
        assertEquals(about.filter((line) => !line.includes("is not executable")), []);
      }),
  );
}

Deno.test("the unit allows the executable memory that V8 needs for its code", () => {
  const unit = definitionText({ manager: "systemd", start: true });
  assert(!unit.includes("MemoryDenyWriteExecute"));
  assertStringIncludes(unit, "Type=notify");
});

/** The value of a directive of the unit. */
function directive(unit: string, name: string): string {
  return new RegExp(`^${name}=(.*)$`, "m").exec(unit)?.[1] ?? "";
}

Deno.test("the unit does not start an agent again that cannot use the tables of the database", () => {
  const unit = definitionText({ manager: "systemd", start: true });
  assertEquals(directive(unit, "Restart"), "on-failure");
  assertEquals(directive(unit, "RestartPreventExitStatus"), `${EXIT.other_schema}`);
});

eachProgram(
  "the unit leaves an agent of root the capabilities and namespaces that guests need",
  (program) =>
    withFolder(async (folder) => {
      if (Deno.uid() !== 0) return;
      const unit = definitionText({ manager: "systemd", start: true });
      assertEquals(directive(unit, "RestrictNamespaces"), "net ipc uts");
      const kept = directive(unit, "CapabilityBoundingSet").split(" ")
        .map((one) => `+${one.replace("CAP_", "").toLowerCase()}`)
        // The doctor alone looks at what belongs to another user.
        .concat("+sys_ptrace");
      const { stdout } = await new Deno.Command("/usr/bin/setpriv", {
        args: [
          ...[`--bounding-set=-all,${kept.join(",")}`, "--inh-caps=-all", "--no-new-privs"],
          ...[
            program.program,
            ...program.args,
            "doctor",
            "--json",
            "--state-dir",
            `${folder}/state`,
          ],
          ...["--run", "guests", "--run", "decoders"],
        ],
        env: program.env,
        clearEnv: true,
        cwd: "/",
        stdin: "null",
      }).output();
      const found = JSON.parse(new TextDecoder().decode(stdout)) as Diagnosis[];
      assertEquals(found.map(({ name }) => name), ["guests", "decoders"]);
      for (const { name, parts = [] } of found) {
        // From source guests stay root's: nobody may not read a source tree.
        const user = program.name === "source" ? ["user"] : [];
        // No Node keeps the name of the host from what it runs.
        const told = program.name === "node" ? ["permissions"] : [];
        const broken = parts.filter(({ ok }) => !ok).map((part) => part.name);
        assertEquals([name, broken], [name, [...user, ...told]]);
        const within = name === "guests" ? ["realm", "primordials"] : [];
        assertEquals(parts.map((part) => part.name), [...within, ...WALLS]);
      }
    }),
  "setpriv",
);

const WALLS = [
  ...["user", "no new privileges", "capabilities", "limits", "network", "ipc", "uts"],
  "permissions",
];

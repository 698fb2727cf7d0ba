// `zonewright doctor --smartos-trial` as a whole, on Linux: the program takes its system for illumos, and below
// its own view of /usr lie the programs of SmartOS. vmadm, zfs and the like are those of the simulated host; uname,
// ppriv, plimit, svccfg and svcadm print what their manual pages say. Nothing of it was recorded on a host.

import { assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { cannotRefuse, majorOf } from "../../../vendors/node/wall.ts";
import { eachNode } from "../../support/each_node.ts";
import { mayMount } from "../../support/small_disk.ts";
import { withFolder } from "../../support/until.ts";

const FILE = fromFileUrl(new URL("../../../dist/zonewright.mjs", import.meta.url));
const SIMULATED = ["vmadm", "zfs", "nictagadm", "dladm", "sysinfo"] as const;
/** Where each program lies on SmartOS, below /usr. */
const BIN: readonly string[] = ["nictagadm", "sysinfo"];
const AS_ILLUMOS = 'Object.defineProperty(process, "platform", { value: "sunos" });';

const SETS = ["E", "I", "P", "L"].map((name) => `        ${name}: file_read\n`).join("");
const SCRIPTS: Readonly<Record<string, string>> = {
  "bin/uname": "echo SunOS smartos 5.11 joyent_20260101T000000Z i86pc i386 i86pc",
  "bin/ppriv": `case "$1" in
-l) printf '%s\\n' file_link_any file_read file_write net_access proc_exec proc_fork proc_info proc_session ;;
-e) shift 3; exec "$@" ;;
-s) [ "$2" = A-file_write ] ;;
-v) printf '%s: node\\nflags = <none>\\n${SETS.replaceAll("\n", "\\n")}' "$2" ;;
*) exit 2 ;;
esac`,
  "bin/plimit":
    `printf 'coredump(blocks) 0 0\\nnofiles(descriptors) 64 64\\nvmemory(kbytes) 2000000 2000000\\n'`,
  "sbin/svccfg": '[ "$1" = validate ] && grep -q service_bundle "$2"',
  "sbin/svcadm": "exit 1",
};

/** Writes the programs of SmartOS below a folder that stands for /usr. */
async function writePrograms(usr: string, node: string, state: string): Promise<void> {
  const simulated = SIMULATED.map((name) =>
    [
      `${BIN.includes(name) ? "bin" : "sbin"}/${name}`,
      `exec '${node}' '${FILE}' simulate --state '${state}' ${name} "$@"`,
    ] as const
  );
  for (const name of ["bin", "sbin"]) await Deno.mkdir(join(usr, name), { recursive: true });
  for (const [name, text] of [...Object.entries(SCRIPTS), ...simulated]) {
    await Deno.writeTextFile(join(usr, name), `#!/bin/sh\n${text}\n`);
    await Deno.chmod(join(usr, name), 0o755);
  }
}

/** Runs a command line where /usr has these programs besides its own. */
async function runBelow(folder: string, command: readonly string[]) {
  const quoted = command.map((word) => `'${word}'`).join(" ");
  const options = `lowerdir=/usr,upperdir=${folder}/usr,workdir=${folder}/work`;
  const script = `mount -t overlay overlay -o '${options}' /usr && exec ${quoted}`;
  const { code, stdout, stderr } = await new Deno.Command("/usr/bin/unshare", {
    args: ["--mount", "/bin/sh", "-c", script],
    // Not the variables of this run, which the program would refuse as settings that it does not know.
    clearEnv: true,
    env: { PATH: "/usr/bin:/usr/sbin:/bin:/sbin" },
    cwd: folder,
  }).output();
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

eachNode("the trial on SmartOS runs its ten commands and leaves nothing", async (node) => {
  await withFolder(async (folder) => {
    await Deno.chmod(folder, 0o755);
    for (const name of ["usr", "work"]) await Deno.mkdir(join(folder, name));
    const state = join(folder, "host");
    await writePrograms(join(folder, "usr"), node.program, state);
    const [first, ...rest] = (await Deno.readTextFile(FILE)).split("\n");
    const file = join(folder, "zonewright.mjs");
    await Deno.writeTextFile(file, [first, AS_ILLUMOS, ...rest].join("\n"));
    const report = join(folder, "report.txt");
    const run = [node.program, file, "doctor", "--smartos-trial", report];
    const { code, stdout, stderr } = await runBelow(folder, run);
    const text = await Deno.readTextFile(report).catch(() => stderr);
    const titles = [...text.matchAll(/^## \d+\. (.*)$/gm)].map(([, title]) => title);
    assertEquals(titles.length, 10, text);
    // The stand-in of ppriv takes no network away, which some Nodes cannot refuse.
    const open = cannotRefuse(majorOf(node.version)).includes("net");
    const failed = [...stderr.matchAll(/^FAIL (.*)$/gm)].map(([, title]) => title);
    assertEquals(failed, open ? ["the walls of guests and decoders"] : [], text);
    assertEquals([code, stdout.trim()], [open ? 1 : 0, report]);
    assertMatch(text, /^SunOS smartos 5\.11/m);
    assertMatch(text, new RegExp(`^node +${node.version}$`, "m"));
    assertMatch(text, /privileges +it has none of .*file_write/);
    assertEquals(((await Deno.stat(report)).mode ?? 0) & 0o777, 0o600);
    const left = await Array.fromAsync(Deno.readDir(join(state, "machines")), ({ name }) => name)
      .catch(() => []);
    assertEquals(left, []);
  });
}, { needs: "mount as root", ignore: !mayMount() });

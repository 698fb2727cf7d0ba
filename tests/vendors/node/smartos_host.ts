// A SmartOS host as far as Linux can stand in for one: its own view of /usr, /opt, /run and /var, in which the
// programs of SmartOS lie in their places, with Node in /opt/tools, and a loopback of its own. The program takes its system for illumos.
// vmadm, zfs and the like are those of the simulated host; the others print what their manual pages say, and
// svccfg and svcadm start the method of a manifest as SMF would, without a PATH. Nothing of it was recorded on
// a host.

import { fromFileUrl, join } from "@std/path";
import { mayMount } from "../../support/small_disk.ts";
import { until, withFolder } from "../../support/until.ts";

const FILE = fromFileUrl(new URL("../../../dist/zonewright.mjs", import.meta.url));
const SIMULATED = ["vmadm", "zfs", "nictagadm", "dladm", "sysinfo"] as const;
/** Of these, what lies in /usr/bin on SmartOS. */
const BIN: readonly string[] = ["nictagadm", "sysinfo"];
const AS_ILLUMOS = 'Object.defineProperty(process, "platform", { value: "sunos" });';
const PATH = "/usr/bin:/usr/sbin:/bin:/sbin";

const SETS = ["E", "I", "P", "L"].map((name) => `        ${name}: file_read\\n`).join("");
const SCRIPTS: Readonly<Record<string, string>> = {
  "bin/uname": "echo SunOS smartos 5.11 joyent_20260101T000000Z i86pc i386 i86pc",
  "bin/ppriv": `case "$1" in
-l) printf '%s\\n' file_link_any file_read file_write net_access proc_exec proc_fork proc_info proc_session ;;
-e) shift 3; exec "$@" ;;
-s) [ "$2" = A-file_write ] ;;
-v) printf '%s: node\\nflags = <none>\\n${SETS}' "$2" ;;
*) exit 2 ;;
esac`,
  "bin/plimit":
    `printf 'coredump(blocks) 0 0\\nnofiles(descriptors) 64 64\\nvmemory(kbytes) 2000000 2000000\\n'`,
  "sbin/svccfg": `cd /var/svc
case "$1" in
validate) grep -q service_bundle "$2" ;;
import)
  sed -n 's/.*name="start" exec="\\([^"]*\\)".*/\\1/p' "$2" > exec
  [ -e state ] || echo disabled > state
  if grep -q 'create_default_instance enabled="true"' "$2"; then /usr/sbin/svcadm enable -s "$3"; fi ;;
delete) [ "$(cat state)" = disabled ] || { echo 'svccfg: in use' >&2; exit 1; }; rm exec state ;;
*) exit 2 ;;
esac`,
  "sbin/svcadm": `cd /var/svc
[ -e state ] || { echo "svcadm: Pattern '$3' doesn't match any instances" >&2; exit 1; }
case "$1" in
enable)
  [ "$(cat state)" = online ] && exit 0
  env -i /usr/bin/setsid /bin/sh -c "unset PWD OLDPWD; exec $(cat exec)" >> log 2>&1 &
  echo $! > pid
  echo online > state ;;
disable)
  [ "$(cat state)" = disabled ] && exit 0
  kill "$(cat pid)"
  while kill -0 "$(cat pid)"; do sleep 0.05; done 2>/dev/null
  echo disabled > state ;;
*) exit 2 ;;
esac`,
  "bin/svcs":
    `[ -e /var/svc/state ] || { echo "svcs: Pattern '$4' doesn't match any instances" >&2; exit 1; }
cat /var/svc/state`,
};

/** What a command of the host did. */
interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface SmartosHost {
  /** The file for Node as an operator has copied it: in a folder that only root may enter. */
  readonly file: string;
  /** Where the files of the host are found from outside. */
  readonly root: string;
  /** The folder of the simulated host. */
  readonly state: string;
  /** Runs a command line as root. */
  run(...command: readonly string[]): Promise<Ran>;
}

/** Why a test with such a host is skipped. */
export const NEEDS_HOST = { needs: "mount as root", ignore: !mayMount() } as const;

/** The file for Node that takes its system for illumos. */
export async function illumosFile(): Promise<string> {
  const [first, ...rest] = (await Deno.readTextFile(FILE)).split("\n");
  return [first, AS_ILLUMOS, ...rest].join("\n");
}

/** Runs with such a host, and removes it. */
export async function withSmartosHost(
  node: string,
  run: (host: SmartosHost) => Promise<void>,
): Promise<void> {
  await withFolder(async (folder) => {
    await Deno.chmod(folder, 0o755);
    const state = join(folder, "host");
    for (const name of ["usr", "work"]) await Deno.mkdir(join(folder, name));
    await writePrograms(join(folder, "usr"), node, state);
    await using view = await openView(folder, node);
    const inside = (...command: readonly string[]) =>
      output("/usr/bin/nsenter", [
        "--mount",
        "--net",
        "--target",
        `${view.pid}`,
        "--wd=/",
        ...command,
      ]);
    const root = `/proc/${view.pid}/root`;
    const file = "/opt/home/zonewright.mjs";
    await Deno.mkdir(`${root}/opt/home`, { mode: 0o700 });
    await Deno.writeTextFile(`${root}${file}`, await illumosFile(), { mode: 0o755 });
    await run({ file, root, state, run: inside });
  });
}

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

/** A process that holds the view of the host open. */
async function openView(folder: string, node: string) {
  const options = `lowerdir=/usr,upperdir=${folder}/usr,workdir=${folder}/work`;
  const steps = [
    `mount -t overlay overlay -o '${options}' /usr`,
    ...["/opt", "/run"].map((path) => `mount -t tmpfs -o mode=755 tmpfs ${path}`),
    "mkdir -p /opt/custom /opt/tools/bin",
    `mkdir -p ${folder}/var/svc ${folder}/var/run ${folder}/var/tmp`,
    `mount --bind ${folder}/var /var`,
    "touch /opt/tools/bin/node",
    `mount --bind '${node}' /opt/tools/bin/node`,
    "ip link set lo up",
    "echo ready",
    "exec cat",
  ];
  const child = new Deno.Command("/usr/bin/unshare", {
    args: ["--mount", "--net", "/bin/sh", "-c", steps.join(" && ")],
    clearEnv: true,
    env: { PATH },
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const { value } = await child.stdout.getReader().read();
  if (new TextDecoder().decode(value) !== "ready\n") throw new Error("Cannot make the view");
  return {
    pid: child.pid,
    async [Symbol.asyncDispose]() {
      // An agent that a failed test has left; it leads the group of what SMF started.
      const agent = await Deno.readTextFile(`${folder}/var/svc/pid`).catch(() => "");
      try {
        if (agent !== "") Deno.kill(-Number(agent), "SIGKILL");
      } catch (error) {
        if (!(error instanceof Deno.errors.NotFound)) throw error;
      }
      await child.stdin.close();
      await child.status;
      await until(
        "the view to be free",
        async () => (await output("/usr/bin/grep", ["-q", folder, "/proc/mounts"])).code !== 0,
      );
    },
  };
}

async function output(program: string, args: readonly string[]): Promise<Ran> {
  const { code, stdout, stderr } = await new Deno.Command(program, {
    args: [...args],
    // Not the variables of this run, which the program would refuse as settings that it does not know.
    clearEnv: true,
    env: { PATH, TMPDIR: "/var/tmp" },
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

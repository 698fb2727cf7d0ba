// A systemd of a test's own, in namespaces: it sees copies of /etc, /var and /usr/local, an empty /run and
// /tmp, and a group of its own for its processes. Nothing of this machine is changed, and everything is gone
// when its first process is.

import { assertEquals } from "@std/assert";
import { until } from "../support/until.ts";

const SYSTEMD = "/lib/systemd/systemd";
const DEADLINE_MS = 60_000;
/** Nothing else of the test's environment is handed on: its variables may be settings of the agent. */
const PATH = "/usr/sbin:/usr/bin:/sbin:/bin";

/** What systemd starts first; nothing of the distribution is started with it. */
const TARGET = "[Unit]\nDescription=of a test\nDefaultDependencies=no\n";

/**
 * Makes the place, and becomes systemd. Variables of the kernel stay as they are. A test that took a state
 * folder has left its umask to this process.
 */
const BEGIN = `set -e
umask 022
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
mkdir /mnt/program
mount --bind "$PROGRAM_DIR" /mnt/program
for dir in etc var usr/local; do
  name=$(echo "$dir" | tr / _)
  mkdir -p "/mnt/$name.upper" "/mnt/$name.work"
  mount -t overlay overlay -o "lowerdir=/$dir,upperdir=/mnt/$name.upper,workdir=/mnt/$name.work" "/$dir"
done
umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mkdir -p /run/systemd/system
printf '${TARGET.replaceAll("\n", "\\n")}' > /run/systemd/system/zonewright-test.target
export container=oci
exec ${SYSTEMD} --system --unit=zonewright-test.target --log-target=console --show-status=no
`;

/** Enters a group of processes for all that follow, and the namespaces; $1 is its name. */
const ENTER = `set -e
mount --make-rprivate /
mount -t cgroup2 cgroup2 /mnt
mkdir "/mnt/$1"
echo $$ > "/mnt/$1/cgroup.procs"
umount /mnt
exec unshare --cgroup --pid --fork --kill-child --mount --mount-proc --ipc --uts sh -c "$2"
`;

/** Removes that group when nothing is in it any more. */
const LEAVE = `set -e
mount --make-rprivate /
mount -t cgroup2 cgroup2 /mnt
find "/mnt/$1" -depth -type d -exec rmdir {} +
`;

/** Whether this process may do all that, and systemd is there. */
export function mayRunSystemd(): boolean {
  if (Deno.uid() !== 0) return false;
  try {
    Deno.statSync(SYSTEMD);
    const probe = "mount --make-rprivate / && mount -t cgroup2 cgroup2 /mnt";
    return new Deno.Command("unshare", {
      args: ["--cgroup", "--mount", "--pid", "--fork", "sh", "-c", probe],
      stderr: "null",
    }).outputSync().success;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Runs a line of shell beside the systemd of a test. @returns what it has written */
export type Shell = (line: string) => Promise<string>;

/** Where the systemd of a test sees the folder of the program under test, wherever that lies. */
export const PROGRAM_DIR = "/mnt/program";

/**
 * Runs a test with a systemd of its own.
 * @param programDir the folder of the program under test
 */
export async function withSystemd(
  programDir: string,
  run: (shell: Shell) => Promise<void>,
): Promise<void> {
  const group = `zonewright-test-${crypto.randomUUID()}`;
  const host = new Deno.Command("unshare", {
    args: ["--mount", "sh", "-c", ENTER, "sh", group, BEGIN],
    stdin: "null",
    stdout: "null",
    stderr: "piped",
    clearEnv: true,
    env: { PATH, PROGRAM_DIR: programDir },
  }).spawn();
  const said = new Response(host.stderr).text();
  let ended = false;
  const status = host.status.finally(() => ended = true);
  const shell: Shell = async (line) => {
    const args = [
      "-t",
      await firstProcess(host.pid),
      "-m",
      "-p",
      "-C",
      "-i",
      "-u",
      "sh",
      "-c",
      `umask 022; ${line}`,
    ];
    const { code, stdout, stderr } = await new Deno.Command("nsenter", {
      args,
      cwd: "/",
      clearEnv: true,
      env: { PATH: `/usr/local/bin:${PATH}` },
    }).output();
    const text = new TextDecoder().decode(stdout);
    assertEquals(code, 0, `${line}\n${text}${new TextDecoder().decode(stderr)}`);
    return text;
  };
  try {
    await until("systemd to run", async () => {
      if (ended) throw new Error(`systemd has ended:\n${await said}`);
      return await shell("systemctl is-system-running --wait || true")
        .then((text) => /running|degraded/.test(text), () => false);
    }, DEADLINE_MS);
    await run(shell);
  } finally {
    if (!ended) host.kill("SIGKILL");
    await status;
    await said;
    // The kernel takes a moment to end what was in its namespace.
    await until("the processes to be gone", async () =>
      (await new Deno.Command("unshare", {
        args: ["--mount", "sh", "-c", LEAVE, "sh", group],
        stderr: "null",
      }).output()).success);
  }
}

/** The first process of the namespace that this process has made. */
async function firstProcess(pid: number): Promise<string> {
  const children = await Deno.readTextFile(`/proc/${pid}/task/${pid}/children`);
  return children.trim().split(" ")[0] ?? "";
}

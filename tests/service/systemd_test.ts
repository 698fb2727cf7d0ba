// The service as systemd runs it: what the unit leaves an agent of root is enough for the walls around its
// guests, and no more than that.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Diagnosis } from "../../src/service/doctor/check.ts";
import { basename, dirname } from "@std/path";
import { binaryProgram } from "../support/agent_process.ts";
import { until } from "../support/until.ts";
import { mayRunSystemd, PROGRAM_DIR, type Shell, withSystemd } from "./systemd_host.ts";

const binary = binaryProgram();
const program = binary?.program ?? "";
const CONFIG = "/etc/zonewright/zonewright.toml";
const SOCKET = "/run/zonewright/zonewright.sock";
const LOG = "/run/agent.log";

/** Installs the service beside the systemd of a test, on a simulated host, without starting it. */
async function install(shell: Shell, ...flags: string[]): Promise<void> {
  await shell(
    [`${PROGRAM_DIR}/${basename(program)}`, "install", "systemd", "--no-start", ...flags].join(" "),
  );
  await shell(
    `{ printf 'listen = "off"\\nhost = "simulated"\\n'; grep -v '^listen' ${CONFIG}; } > /tmp/new; ` +
      `cat /tmp/new > ${CONFIG}`,
  );
  // Nothing of the distribution is to be started before it.
  await shell(
    "mkdir -p /etc/systemd/system/zonewright.service.d; " +
      "printf '[Unit]\\nDefaultDependencies=no\\n[Service]\\nStandardError=file:%s\\n' " +
      `${LOG} > /etc/systemd/system/zonewright.service.d/test.conf; systemctl daemon-reload`,
  );
}

async function start(shell: Shell): Promise<void> {
  await shell(`systemctl start zonewright || { tail -n 20 ${LOG} >&2; exit 1; }`);
}

/** What the kernel says of the agent and of what it has started, a line each. */
const PROCESSES = `agent=$(systemctl show -p MainPID --value zonewright)
for pid in $agent $(pgrep -P $agent); do
  face=$(tr '\\0' ' ' < /proc/$pid/cmdline | cut -d ' ' -f 2)
  echo "$face $(readlink /proc/$pid/ns/net /proc/$pid/ns/ipc /proc/$pid/ns/uts | tr '\\n' ' ')" \\
    "$(grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/$pid/status | tr '\\n\\t' '  ')"
done`;

/** What a process of the unit may, and what it may not. */
const TRIES: readonly (readonly [words: string, may: boolean])[] = [
  ["unshare --net --ipc --uts true", true],
  ["unshare --user true", false],
  ["unshare --mount true", false],
  ["unshare --pid --fork true", false],
  ["unshare --cgroup true", false],
  ["mount -t tmpfs tmpfs /tmp", false],
  ["umount -l /proc", false],
  ["chroot / true", false],
  ["hostname other", false],
  ["mknod /tmp/disk b 8 0", false],
  ["touch /etc/other", false],
  ["nsenter -t 1 -n true", false],
  // As a guest, that would have broken out of all other walls.
  ["setpriv --reuid 65534 --clear-groups --bounding-set=-all unshare --net true", false],
  ["setpriv --reuid 65534 --clear-groups --bounding-set=-all unshare --user --net true", false],
];

Deno.test({
  name: "under systemd guests have a network of their own, and the agent may little else " +
    "[needs root, systemd, dist/zonewright]",
  ignore: binary === undefined || !mayRunSystemd(),
  fn: () =>
    withSystemd(dirname(program), async (shell) => {
      await install(shell);
      await start(shell);
      // One that is on its way through the programs that take rights from it has another name.
      const [agent = "", ...others] = await until("a guest and a decoder", async () => {
        const lines = (await shell(PROCESSES)).trim().split("\n");
        const isThere = (face: string) => lines.some((line) => line.startsWith(`${face} `));
        return isThere("guest") && isThere("decoder") ? lines : undefined;
      });
      assert(agent.startsWith("serve net:"), agent);
      const namespaces = (line: string): string[] => line.match(/(?:net|ipc|uts):\[\d+\]/g) ?? [];
      for (const line of others.filter((one) => /^(?:guest|decoder) /.test(one))) {
        const shared = namespaces(line).filter((one) => namespaces(agent).includes(one));
        assertEquals([line, shared], [line, []]);
        assertStringIncludes(line, "CapEff: 0000000000000000 CapBnd: 0000000000000000");
        assertStringIncludes(line, "NoNewPrivs: 1 Seccomp: 2");
      }
      const log = await shell(`cat ${LOG}`);
      assert(!log.includes("without some limits"), log);
      const answer = await shell(`zonewright api GET /healthz --socket ${SOCKET}`);
      assertStringIncludes(answer, "ok");
      await shell("systemctl stop zonewright");
      await assertTries(shell);
    }),
});

Deno.test({
  name:
    "under systemd an agent that is not root has no capability, and says which walls are missing " +
    "[needs root, systemd, dist/zonewright]",
  ignore: binary === undefined || !mayRunSystemd(),
  fn: () =>
    withSystemd(dirname(program), async (shell) => {
      await shell("echo 'zwagent:x:4242:4242::/:/bin/false' >> /etc/passwd");
      await shell("echo 'zwagent:x:4242:' >> /etc/group");
      await install(shell, "--user", "zwagent");
      await start(shell);
      const [agent = ""] = (await shell(PROCESSES)).split("\n");
      assertStringIncludes(agent, "CapEff: 0000000000000000 CapBnd: 0000000000000000");
      const log = await until("the log", async () => {
        const text = await shell(`cat ${LOG}`);
        return text.includes("agent started") ? text : undefined;
      });
      assertStringIncludes(log, '"without":"a network, IPC and host name of their own (unshare)"');
      const asUser = "setpriv --reuid 4242 --regid 4242 --clear-groups";
      const doctor = `zonewright doctor --config ${CONFIG} --run guests --run decoders --json`;
      const found = JSON.parse(await shell(`${asUser} ${doctor}`)) as Diagnosis[];
      for (const { outcome, parts = [] } of found) {
        const missing = parts.filter(({ ok }) => !ok).map(({ name }) => name);
        assertEquals([outcome, missing], ["warn", ["network", "ipc", "uts"]]);
      }
      await shell("systemctl stop zonewright");
    }),
});

/** Has a process of the unit try what it may and what it may not. */
async function assertTries(shell: Shell): Promise<void> {
  const lines = TRIES.map(([words]) => `${words} 2>/dev/null && echo yes || echo no`).join("\n");
  await shell(`cat > /run/tries.sh <<'END'\n${lines}\nEND`);
  await shell(
    "sed -e 's#^ExecStart=.*#ExecStart=/bin/sh /run/tries.sh#' -e 's/^Type=.*/Type=oneshot/' " +
      "-e '/^Watchdog/d;/^Restart/d;/^NotifyAccess/d' -e 's#^\\[Unit\\]#&\\nDefaultDependencies=no#' " +
      "-e 's#^\\[Service\\]#&\\nStandardOutput=file:/run/tries.log#' " +
      "/etc/systemd/system/zonewright.service > /run/systemd/system/tries.service; " +
      "systemctl daemon-reload; systemctl start tries",
  );
  const answers = (await shell("cat /run/tries.log")).trim().split("\n");
  assertEquals(
    TRIES.map(([words], at) => [words, answers[at]]),
    TRIES.map(([words, may]) => [words, may ? "yes" : "no"]),
  );
}

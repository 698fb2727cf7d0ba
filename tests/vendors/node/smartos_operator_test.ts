// What an operator does on a SmartOS host with the file for Node, from the copied file to the uninstalled agent.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { NODES } from "../../../vendors/pins.ts";
import { eachNode } from "../../support/each_node.ts";
import { isRunning } from "../../support/processes.ts";
import { until } from "../../support/until.ts";
import { illumosFile, NEEDS_HOST, type SmartosHost, withSmartosHost } from "./smartos_host.ts";

const INSTALLED = "/opt/custom/bin/zonewright";
const SOCKET = "/var/run/zonewright.sock";
const LOOP = { name: "loop", chain: [{ name: "on", body: "(job, cb) => { for (;;); }" }] };
const LIST = {
  name: "machines",
  chain: [{
    name: "list",
    body: "async (job, cb) => cb(null, { found: (await vmadm.list()).length })",
  }],
};

/** Runs a command of the installed program, which must succeed. @returns what it prints */
async function zonewright(host: SmartosHost, ...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await host.run(INSTALLED, ...args);
  assertEquals([code, code === 0 ? "" : stderr], [0, ""]);
  return stdout.trim();
}

const ask = (host: SmartosHost, ...args: readonly string[]) =>
  zonewright(host, ...args, "--socket", SOCKET);

async function apply(host: SmartosHost, workflow: { readonly name: string }): Promise<void> {
  const file = `/opt/home/${workflow.name}.json`;
  await Deno.writeTextFile(host.root + file, JSON.stringify(workflow));
  await ask(host, "workflow", "apply", "-f", file);
}

/** Waits until the agent answers with this process id. */
async function answering(host: SmartosHost): Promise<number> {
  return await until("the agent to answer", async () => {
    const { code } = await host.run(INSTALLED, "status", "--socket", SOCKET);
    if (code !== 0) return undefined;
    return Number(await Deno.readTextFile(`${host.root}/opt/custom/zonewright/agent.pid`));
  });
}

/** The processes that a process has started and that have these words in their command line. */
function childrenOf(parent: number, words: RegExp): number[] {
  const children = Array.from(
    Deno.readDirSync(`/proc/${parent}/task`),
    ({ name }) => Deno.readTextFileSync(`/proc/${parent}/task/${name}/children`),
  ).join(" ");
  return children.split(" ").filter(Boolean).map(Number).filter((pid) =>
    words.test(Deno.readTextFileSync(`/proc/${pid}/cmdline`))
  );
}

/** Upgrades to a program that ends when SMF starts it. */
async function rollBack(host: SmartosHost, installed: string): Promise<void> {
  const broken = "/opt/home/broken.mjs";
  const [first, ...rest] = (await illumosFile()).split("\n");
  const ends = 'if (process.argv.includes("serve")) process.exit(3);';
  await Deno.writeTextFile(host.root + broken, [first, ends, ...rest].join("\n"));
  const { stderr } = await host.run(INSTALLED, "upgrade", broken, "--unverified");
  assertMatch(stderr, /the one from before runs again, with its database/);
  const [found, expected] = [INSTALLED, installed].map((path) =>
    Deno.readFileSync(host.root + path)
  );
  assertEquals(found, expected);
}

eachNode(
  "an operator copies one file, installs it, and has an agent for this host",
  async (node) => {
    await withSmartosHost(node.program, async (host) => {
      // Run as it is, by the first line of the file.
      const installed = await host.run(host.file, "install", "smf");
      assertEquals([installed.code, installed.stderr.replace(/^next: .*\n/gm, "")], [0, ""]);
      const pid = await answering(host);
      const command = await Deno.readTextFile(`/proc/${pid}/cmdline`);
      assertMatch(
        command,
        /^\/opt\/tools\/bin\/node\0--disallow-code-.*\0\/opt\/custom\/bin\/zonewright\0serve/,
      );
      assertEquals(await Deno.readTextFile(`/proc/${pid}/environ`), "");

      await apply(host, LIST);
      const listed = JSON.parse(await ask(host, "job", "run", "machines", "--wait", "--json"));
      assertEquals([listed.execution, listed.chain_results[0].result], ["success", { found: 0 }]);

      // With its orphan killer it can end nothing that it leaves; the next start does.
      await apply(host, LOOP);
      const job = await ask(host, "job", "run", "loop");
      const guests = await until("the guest at work", () => {
        const found = childrenOf(pid, /\0guest\0/);
        return found.length > 0 && found;
      });
      const killers = childrenOf(pid, /^\/usr\/bin\/sh\0-c\0trap/);
      assert(killers.length > 0);
      for (const killer of killers) Deno.kill(killer, "SIGSTOP");
      Deno.kill(pid, "SIGKILL");
      for (const killer of killers) Deno.kill(killer, "SIGKILL");
      await until("the end of the agent", () => !isRunning(pid));
      const left = guests.filter(isRunning);
      assertEquals(left.length > 0, true);
      await Deno.writeTextFile(`${host.root}/var/svc/state`, "disabled\n");
      await host.run("/usr/sbin/svcadm", "enable", "-s", "svc:/application/zonewright:default");
      await answering(host);
      await until("the end of what was left", () => !left.some(isRunning));
      const log = await Deno.readTextFile(`${host.root}/var/svc/log`);
      assertMatch(log, /"process of the last agent ended"/);

      // It began again, and would keep the agent from stopping for a while.
      await ask(host, "job", "cancel", String(job));
      const newer = "/opt/home/newer.mjs";
      await Deno.writeTextFile(host.root + newer, `${await illumosFile()}\n`);
      assertMatch(await zonewright(host, "upgrade", newer, "--unverified"), /^ready +zonewright /m);
      assertEquals(
        await Deno.readFile(host.root + INSTALLED),
        await Deno.readFile(host.root + newer),
      );
      await answering(host);
      // It takes the minute that an agent has to be ready.
      if (node.version === NODES.at(-1)?.version) await rollBack(host, newer);
      const last = await answering(host);

      const removed = await zonewright(host, "uninstall", "smf");
      assertMatch(removed, /^kept +\/opt\/custom\/zonewright$/m);
      await until("the end of the agent", () => !isRunning(last));
      assertEquals((await host.run("/usr/bin/svcs", "-H", "-o", "state", "x")).code, 1);
    });
  },
  NEEDS_HOST,
);

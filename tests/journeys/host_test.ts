// GET /agent/v1/host of a running agent: what its simulated host says, and what it does not say in time.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { eachProgram } from "../support/each_program.ts";
import { type AgentProcess, runProgram, startAgentProcess } from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";

/** A part of the page as it was read. */
function valueOf(page: JsonObject, part: string): JsonObject {
  const { error, value } = page[part] as JsonObject;
  assertEquals([part, error], [part, null]);
  return value as JsonObject;
}

async function pageOf(agent: AgentProcess): Promise<JsonObject> {
  const { status, body } = await agent.get("/agent/v1/host");
  assertEquals(status, 200);
  return body;
}

eachProgram(
  "a running agent shows its host, its walls and the settings that wait",
  async (program) => {
    await withFolder(async (folder) => {
      const config = join(folder, "agent.toml");
      await Deno.writeTextFile(config, "slots = 3\n[policy]\nram_mib_max = 2048\n");
      const agent = await startAgentProcess(program, folder, ["--dev", "--config", config]);
      try {
        // On a busy machine a guest starts for longer than the page waits; then its walls come with a later one.
        const page = await until("the walls", async () => {
          const read = await pageOf(agent);
          return (read.walls as JsonObject).error === null ? read : undefined;
        });
        assertEquals([page.mode, page.name, page.version], ["simulated", "simulated", "0.1.0"]);
        assertEquals((page.slots as JsonObject).total, 3);
        assertEquals((page.policy as JsonObject).ram_mib_max, 2048);
        assertEquals(valueOf(page, "system").cpus, 16);
        assertEquals(valueOf(page, "pool").name, "zones");
        assertEquals(page.networks && valueOf(page, "networks"), ["external", "admin"] as unknown);
        assertEquals(valueOf(page, "machines"), { total: 0, by_state: {} });
        assertEquals(valueOf(page, "disk").folder, folder);
        const walls = valueOf(page, "walls") as unknown as JsonObject[];
        // What the runtime cannot refuse is shown as open, unless the kernel closes it.
        const permissions = walls.find(({ name }) => name === "permissions");
        assertEquals(permissions?.ok, program.walled === undefined);
        const open = String(permissions?.detail).match(/\w+(?=: can)/g) ?? [];
        assertEquals(open.filter((name) => !program.walled?.cannotRefuse.includes(name)), []);
        // What was read is kept.
        const again = await pageOf(agent);
        assertEquals(again.walls, page.walls);
        assertEquals(again.system, page.system);

        await Deno.writeTextFile(config, "slots = 5\n[policy]\nram_mib_max = 4096\n");
        agent.signal("SIGHUP");
        const changed = await until("the new policy", async () => {
          const next = await pageOf(agent);
          return (next.policy as JsonObject).ram_mib_max === 4096 ? next : undefined;
        });
        assertEquals(changed.settings_waiting, ["slots"]);
        const words = (changed.warnings as JsonObject[]).map(({ message }) => message).join("\n");
        assertStringIncludes(words, "changed settings wait for a restart: slots");

        await Deno.writeTextFile(config, "slots = [[\n");
        agent.signal("SIGHUP");
        const unread = await until("the broken file", async () => {
          const { warnings } = await pageOf(agent);
          return (warnings as JsonObject[]).find(({ code }) => code === "settings_not_reloaded");
        });
        assertStringIncludes(String(unread?.message), `${config}:2:1`);
        const { checks } = (await agent.get("/agent/v1/doctor")).body;
        const [found, ...others] = checks as JsonObject[];
        assertEquals([found?.name, found?.outcome, others], ["config", "fail", []]);
        assertStringIncludes(String(found?.detail), `${config}:2:1`);
        await Deno.writeTextFile(config, "slots = 5\n");
        agent.signal("SIGHUP");
        await until("the mended file", async () => {
          const { warnings } = await pageOf(agent);
          return !JSON.stringify(warnings).includes("settings_not_reloaded");
        });
      } finally {
        await agent.stop();
      }
    });
  },
);

eachProgram(
  "a running agent shows its settings with their origins, and its doctor's findings to admins",
  async (program) => {
    await withFolder(async (folder) => {
      const config = join(folder, "agent.toml");
      await Deno.writeTextFile(config, "slots = 3\n");
      const flags = ["--dev", "--config", config, "--cache-max", "3MiB"];
      const env = {
        ZONEWRIGHT_LOG_LEVEL: "info",
        ZONEWRIGHT_ALLOW_HOST: "a.example.com,b.example.com",
      };
      const agent = await startAgentProcess(program, join(folder, "state"), flags, env);
      try {
        const { settings, waiting } = (await agent.get("/agent/v1/config")).body;
        assertEquals(waiting, []);
        const shown = (name: string) => {
          const found = (settings as JsonObject[]).find((one) => one.name === name);
          return found && [found.value, found.origin, found.source];
        };
        assertEquals(shown("slots"), [3, "file", config]);
        assertEquals(shown("cache_max"), [3 * 1024 ** 2, "flag", "--cache-max"]);
        assertEquals(shown("log_level"), ["info", "environment", "ZONEWRIGHT_LOG_LEVEL"]);
        assertEquals(shown("index_interval"), [21_600, "default", null]);

        const [one, two] = await Promise.all([
          agent.get("/agent/v1/doctor"),
          agent.get("/agent/v1/doctor"),
        ]);
        assertEquals(one.status, 200, JSON.stringify(one.body));
        // Both are answered by one examination.
        assertEquals(one.body, two.body);
        assertEquals((await agent.get("/agent/v1/doctor")).body, one.body);
        const checks = one.body.checks as JsonObject[];
        const outcomeOf = (name: string) => checks.find((check) => check.name === name)?.outcome;
        assertEquals(
          ["config", "state", "store", "agent", "vmadm"].map(outcomeOf),
          ["ok", "ok", "ok", "skipped", "ok"],
          JSON.stringify(checks),
        );
      } finally {
        await agent.stop();
      }
    });
  },
);

eachProgram("a dry run asks the host, names every problem, and makes nothing", async (program) => {
  await withFolder(async (folder) => {
    const agent = await startAgentProcess(program, folder, ["--dev"]);
    try {
      const media = { url: "https://images.example.com/a.iso", digest: `sha256:${"0".repeat(64)}` };
      const nic = { model: "virtio", ip: "dhcp", nic_tag: "wan" };
      const disks = [{ model: "virtio", size: 2_000_000 }];
      const machine = { brand: "kvm", ram: 512, nics: [nic], disks };
      const { status, body } = await agent.post("/agent/v1/machines", {
        machine,
        media,
        dry_run: true,
      });
      assertEquals([status, body.possible], [200, false]);
      const messages = (body.problems as JsonObject[]).map(({ message }) => String(message));
      assertStringIncludes(messages.join("\n"), "images.example.com");
      assertStringIncludes(
        messages.join("\n"),
        'nic_tag is "wan", and the host has no such network',
      );
      assertStringIncludes(messages.join("\n"), "need 2000000 MiB");
      assertEquals((await agent.get("/agent/v1/jobs")).body.jobs, [] as unknown);

      const file = join(folder, "vm.json");
      await Deno.writeTextFile(file, JSON.stringify(machine));
      const iso = ["--iso", media.url, "--sha256", "0".repeat(64)];
      const words = ["machine", "create", "-f", file, ...iso, "--dry-run", "--url", agent.url];
      const { code, stdout } = await runProgram(program, words);
      assertEquals(code, 1, stdout);
      assertStringIncludes(stdout, "would be refused");
      assertStringIncludes(stdout, "problem: Cannot accept the machine: ");
      assertEquals((await agent.get("/agent/v1/jobs")).body.jobs, [] as unknown);
    } finally {
      await agent.stop();
    }
  });
});

eachProgram(
  "an agent starts programs when the folder where it was started is gone",
  (program) =>
    withFolder(async (folder) => {
      const cwd = join(folder, "gone");
      await Deno.mkdir(cwd);
      const agent = await startAgentProcess(program, join(folder, "state"), ["--dev"], {}, { cwd });
      try {
        await Deno.remove(cwd);
        // Each doctor is a program of its own, and examines guests, others.
        const { status, body } = await agent.get("/agent/v1/doctor");
        assertEquals(status, 200);
        const guests = (body.checks as JsonObject[]).find(({ name }) => name === "guests");
        assertStringIncludes(String(guests?.detail), "walls");
      } finally {
        await agent.stop();
      }
    }),
);

eachProgram(
  "an agent whose database was removed accepts nothing and says so, until it is back",
  (program) =>
    withFolder(async (folder) => {
      const agent = await startAgentProcess(program, join(folder, "state"), ["--dev"]);
      try {
        assertEquals((await agent.get("/agent/v1/host")).status, 200);
        const database = join(folder, "state", "zonewright.db");
        await Deno.rename(database, `${database}.moved`);
        const said = await until("the warning", async () => {
          const { warnings } = (await agent.get("/agent/v1/host")).body;
          return (warnings as JsonObject[]).find(({ code }) => code === "store");
        });
        const lost = `Cannot write to the store: ${database} was removed while the agent runs, ` +
          "expected it back in its place";
        assertEquals(said?.message, `store: ${lost}`);
        assertEquals((await agent.get("/readyz")).status, 503);
        const create = () => agent.post("/workflows", { name: "one", chain: [] });
        const refused = await create();
        assertEquals([refused.status, refused.body.message], [503, lost]);
        await Deno.rename(`${database}.moved`, database);
        assertEquals((await create()).status, 201);
      } finally {
        await agent.stop();
      }
    }),
);

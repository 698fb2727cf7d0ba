// What systemd hears: a real agent tells a socket, as it would tell systemd's.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { RELOADED_SETTINGS } from "../../src/config/settings.ts";
import { startAgentProcess } from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";
import { eachProgram } from "../support/each_program.ts";

eachProgram(
  "a service manager hears that the agent is ready, alive and stopping",
  (program) =>
    withFolder(async (folder) => {
      const path = join(folder, "notify");
      const socket = Deno.listenDatagram({ transport: "unixpacket", path });
      const heard: string[] = [];
      const listening = (async () => {
        for await (const [bytes] of socket) heard.push(new TextDecoder().decode(bytes));
      })();
      const agent = await startAgentProcess(program, join(folder, "state"), ["--dev"], {
        NOTIFY_SOCKET: path,
        WATCHDOG_USEC: "300000",
      });
      try {
        // Node has no datagrams: there the agent says so and serves all the same.
        if (program.name === "node") {
          await agent.said("service manager not notified");
          assertEquals(heard, []);
          return;
        }
        await until(
          "three signs of life",
          () => heard.filter((one) => one === "WATCHDOG=1").length >= 3,
        );
        assertStringIncludes(heard[0] ?? "", "READY=1");
        assertStringIncludes(heard[0] ?? "", agent.url);
      } finally {
        assertEquals(await agent.stop(), 0);
        socket.close();
        await listening;
      }
      assertStringIncludes(heard.join("\n"), "STOPPING=1");
    }),
);

eachProgram(
  "SIGHUP takes what can change at once, and names what waits for a restart",
  (program) =>
    withFolder(async (folder) => {
      const config = join(folder, "zonewright.toml");
      await Deno.writeTextFile(config, 'log_level = "info"\nslots = 2\n');
      const agent = await startAgentProcess(program, join(folder, "state"), [
        "--dev",
        "--config",
        config,
      ]);
      try {
        const audit = join(folder, "audit");
        await Deno.writeTextFile(
          config,
          `log_level = "debug"\nkeep_finished = "2d"\nslots = 3\nindex_interval = "3h"\n` +
            `audit_file = ${JSON.stringify(audit)}\n[policy]\nvcpus_max = 2\n`,
        );
        agent.signal("SIGHUP");
        const line = await agent.said("configuration read again");
        const { applied, restart_needed } = JSON.parse(line);
        const followed = ["audit_file", "index_interval", "keep_finished", "policy", "log_level"];
        assertEquals([applied.split(" ").sort(), restart_needed], [followed.sort(), "slots"]);
        const known: readonly string[] = RELOADED_SETTINGS;
        assertEquals(followed.filter((name) => !known.includes(name)), []);

        await Deno.writeTextFile(config, 'log_levle = "info"\n');
        agent.signal("SIGHUP");
        assertStringIncludes(await agent.said("configuration not read again"), "log_levle");
        assertEquals((await agent.get("/ping")).status, 200);
      } finally {
        await agent.stop();
      }
    }),
);

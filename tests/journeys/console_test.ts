// Consoles of an agent as an operator runs it, over a vmadm that names a listener of the test: where it
// may lead, what a flood costs, and how it ends.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { askRaw, consoleUrl, openConsole, UPGRADE } from "../http/console_client.ts";
import { forgetPeak, peakMiB, residentMiB } from "../chaos/memory.ts";
import { type AgentProcess, type Program, startAgentProcess } from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";
import { eachProgram } from "../support/each_program.ts";

const MACHINE = "0f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f";
const PATH = `/agent/v1/machines/${MACHINE}/console`;
const BANNER = new TextEncoder().encode("RFB 003.008\n");
const MIB = 1024 * 1024;
const STOPPING = ["the agent is stopping", "Server shutting down"];

interface Scene {
  readonly agent: AgentProcess;
  /** Makes vmadm name a place. */
  name(host: string, port: number): Promise<void>;
}

/** Runs with an agent whose vmadm knows one machine, and says of its console what a test wants. */
async function withScene(program: Program, run: (scene: Scene) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const vmadm = `${folder}/vmadm`;
    const machine = [{ uuid: MACHINE, brand: "kvm", state: "running", zone_state: "running" }];
    const script = [
      "#!/bin/sh",
      `if [ "$1" = info ]; then exec cat '${folder}/info'; fi`,
      `if [ "$1" = lookup ]; then printf '%s' '${JSON.stringify(machine)}'; exit; fi`,
      'echo "unexpected $1" >&2; exit 2',
    ];
    await Deno.writeTextFile(vmadm, script.join("\n"), { mode: 0o755 });
    await Deno.mkdir(`${folder}/zones`);
    const flags = ["--host", "local", "--vmadm", vmadm, "--zones", `${folder}/zones`];
    const agent = await startAgentProcess(program, `${folder}/state`, flags);
    const name = async (host: string, port: number) => {
      const info = JSON.stringify({ vnc: { host, port, display: port - 5900 } });
      // Renamed into its place, so that no call reads half of it.
      await Deno.writeTextFile(`${folder}/info.new`, info);
      await Deno.rename(`${folder}/info.new`, `${folder}/info`);
    };
    try {
      await run({ agent, name });
    } finally {
      assertEquals(await agent.stop(), 0);
    }
  });
}

interface Console {
  readonly port: number;
  open(): number;
}

/** Runs with consoles that say their banner and go on as a test wants. */
async function withConsole(
  serve: (connection: Deno.TcpConn) => Promise<void>,
  run: (console: Console) => Promise<void>,
): Promise<void> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  let open = 0;
  const carry = async (connection: Deno.TcpConn) => {
    open += 1;
    try {
      await connection.write(BANNER);
      await serve(connection);
    } catch {
      // The agent has closed it.
    } finally {
      connection.close();
      open -= 1;
    }
  };
  const accepting = (async () => {
    for await (const connection of listener) carry(connection);
  })();
  try {
    await run({ port: listener.addr.port, open: () => open });
  } finally {
    listener.close();
    await accepting;
    await until("every console to be closed", () => open === 0);
  }
}

async function untilClosed(connection: Deno.TcpConn): Promise<void> {
  const buffer = new Uint8Array(64);
  while (await connection.read(buffer) !== null);
}

function pidOf(agent: AgentProcess): number {
  return Number(/"agent started".*"pid":(\d+)/.exec(agent.log())?.[1]);
}

eachProgram(
  "clients that do not read 200 MB cost the agent no memory, and one that reads them gets every byte",
  async (program) => {
    const floodBytes = 200 * MIB;
    let sent = 0;
    const flood = async (connection: Deno.TcpConn) => {
      const part = new Uint8Array(MIB);
      for (let left = floodBytes; left > 0;) {
        const count = await connection.write(part.subarray(0, Math.min(left, part.length)));
        sent += count;
        left -= count;
      }
    };
    await withConsole(flood, ({ port }) =>
      withScene(program, async ({ agent, name }) => {
        await name("127.0.0.1", port);
        // What comes with the first console at all, code included, is no matter of floods.
        await askRaw(Number(new URL(agent.url).port), PATH, UPGRADE);
        const pid = pidOf(agent);
        const before = residentMiB(pid);
        forgetPeak(pid);
        const stalled = await Promise.all([1, 2, 3].map(() => openStalled(agent)));
        let seen = -1;
        let looks = 0;
        await until("the floods to stand still", () => {
          looks = seen === sent ? looks + 1 : 0;
          seen = sent;
          return looks === 60;
        });
        const taken = Math.round(sent / MIB);
        const grown = Math.round(peakMiB(pid) - before);
        assert(taken < 100, `${taken} MiB were read for clients that take none`);
        assert(grown < 64, `the agent has grown by ${grown} MiB for clients that take nothing`);
        const client = await openConsole(consoleUrl(agent.url, MACHINE));
        await client.ended();
        assertEquals(client.received(), BANNER.length + floodBytes);
        const read = Math.round(peakMiB(pid) - before);
        assert(read < 128, `the agent has grown by ${read} MiB for a client that reads`);
        console.log(
          `      ${program.name}: ${taken} MiB read for three that took none, grown by ${grown} ` +
            `MiB; by ${read} MiB once 200 were carried`,
        );
        for (const connection of stalled) connection.close();
      }));
  },
);

/** A client that asks for the WebSocket and never reads. */
async function openStalled(agent: AgentProcess): Promise<Deno.TcpConn> {
  const { hostname, port } = new URL(agent.url);
  const connection = await Deno.connect({ hostname, port: Number(port) });
  const fields = Object.entries({ host: `${hostname}:${port}`, ...UPGRADE })
    .map(([name, value]) => `${name}: ${value}\r\n`);
  const request = `GET ${PATH} HTTP/1.1\r\n${fields.join("")}\r\n`;
  await connection.write(new TextEncoder().encode(request));
  return connection;
}

eachProgram(
  "a console leads to the host itself, and to no port of its services",
  (program) =>
    withConsole(untilClosed, ({ port }) =>
      withScene(program, async ({ agent, name }) => {
        const ask = async (host: string, at: number) => {
          await name(host, at);
          return await askRaw(Number(new URL(agent.url).port), PATH, UPGRADE);
        };
        for (
          const host of ["192.0.2.7", "169.254.169.254", "localhost", "example.com", "0.0.0.0"]
        ) {
          const { status, text } = await ask(host, port);
          assertEquals([host, status], [host, 502]);
          assertStringIncludes(text, `${host}:${port}: it is not an address of this host`);
        }
        for (const at of [0, 22, 1023, 65_536, 1.5]) {
          const { status, text } = await ask("127.0.0.1", at);
          assertEquals([at, status], [at, 502]);
          assertStringIncludes(text, "expected a port from 1024 to 65535");
        }
        // The agent itself is no console.
        const self = await ask("127.0.0.1", Number(new URL(agent.url).port));
        assertEquals([502, 504].includes(self.status), true, self.text);
        assertEquals((await ask("127.0.0.1", port)).status, 101);
      })),
);

eachProgram(
  "a console whose port changed between two connections is reached at the new port",
  (program) =>
    withConsole(
      untilClosed,
      (first) =>
        withConsole(untilClosed, (second) =>
          withScene(program, async ({ agent, name }) => {
            await name("127.0.0.1", first.port);
            const before = await openConsole(consoleUrl(agent.url, MACHINE));
            await before.read(BANNER.length);
            await name("127.0.0.1", second.port);
            const after = await openConsole(consoleUrl(agent.url, MACHINE));
            await after.read(BANNER.length);
            // The one that was open is left where it is: it is the console's to end it.
            assertEquals([first.open(), second.open()], [1, 1]);
            await before.close();
            await after.close();
          })),
    ),
);

eachProgram(
  "an agent that stops closes its consoles with the reason, and ends in time",
  async (program) => {
    await withConsole(untilClosed, async ({ port }) => {
      const ends: Promise<{ code: number; reason: string }>[] = [];
      let log = () => "";
      await withScene(program, async ({ agent, name }) => {
        log = agent.log;
        await name("127.0.0.1", port);
        const made = await agent.post(`${PATH}-tickets`);
        assertEquals(made.status, 201);
        for (const url of [consoleUrl(agent.url, MACHINE), String(made.body.url)]) {
          const client = await openConsole(url);
          await client.read(BANNER.length);
          ends.push(client.ended());
        }
      });
      assert(!log().includes("part not closed"), log());
      // A newer runtime says goodbye in words of its own, if it comes first.
      const words = program.name !== "source" ? ["the agent is stopping"] : STOPPING;
      for (const { code, reason } of await Promise.all(ends)) {
        assertEquals([code, words.includes(reason)], [1001, true], reason);
      }
    });
  },
);

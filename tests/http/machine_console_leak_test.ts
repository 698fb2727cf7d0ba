// Many consoles, one after the other and at once, over real connections: what is left when they are
// closed is what was there before.

import { assert, assertEquals } from "@std/assert";
import { connectVnc } from "../../src/host/vmadm/vnc.ts";
import type { MachineAccess } from "../../src/http/machine_access.ts";
import { uuidOf } from "../support/job.ts";
import { until } from "../support/until.ts";
import { askRaw, type ConsoleClient, consoleUrl, openConsole } from "./console_client.ts";
import { type HttpAgent, MACHINE_DEPS, NO_MACHINES, withHttpAgent } from "./http_agent.ts";
import { openDescriptors, OTHER_DESCRIPTORS } from "./listeners.ts";

const BANNER = "RFB 003.008\n";
const CYCLES = 1000;
const CYCLES_AT_ONCE = 20;
const CONSOLES = 50;
const MACHINES = [1, 2, 3, 4, 5].map((number) => uuidOf(number));

/** Runs with consoles that echo what they are sent, behind a real listener. */
async function withConsoles(
  run: (agent: HttpAgent, open: () => number) => Promise<void>,
): Promise<void> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  let open = 0;
  const echo = async (connection: Deno.TcpConn) => {
    open += 1;
    const buffer = new Uint8Array(1024);
    try {
      await connection.write(new TextEncoder().encode(BANNER));
      for (;;) {
        const count = await connection.read(buffer);
        if (count === null) break;
        await connection.write(buffer.subarray(0, count));
      }
    } catch {
      // The other side may cut the connection.
    } finally {
      connection.close();
      open -= 1;
    }
  };
  const accepting = (async () => {
    for await (const connection of listener) echo(connection);
  })();
  const dial = (hostname: string, port: number, signal?: AbortSignal) =>
    Deno.connect({ hostname, port, ...(signal === undefined ? {} : { signal }) });
  const machines: MachineAccess = {
    ...MACHINE_DEPS,
    vmadm: {
      ...NO_MACHINES,
      get: (uuid) => Promise.resolve({ uuid, brand: "kvm", state: "running" }),
      infoVnc: () => Promise.resolve({ host: "127.0.0.1", port: listener.addr.port }),
      connectVnc: (address) => connectVnc({ kind: "local", dial }, address),
    },
  };
  try {
    await withHttpAgent((agent) => run(agent, () => open), { machines });
  } finally {
    listener.close();
    await accepting;
    await until("every connection to end", () => open === 0);
  }
}

async function speak(client: ConsoleClient): Promise<void> {
  assertEquals(new TextDecoder().decode(await client.read(BANNER.length)), BANNER);
  client.socket.send(new TextEncoder().encode("hello"));
  assertEquals(new TextDecoder().decode(await client.read(5)), "hello");
}

function urlFor(agent: HttpAgent, number: number): string {
  return consoleUrl(agent.url, MACHINES[number % MACHINES.length] ?? "");
}

/** The same with a ticket, which is all that its viewer knows. */
async function ticketFor(agent: HttpAgent, number: number): Promise<string> {
  const uuid = MACHINES[number % MACHINES.length];
  const path = `/agent/v1/machines/${uuid}/console-tickets`;
  // Over a connection of its own, which is closed then; fetch() would keep some.
  const headers = { "content-type": "application/json", "content-length": "0" };
  return JSON.parse((await askRaw(agent.port, path, headers, "POST")).text).url;
}

Deno.test(`${CYCLES} consoles leave no descriptor open and no slot taken`, async () => {
  await withConsoles(async (agent, open) => {
    const cycle = async (number: number) => {
      // Every second one with a ticket of its own.
      const url = number % 2 === 0 ? urlFor(agent, number) : await ticketFor(agent, number);
      const client = await openConsole(url);
      // Every third one leaves without a word.
      if (number % 3 !== 0) await speak(client);
      await client.close();
    };
    await cycle(1);
    await until("the first to end", () => open() === 0);
    const before = openDescriptors();
    for (let number = 0; number < CYCLES; number += CYCLES_AT_ONCE) {
      await Promise.all(Array.from({ length: CYCLES_AT_ONCE }, (_, at) => cycle(number + at)));
    }
    await until("every console to end", () => open() === 0);
    await until(
      "the descriptors to be closed",
      () => openDescriptors() <= before + OTHER_DESCRIPTORS,
    );
    const closed = agent.log.filter(({ msg }) => msg === "console closed");
    assertEquals(closed.length, CYCLES + 1);
    // All places are free again.
    await Promise.all(Array.from({ length: CONSOLES }, (_, at) => cycle(at * 3 + 1)));
  });
});

Deno.test("clients that leave during the upgrade free their console slot", async () => {
  await withConsoles(async (agent, open) => {
    const [uuid] = MACHINES;
    const request = [
      `GET /agent/v1/machines/${uuid}/console HTTP/1.1`,
      `host: 127.0.0.1:${agent.port}`,
      "connection: Upgrade",
      "upgrade: websocket",
      "sec-websocket-version: 13",
      "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
      "\r\n",
    ].join("\r\n");
    const before = openDescriptors();
    for (let times = 0; times < 100; times += 1) {
      const client = await Deno.connect({ hostname: "127.0.0.1", port: agent.port });
      await client.write(new TextEncoder().encode(request));
      client.close();
      // As many as there are places for one machine.
      if (times % 10 === 9) await until("the consoles to end", () => open() === 0);
    }
    await until("every session to be logged", () => {
      const of = (message: string) => agent.log.filter(({ msg }) => msg === message).length;
      return of("console opened") === of("console closed") && open() === 0;
    });
    await until(
      "the descriptors to be closed",
      () => openDescriptors() <= before + OTHER_DESCRIPTORS,
    );
    const client = await openConsole(urlFor(agent, 0));
    await speak(client);
    await client.close();
  });
});

Deno.test(`${CONSOLES} consoles at once each carry their own bytes`, async () => {
  await withConsoles(async (agent, open) => {
    const clients = await Promise.all(
      Array.from(
        { length: CONSOLES },
        async (_, number) => await openConsole(await ticketFor(agent, number)),
      ),
    );
    await until("all of them", () => open() === CONSOLES);
    await Promise.all(clients.map(speak));
    const word = (number: number) => new TextEncoder().encode(String(number).padStart(8, "0"));
    clients.forEach(({ socket }, number) => socket.send(word(number)));
    const heard = await Promise.all(clients.map((client) => client.read(8)));
    heard.forEach((bytes, number) => assertEquals(bytes, word(number)));
    await Promise.all(clients.map((client) => client.close()));
    await until("every console to end", () => open() === 0);
    assert(agent.log.filter(({ msg }) => msg === "console closed").length <= CONSOLES);
  });
});

// `machine boot`, `stop`, `reboot`, `eject`, `delete` and `console`: what they send, what they print,
// and viewers that are carried to a console.

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { type JobUuid, randomUuid } from "../../src/domain/id.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { sha256Hex } from "../../src/domain/digest.ts";
import { type Token, TOKEN_BYTES, tokenText } from "../../src/domain/token.ts";
import { GRACE_MS, LISTENING } from "../support/listening.ts";
import { parseWorkflow } from "../support/parsed_workflow.ts";
import { connectVnc } from "../../src/host/vmadm/vnc.ts";
import type { MachineAccess } from "../../src/http/machine_access.ts";
import { listen } from "../../src/http/server.ts";
import { createApp } from "../../src/http/app.ts";
import { MACHINE_LIFE } from "../../src/machines/workflows/machine_life.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import {
  claimAll,
  endTask,
  type HttpAgent,
  MACHINE_DEPS,
  NO_MACHINES,
  NO_UUID,
  withHttpAgent,
} from "../http/http_agent.ts";
import { openConsole } from "../http/console_client.ts";
import { register } from "../store/host_suite.ts";
import { T0 } from "../support/job.ts";
import { until, withFolder } from "../support/until.ts";
import { openScreen, screenFor } from "./screen.ts";

const UUID = "6c1e8f0a-6a53-4c0c-9a3b-0d1f4e0a7a11";
const BANNER = "RFB 003.008\n";

/** Method, path and body that a command line sends. */
async function sent(...words: string[]): Promise<[string, string, unknown]> {
  const screen = openScreen();
  assertEquals([await screen.run("machine", ...words, "--curl"), screen.err()], [0, ""]);
  const line = screen.out().trim();
  const method = / -X (\S+)/.exec(line)?.[1] ?? "GET";
  const body = /--data-raw (?:'(.*)'|(\S+)) http/.exec(line);
  const path = /http:\/\/127\.0\.0\.1:8780(\S*)$/.exec(line)?.[1] ?? "";
  return [method, path, body === null ? undefined : JSON.parse(body[1] ?? body[2] ?? "")];
}

Deno.test("each action is one call, whose options are the flags", async () => {
  const path = `/agent/v1/machines/${UUID}`;
  assertEquals(await sent("boot", UUID), ["POST", `${path}/boot`, {}]);
  const boot = ["--cdrom", "/a.iso", "--order", "cd", "--once", "d"];
  assertEquals(await sent("boot", UUID, ...boot), [
    "POST",
    `${path}/boot`,
    { cdrom: "/a.iso", order: "cd", once: "d" },
  ]);
  for (const verb of ["stop", "reboot"]) {
    assertEquals(await sent(verb, UUID), ["POST", `${path}/${verb}`, {}]);
    assertEquals(await sent(verb, UUID, "--force"), ["POST", `${path}/${verb}`, { force: true }]);
    assertEquals(await sent(verb, UUID, "--force-after", "180"), [
      "POST",
      `${path}/${verb}`,
      { timeout: 180 },
    ]);
    for (
      const [flags, why] of [
        [["--force-after", "181"], "expected seconds from 1 to 180"],
        [["--force-after", "0"], "expected seconds from 1 to 180"],
        [["--force-after", "5", "--force"], "--force and --force-after are both given"],
      ] as const
    ) {
      const screen = openScreen();
      assertEquals(await screen.run("machine", verb, UUID, ...flags), 2);
      assertStringIncludes(screen.err(), why);
    }
  }
  assertEquals(await sent("eject", UUID, "--file", "/a.iso", "--file", "/b.iso"), [
    "POST",
    `${path}/eject`,
    { files: ["/a.iso", "/b.iso"] },
  ]);
  assertEquals(await sent("delete", UUID), ["DELETE", path, undefined]);
  assertEquals(await sent("console", UUID), ["GET", `${path}/console`, undefined]);
  assertEquals(await sent("vnc", UUID), ["GET", `${path}/vnc`, undefined]);
});

/** A host with one machine, whose console is a listener that echoes. */
async function withMachine(
  run: (agent: HttpAgent, open: () => number) => Promise<void>,
): Promise<void> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  let open = 0;
  const echo = async (connection: Deno.TcpConn) => {
    open += 1;
    await connection.write(new TextEncoder().encode(BANNER));
    await connection.readable.pipeTo(connection.writable).catch(() => {});
    open -= 1;
  };
  const accepting = (async () => {
    for await (const connection of listener) echo(connection);
  })();
  const dial = (hostname: string, port: number) => Deno.connect({ hostname, port });
  const machine = { uuid: UUID, brand: "kvm", state: "running" };
  const machines: MachineAccess = {
    ...MACHINE_DEPS,
    vmadm: {
      ...NO_MACHINES,
      get: (uuid: string) => Promise.resolve(uuid === UUID ? machine : null),
      infoVnc: () => Promise.resolve({ host: "127.0.0.1", port: listener.addr.port }),
      connectVnc: (address) => connectVnc({ kind: "local", dial }, address),
    },
  };
  try {
    await withHttpAgent(async (agent) => {
      for (const { uuid, definition } of Object.values(MACHINE_LIFE)) {
        const life = parseWorkflow(definition, uuid, randomUuid, DEFAULT_HTTP_LIMITS);
        await agent.store.workflows.putBuiltin(life);
      }
      await run(agent, () => open);
    }, { machines });
  } finally {
    listener.close();
    await accepting;
    await until("every console to end", () => open === 0);
  }
}

/** Ends the first job that is made as a runner would. */
async function endNextJob(agent: HttpAgent, execution: "succeeded" | "failed"): Promise<void> {
  const [listed] = await until("job", async () => {
    const jobs = await agent.store.jobs.list({ execution: "queued" });
    return jobs.length > 0 ? jobs : undefined;
  });
  const { uuid, params } = (listed as { job: { uuid: JobUuid; params: JsonObject } }).job;
  await claimAll(agent);
  const error = execution === "failed" ? "no such zone" : "";
  await endTask(
    agent,
    uuid,
    execution === "succeeded" ? { kind: "succeed" } : { kind: "fail", onerror: false },
    { error, name: "stop" },
    params,
  );
}

Deno.test("an action says that its job waits for a cordoned host", () =>
  withMachine(async (agent) => {
    await register(agent.store);
    assertEquals(await screenFor(agent.url).run("host", "cordon", "gz01"), 0);
    const screen = screenFor(agent.url);
    assertEquals(await screen.run("machine", "stop", UUID), 0, screen.err());
    assertStringIncludes(screen.err(), "the job waits for gz01, which is cordoned\n");
  }));

Deno.test("an action names its job, and with --wait its outcome", () =>
  withMachine(async (agent) => {
    const left = screenFor(agent.url);
    assertEquals(await left.run("machine", "stop", UUID), 0);
    assertMatch(left.out(), new RegExp(`^machine +${UUID}\\njob +[0-9a-f-]{36}\\n$`));
    const other = screenFor(agent.url);
    assertEquals(await other.run("machine", "boot", UUID), 6);
    assertMatch(other.err(), /hint: zonewright job get [0-9a-f-]{36}/);
    await endNextJob(agent, "succeeded");

    const done = screenFor(agent.url);
    const ended = done.run("machine", "stop", UUID, "--force", "--wait");
    await endNextJob(agent, "succeeded");
    assertEquals([await ended, done.out()], [0, `${UUID} stopped\n`]);

    const json = screenFor(agent.url);
    const failed = json.run("machine", "reboot", UUID, "--wait", "--json");
    await endNextJob(agent, "failed");
    assertEquals(await failed, 5);
    const { job_uuid, ...rest } = JSON.parse(json.out());
    assertEquals([typeof job_uuid, rest], ["string", { uuid: UUID, execution: "failure" }]);
    assertStringIncludes(json.err(), "no such zone");

    const nobody = screenFor(agent.url);
    assertEquals(await nobody.run("machine", "boot", NO_UUID), 4);
  }));

Deno.test("machine delete asks first, and without a terminal requires --yes", () =>
  withMachine(async (agent) => {
    const count = () => agent.store.jobs.count({});
    const script = screenFor(agent.url);
    assertEquals(await script.run("machine", "delete", UUID), 2);
    assertStringIncludes(script.err(), ": there is no terminal to ask on, expected --yes\n");
    const no = screenFor(agent.url, { isTerminal: true, answer: "n" });
    assertEquals(await no.run("machine", "delete", UUID), 1);
    assertStringIncludes(no.err(), `Delete machine ${UUID} with everything on its disks? [y/N]`);
    assertEquals(await count(), 0);
    const yes = screenFor(agent.url, { isTerminal: true, answer: "y" });
    assertEquals(await yes.run("machine", "delete", UUID), 0);
    assertEquals(await count(), 1);
    assertEquals(await screenFor(agent.url).run("machine", "delete", UUID, "--yes"), 0);
    assertEquals(await count(), 1);
  }));

Deno.test("machine console prints the WebSocket, and refuses to listen beyond loopback", () =>
  withMachine(async (agent) => {
    const screen = screenFor(agent.url);
    assertEquals(await screen.run("machine", "console", UUID), 0);
    const url = `${agent.url.replace("http", "ws")}/agent/v1/machines/${UUID}/console`;
    assertEquals(screen.out(), `${url}\n`);
    const json = screenFor(agent.url);
    await json.run("machine", "console", UUID, "--json");
    assertEquals(JSON.parse(json.out()), { url, protocol: "binary" });
    for (const listen of ["0.0.0.0:5901", "192.0.2.1:5901", ":5901", "5901", "127.0.0.1:70000"]) {
      const refused = screenFor(agent.url);
      assertEquals(await refused.run("machine", "console", UUID, "--listen", listen), 2);
    }
    assertEquals(await screenFor(agent.url).run("machine", "console", NO_UUID), 4);
  }));

Deno.test("machine console --ticket prints an address that opens the console once", () =>
  withMachine(async (agent) => {
    const screen = screenFor(agent.url);
    assertEquals(await screen.run("machine", "console", UUID, "--ticket"), 0);
    const url = screen.out().trimEnd();
    const console = `${agent.url.replace("http", "ws")}/agent/v1/machines/${UUID}/console`;
    assertMatch(url.replace(console, ""), /^\?ticket=zwc_[A-Za-z0-9_-]{43}$/);
    assertMatch(screen.err(), /works once, until \d{4}-\d\d-\d\dT/);
    const viewer = await openConsole(url);
    assertEquals(new TextDecoder().decode(await viewer.read(BANNER.length)), BANNER);
    await viewer.close();
    const again = await openConsole(url);
    await again.ended();
    assertEquals(again.received(), 0);
    const json = screenFor(agent.url);
    await json.run("machine", "console", UUID, "--ticket", "--json");
    const made = JSON.parse(json.out());
    assertEquals(Object.keys(made).sort(), ["expires_at", "ticket", "url"]);
    assertEquals(made.url, `${console}?ticket=${made.ticket}`);
    const curl = screenFor(agent.url);
    await curl.run("machine", "console", UUID, "--ticket", "--curl");
    assertMatch(curl.out(), /^curl .* -X POST .*\/console-tickets\n$/);
    assertEquals(await screenFor(agent.url).run("machine", "console", NO_UUID, "--ticket"), 4);
    for (const words of [["--listen", "127.0.0.1:0"], ["--socket", "/nowhere/agent.sock"]]) {
      const refused = openScreen();
      assertEquals(await refused.run("machine", "console", UUID, "--ticket", ...words), 2);
    }
  }));

/** Connects as a viewer does, and asserts that its bytes come back whole. */
async function view(port: number, bytes: Uint8Array): Promise<void> {
  const viewer = await Deno.connect({ hostname: "127.0.0.1", port });
  const wanted = BANNER.length + bytes.length;
  const received = new Uint8Array(wanted);
  const writing = (async () => {
    for (let at = 0; at < bytes.length;) at += await viewer.write(bytes.subarray(at));
  })();
  for (let at = 0; at < wanted;) {
    const count = await viewer.read(received.subarray(at));
    if (count === null) throw new Error(`ended after ${at} of ${wanted} bytes`);
    at += count;
  }
  await writing;
  viewer.close();
  assertEquals(new TextDecoder().decode(received.subarray(0, BANNER.length)), BANNER);
  assertEquals(received.subarray(BANNER.length), bytes);
}

/** Runs the command that listens, and lets a test connect until Ctrl-C. */
async function withRelay(
  env: Record<string, string>,
  run: (port: number) => Promise<void>,
): Promise<void> {
  const screen = openScreen({ env });
  const ended = screen.run("machine", "console", UUID, "--listen", "127.0.0.1:0");
  const place = await until("the relay", () => /^127\.0\.0\.1:(\d+)\n/.exec(screen.out())?.[1]);
  try {
    await run(Number(place));
  } finally {
    screen.interrupt();
    assertEquals(await ended, 0);
  }
}

Deno.test("machine console --listen carries any number of viewers until Ctrl-C", () =>
  withMachine((agent, open) =>
    withRelay({ ZONEWRIGHT_URL: agent.url }, async (port) => {
      await view(port, crypto.getRandomValues(new Uint8Array(50_000)));
      await Promise.all(
        [1, 2, 3].map(() => view(port, crypto.getRandomValues(new Uint8Array(999)))),
      );
      await until("the consoles to end", () => open() === 0);
      // One that is still connected is ended by Ctrl-C.
      const left = await Deno.connect({ hostname: "127.0.0.1", port });
      await until("its console", () => open() === 1);
      queueMicrotask(() => left.close());
    })
  ));

Deno.test("machine console --listen shows the agent its token", () =>
  withMachine((agent) =>
    withFolder(async (folder) => {
      const text = tokenText(crypto.getRandomValues(new Uint8Array(TOKEN_BYTES)));
      await Deno.writeTextFile(`${folder}/token`, text);
      const token: Token = {
        name: "viewer",
        scope: "admin",
        sha256: await sha256Hex(new TextEncoder().encode(text)),
        created_at: T0,
      };
      const access = {
        requiresToken: () => true,
        tokens: () => Promise.resolve([token]),
        nowMs: () => performance.now(),
      };
      const server = await listen(createApp({ ...agent.context, access }), {
        ...LISTENING,
        tcp: { hostname: "127.0.0.1", port: 0 },
        connections: DEFAULT_LIMITS,
        log: agent.context.log,
      });
      try {
        await withRelay(
          {
            ZONEWRIGHT_URL: `http://127.0.0.1:${server.port}`,
            ZONEWRIGHT_TOKEN_FILE: `${folder}/token`,
          },
          (port) => view(port, new TextEncoder().encode("hello")),
        );
      } finally {
        await server.shutdown(GRACE_MS);
      }
    })
  ));

Deno.test("machine console --listen reaches an agent on a unix socket", () =>
  withMachine((agent) =>
    withFolder(async (folder) => {
      const socketPath = `${folder}/agent.sock`;
      const server = await listen(createApp(agent.context), {
        ...LISTENING,
        socketPath,
        log: agent.context.log,
      });
      try {
        await withRelay(
          { ZONEWRIGHT_SOCKET: socketPath },
          (port) => view(port, new TextEncoder().encode("hello")),
        );
      } finally {
        await server.shutdown(GRACE_MS);
      }
    })
  ));

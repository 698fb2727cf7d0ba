// Connecting to a console: what counts as one, and what is left open of what does not.

import { assertEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { connectVnc, type VncConnection } from "../../src/host/vmadm/vnc.ts";
import type { Timers } from "../../src/runtime/timers.ts";
import { heldTimers, quickTimers } from "../support/timers.ts";
import { until } from "../support/until.ts";

/** Milliseconds for a connection and its banner. */
const BANNER_MS = 5_000;

const dial = (hostname: string, port: number, signal?: AbortSignal) =>
  Deno.connect({ hostname, port, ...(signal === undefined ? {} : { signal }) });

/** Runs with a server that does something with each connection; all must be closed at the end. */
async function withServer(
  serve: (connection: Deno.TcpConn) => Promise<void>,
  run: (
    connect: (
      signal?: AbortSignal,
      timers?: Timers,
    ) => Promise<VncConnection>,
  ) => Promise<void>,
): Promise<void> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  let open = 0;
  const accepting = (async () => {
    for await (const connection of listener) {
      open += 1;
      serve(connection).catch(() => {}).finally(() => {
        connection.close();
        open -= 1;
      });
    }
  })();
  const address = { host: "127.0.0.1", port: listener.addr.port };
  try {
    await run((signal, timers = quickTimers(2.5)) =>
      connectVnc({ kind: "local", dial }, address, { signal, timers })
    );
    await until("the client to close everything", () => open === 0);
  } finally {
    listener.close();
    await accepting;
  }
}

/** Where no console of this host is; one looks like an address of it, and is a name. */
const OTHERS = [
  "192.0.2.7",
  "example.com",
  "localhost",
  "0.0.0.0",
  "169.254.169.254",
  "::",
  "127.1",
  "127.0.0.999",
  "127.0.0.1.example.com",
  "::ffff:7f00:1",
  "2130706433",
];

/** Waits until the other side has closed the connection. */
async function untilClosed(connection: Deno.TcpConn): Promise<void> {
  const buffer = new Uint8Array(64);
  while (await connection.read(buffer) !== null);
}

function says(...parts: string[]): (connection: Deno.TcpConn) => Promise<void> {
  return async (connection) => {
    for (const part of parts) await connection.write(new TextEncoder().encode(part));
    await untilClosed(connection);
  };
}

Deno.test("a server that sends its banner is a console, and no byte is lost", async () => {
  await withServer(says("RFB", " 003.0", "08\nmore"), async (connect) => {
    const connection = await connect();
    let text = new TextDecoder().decode(connection.greeting);
    const buffer = new Uint8Array(64);
    while (text.length < 16) {
      const count = await connection.read(buffer);
      text += new TextDecoder().decode(buffer.subarray(0, count ?? 0));
    }
    assertEquals(text, "RFB 003.008\nmore");
    connection.close();
    connection.close();
  });
});

Deno.test("everything that a client writes arrives", async () => {
  const bytes = crypto.getRandomValues(new Uint8Array(60_000));
  let received = new Uint8Array();
  const server = async (connection: Deno.TcpConn) => {
    await connection.write(new TextEncoder().encode("RFB 003.008\n"));
    const buffer = new Uint8Array(4096);
    for (let count = await connection.read(buffer); count !== null;) {
      received = new Uint8Array([...received, ...buffer.subarray(0, count)]);
      count = await connection.read(buffer);
    }
  };
  await withServer(server, async (connect) => {
    const connection = await connect();
    await connection.write(bytes);
    await until("the bytes", () => received.length === bytes.length);
    assertEquals(received, bytes);
    connection.close();
  });
});

Deno.test("a server that is not a console is refused with what it sent, and closed", async () => {
  const cases: [string, (connection: Deno.TcpConn) => Promise<void>, string][] = [
    ["silent", untilClosed, "sent no RFB version within 5 s"],
    ["closing", () => Promise.resolve(), "closed the connection"],
    ["another protocol", says("HTTP/1.1 400\r\n"), 'is not an RFB server: it sent "HTTP/1.1"'],
    ["another version", says("RFB 009.001\n"), "is not an RFB server"],
    ["half a banner", says("RFB 0"), "sent no RFB version"],
  ];
  for (const [name, server, words] of cases) {
    await withServer(server, async (connect) => {
      const error = await assertRejects(() => connect(), AgentError);
      assertEquals([name, error.message.includes(words)], [name, true], error.message);
      assertEquals(["host", "timeout"].includes(error.code), true);
    });
  }
  // Below those that the system gives out: nobody listens there, whatever other tests do.
  const port = 1024;
  const address = { host: "127.0.0.1", port };
  const error = await assertRejects(
    () => connectVnc({ kind: "local", dial }, address),
    AgentError,
  );
  const words = `Cannot connect to the console at 127.0.0.1:${port}: it cannot be reached: `;
  assertEquals([error.code, error.message.startsWith(words)], ["host", true], error.message);
});

/** Sends the same bytes again and again until the other side has had enough. */
function floods(bytes: Uint8Array, count: (sent: number) => void) {
  return async (connection: Deno.TcpConn) => {
    for (;;) count(await connection.write(bytes));
  };
}

Deno.test("a hostile greeting takes no longer than its deadline and no more than a few bytes", async () => {
  const text = (words: string) => new TextEncoder().encode(words);
  const endless: [string, Uint8Array, string][] = [
    ["zeros", new Uint8Array(64 * 1024), 'it sent "\\u0000'],
    ["no text", new Uint8Array(64 * 1024).fill(0xff), "is not an RFB server: it sent"],
    ["escapes", text("\x1b[2J\x1b]0;x\x07".repeat(1000)), 'it sent "\\u001b[2J'],
    ["half of it", text("RFB ".repeat(1000)), 'it sent "RFB RFB "'],
  ];
  for (const [name, bytes, words] of endless) {
    let sent = 0;
    await withServer(floods(bytes, (count) => sent += count), async (connect) => {
      const error = await assertRejects(() => connect(), AgentError);
      assertEquals([name, error.code, error.message.includes(words)], [name, "host", true]);
      assertEquals(error.message.length < 160, true, error.message);
    });
    // What the system took for a connection that nobody reads from any more.
    assertEquals(sent < 64 * 1024 * 1024, true, `${name}: ${sent} bytes`);
  }
  // A byte now and then does not start the time again.
  const timers = heldTimers();
  const drip = async (connection: Deno.TcpConn) => {
    for (const letter of "RFB 003.008\n") {
      await connection.write(text(letter));
      timers.advance(BANNER_MS / 2);
    }
  };
  await withServer(drip, async (connect) => {
    const error = await assertRejects(() => connect(undefined, timers), AgentError);
    assertEquals(error.code, "timeout");
  });
});

Deno.test("a console that keeps sending is read only on demand", async () => {
  let sent = 0;
  const flood = async (connection: Deno.TcpConn) => {
    await connection.write(new TextEncoder().encode("RFB 003.008\n"));
    await floods(new Uint8Array(64 * 1024), (count) => sent += count)(connection);
  };
  await withServer(flood, async (connect) => {
    const connection = await connect();
    let seen = -1;
    let looks = 0;
    await until("the flood to stand still", () => {
      looks = seen === sent ? looks + 1 : 0;
      seen = sent;
      return looks === 60;
    });
    assertEquals(sent < 64 * 1024 * 1024, true, `${sent} bytes`);
    connection.close();
  });
});

Deno.test("on the agent's own host, no connection leads to another host", async () => {
  const dialed: string[] = [];
  const noDial = (hostname: string) => {
    dialed.push(hostname);
    return Promise.reject(new Error("not dialed"));
  };
  const own = Deno.networkInterfaces().map(({ address }) => address);
  for (const kind of ["local", "simulated"] as const) {
    for (const host of OTHERS) {
      const connecting = connectVnc({ kind, dial: noDial }, { host, port: 5901 });
      const error = await assertRejects(() => connecting, AgentError);
      assertEquals([error.code, error.message], [
        "host",
        `Cannot connect to the console at ${host}:5901: it is not an address of this host`,
      ]);
    }
  }
  assertEquals(dialed, []);
  for (const host of [...own, "127.0.0.1", "127.1.2.3"]) {
    const address = { host, port: 5901 };
    const connecting = connectVnc({ kind: "local", dial: noDial }, address);
    await assertRejects(() => connecting, AgentError, "cannot be reached");
  }
});

Deno.test("over ssh, a console needs an IP address, which no resolver can change", async () => {
  const dialed: string[] = [];
  const dial = (hostname: string) => {
    dialed.push(hostname);
    return Promise.reject(new Error("not dialed"));
  };
  const connect = (host: string, port = 5901) => connectVnc({ kind: "ssh", dial }, { host, port });
  // Which addresses are of the host at the far end, the agent cannot see.
  for (const host of ["10.99.99.7", "127.0.0.1", "::1", "fd00::7"]) {
    await assertRejects(() => connect(host), AgentError, "cannot be reached");
  }
  assertEquals(dialed.splice(0).length, 4);
  const none = [
    "example.com",
    "localhost",
    "0.0.0.0",
    "::",
    "224.0.0.1",
    "255.255.255.255",
    "ff02::1",
  ];
  for (const host of [...none, "127.1", "0x7f000001", "2130706433", "127.0.0.1.example.com"]) {
    await assertRejects(() => connect(host), AgentError, `${host}:5901: it is not an address`);
  }
  assertEquals(dialed, []);
});

Deno.test("a port below 1024 is refused, whatever listens there", async () => {
  const dial = () => Promise.reject(new Error("not dialed"));
  for (const kind of ["local", "ssh", "simulated"] as const) {
    for (const port of [0, 22, 80, 1023]) {
      const connecting = connectVnc({ kind, dial }, { host: "127.0.0.1", port });
      await assertRejects(
        () => connecting,
        AgentError,
        "reserved for services, expected 1024 or above",
      );
    }
  }
});

Deno.test("an aborted call returns at once, and leaves nothing open", async () => {
  await withServer(untilClosed, async (connect) => {
    const giveUp = new AbortController();
    const connecting = assertRejects(() => connect(giveUp.signal), AgentError);
    giveUp.abort();
    const { code, message } = await connecting;
    assertEquals([code, message.includes("it was canceled before")], ["aborted", true], message);
    assertEquals(
      (await assertRejects(() => connect(AbortSignal.abort()), AgentError)).code,
      "aborted",
    );
  });
});

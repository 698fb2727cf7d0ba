// Connecting to a console: what counts as one, and what is left open of what does not.

import { assertEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { connectVnc, type VncConnection } from "../../src/host/vnc_connection.ts";
import { until } from "../support/until.ts";

const BANNER_MS = 2_000;

const dial = (hostname: string, port: number, signal?: AbortSignal) =>
  Deno.connect({ hostname, port, ...(signal === undefined ? {} : { signal }) });

/** Runs with a server that does something with each connection; all must be closed at the end. */
async function withServer(
  serve: (connection: Deno.TcpConn) => Promise<void>,
  run: (
    connect: (signal?: AbortSignal, bannerMs?: number) => Promise<VncConnection>,
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
    await run((signal, bannerMs = BANNER_MS) =>
      connectVnc({ kind: "local", dial }, address, { bannerMs, signal })
    );
    await until("the client to close everything", () => open === 0);
  } finally {
    listener.close();
    await accepting;
  }
}

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

Deno.test("a server that introduces itself is a console, and not a byte is lost", async () => {
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

Deno.test("what a client writes arrives whole", async () => {
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

Deno.test("what is no console is told by what it did, and closed", async () => {
  const cases: [string, (connection: Deno.TcpConn) => Promise<void>, string][] = [
    ["silent", untilClosed, "did not introduce itself within 0.3 s"],
    ["closing", () => Promise.resolve(), "closed the connection"],
    ["another protocol", says("HTTP/1.1 400\r\n"), 'is no RFB server: it sent "HTTP/1.1"'],
    ["another version", says("RFB 009.001\n"), "is no RFB server"],
    ["half a banner", says("RFB 0"), "did not introduce itself"],
  ];
  for (const [name, server, words] of cases) {
    await withServer(server, async (connect) => {
      const error = await assertRejects(() => connect(undefined, 300), AgentError);
      assertEquals([name, error.message.includes(words)], [name, true], error.message);
      assertEquals(["host", "timeout"].includes(error.code), true);
    });
  }
  const free = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = free.addr;
  free.close();
  const address = { host: "127.0.0.1", port };
  const error = await assertRejects(
    () => connectVnc({ kind: "local", dial }, address, { bannerMs: BANNER_MS }),
    AgentError,
  );
  assertEquals([error.code, error.message.startsWith(`127.0.0.1:${port} cannot be reached: `)], [
    "host",
    true,
  ]);
});

Deno.test("on the agent's own host nobody is carried to another one", async () => {
  const dialed: string[] = [];
  const noDial = (hostname: string) => {
    dialed.push(hostname);
    return Promise.reject(new Error("not dialed"));
  };
  const own = Deno.networkInterfaces().map(({ address }) => address);
  for (const kind of ["local", "simulated"] as const) {
    for (const host of ["192.0.2.7", "example.com", "0.0.0.0", "169.254.169.254", "::"]) {
      const connecting = connectVnc({ kind, dial: noDial }, { host, port: 5901 }, {
        bannerMs: 100,
      });
      const error = await assertRejects(() => connecting, AgentError);
      assertEquals([error.code, error.message], [
        "host",
        `${host}:5901 is no address of this host`,
      ]);
    }
  }
  assertEquals(dialed, []);
  for (const host of [...own, "127.0.0.1", "127.1.2.3"]) {
    const address = { host, port: 5901 };
    const connecting = connectVnc({ kind: "local", dial: noDial }, address, { bannerMs: 100 });
    await assertRejects(() => connecting, AgentError, "cannot be reached");
  }
  // Which addresses are of the host at the far end, the agent cannot see.
  const far = { host: "10.99.99.7", port: 5901 };
  const connecting = connectVnc({ kind: "ssh", dial: noDial }, far, { bannerMs: 100 });
  await assertRejects(() => connecting, AgentError, "cannot be reached");
});

Deno.test("a caller that gives up is answered at once, and nothing stays open", async () => {
  await withServer(untilClosed, async (connect) => {
    const giveUp = new AbortController();
    const connecting = assertRejects(() => connect(giveUp.signal), AgentError);
    giveUp.abort();
    assertEquals((await connecting).code, "aborted");
    assertEquals(
      (await assertRejects(() => connect(AbortSignal.abort()), AgentError)).code,
      "aborted",
    );
  });
});

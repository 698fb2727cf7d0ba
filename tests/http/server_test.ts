import { assertEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { type App, listen, type ListenOptions, type Server } from "../../src/http/server.ts";
import { GRACE_MS, LISTENING } from "../support/listening.ts";
import { inOwnProcess } from "../support/own_process.ts";
import { until, withFolder } from "../support/until.ts";
import { listed, rawCall } from "./raw_call.ts";

const LOCAL = { hostname: "127.0.0.1", port: 0 };

const WHERE_FROM: App = {
  fetch: (_request, { remote }) => Response.json({ transport: remote?.transport }),
};

async function withServer(
  options: Partial<ListenOptions>,
  run: (server: Server) => Promise<void>,
  app: App = WHERE_FROM,
): Promise<void> {
  const server = await listen(app, {
    ...LISTENING,
    tcp: null,
    ...options,
  });
  try {
    await run(server);
  } finally {
    await server.shutdown(GRACE_MS);
  }
}

async function getBySocket(path: string): Promise<string> {
  const client = Deno.createHttpClient({ proxy: { transport: "unix", path } });
  try {
    return await (await fetch("http://localhost/", { client })).text();
  } finally {
    client.close();
  }
}

Deno.test("listen() serves a port and a unix socket, and each request knows which", async () => {
  await withFolder(async (folder) => {
    const socketPath = `${folder}/agent.sock`;
    await withServer({ tcp: LOCAL, socketPath }, async ({ urls, port }) => {
      assertEquals(urls, [`http://127.0.0.1:${port}`, `unix:${socketPath}`]);
      assertEquals(await (await fetch(urls[0] ?? "")).json(), { transport: "tcp" });
      assertEquals(await getBySocket(socketPath), '{"transport":"unix"}');
    });
    await assertRejects(() => Deno.lstat(socketPath), Deno.errors.NotFound);
  });
});

Deno.test("listen() makes a socket that only its owner may open, and leaves the umask as it was", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/agent.sock`;
    const said = await inOwnProcess(`
      import { listen } from "./src/http/server.ts";
      import { GRACE_MS, LISTENING } from "./tests/support/listening.ts";
      Deno.umask(0o027);
      const socketPath = ${JSON.stringify(path)};
      const options = { ...LISTENING, socketPath };
      const server = await listen({ fetch: () => new Response("") }, options);
      const { mode } = await Deno.lstat(options.socketPath);
      console.log(JSON.stringify([mode & 0o777, server.port ?? null, Deno.umask()]));
      await server.shutdown(GRACE_MS);`);
    assertEquals(JSON.parse(said), [0o600, null, 0o027]);
  });
});

Deno.test("listen() replaces a socket file without a listener", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/agent.sock`;
    // A process that is killed leaves its socket file behind.
    const code = `Deno.listen({ transport: "unix", path: ${JSON.stringify(path)} });
      Deno.kill(Deno.pid, "SIGKILL");`;
    await new Deno.Command(Deno.execPath(), { args: ["eval", "--no-config", code] }).output();
    assertEquals((await Deno.lstat(path)).isSocket, true);
    await withServer({ socketPath: path }, async () => {
      assertEquals(await getBySocket(path), '{"transport":"unix"}');
    });
  });
});

async function refusal(options: Partial<ListenOptions>): Promise<string> {
  const error = await assertRejects(() => withServer(options, () => Promise.resolve()), AgentError);
  return error.code;
}

Deno.test("listen() refuses a socket on which another agent answers", async () => {
  await withFolder(async (folder) => {
    const socketPath = `${folder}/agent.sock`;
    await withServer({ socketPath }, async () => {
      assertEquals(await refusal({ socketPath }), "conflict");
      assertEquals(await getBySocket(socketPath), '{"transport":"unix"}');
    });
  });
});

Deno.test("listen() refuses a path that is another file, and leaves the file alone", async () => {
  await withFolder(async (folder) => {
    const socketPath = `${folder}/file`;
    await Deno.writeTextFile(socketPath, "kept");
    assertEquals(await refusal({ tcp: LOCAL, socketPath }), "conflict");
    assertEquals(await Deno.readTextFile(socketPath), "kept");
    assertEquals(await refusal({ socketPath: `${folder}/missing/agent.sock` }), "conflict");
  });
});

Deno.test("listen() refuses a port that is taken", async () => {
  await withServer({ tcp: LOCAL }, async ({ port }) => {
    const tcp = { hostname: "127.0.0.1", port: port ?? 0 };
    assertEquals(await refusal({ tcp }), "conflict");
  });
});

Deno.test("listen() refuses every address beyond loopback", async () => {
  for (
    const hostname of ["0.0.0.0", "::", "192.0.2.1", "example.com", "127.0.0.1.example.com", ""]
  ) {
    assertEquals(await refusal({ tcp: { hostname, port: 0 } }), "forbidden");
  }
});

Deno.test("shutdown() accepts no more requests and lets running ones end", async () => {
  const gate = Promise.withResolvers<void>();
  let entered = false;
  const app: App = {
    fetch: async () => {
      entered = true;
      await gate.promise;
      return new Response("done");
    },
  };
  const server = await listen(app, {
    ...LISTENING,
    tcp: LOCAL,
  });
  const port = server.port ?? 0;
  const underWay = rawCall(port, listed(["GET / HTTP/1.1", "Host: x", "Connection: close"]));
  await until("the request to be under way", () => entered);
  const stopped = server.shutdown(GRACE_MS);
  await until("the port to be closed", async () => {
    try {
      (await Deno.connect({ hostname: "127.0.0.1", port })).close();
      return false;
    } catch (error) {
      return error instanceof Deno.errors.ConnectionRefused;
    }
  });
  gate.resolve();
  assertEquals((await underWay).text, "done");
  await stopped;
});

Deno.test("shutdown() cuts off a caller that never ends its request", async () => {
  const app: App = { fetch: () => new Response("early") };
  const server = await listen(app, {
    ...LISTENING,
    tcp: LOCAL,
  });
  const port = server.port ?? 0;
  const connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const head = listed(["POST / HTTP/1.1", "Host: x", "Content-Length: 100"]);
  await connection.write(new TextEncoder().encode(`${head}{`));
  await connection.read(new Uint8Array(1000));
  await server.shutdown(50);
  connection.close();
});

Deno.test("an unexpected exception outside the routes still answers as JSON", async () => {
  const app: App = {
    fetch: () => {
      throw new Error("secret");
    },
  };
  await withServer({ tcp: LOCAL }, async ({ urls }) => {
    const response = await fetch(urls[0] ?? "");
    const body = await response.json();
    assertEquals([response.status, body.code], [500, "InternalError"]);
    assertEquals(body.request_id, response.headers.get("x-request-id"));
    assertEquals(JSON.stringify(body).includes("secret"), false);
  }, app);
});

// The printed curl commands, read back by a real shell and sent by a real curl.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { curlLine, shellQuoted } from "../../src/cli/client/api_call.ts";
import { programTest } from "../support/program.ts";
import { withFolder } from "../support/until.ts";
import { screenFor } from "./screen.ts";

const HARD = 'it\'s $(touch /x) `id` "q" \\ \n*?[a-b] ~ ü @file';

async function shell(line: string): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command("/bin/sh", { args: ["-c", line] })
    .output();
  const text = new TextDecoder().decode(stdout);
  assertEquals([success, new TextDecoder().decode(stderr)], [true, ""]);
  return text;
}

/** A request as it came in. */
interface Received {
  readonly method: string;
  readonly url: string;
  readonly type: string | null;
  readonly key: string | null;
  readonly body: string;
}

/** Runs a function with a server that keeps what it was sent. */
async function withServer(
  options: Deno.ServeTcpOptions | Deno.ServeUnixOptions,
  run: (received: Received[], port: number) => Promise<void>,
): Promise<void> {
  const received: Received[] = [];
  const handler = async (request: Request) => {
    const { method, url } = request;
    const type = request.headers.get("content-type");
    const key = request.headers.get("idempotency-key");
    received.push({ method, url, type, key, body: await request.text() });
    return Response.json({ ok: true });
  };
  const server = "path" in options
    ? Deno.serve({ ...options, onListen: () => {} }, handler)
    : Deno.serve({ ...options, onListen: () => {} }, handler);
  try {
    const { addr } = server;
    await run(received, "port" in addr ? addr.port : 0);
  } finally {
    await server.shutdown();
  }
}

const TCP = { hostname: "127.0.0.1", port: 0 };

Deno.test("shellQuoted() leaves plain words alone, and a shell reads other words back unchanged", async () => {
  assertEquals(shellQuoted("http://127.0.0.1:8780/jobs"), "http://127.0.0.1:8780/jobs");
  for (const word of [HARD, "", "'", "''", "-n", "a b", "*"]) {
    assertEquals(await shell(`printf %s ${shellQuoted(word)}`), word);
  }
});

Deno.test("curlLine() names the socket and keeps the path of the call", () => {
  const line = curlLine({ kind: "socket", path: "/run/a b.sock" }, {
    method: "DELETE",
    path: "/workflows/x",
  });
  assertEquals(
    line,
    "curl -sS --fail-with-body --unix-socket '/run/a b.sock' -X DELETE http://localhost/workflows/x",
  );
});

programTest(
  "curl",
  "--curl prints a command that sends the same request",
  () =>
    withServer(TCP, async (sent, port) => {
      const screen = screenFor(`http://127.0.0.1:${port}/base`);
      const uuid = "6c1e8f0a-6a53-4c0c-9a3b-0d1f4e0a7a11";
      const key = ["--idempotency-key", "it's-1"];
      const code = await screen.run("job", "run", uuid, "-p", `text=${HARD}`, ...key, "--curl");
      assertEquals([code, screen.err(), sent.length], [0, "", 0]);
      await shell(screen.out());
      assertEquals(sent[0]?.method, "POST");
      assertEquals(sent[0]?.url, `http://127.0.0.1:${port}/base/jobs`);
      assertEquals([sent[0]?.type, sent[0]?.key], ["application/json", "it's-1"]);
      assertEquals(JSON.parse(sent[0]?.body ?? ""), { text: HARD, workflow: uuid });
    }),
);

programTest(
  "curl",
  "--curl prints brackets so that curl takes them as they are",
  () =>
    withServer(TCP, async (sent, port) => {
      const screen = screenFor(`http://127.0.0.1:${port}`);
      assertEquals(await screen.run("api", "get", "/jobs?name=[1-3]{a,b}", "--curl"), 0);
      await shell(screen.out());
      assertEquals(sent.length, 1);
      assertStringIncludes(sent[0]?.url ?? "", "/jobs?name=[1-3]{a,b}");
    }),
);

programTest(
  "curl",
  "--curl writes what a terminal would obey in a body as JSON codes",
  () =>
    withServer(TCP, async (sent, port) => {
      const a = "\x7f\x9b31m\u2028\u202e\x1b";
      const screen = screenFor(`http://127.0.0.1:${port}`);
      const data = JSON.stringify({ a });
      assertEquals(await screen.run("api", "post", "/jobs", "-d", data, "--curl"), 0);
      assertStringIncludes(screen.out(), "\\u007f\\u009b31m\\u2028\\u202e\\u001b");
      await shell(screen.out());
      assertEquals(JSON.parse(sent[0]?.body ?? ""), { a });
    }),
);

const JOB = "6c1e8f0a-6a53-4c0c-9a3b-0d1f4e0a7a11";

programTest("curl", "--curl prints a command for a unix socket", () =>
  withFolder((folder) => {
    const path = `${folder}/it's.sock`;
    return withServer({ path }, async (sent) => {
      const screen = screenFor("http://127.0.0.1:9", { env: { ZONEWRIGHT_SOCKET: path } });
      assertEquals(await screen.run("job", "cancel", JOB, "--curl"), 0);
      await shell(screen.out());
      assertEquals(sent[0]?.method, "POST");
      assertStringIncludes(sent[0]?.url ?? "", `/jobs/${JOB}/cancel`);
    });
  }));

programTest(
  "curl",
  "--curl prints a body that is too large for a word as the input of the command",
  () =>
    withServer(TCP, async (sent, port) => {
      const text = `${HARD}\nEND_OF_BODY\n`.repeat(8000);
      const screen = screenFor(`http://127.0.0.1:${port}`, { input: JSON.stringify({ text }) });
      assertEquals(await screen.run("api", "post", "/jobs", "-d", "-", "--curl"), 0);
      await withFolder(async (folder) => {
        await Deno.writeTextFile(`${folder}/lines`, screen.out());
        await shell(`. ${shellQuoted(`${folder}/lines`)}`);
      });
      assertEquals(JSON.parse(sent[0]?.body ?? ""), { text });
    }),
);

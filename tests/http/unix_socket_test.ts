import { assertEquals, assertRejects } from "@std/assert";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { AgentError } from "../../src/domain/error.ts";
import { listen } from "../../src/http/server.ts";
import { groupNumber, type SocketRights } from "../../src/http/listen/socket_file.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { GRACE_MS, LISTENING } from "../support/listening.ts";
import { withFolder } from "../support/until.ts";

const APP = { fetch: () => new Response("hello") };

/** Runs a test with both kinds of listener behind a socket. */
async function withSockets(
  rights: SocketRights,
  run: (path: string, folder: string) => Promise<void>,
): Promise<void> {
  for (const relayed of [false, true]) {
    await withFolder(async (folder) => {
      const socketPath = `${folder}/agent.sock`;
      const options = {
        ...LISTENING,
        socketPath,
        socketRights: rights,
        relayed,
      };
      const server = await listen(APP, options);
      try {
        await run(socketPath, folder);
      } finally {
        await server.shutdown(GRACE_MS);
      }
      assertEquals([...Deno.readDirSync(folder)], []);
    });
  }
}

async function get(path: string): Promise<string> {
  const client = Deno.createHttpClient({ proxy: { transport: "unix", path } });
  try {
    return await (await fetch("http://localhost/", { client })).text();
  } finally {
    client.close();
  }
}

Deno.test("a socket has the mode and the group that were asked for, and nothing else is left", async () => {
  const gid = Deno.gid() ?? 0;
  for (const mode of [0o600, 0o660, 0o666]) {
    await withSockets({ mode, gid }, async (path, folder) => {
      const found = await Deno.lstat(path);
      assertEquals([(found.mode ?? 0) & 0o777, found.gid], [mode, gid]);
      assertEquals([...Deno.readDirSync(folder)].map(({ name }) => name), ["agent.sock"]);
      assertEquals(await get(path), "hello");
    });
  }
});

Deno.test("a socket to which nobody could connect is refused", () =>
  withFolder(async (folder) => {
    const socketPath = `${folder}/${"s".repeat(107 - folder.length)}`;
    const options = {
      ...LISTENING,
      socketPath,
      socketRights: { mode: 0o600 },
      connections: DEFAULT_LIMITS,
      log: silentLog,
    };
    const error = await assertRejects(() => listen(APP, options), AgentError);
    assertEquals([error.code, error.message], [
      "conflict",
      `Cannot listen on ${socketPath}: its path has 108 bytes, expected at most 107`,
    ]);
    assertEquals([...Deno.readDirSync(folder)], []);
  }));

Deno.test("a link in the way of a socket is not followed", async () => {
  await withFolder(async (folder) => {
    const target = `${folder}/target`;
    await Deno.writeTextFile(target, "kept");
    const { mode } = await Deno.stat(target);
    for (const to of [target, `${folder}/nowhere`]) {
      const socketPath = `${folder}/agent.sock`;
      await Deno.symlink(to, socketPath);
      const options = {
        ...LISTENING,
        socketPath,
        socketRights: { mode: 0o666 },
        connections: DEFAULT_LIMITS,
        log: silentLog,
      };
      const error = await assertRejects(() => listen(APP, options), AgentError);
      assertEquals(error.code, "conflict");
      assertEquals((await Deno.lstat(socketPath)).isSymlink, true);
      await Deno.remove(socketPath);
    }
    assertEquals([await Deno.readTextFile(target), (await Deno.stat(target)).mode], ["kept", mode]);
  });
});

Deno.test("groupNumber() takes a name or a number, and refuses a group that is not there", async () => {
  await withFolder(async (folder) => {
    const file = `${folder}/group`;
    await Deno.writeTextFile(file, "root:x:0:\nstaff:x:50:alice\nbroken\n");
    assertEquals([await groupNumber("staff", file), await groupNumber("77", file)], [50, 77]);
    const error = await assertRejects(() => groupNumber("nobody-knows", file), AgentError);
    assertEquals(error.code, "invalid_argument");
  });
});

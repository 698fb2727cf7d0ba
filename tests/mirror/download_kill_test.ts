import { assert, assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { until, withFolder } from "../support/until.ts";
import { type IndexServer, openIndexServer } from "./index_server.ts";
import { digestsOf, hashed, ISO, namesIn, PATH, sizeOf } from "./vendor_file.ts";

const PROGRAM = fromFileUrl(new URL("download_program.ts", import.meta.url));
const CONFIG = fromFileUrl(new URL("../../deno.json", import.meta.url));
const FULL = Deno.env.get("ZONEWRIGHT_CHAOS") === "full";
const KILLS = FULL ? 20 : 3;
const [SHA256] = await digestsOf(ISO);

interface Program {
  readonly child: Deno.ChildProcess;
  readonly said: Promise<string>;
}

function start(folder: string, url: string, value: string): Program {
  const args = ["run", "--quiet", "--cached-only", "-A", "--config", CONFIG, PROGRAM];
  const child = new Deno.Command(Deno.execPath(), {
    args: [...args, join(folder, "store.db"), url, value, join(folder, "cache")],
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  return { child, said: new Response(child.stdout).text() };
}

/** Nothing but verified files has a name in the cache, and the store knows each of them. */
async function assertSound(folder: string): Promise<void> {
  const cache = join(folder, "cache");
  const store = await openSqliteStore(join(folder, "store.db"));
  try {
    for (const { sha256, name } of await store.media.list()) {
      const bytes = await Deno.readFile(join(cache, `sha256-${sha256}`, name));
      assertEquals(await hashed("SHA-256", bytes), sha256);
    }
    for (const name of await namesIn(cache)) {
      if (!name.startsWith("sha256-")) continue;
      for (const file of await namesIn(join(cache, name))) {
        const bytes = await Deno.readFile(join(cache, name, file));
        assertEquals(`sha256-${await hashed("SHA-256", bytes)}`, name);
      }
    }
  } finally {
    await store.close();
  }
}

async function killedAt(server: IndexServer, folder: string, bytes: number): Promise<void> {
  server.faults.set(PATH, [{ kind: "stall", after: bytes }]);
  const { child, said } = start(folder, `${server.url}/${PATH}`, SHA256.value);
  const partial = join(folder, "cache", "partial", `sha256-${SHA256.value}`);
  try {
    await until(`${bytes} bytes`, async () => await sizeOf(partial) === bytes);
  } finally {
    child.kill("SIGKILL");
    await child.status;
    await said;
  }
}

Deno.test("a download that is killed goes on where it was, and is whole in the end", async () => {
  await withFolder(async (folder) => {
    await using server = openIndexServer(new Map([[PATH, { body: ISO, etag: '"one"' }]]));
    await killedAt(server, folder, 100_000);
    await assertSound(folder);
    const { child, said } = start(folder, `${server.url}/${PATH}`, SHA256.value);
    assertEquals((await child.status).code, 0);
    assertEquals(await said, `done ${SHA256.value}\n`);
    assertEquals(server.requests.at(-1)?.headers.get("range"), "bytes=100000-");
    await assertSound(folder);
    assertEquals(await namesIn(join(folder, "cache", "partial")), []);
  });
});

Deno.test(`a download that is killed ${KILLS} times at any moment is never named unless it is whole`, async () => {
  await withFolder(async (folder) => {
    await using server = openIndexServer(new Map([[PATH, { body: ISO, etag: '"one"' }]]));
    let whole = false;
    for (let n = 1; n <= KILLS; n++) {
      const { child, said } = start(folder, `${server.url}/${PATH}`, SHA256.value);
      // The moment is that of a request, which the server sees; what follows takes as long as it does.
      const before = server.received.length;
      await Promise.race([
        until(`request ${n}`, () => server.received.length > before).catch(() => {}),
        child.status,
      ]);
      try {
        child.kill("SIGKILL");
      } catch (error) {
        assert(error instanceof TypeError || error instanceof Deno.errors.NotFound);
      }
      await child.status;
      whole = (await said).startsWith("done");
      await assertSound(folder);
      if (whole) break;
    }
    const last = start(folder, `${server.url}/${PATH}`, SHA256.value);
    assertEquals([(await last.child.status).code, await last.said], [0, `done ${SHA256.value}\n`]);
    await assertSound(folder);
  });
});

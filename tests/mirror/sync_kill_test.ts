import { assert, assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { randomOf } from "../chaos/random.ts";
import { until, withFolder } from "../support/until.ts";
import { fixtureFiles, type IndexServer, openIndexServer } from "./index_server.ts";
import { edit } from "./test_mirror.ts";

const PROGRAM = fromFileUrl(new URL("sync_program.ts", import.meta.url));
const CONFIG = fromFileUrl(new URL("../../deno.json", import.meta.url));
const KILLS = Deno.env.get("ZONEWRIGHT_CHAOS") === "full" ? 20 : 3;
const SEED = 20_261_120;
/** Bytes that one exchange writes at most. */
const LOG_BYTES = 90_000;
/** Requests of one sync of the small tree. */
const REQUESTS = 21;

Deno.test("a sync that is killed leaves the tree before it or the tree after it", async () => {
  await withFolder(async (folder) => {
    await using server = openIndexServer(await fixtureFiles());
    const path = join(folder, "store.db");
    await runSync(server, path, folder, "complete");
    const seen: number[] = [];
    // Early, in the middle, and as late as a request can tell: when the exchange is about to happen.
    for (const requests of [3, 12, REQUESTS, REQUESTS, "complete"] as const) {
      const generation = seen.length + 1;
      for (const document of server.files.keys()) {
        edit(server, document, (value) => value.generation = generation);
      }
      await runSync(server, path, folder, requests);
      seen.push(await storedGeneration(path, server.files.size));
    }
    assertEquals([seen[0], seen[1], seen.at(-1)], [0, 0, 5]);
    assert([0, 3].includes(seen[2] ?? -1) && [seen[2], 4].includes(seen[3]), `${seen}`);
  });
});

Deno.test(`a sync that is killed at any of ${KILLS} moments leaves a whole tree`, async () => {
  await withFolder(async (folder) => {
    await using server = openIndexServer(await fixtureFiles());
    const path = join(folder, "store.db");
    await runSync(server, path, folder, "complete");
    const random = randomOf(SEED);
    let before = 0;
    for (let kill = 1; kill <= KILLS; kill++) {
      for (const document of server.files.keys()) {
        edit(server, document, (value) => value.generation = kill);
      }
      // From the last request on, the exchange may be before, under way, or over.
      await runSync(server, path, folder, REQUESTS, random.integer(0, LOG_BYTES));
      const found = await storedGeneration(path, server.files.size);
      assert([before, kill].includes(found), `${found} after ${before}, killed in ${kill}`);
      before = found;
    }
  });
});

/**
 * Syncs in a process of its own and kills it after so many requests, or when it says the word, and when
 * it has written so many bytes more into the log of the store, or is done: any moment must do.
 */
async function runSync(
  server: IndexServer,
  path: string,
  folder: string,
  until_: number | "complete",
  moreBytes = 0,
): Promise<void> {
  const args = ["run", "--quiet", "--cached-only", "-A", "--config", CONFIG, PROGRAM];
  const child = new Deno.Command(Deno.execPath(), {
    args: [...args, path, server.url, folder],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const lines: string[] = [];
  const reading = readLines(child.stdout, lines);
  try {
    await until("the program to be ready", () => lines.includes("ready"));
    server.received.length = 0;
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode("go\n"));
    await until(
      `${until_}`,
      () => until_ === "complete" ? lines.includes(until_) : server.received.length >= until_,
    );
    const before = await logBytes(path);
    await until(
      "the log to grow",
      async () => lines.includes("complete") || await logBytes(path) >= before + moreBytes,
    );
    child.kill("SIGKILL");
    await writer.close().catch(() => {});
  } finally {
    await child.status;
    await reading;
  }
}

/** Bytes of the write-ahead log of a store; none while there is no such file. */
async function logBytes(path: string): Promise<number> {
  return await Deno.stat(`${path}-wal`).then(({ size }) => size, () => 0);
}

async function readLines(stream: ReadableStream<Uint8Array>, lines: string[]): Promise<void> {
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    lines.push(...text.split("\n"));
  }
}

/** The one generation that every document has. */
async function storedGeneration(path: string, count: number): Promise<number> {
  const store = await openSqliteStore(path);
  try {
    const found = new Set<number>();
    const documents = await store.index.list();
    for (const { path } of documents) {
      const document = await store.index.get(path);
      found.add(JSON.parse(new TextDecoder().decode(document?.body)).generation ?? 0);
    }
    assertEquals([documents.length, found.size], [count, 1]);
    return [...found][0] ?? 0;
  } finally {
    await store.close();
  }
}

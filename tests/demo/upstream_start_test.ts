// How the sample upstream starts and ends: what it keeps, and that it leaves nothing open.

import { assertEquals, assertNotEquals, assertRejects, assertThrows } from "@std/assert";
import { SAMPLE_ISO } from "../../src/simulator/outside/sample_file.ts";
import { startSampleUpstream } from "../../src/simulator/outside/upstream.ts";
import { systemNow } from "../../src/domain/instant.ts";
import { openLog, silentLog } from "../../src/metrics/log.ts";
import { until, withFolder } from "../support/until.ts";

const MIB = 1 << 20;
// The sanitizers fail a test when a file, a socket or a read is left open.
const NOTHING_OPEN = { sanitizeResources: true, sanitizeOps: true };

Deno.test("the sample upstream keeps its medium, and remakes a damaged one", async () => {
  await withFolder(async (cacheDir) => {
    const path = `${cacheDir}/zonewright-sample.iso`;
    const start = async () => {
      const upstream = startSampleUpstream({ cacheDir, log: silentLog, isoBytes: MIB });
      await fetch(`${upstream.url}/${SAMPLE_ISO}`, { method: "HEAD" });
      await upstream.close();
      return { bytes: await Deno.readFile(path), inode: (await Deno.stat(path)).ino };
    };
    const first = await start();
    const second = await start();
    assertEquals(second.inode, first.inode, "a good medium is not written again");

    const damaged = first.bytes.slice();
    damaged[500_000] = (damaged[500_000] ?? 0) ^ 1;
    for (const wrong of [damaged, first.bytes.subarray(0, 1000), new Uint8Array()]) {
      await Deno.writeFile(path, wrong);
      assertEquals((await start()).bytes, first.bytes);
    }
    const names = [...Deno.readDirSync(cacheDir)].map(({ name }) => name);
    assertEquals(names, ["zonewright-sample.iso"]);
  });
});

Deno.test("the sample upstream makes nothing before the first request", async () => {
  await withFolder(async (cacheDir) => {
    const upstream = startSampleUpstream({ cacheDir, log: silentLog, isoBytes: MIB });
    await upstream.close();
    assertEquals([...Deno.readDirSync(cacheDir)], []);
  });
});

Deno.test("the sample upstream answers 500 while it cannot write, and recovers", async () => {
  await withFolder(async (folder) => {
    const cacheDir = `${folder}/cache`;
    await Deno.writeTextFile(cacheDir, "a file where the folder would be");
    const upstream = startSampleUpstream({ cacheDir, log: silentLog, isoBytes: MIB });
    try {
      const status = async () => {
        const response = await fetch(`${upstream.url}/v1/index.json`);
        await response.body?.cancel();
        return response.status;
      };
      assertEquals(await status(), 500);
      await Deno.remove(cacheDir);
      assertEquals(await status(), 200);
    } finally {
      await upstream.close();
    }
  });
});

Deno.test("startSampleUpstream() gives up when its signal is aborted", NOTHING_OPEN, async () => {
  await withFolder(async (cacheDir) => {
    const signal = AbortSignal.abort(new Error("no longer wanted"));
    assertThrows(
      () => startSampleUpstream({ cacheDir, log: silentLog, isoBytes: MIB, signal }),
      Error,
      "no longer wanted",
    );
    assertEquals(await Array.fromAsync(Deno.readDir(cacheDir)), []);
  });
});

Deno.test(
  "close() ends downloads and leaves nothing open",
  NOTHING_OPEN,
  async () => {
    await withFolder(async (cacheDir) => {
      const options = { cacheDir, log: silentLog, isoBytes: 64 * MIB };
      const upstream = startSampleUpstream(options);
      const port = Number(new URL(upstream.url).port);
      using connection = await Deno.connect({ hostname: "127.0.0.1", port });
      const request = `GET /${SAMPLE_ISO} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`;
      await connection.write(new TextEncoder().encode(request));
      const buffer = new Uint8Array(1000);
      assertNotEquals(await connection.read(buffer), null);
      await Promise.all([upstream.close(), upstream.close()]);
      await assertRejects(() => Deno.connect({ hostname: "127.0.0.1", port }));
    });
  },
);

Deno.test("close() while the first request waits for the files is no error in the log", async () => {
  await withFolder(async (cacheDir) => {
    const lines: string[] = [];
    const write = (line: string) => void lines.push(line);
    const log = openLog({ level: "error", format: "json", write, now: systemNow });
    const upstream = startSampleUpstream({ cacheDir, log, isoBytes: 64 * MIB });
    const port = Number(new URL(upstream.url).port);
    using connection = await Deno.connect({ hostname: "127.0.0.1", port });
    const request = `GET /${SAMPLE_ISO} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`;
    await connection.write(new TextEncoder().encode(request));
    await until("the medium to be begun", () => [...Deno.readDirSync(cacheDir)].length > 0);
    await upstream.close();
    assertEquals(lines, []);
  });
});

Deno.test("the sample upstream closes when its signal is aborted", NOTHING_OPEN, async () => {
  await withFolder(async (cacheDir) => {
    const stop = new AbortController();
    const options = { cacheDir, log: silentLog, isoBytes: MIB, signal: stop.signal };
    const upstream = startSampleUpstream(options);
    const port = Number(new URL(upstream.url).port);
    stop.abort();
    await until(
      "the port to be closed",
      () =>
        Deno.connect({ hostname: "127.0.0.1", port }).then((connection) => {
          connection.close();
          return false;
        }, () => true),
    );
    await upstream.close();
  });
});

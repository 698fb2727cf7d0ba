import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import type { Location } from "../../src/domain/index/artifact.ts";
import { AgentError } from "../../src/domain/error.ts";
import { PARTIAL_AGE_MS_MAX, PARTIALS_MAX } from "../../src/mirror/media/partial.ts";
import { until } from "../support/until.ts";
import { withMirror } from "./test_mirror.ts";
import {
  artifact,
  digestsOf,
  gzip,
  hashed,
  ISO,
  joined,
  namesIn,
  PATH,
  patterned,
  rejection,
  sizeOf,
} from "./vendor_file.ts";

Deno.test("download() verifies a file and gives it a name below its own digest", async () => {
  await withMirror(async ({ mirror, server, cacheDir }) => {
    server.files.set(PATH, { body: ISO, etag: '"one"' });
    const medium = await mirror.download(await artifact(`${server.url}/${PATH}`));
    const sha256 = await hashed("SHA-256", ISO);
    assertEquals(medium, {
      source: "artifact",
      path: join(cacheDir, `sha256-${sha256}`, "aurora-24.0-1-server-x86_64.raw"),
      name: "aurora-24.0-1-server-x86_64.raw",
      size: ISO.byteLength,
      sha256,
      label: "aurora 24.0 1 server x86_64 raw",
      level: "index",
    });
    assertEquals(await Deno.readFile(medium.path), ISO);
    assertEquals(await namesIn(join(cacheDir, "partial")), []);
    const [request] = server.requests;
    assertEquals(request?.headers.get("accept-encoding"), "identity");
  });
});

Deno.test("download() of a cached file sends no request", async () => {
  await withMirror(async ({ mirror, again, server }) => {
    server.files.set(PATH, { body: ISO });
    const found = await artifact(`${server.url}/${PATH}`);
    const first = await mirror.download(found);
    assertEquals(await again().download(found), first);
    assertEquals(server.requests.length, 1);
  });
});

Deno.test("download() fetches again what was shortened in the cache", async () => {
  await withMirror(async ({ mirror, server }) => {
    server.files.set(PATH, { body: ISO });
    const found = await artifact(`${server.url}/${PATH}`);
    const { path } = await mirror.download(found);
    await Deno.chmod(path, 0o644);
    await Deno.truncate(path, 10);
    await mirror.download(found);
    assertEquals(await Deno.readFile(path), ISO);
    assertEquals(server.requests.length, 2);
  });
});

Deno.test("download() goes on where a cut connection stopped", async () => {
  await withMirror(async ({ mirror, server, waits }) => {
    server.files.set(PATH, { body: ISO, etag: '"one"' });
    server.faults.set(PATH, [{ kind: "cut", after: 100_000 }]);
    const medium = await mirror.download(await artifact(`${server.url}/${PATH}`));
    assertEquals(await Deno.readFile(medium.path), ISO);
    const last = server.requests.at(-1);
    assertEquals([server.requests.length, last?.status, waits], [2, 206, [1000]]);
    assertEquals(last?.headers.get("range"), "bytes=100000-");
    assertEquals(last?.headers.get("if-range"), '"one"');
  });
});

Deno.test("download() goes on after a restart of the agent", async () => {
  await withMirror(async ({ mirror, again, server, cacheDir }) => {
    server.files.set(PATH, { body: ISO, etag: '"one"' });
    server.faults.set(PATH, [{ kind: "stall", after: 120_000 }]);
    const giveUp = new AbortController();
    const found = await artifact(`${server.url}/${PATH}`);
    const first = mirror.download(found, { signal: giveUp.signal });
    const key = `sha256-${await hashed("SHA-256", ISO)}`;
    const partial = join(cacheDir, "partial", key);
    await until("the first part", async () => await sizeOf(partial) === 120_000);
    giveUp.abort();
    assertEquals((await assertRejects(() => first, AgentError)).code, "aborted");
    assertEquals(await namesIn(cacheDir), ["partial"]);
    const medium = await again().download(found);
    assertEquals(await Deno.readFile(medium.path), ISO);
    assertEquals(server.requests.at(-1)?.headers.get("range"), "bytes=120000-");
  });
});

Deno.test("download() starts again when the file changed between two parts", async () => {
  await withMirror(async ({ mirror, again, server }) => {
    server.files.set(PATH, { body: patterned(300_000, 7), etag: '"old"' });
    server.faults.set(PATH, Array(3).fill({ kind: "cut", after: 100_000 }));
    const found = await artifact(`${server.url}/${PATH}`);
    await assertRejects(() => mirror.download(found), AgentError);
    server.files.set(PATH, { body: ISO, etag: '"new"' });
    const medium = await again().download(found);
    assertEquals(await Deno.readFile(medium.path), ISO);
    assertEquals(server.requests.at(-1)?.status, 200);
  });
});

Deno.test("download() starts again when the parts of a resumed file do not fit together", async () => {
  await withMirror(async ({ mirror, again, server }) => {
    server.files.set(PATH, { body: patterned(300_000, 7), etag: '"same"' });
    server.faults.set(PATH, Array(3).fill({ kind: "cut", after: 100_000 }));
    const found = await artifact(`${server.url}/${PATH}`);
    await assertRejects(() => mirror.download(found), AgentError);
    // A server that gives other bytes the same entity tag.
    server.files.set(PATH, { body: ISO, etag: '"same"' });
    const medium = await again().download(found);
    assertEquals(await Deno.readFile(medium.path), ISO);
    assertEquals(server.requests.slice(-2).map((request) => request.status), [206, 200]);
  });
});

Deno.test("download() accepts a server that ignores ranges or gives no validator", async () => {
  await withMirror(async ({ mirror, server }) => {
    for (const [n, extra] of [{ etag: '"x"', ignoresRanges: true }, { etag: 'W/"x"' }].entries()) {
      const body = patterned(200_000, n + 10);
      server.files.set(PATH, { body, ...extra });
      server.faults.set(PATH, [{ kind: "cut", after: 90_000 }]);
      const medium = await mirror.download(await artifact(`${server.url}/${PATH}`, { body }));
      assertEquals(await Deno.readFile(medium.path), body);
      assertEquals(server.requests.at(-1)?.status, 200);
    }
  });
});

Deno.test("download() asks the primary location first, then the others", async () => {
  await withMirror(async ({ mirror, server }) => {
    server.files.set("m/disk.raw", { body: ISO });
    server.files.set("wrong/disk.raw", { body: patterned(300_000, 3) });
    const at = (path: string, kind: Location["kind"]): Location => ({
      url: `${server.url}/${path}`,
      kind,
      redirects_off_host: null,
    });
    const locations = [
      at("wrong/disk.raw", "mirror"),
      at("m/disk.raw", "mirror"),
      at("gone/disk.raw", "primary"),
    ];
    const medium = await mirror.download(await artifact("", { locations }));
    assertEquals(await Deno.readFile(medium.path), ISO);
    const asked = server.requests.map((request) => request.path);
    assertEquals(asked, ["gone/disk.raw", "wrong/disk.raw", "m/disk.raw"]);
    server.files.delete("m/disk.raw");
    // The cache has the first one by either of its digests.
    const other = await artifact("", { locations, body: patterned(300_000, 8) });
    const error = await rejection(mirror.download(other));
    assertStringIncludes(error.message, "all 3 locations failed");
  });
});

Deno.test("download() unpacks gzip of several members after verifying what came", async () => {
  await withMirror(async ({ mirror, again, server, cacheDir }) => {
    const body = joined([await gzip(ISO.subarray(0, 100_000)), await gzip(ISO.subarray(100_000))]);
    server.files.set(PATH, { body, headers: { "content-encoding": "gzip" } });
    const found = await artifact(`${server.url}/${PATH}`, { body, compression: "gzip" });
    const medium = await mirror.download(found);
    assertEquals(await Deno.readFile(medium.path), ISO);
    assertEquals([medium.sha256, medium.size], [await hashed("SHA-256", ISO), ISO.byteLength]);
    assertEquals(await namesIn(join(cacheDir, "partial")), []);
    assertEquals(await again().download(found), medium);
    assertEquals(server.requests.length, 1);
  });
});

Deno.test("download() is shared by callers of the same file, who all hear of its progress", async () => {
  await withMirror(async ({ mirror, server }) => {
    server.files.set(PATH, { body: ISO });
    const found = await artifact(`${server.url}/${PATH}`);
    const seen: number[][] = [[], []];
    const giveUp = new AbortController();
    const both = seen.map((list) =>
      mirror.download(found, { onProgress: (done) => list.push(done) })
    );
    const third = mirror.download(found, { signal: giveUp.signal });
    giveUp.abort();
    assertEquals((await rejection(third)).code, "aborted");
    const [one, two] = await Promise.all(both);
    assertEquals(one, two);
    assertEquals(server.requests.length, 1);
    for (const list of seen) {
      assertEquals(list.at(-1), ISO.byteLength);
      assertEquals(list, list.toSorted((a, b) => a - b));
    }
  });
});

Deno.test("download() gives up a server that sends nothing more, and tries it again", async () => {
  const times = { answerMs: 5000, idleMs: 5000, documentMs: 120_000, stallMs: 1000 };
  await withMirror(async ({ mirror, server }) => {
    server.files.set(PATH, { body: ISO, etag: '"one"' });
    server.faults.set(PATH, [{ kind: "stall", after: 80_000 }]);
    const medium = await mirror.download(await artifact(`${server.url}/${PATH}`));
    assertEquals(medium.size, ISO.byteLength);
    assertEquals(server.requests.at(-1)?.headers.get("range"), "bytes=80000-");
  }, { times });
});

Deno.test("download() bounds the number and the age of unfinished downloads", async () => {
  await withMirror(async ({ mirror, server, cacheDir, clock }) => {
    const folder = join(cacheDir, "partial");
    await Deno.mkdir(folder, { recursive: true });
    const nowMs = Date.parse(clock.now);
    for (let n = 0; n < PARTIALS_MAX + 4; n++) {
      await Deno.writeTextFile(join(folder, `sha256-${n}`), "x");
      const age = n === 0 ? PARTIAL_AGE_MS_MAX + 1000 : 60_000 * (PARTIALS_MAX + 4 - n);
      await Deno.utime(join(folder, `sha256-${n}`), nowMs / 1000, (nowMs - age) / 1000);
    }
    server.files.set(PATH, { body: ISO });
    await mirror.download(await artifact(`${server.url}/${PATH}`));
    const kept = await namesIn(folder);
    assertEquals(kept.length, PARTIALS_MAX);
    assert(!kept.includes("sha256-0") && kept.includes(`sha256-${PARTIALS_MAX + 3}`));
  });
});

Deno.test("downloadUrl() names the medium after its address and needs no index", async () => {
  await withMirror(async ({ mirror, server }) => {
    server.files.set("iso/My%20Disk.iso", { body: ISO });
    const [, digest] = await digestsOf(ISO);
    const medium = await mirror.downloadUrl(`${server.url}/iso/My%20Disk.iso?sig=secret`, digest);
    assertEquals([medium.source, medium.name], ["url", "My-20Disk.iso"]);
    assert(!medium.label.includes("secret"));
    assertEquals(await Deno.readFile(medium.path), ISO);
  });
});

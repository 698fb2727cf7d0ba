// The library beside its uploads: copies of the same bytes, folders that are spelled in two ways, files that
// jobs read, the sweep of old uploads, names that only the cache has, and callers that send slowly.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { UNFINISHED_FOLDER } from "../../src/mirror/media/folders.ts";
import { UNFINISHED_MS_MAX } from "../../src/mirror/media/partial.ts";
import { T0 } from "../support/job.ts";
import { isoBytes } from "../support/medium.ts";
import { until } from "../support/until.ts";
import { assertRefused, jobIn, objectOf } from "./http_agent.ts";
import { BYTES, LIBRARY, type UploadAgent, withUploads } from "./upload_agent.ts";

async function listOf(agent: UploadAgent): Promise<{ folders: JsonObject[]; files: JsonObject[] }> {
  const { body } = await agent.call("GET", LIBRARY);
  return body as { folders: JsonObject[]; files: JsonObject[] };
}

async function digestsOf(agent: UploadAgent): Promise<unknown[][]> {
  return (await listOf(agent)).files.map(({ name, digest }) => [name, digest]);
}

Deno.test("every copy of the same bytes shows their digest, whichever copy is removed", () =>
  withUploads(async (agent) => {
    for (const name of ["a.iso", "b.iso", "c.iso"]) {
      assertEquals((await agent.put(name, BYTES)).status, 201);
    }
    const digest = (await digestsOf(agent))[0]?.[1];
    assertEquals(String(digest).length, 71);
    const all = ["a.iso", "b.iso", "c.iso"];
    assertEquals(await digestsOf(agent), all.map((name) => [name, digest]));
    // The one that was known last, and then the one that stands for it.
    assertEquals((await agent.call("DELETE", `${LIBRARY}/c.iso`)).status, 200);
    assertEquals(await digestsOf(agent), [["a.iso", digest], ["b.iso", digest]]);
    assertEquals((await agent.call("DELETE", `${LIBRARY}/a.iso`)).status, 200);
    assertEquals(await digestsOf(agent), [["b.iso", digest]]);
    // Other bytes by the same name are known by their own.
    const other = isoBytes(50_000);
    assertEquals((await agent.put("b.iso?replace=true", other)).status, 200);
    const [[, replaced]] = await digestsOf(agent) as [unknown[]];
    assert(replaced !== digest && replaced !== null);
    assertEquals((await agent.store.media.list()).length, 1);
    assertEquals((await agent.call("DELETE", `${LIBRARY}/b.iso`)).status, 200);
    assertEquals([await agent.store.media.list(), await agent.store.media.copies()], [[], []]);
  }));

Deno.test("a file that leaves the cache is still known by its copy in a folder", () =>
  withUploads(async (agent) => {
    const { text } = await agent.put("a.iso", BYTES);
    const sha256 = String(JSON.parse(text).digest).slice("sha256:".length);
    const known = await agent.store.media.get(sha256);
    assert(known !== undefined);
    await agent.store.media.keep({ ...known, path: null, source: "url", name: "cached.iso" });
    assertEquals((await digestsOf(agent)).map(([name]) => name), ["a.iso", "cached.iso"]);
    const removed = await agent.call("DELETE", `${LIBRARY}/cached.iso`);
    assertEquals([removed.status, objectOf(removed).removed], [200, "cached file"]);
    assertEquals(await digestsOf(agent), [["a.iso", `sha256:${sha256}`]]);
  }));

Deno.test("a name is removed if only one file in the cache has it; of two, the digest is required", () =>
  withUploads(async (agent) => {
    const file = {
      name: "cached.iso",
      path: null,
      size: 7,
      source: "url",
      origin: "https://example.com/cached.iso",
      label: "cached",
      level: "none",
      created_at: T0,
      last_used_at: T0,
      verified_at: T0,
    } as const;
    await agent.store.media.keep({ ...file, sha256: "a".repeat(64) });
    await agent.store.media.keep({ ...file, sha256: "b".repeat(64) });
    const both = await agent.call("DELETE", `${LIBRARY}/cached.iso`);
    const words = assertRefused(both, 409, "ConflictError");
    for (const hex of ["a", "b"]) assertStringIncludes(words, `sha256:${hex.repeat(64)}`);
    await agent.store.media.remove("b".repeat(64));
    const job = await jobIn({ ...agent }, "running");
    await agent.store.media.use("a".repeat(64), T0, job);
    const used = await agent.call("DELETE", `${LIBRARY}/cached.iso`);
    assertStringIncludes(assertRefused(used, 409, "ConflictError"), job);
    await agent.call("POST", `/jobs/${job}/cancel`, {});
    const removed = await agent.call("DELETE", `${LIBRARY}/cached.iso`);
    assertEquals(removed.status, 200);
    const { removed: what, path } = objectOf(removed);
    assertEquals([what, String(path).startsWith("/nowhere/")], ["cached file", true]);
    assertRefused(await agent.call("DELETE", `${LIBRARY}/cached.iso`), 404, "ResourceNotFound");
  }));

Deno.test("a file that a job is still reading is neither replaced nor removed, and the job is named", () =>
  withUploads(async (agent) => {
    const job = await jobIn({ ...agent }, "running");
    // The operator put it there: nobody knows its digest yet.
    await Deno.mkdir(agent.uploads, { recursive: true });
    await Deno.writeFile(join(agent.uploads, "a.iso"), BYTES);
    {
      using _ = agent.files.reading(join(agent.uploads, "a.iso"), job);
      const replaced = await agent.put("a.iso?replace=true", BYTES);
      assertEquals(replaced.status, 409);
      assertStringIncludes(replaced.text, `it is read by job ${job}`);
      const removed = await agent.call("DELETE", `${LIBRARY}/a.iso`);
      assertStringIncludes(assertRefused(removed, 409, "ConflictError"), job);
    }
    assertEquals((await agent.call("DELETE", `${LIBRARY}/a.iso`)).status, 200);
  }));

Deno.test("a media folder configured in several spellings is listed once, and so is the upload folder", async () => {
  const spellings = (here: string) => [
    join(here, "media", "/"),
    `${here}/uploads/../media`,
    join(here, "link"),
    `${here}/uploads/`,
    join(here, "link-up"),
  ];
  await withUploads(
    async (agent) => {
      const here = join(agent.uploads, "..");
      await Deno.symlink(agent.operators, join(here, "link"));
      assertEquals((await agent.put("up.iso", BYTES)).status, 201);
      await Deno.symlink(agent.uploads, join(here, "link-up"));
      await Deno.writeFile(join(agent.operators, "own.iso"), BYTES);
      const { folders, files } = await listOf(agent);
      assertEquals(folders.map(({ path, place }) => [path, place]), [
        [agent.operators, "folder"],
        [agent.uploads, "upload"],
      ]);
      assertEquals(files.map(({ name, place }) => [name, place]), [
        ["own.iso", "folder"],
        ["up.iso", "upload"],
      ]);
      // By another spelling it would be a file of the operator.
      assertEquals((await agent.put("up.iso?replace=true", BYTES)).status, 200);
      assertEquals((await agent.call("DELETE", `${LIBRARY}/up.iso`)).status, 200);
    },
    {},
    spellings,
  );
});

Deno.test("an upload that continues while old ones are removed is complete, or has to start again", () =>
  withUploads(async (agent) => {
    const place = join(agent.uploads, UNFINISHED_FOLDER);
    const half = BYTES.length / 2;
    const old = new Date(Date.now() - 2 * UNFINISHED_MS_MAX);
    const ends = new Set<number>();
    for (let round = 0; round < 60; round++) {
      const name = `${round}.iso`;
      const range = (from: number, to: number) => ({
        "content-range": `bytes ${from}-${to - 1}/${BYTES.length}`,
      });
      assertEquals((await agent.put(name, BYTES.subarray(0, half), range(0, half))).status, 202);
      await Deno.utime(join(place, name), old, old);
      const send = () => agent.put(name, BYTES.subarray(half), range(half, BYTES.length));
      const sweeps = () => [agent.library.uploads.sweep(), agent.library.uploads.sweep()];
      const [swept, sent] = round % 2 === 0 ? [sweeps(), send()] : [[], send()];
      await Promise.all([...swept, ...round % 2 === 0 ? [] : sweeps()]);
      const { status, headers } = await sent;
      ends.add(status);
      if (status === 409) assertEquals(headers.get("upload-offset"), "0");
      else {
        assertEquals(status, 201);
        assertEquals(await Deno.readFile(join(agent.uploads, name)), BYTES);
      }
      const left = [...Deno.readDirSync(place)].map((entry) => entry.name);
      assertEquals(left, ["agent.lock"], `round ${round}, ${status}`);
    }
    assert(ends.has(201) || ends.has(409));
  }));

Deno.test("callers that send a byte now and then lose their slots, and the received bytes are kept", () =>
  withUploads(async (agent) => {
    const timers: ReturnType<typeof setInterval>[] = [];
    const trickle = (name: string) => {
      const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
        start: (controller) =>
          void timers.push(setInterval(() => controller.enqueue(new Uint8Array(1)), 50)),
      });
      return agent.put(name, body, { "content-range": `bytes 0-99999/100000` });
    };
    try {
      const names = ["a.iso", "b.iso", "c.iso", "d.iso"];
      const slow = names.map(trickle);
      for (const name of names) {
        await until(`a byte of ${name}`, async () => Number(await agent.offset(name)) > 0);
      }
      const fifth = await agent.put("e.iso", BYTES);
      assertEquals([fifth.status, fifth.headers.has("retry-after")], [503, true]);
      await until("a place", async () => (await agent.put("e.iso", BYTES)).status === 201);
      for (const { status, text } of await Promise.all(slow)) {
        assertEquals(status, 408);
        assertEquals(JSON.parse(text).error_code, "too_slow");
        assertStringIncludes(text, "expected at least 3000");
      }
      for (const name of names) {
        const offset = Number(await agent.offset(name));
        assert(offset > 0, name);
        const range = `bytes ${offset}-99999/100000`;
        const rest = isoBytes(100_000).subarray(offset);
        const answer = await agent.put(name, rest, { "content-range": range });
        assertEquals(answer.status, 201, answer.text);
      }
    } finally {
      for (const timer of timers) clearInterval(timer);
    }
  }, { uploadStallSeconds: 3, uploadRateMin: 1000, uploadsMax: 4 }));

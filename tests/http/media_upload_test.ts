// Uploads into the library: whole and in parts, what breaks off, what is refused, and the rules of names.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { UNFINISHED_FOLDER } from "../../src/mirror/media/folders.ts";
import { LIBRARY_FILES_MAX } from "../../src/mirror/media/library_files.ts";
import { UNFINISHED_MS_MAX } from "../../src/mirror/media/partial.ts";
import { T0 } from "../support/job.ts";
import { isoBytes } from "../support/medium.ts";
import { until } from "../support/until.ts";
import { jobIn } from "./http_agent.ts";
import { BYTES, LIBRARY, type UploadAgent, withUploads } from "./upload_agent.ts";

async function base64Of(bytes: Uint8Array<ArrayBuffer>, algorithm = "SHA-256"): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest(algorithm, bytes));
  return btoa(String.fromCharCode(...digest));
}

function rangeOf(from: number, to: number, total = BYTES.length): Record<string, string> {
  return { "content-range": `bytes ${from}-${to - 1}/${total}` };
}

/** A body that sends some bytes and then nothing until it is ended. */
function openBody(bytes: Uint8Array<ArrayBuffer>) {
  let controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>> | undefined;
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(opened) {
      controller = opened;
      opened.enqueue(bytes);
    },
  });
  return { body, end: () => controller?.close(), fail: () => controller?.error(new Error("gone")) };
}

async function filesOf(agent: UploadAgent): Promise<unknown[]> {
  const { body } = await agent.call("GET", LIBRARY);
  return (body as { files: unknown[] }).files;
}

Deno.test("a complete upload is verified by either digest field, listed, and readable by all", async () => {
  await withUploads(async (agent) => {
    const sha512 = await base64Of(BYTES, "SHA-512");
    const rows: [string, Record<string, string>][] = [
      ["a.iso", { "repr-digest": `sha-512=:${sha512}:, sha-256=:${await base64Of(BYTES)}:` }],
      ["b.iso", { "digest": `SHA-256=${await base64Of(BYTES)}` }],
    ];
    for (const [name, headers] of rows) {
      const { status, text, headers: answered } = await agent.put(name, BYTES, headers);
      assertEquals([status, answered.get("location")], [201, `${LIBRARY}/${name}`], text);
      const { level, kind, boot_record, problem, place, digest, size } = JSON.parse(text);
      assertEquals([level, kind, boot_record, problem], ["index", "iso", true, null]);
      assertEquals([place, size, digest.length], ["upload", BYTES.length, 71]);
      assertEquals(await Deno.readFile(join(agent.uploads, name)), BYTES);
      assertEquals(((await Deno.stat(join(agent.uploads, name))).mode ?? 0) & 0o777, 0o444);
    }
    const without = JSON.parse((await agent.put("c.iso", BYTES)).text);
    assertEquals([without.level, without.digest.length], ["none", 71]);
    const listed = (await filesOf(agent)) as { digest: string }[];
    assertEquals(listed.length, 3);
    // The store knows bytes by their digest, by the path that was uploaded last.
    assertEquals(listed.at(-1)?.digest, without.digest);
  });
});

Deno.test("a wrong digest discards the file, an unreadable or unknown one is refused before it", async () => {
  await withUploads(async (agent) => {
    const wrong = btoa("\0".repeat(32));
    const answer = await agent.put("a.iso", BYTES, { "repr-digest": `sha-256=:${wrong}:` });
    assertEquals(answer.status, 400, answer.text);
    assertStringIncludes(answer.text, "its bytes were discarded");
    assertEquals([await agent.offset("a.iso"), await filesOf(agent)], [null, []]);
    for (const text of ["md5=:AAAA:", "sha-256=:AAAA:", "sha-256", "unixsum=1"]) {
      const refused = await agent.put("a.iso", BYTES, { "repr-digest": text });
      assertEquals([text, refused.status], [text, 409], refused.text);
      assertStringIncludes(refused.text, "Repr-Digest");
    }
    const right = await base64Of(BYTES);
    const both = { "repr-digest": `sha-256=:${right}:`, digest: `SHA-256=${wrong}` };
    const two = await agent.put("a.iso", BYTES, both);
    assertEquals([two.status, await agent.offset("a.iso")], [409, null], two.text);
    assertStringIncludes(two.text, "two digests of sha256");
  });
});

Deno.test("parts are accepted in order; a wrong offset answers 409 with the right one", async () => {
  await withUploads(async (agent) => {
    const { put } = agent;
    const first = await put("a.iso", BYTES.subarray(0, 40_000), rangeOf(0, 40_000));
    assertEquals([first.status, first.headers.get("upload-offset")], [202, "40000"], first.text);
    assertEquals([await agent.offset("a.iso"), await filesOf(agent)], ["40000", []]);
    for (const [from, to] of [[0, 40_000], [50_000, 60_000], [39_999, 60_000]] as const) {
      const wrong = await put("a.iso", BYTES.subarray(from, to), rangeOf(from, to));
      assertEquals([wrong.status, wrong.headers.get("upload-offset")], [409, "40000"], wrong.text);
    }
    const other = await put("a.iso", BYTES.subarray(40_000), rangeOf(40_000, 100_000, 100_001));
    assertEquals(other.status, 409, other.text);
    const digest = { "repr-digest": `sha-256=:${await base64Of(BYTES)}:` };
    const rest = { ...rangeOf(40_000, 100_000), ...digest };
    const last = await put("a.iso", BYTES.subarray(40_000), rest);
    assertEquals([last.status, last.headers.get("upload-complete")], [201, "?1"], last.text);
    assertEquals(await Deno.readFile(join(agent.uploads, "a.iso")), BYTES);
    assertEquals(await agent.offset("a.iso"), "100000");
  });
});

Deno.test("an upload whose file another agent has removed or replaced is refused, not mistaken for it", async () => {
  await withUploads(async (agent) => {
    const path = join(agent.uploads, UNFINISHED_FOLDER, "a.iso");
    for (const others of [undefined, BYTES.subarray(0, 70_000)]) {
      const open = openBody(BYTES.subarray(0, 40_000));
      const sent = agent.put("a.iso", open.body);
      await until("40000 bytes", async () => await agent.offset("a.iso") === "40000");
      await Deno.remove(path);
      if (others !== undefined) await Deno.writeFile(path, others);
      open.end();
      const { status, text } = await sent;
      assertEquals(status, 409, text);
      assertStringIncludes(text, "another process has removed or replaced");
      const left = await Deno.readFile(path).catch(() => undefined);
      assertEquals([left, await filesOf(agent)], [others, []]);
    }
  });
});

Deno.test("the bytes of an interrupted upload are kept, and it can be continued or removed", async () => {
  await withUploads(async (agent) => {
    const open = openBody(BYTES.subarray(0, 70_000));
    const broken = agent.put("a.iso", open.body, rangeOf(0, 100_000)).catch(() => undefined);
    await until("70000 bytes", async () => await agent.offset("a.iso") === "70000");
    open.fail();
    await broken;
    await until("its end", async () => {
      const rest = await agent.put("a.iso", BYTES.subarray(70_000), rangeOf(70_000, 100_000));
      return rest.status === 201;
    });
    assertEquals(await Deno.readFile(join(agent.uploads, "a.iso")), BYTES);
    // As after a crash between the last byte and the name.
    const place = join(agent.uploads, UNFINISHED_FOLDER);
    await Deno.writeFile(join(place, "b.iso"), BYTES);
    const said = JSON.stringify({ total: BYTES.length, digests: [] });
    await Deno.writeTextFile(join(place, "b.iso.json"), said);
    const ended = await agent.put("b.iso", "", { "content-range": "bytes */100000" });
    assertEquals(ended.status, 201, ended.text);
  });
});

Deno.test("one request writes a name at a time, and only so many write at once", async () => {
  await withUploads(async (agent) => {
    const open = openBody(BYTES.subarray(0, 10));
    const first = agent.put("a.iso", open.body);
    await until("the first byte", async () => await agent.offset("a.iso") === "10");
    const second = await agent.put("a.iso", BYTES);
    assertEquals(second.status, 409, second.text);
    assertStringIncludes(second.text, "another request is writing it");
    const third = await agent.put("b.iso", BYTES);
    assertEquals([third.status, third.headers.has("retry-after")], [503, true], third.text);
    const removed = await agent.call("DELETE", `${LIBRARY}/a.iso`);
    assertEquals(removed.status, 409);
    open.end();
    const { status, text } = await first;
    assertEquals([status, JSON.parse(text).size], [201, 10]);
    assertEquals((await agent.put("b.iso", BYTES)).status, 201);
  }, { uploadsMax: 1 });
});

Deno.test("an upload that stalls is given up, and one that is too large is refused or cut", async () => {
  await withUploads(async (agent) => {
    const open = openBody(BYTES.subarray(0, 10));
    const stalled = await agent.put("a.iso", open.body, rangeOf(0, 1000, 1000));
    assertEquals(stalled.status, 408, stalled.text);
    assertStringIncludes(stalled.text, "no data arrived for 1 seconds");
    assertEquals(await agent.offset("a.iso"), "10");
    const declared = await agent.put("b.iso", BYTES);
    assertEquals(declared.status, 413, declared.text);
    assertStringIncludes(declared.text, "upload_max");
    const blind = openBody(BYTES);
    blind.end();
    const cut = await agent.put("b.iso", blind.body).catch(() => undefined);
    assert(cut === undefined || cut.status === 413, cut?.text);
    assertEquals(await agent.offset("b.iso"), null);
  }, { uploadStallSeconds: 1, uploadBytesMax: 50_000 });
  await withUploads(async (agent) => {
    const off = await agent.put("a.iso", BYTES);
    assertEquals(off.status, 403, off.text);
  }, { uploadBytesMax: 0 });
});

Deno.test("a name that is in use is refused; replace=true replaces an unused upload", async () => {
  await withUploads(async (agent) => {
    const first = JSON.parse((await agent.put("a.iso", BYTES)).text);
    const taken = await agent.put("a.iso", isoBytes(50_000));
    assertEquals(taken.status, 409, taken.text);
    assertStringIncludes(taken.text, "replace=true");
    const sha256 = first.digest.slice(7);
    const job = await jobIn(agent, "queued");
    await agent.store.media.use(sha256, T0, job);
    const used = await agent.put("a.iso?replace=true", isoBytes(50_000));
    assertEquals(used.status, 409, used.text);
    assertStringIncludes(used.text, job);
    assertEquals((await agent.call("DELETE", `${LIBRARY}/a.iso`)).status, 409);
    await agent.call("POST", `/jobs/${job}/cancel`, {});
    const replaced = await agent.put("a.iso?replace=true", isoBytes(50_000));
    assertEquals(replaced.status, 200, replaced.text);
    assertEquals((await Deno.stat(join(agent.uploads, "a.iso"))).size, 50_000);
    assertEquals(await agent.store.media.get(sha256), undefined);
    const removed = await agent.call("DELETE", `${LIBRARY}/a.iso`);
    assertStringIncludes(removed.text, '"removed":"uploaded file"');
    assertEquals((await agent.call("DELETE", `${LIBRARY}/a.iso`)).status, 404);
  });
});

Deno.test("a file of the operator is 403 naming its folder, by name and by digest", async () => {
  await withUploads(async (agent) => {
    const path = join(agent.operators, "own.iso");
    await Deno.writeFile(path, BYTES);
    const put = await agent.put("own.iso?replace=true", BYTES);
    const removed = await agent.call("DELETE", `${LIBRARY}/own.iso`);
    const sha256 = "ab".repeat(32);
    await agent.store.media.keep({
      sha256,
      name: "own.iso",
      path,
      size: BYTES.length,
      source: "path",
      origin: path,
      label: "file own.iso",
      level: "none",
      created_at: T0,
      last_used_at: T0,
      verified_at: T0,
    });
    const known = await agent.call("DELETE", `/agent/v1/media/${sha256}`);
    for (const { status, text } of [put, removed, known]) {
      assertEquals(status, 403, text);
      assertStringIncludes(text, agent.operators);
    }
    await Deno.remove(path);
    assertEquals((await agent.call("DELETE", `/agent/v1/media/${sha256}`)).status, 204);
  });
});

Deno.test("hostile names touch nothing, and links in the upload folder are neither followed nor listed", async () => {
  await withUploads(async (agent) => {
    const names = ["..%2fx.iso", ".x.iso", "a%00.iso", "x.qcow2", "a%20b.iso"];
    for (const name of [...names, "a.iso%2f..%2fb.iso", `${"a".repeat(130)}.iso`]) {
      const refused = await agent.put(name, BYTES);
      assertEquals([name, refused.status], [name, 409], refused.text);
    }
    assertEquals(await Array.fromAsync(Deno.readDir(agent.uploads)).catch(() => []), []);
    assertEquals((await agent.put("first.iso", BYTES)).status, 201);
    const outside = join(agent.operators, "..", "secret.iso");
    await Deno.writeTextFile(outside, "secret");
    await Deno.symlink(outside, join(agent.uploads, "link.iso"));
    const place = join(agent.uploads, UNFINISHED_FOLDER);
    await Deno.symlink(outside, join(place, "part.iso"));
    for (const name of ["link.iso", "link.iso?replace=true"]) {
      assertEquals((await agent.put(name, BYTES)).status, 409);
    }
    assertEquals((await agent.put("part.iso", BYTES)).status, 201);
    assertEquals(await Deno.readTextFile(outside), "secret");
    const listed = (await filesOf(agent)) as { name: string }[];
    assertEquals(listed.map(({ name }) => name), ["first.iso", "part.iso"]);
  });
});

Deno.test("forms, packed bodies and ranges that contradict themselves or the body are refused", async () => {
  await withUploads(async (agent) => {
    const form = new FormData();
    form.set("file", new Blob([BYTES]));
    for (
      const [body, headers] of [
        [form, {}],
        [BYTES, { "content-type": "application/x-www-form-urlencoded" }],
        [BYTES, { "content-encoding": "gzip" }],
      ] as const
    ) {
      assertEquals((await agent.put("a.iso", body, headers)).status, 415);
    }
    const ranges = ["bytes 5-4/10", "bytes 0-9/5", "bytes 0-9/*", "0-9/10", "bytes 0-9/0"];
    // The last one has another length than the body.
    for (const range of [...ranges, "bytes 0-4/10"]) {
      const refused = await agent.put("a.iso", "0123456789", { "content-range": range });
      assertEquals([range, refused.status], [range, 409]);
      assertEquals(await agent.offset("a.iso"), null);
    }
  });
});

Deno.test("beside 64 unfinished uploads no other one begins, but each of them continues", async () => {
  await withUploads(async (agent) => {
    const half = BYTES.length / 2;
    const begin = (number: number) =>
      agent.put(`${number}.iso`, BYTES.subarray(0, half), rangeOf(0, half));
    for (let number = 0; number < 64; number++) assertEquals((await begin(number)).status, 202);
    const refused = await begin(64);
    assertEquals([refused.status, refused.headers.get("retry-after")], [503, "60"], refused.text);
    assertStringIncludes(refused.text, "64 unfinished uploads are kept");
    const rest = rangeOf(half, BYTES.length);
    assertEquals((await agent.put("0.iso", BYTES.subarray(half), rest)).status, 201);
    assertEquals((await begin(64)).status, 202);
  });
});

Deno.test("an unfinished upload is removed on request, and after a day", async () => {
  await withUploads(async (agent) => {
    for (const name of ["a.iso", "b.iso"]) {
      await agent.put(name, BYTES.subarray(0, 10), rangeOf(0, 10));
    }
    const removed = await agent.call("DELETE", `${LIBRARY}/a.iso?unfinished=true`);
    assertStringIncludes(removed.text, "unfinished upload");
    assertEquals([await agent.offset("a.iso"), await agent.offset("b.iso")], [null, "10"]);
    const old = new Date(Date.now() - UNFINISHED_MS_MAX - 1000);
    await Deno.utime(join(agent.uploads, UNFINISHED_FOLDER, "b.iso"), old, old);
    await agent.context.library.uploads.sweep();
    assertEquals(await agent.offset("b.iso"), null);
    const left = Deno.readDirSync(join(agent.uploads, UNFINISHED_FOLDER));
    assertEquals(Array.from(left, ({ name }) => name), ["agent.lock"]);
  });
});

Deno.test("an empty body creates no file, and replaces none", async () => {
  await withUploads(async (agent) => {
    assertEquals((await agent.put("a.iso", BYTES)).status, 201);
    for (const name of ["a.iso?replace=true", "b.iso"]) {
      const refused = await agent.put(name, new Uint8Array());
      assertEquals(refused.status, 400, refused.text);
      assertStringIncludes(refused.text, "the body is empty");
    }
    assertEquals(await Deno.readFile(join(agent.uploads, "a.iso")), BYTES);
    assertEquals(((await filesOf(agent)) as { name: string }[]).map(({ name }) => name), ["a.iso"]);
  });
});

Deno.test("a file in use by a job is kept, even if another name has the same bytes", async () => {
  await withUploads(async (agent) => {
    const first = JSON.parse((await agent.put("a.iso", BYTES)).text);
    const job = await jobIn(agent, "queued");
    await agent.store.media.use(first.digest.slice(7), T0, job);
    assertEquals((await agent.put("b.iso", BYTES)).status, 201);
    const removed = await agent.call("DELETE", `${LIBRARY}/a.iso`);
    const replaced = await agent.put("a.iso?replace=true", isoBytes(50_000));
    for (const { status, text } of [removed, replaced]) {
      assertEquals(status, 409, text);
      assertStringIncludes(text, job);
    }
    assertEquals(await Deno.readFile(join(agent.uploads, "a.iso")), BYTES);
    await agent.call("POST", `/jobs/${job}/cancel`, {});
    assertEquals((await agent.call("DELETE", `${LIBRARY}/a.iso`)).status, 200);
  });
});

Deno.test("a folder in the upload folder is not removed, and files below it are found by their path", async () => {
  await withUploads(async (agent) => {
    await Deno.mkdir(join(agent.uploads, "d.iso"), { recursive: true });
    await Deno.mkdir(join(agent.uploads, ".hidden"));
    for (const path of ["d.iso/e.iso", ".hidden/f.iso"]) {
      await Deno.writeFile(join(agent.uploads, path), BYTES);
    }
    const removed = await agent.call("DELETE", `${LIBRARY}/d.iso`);
    assertEquals(removed.status, 409, removed.text);
    assertStringIncludes(removed.text, "is a folder");
    assertEquals((await agent.call("GET", `${LIBRARY}/d.iso%2fe.iso`)).status, 200);
    for (const name of ["d.iso", ".hidden%2ff.iso", "d.iso%2f..%2fd.iso%2fe.iso"]) {
      assertEquals((await agent.call("GET", `${LIBRARY}/${name}`)).status, 404, name);
    }
  });
});

Deno.test("an upload is kept and found beside more files than are listed", async () => {
  await withUploads(async (agent) => {
    const own = join(agent.operators, "own.iso");
    await Deno.writeFile(own, BYTES);
    for (let at = 0; at < LIBRARY_FILES_MAX; at++) {
      Deno.symlinkSync(own, join(agent.operators, `link-${at}.iso`));
    }
    const { status, text } = await agent.put("z.iso", BYTES);
    assertEquals(status, 201, text);
    assertEquals(JSON.parse(text).path, join(agent.uploads, "z.iso"));
  });
});

Deno.test("an upload whose record cannot be written keeps the whole file in place", async () => {
  await withUploads(async (agent) => {
    const { media } = agent.store;
    const keep = media.keep;
    Object.assign(media, { keep: () => Promise.reject(new Error("the store is gone")) });
    assertEquals((await agent.put("a.iso", BYTES)).status, 500);
    Object.assign(media, { keep });
    assertEquals(await Deno.readFile(join(agent.uploads, "a.iso")), BYTES);
    assertEquals(await agent.offset("a.iso"), String(BYTES.length));
    const { body } = await agent.call("GET", `${LIBRARY}/a.iso`);
    assertEquals((body as { place: string }).place, "upload");
  });
});

Deno.test("a folder that cannot be locked takes no uploads, and says which setting names it", () =>
  withUploads(async (agent) => {
    await Deno.mkdir(join(agent.uploads, UNFINISHED_FOLDER, "agent.lock"), { recursive: true });
    const { status, text } = await agent.put("a.iso", BYTES);
    assertEquals(status, 409, text);
    assertStringIncludes(text, `Cannot upload into ${agent.uploads} (setting upload_dir): `);
  }));

// `media upload` against the real application, with a folder for uploads.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { UNFINISHED_FOLDER } from "../../src/mirror/media/folders.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { type HttpAgent, libraryOf, withHttpAgent } from "../http/http_agent.ts";
import { isoBytes } from "../support/medium.ts";
import { until, withFolder } from "../support/until.ts";
import { said } from "./screen.ts";

const BYTES = isoBytes(1_000_000);

/** An agent, its folder of uploads, and a file to upload. */
async function withFile(
  run: (agent: HttpAgent, uploads: string, file: string) => Promise<void>,
): Promise<void> {
  await withFolder(async (folder) => {
    const uploads = join(folder, "uploads");
    const file = join(folder, "a.iso");
    await Deno.writeFile(file, BYTES);
    await withHttpAgent((agent) => run(agent, uploads, file), {}, uploads);
  });
}

/** Leaves an upload unfinished, as one that broke off. */
async function leave(uploads: string, bytes: Uint8Array, total: number): Promise<void> {
  const place = join(uploads, UNFINISHED_FOLDER);
  await Deno.mkdir(place, { recursive: true });
  await Deno.writeFile(join(place, "a.iso"), bytes);
  await Deno.writeTextFile(join(place, "a.iso.json"), JSON.stringify({ total, digests: [] }));
}

Deno.test("media upload sends a file completely, and finds it there the second time", () =>
  withFile(async (agent, uploads, file) => {
    const first = await said(agent, ["media", "upload", file]);
    assertEquals([first.code, first.err()], [0, ""]);
    assertStringIncludes(first.out(), join(uploads, "a.iso"));
    assertEquals(await Deno.readFile(join(uploads, "a.iso")), BYTES);
    const again = await said(agent, ["media", "upload", file]);
    assertEquals([again.code, again.err()], [0, "a.iso already exists\n"]);
    const json = await said(agent, ["media", "upload", file, "--name", "b.iso", "--json"]);
    assertEquals(JSON.parse(json.out()).level, "index");
  }));

Deno.test("media upload continues an interrupted upload of the same file, and restarts after another one's", () =>
  withFile(async (agent, uploads, file) => {
    await leave(uploads, BYTES.subarray(0, 400_000), BYTES.length);
    const resumed = await said(agent, ["media", "upload", file]);
    assertEquals(resumed.code, 0, resumed.err());
    assertStringIncludes(resumed.err(), "already uploaded: resuming");
    assertEquals(await Deno.readFile(join(uploads, "a.iso")), BYTES);
    await Deno.remove(join(uploads, "a.iso"));
    await leave(uploads, new Uint8Array(10), 20);
    const restarted = await said(agent, ["media", "upload", file]);
    assertEquals(restarted.code, 0, restarted.err());
    assertStringIncludes(restarted.err(), "was of another file: starting again");
    assertEquals(await Deno.readFile(join(uploads, "a.iso")), BYTES);
  }));

Deno.test("media upload exits 6 for the name of another file, unless --replace is given", () =>
  withFile(async (agent, uploads, file) => {
    await Deno.mkdir(uploads);
    await Deno.writeFile(join(uploads, "a.iso"), isoBytes(50_000));
    const refused = await said(agent, ["media", "upload", file]);
    assertEquals(refused.code, 6);
    assertStringIncludes(refused.err(), "a file of this name, whose digest it does not know");
    assertStringIncludes(refused.err(), "--replace");
    const replaced = await said(agent, ["media", "upload", file, "--replace"]);
    assertEquals(replaced.code, 0, replaced.err());
    assertEquals(await Deno.readFile(join(uploads, "a.iso")), BYTES);
  }));

Deno.test("media upload says at once why the agent refuses a file, in the words of the command line", () =>
  withFile(async (agent, uploads, file) => {
    const large = isoBytes(48 * 1024 * 1024);
    await Deno.writeFile(file, large);
    await leave(uploads, large.subarray(0, 1_000), large.length);
    await Deno.writeFile(join(uploads, "a.iso"), isoBytes(50_000));
    const refused = await said(agent, ["media", "upload", file]);
    assertEquals(refused.code, 6);
    assertStringIncludes(refused.err(), "--replace in the command line");
    assertEquals(refused.err().includes("trying again"), false, refused.err());
  }));

Deno.test("media upload leaves the upload of another file alone while that is under way", () =>
  withFile(async (agent, uploads, file) => {
    let end = () => {};
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
      start(controller) {
        controller.enqueue(BYTES.subarray(0, 1_000));
        end = () => {
          controller.enqueue(BYTES.subarray(1_000, 2_000));
          controller.close();
        };
      },
    });
    const headers = { "content-range": "bytes 0-1999/2000" };
    const address = `${agent.url}/agent/v1/media/library/a.iso`;
    const first = fetch(address, { method: "PUT", body, headers });
    const unfinished = join(uploads, UNFINISHED_FOLDER, "a.iso");
    const size = () => Deno.stat(unfinished).then((info) => info.size, () => 0);
    await until("1000 bytes", async () => await size() === 1_000);
    const second = await said(agent, ["media", "upload", file]);
    assertEquals([second.code, await size()], [6, 1_000], second.err());
    assertEquals(second.err().includes("trying again"), false, second.err());
    end();
    const answer = await first;
    assertEquals(answer.status, 201, await answer.text());
  }));

Deno.test("media upload names the operator's folder that has a file of the name, and not --replace", () =>
  withFolder(async (folder) => {
    const operators = join(folder, "media");
    await Deno.mkdir(operators);
    const file = join(operators, "a.iso");
    await Deno.writeFile(file, BYTES);
    const store = await openSqliteStore(":memory:");
    const folders = { folder: join(folder, "uploads"), mediaDirs: [operators] };
    const changes = { store, library: libraryOf(store, silentLog, folders) };
    await withHttpAgent(async (agent) => {
      const refused = await said(agent, ["media", "upload", file]);
      assertEquals(refused.code, 6);
      assertStringIncludes(refused.err(), `the operator's own file in ${operators} has this name`);
      assertEquals(refused.err().includes("--replace"), false);
    }, changes);
    await store.close();
  }));

Deno.test("media upload refuses a wrong digest, a wrong name, and anything but a file", () =>
  withFile(async (agent, uploads, file) => {
    const wrong = await said(agent, ["media", "upload", file, "--sha256", "0".repeat(64)]);
    assertEquals(wrong.code, 1);
    assertStringIncludes(wrong.err(), "its bytes were discarded");
    for (const hex of ["abc", "z".repeat(64)]) {
      const unread = await said(agent, ["media", "upload", file, "--sha256", hex]);
      assertEquals(unread.code, 2);
      assertStringIncludes(
        unread.err(),
        hex === "abc" ? "found 3 digits" : 'found the character "z"',
      );
    }
    for (const words of [[file, "--name", "../x.iso"], [file, "--name", "x.txt"], ["/"]]) {
      assertEquals([words, (await said(agent, ["media", "upload", ...words])).code], [words, 2]);
    }
    const none = await said(agent, ["media", "upload", "/none.iso"]);
    assertEquals(none.code, 4);
    assertStringIncludes(none.err(), "Cannot read /none.iso: it does not exist\n");
    const curl = await said(agent, ["media", "upload", file, "--curl"]);
    assertStringIncludes(curl.out(), `-T ${file} ${agent.url}/agent/v1/media/library/a.iso`);
    const left = await Array.fromAsync(Deno.readDir(join(uploads, UNFINISHED_FOLDER)));
    assertEquals(left.map(({ name }) => name), ["agent.lock"]);
  }));

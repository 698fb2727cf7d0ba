// What jobs read of the index goes ahead of what requests bring, and ends when the job gives up.

import { assertEquals, assertRejects } from "@std/assert";
import { WAITING_MAX } from "../../src/decoder/work_queue.ts";
import type { Decoders } from "../../src/decoder/pool.ts";
import { AgentError } from "../../src/domain/error.ts";
import { decodersMax } from "../../src/sandbox/guest_command.ts";
import { until } from "../support/until.ts";
import { withMirror } from "./test_mirror.ts";

/** Leads to no artifact, which only the documents say. */
const NOWHERE = { distro: "aurora", release: "none" };
const UNKNOWN = "https://unknown.example/file";
const UNCHECKED = { check: "none", allowUnverified: true } as const;

/** Pieces of work of requests, each under way until it is let go. */
function openWorks(decoders: Decoders, count: number) {
  const options = { what: "check it", origin: "a test" };
  const works = { begun: 0, ended: [] as Promise<unknown>[], letGo: [] as (() => void)[] };
  for (let work = 0; work < count; work++) {
    const held = Promise.withResolvers<void>();
    const input = async function* () {
      works.begun += 1;
      await held.promise;
      yield new TextEncoder().encode('["(job, cb) => cb()"]');
    };
    works.letGo.push(held.resolve);
    works.ended.push(decoders.ask("task_sources", {}, input(), options));
  }
  return works;
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  return (await assertRejects(() => work, AgentError)).code;
}

Deno.test("a job's reads of the index go ahead of those of requests", async () => {
  await withMirror(async ({ mirror, decoders }) => {
    await mirror.sync();
    const works = openWorks(decoders, decodersMax() + WAITING_MAX);
    await until("all decoders", () => works.begun === decodersMax() ? true : undefined);
    assertEquals(await codeOf(mirror.findArtifact(NOWHERE)), "overloaded");
    let read = false;
    const looks = Promise.all([
      codeOf(mirror.findArtifact(NOWHERE, { ahead: true })),
      codeOf(mirror.downloadUrl(UNKNOWN, undefined, UNCHECKED)),
    ]).finally(() => read = true);
    // A place becomes free, and another when one that waited has taken it: none that waited ever ends.
    for (let place = 0; place < decodersMax() && !read; place++) {
      const before = works.begun;
      works.letGo[place]?.();
      await until("the place to be taken", () => read || works.begun > before ? true : undefined);
    }
    assertEquals(await looks, ["not_found", "forbidden"]);
    for (const letGo of works.letGo) letGo();
    await Promise.all(works.ended);
  });
});

Deno.test("a task that gives up ends its own search of the index, and no other", async () => {
  await withMirror(async ({ mirror, decoders }) => {
    await mirror.sync();
    const works = openWorks(decoders, decodersMax());
    const task = new AbortController();
    const { signal } = task;
    const given = [
      mirror.findArtifact(NOWHERE, { signal, ahead: true }),
      mirror.downloadUrl(UNKNOWN, undefined, { ...UNCHECKED, signal }),
    ].map(codeOf);
    const other = codeOf(mirror.downloadUrl(UNKNOWN, undefined, UNCHECKED));
    task.abort();
    // All decoders are still held.
    assertEquals(await Promise.all(given), ["aborted", "aborted"]);
    for (const letGo of works.letGo) letGo();
    await Promise.all(works.ended);
    assertEquals(await other, "forbidden");
  });
});

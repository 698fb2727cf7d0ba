// Every kind of fault of an upstream, at a first sync and at a later one: nothing half is stored, the
// other distros go on, and the next sync mends it.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { DOCUMENT_BYTES_MAX } from "../../src/domain/index/index_document.ts";
import type { Fault, ServedFile } from "./index_server.ts";
import { edit, storedTree, withMirror } from "./test_mirror.ts";
import { assertWholeTree } from "./whole_tree.ts";

const BASALT = "v1/distros/basalt/index.json";
const CINDER = "v1/distros/cinder-os/index.json";
/** Long for a test, short for a machine: faults that never end are ended by these. */
const TIMES = { answerMs: 1000, idleMs: 1000, documentMs: 3000, stallMs: 1000 };

function answer(
  status: number,
  headers: Record<string, string>,
  body: (file: ServedFile) => BodyInit | null,
): Fault {
  return { kind: "answer", make: (file) => new Response(body(file), { status, headers }) };
}

const JSON_TYPE = { "content-type": "application/json" };
const bytesOf = (file: ServedFile) => new Uint8Array(file.body);

/** Name, fault, words of the problem that is reported. */
const KINDS: readonly (readonly [string, Fault, string])[] = [
  ["internal error", { kind: "status", status: 500 }, "the server answered 500"],
  ["bad gateway", { kind: "status", status: 502 }, "the server answered 502"],
  ["too many requests", { kind: "status", status: 429 }, "the server answered 429"],
  ["unauthorized", { kind: "status", status: 401 }, "the server answered 401"],
  ["forbidden", { kind: "status", status: 403 }, "the server answered 403"],
  ["no content", answer(204, {}, () => null), "the server answered 204"],
  [
    "a part",
    answer(206, JSON_TYPE, (file) => bytesOf(file).slice(0, 9)),
    "the server answered 206",
  ],
  ["multiple choices", answer(300, {}, () => "[]"), "the server answered 300"],
  ["a redirect without an address", answer(302, {}, () => null), "without an address"],
  [
    "a redirect to a file",
    { kind: "redirect", to: "file:///etc/passwd" },
    "expected an https: or http: address",
  ],
  [
    "a redirect to data",
    { kind: "redirect", to: "data:,{}" },
    "expected an https: or http: address",
  ],
  ["another scheme", { kind: "redirect", to: "https://127.0.0.1/" }, "from http: to https:"],
  ["a redirect with a password", { kind: "redirect", to: "http://a:b@127.0.0.1/" }, "user name"],
  ["a redirect in a circle", { kind: "redirect", to: `/${BASALT}` }, "redirects over 5 times"],
  ["a cut body", { kind: "cut", after: 40 }, "Cannot read"],
  ["a body that stalls", { kind: "stall", after: 40 }, "nothing arrived for 1000 ms"],
  ["no answer", { kind: "silent" }, "nothing arrived for 1000 ms"],
  ["a body byte by byte", { kind: "answer", make: trickle }, "nothing arrived for 3000 ms"],
  ["a page of a hotel", answer(200, {}, () => "<html>sign in</html>"), "$ is not JSON"],
  ["nothing", answer(200, JSON_TYPE, () => ""), "$ is not JSON"],
  ["zeros", answer(200, JSON_TYPE, (file) => new Uint8Array(file.body.length)), "$ is not JSON"],
  ["half of it", answer(200, {}, (file) => bytesOf(file).slice(0, 99)), "$ is not JSON"],
  [
    "it twice",
    answer(200, {}, (file) => new Blob([bytesOf(file), bytesOf(file)])),
    "$ is not JSON",
  ],
  [
    "another document",
    answer(200, {}, () => '{"distros":[]}'),
    "$.id must be a text, found nothing",
  ],
  ["no gzip", answer(200, { "content-encoding": "gzip" }, bytesOf), "Cannot read"],
  ["too much", { kind: "answer", make: endless }, `it has more than ${DOCUMENT_BYTES_MAX} bytes`],
];

/** As long as the largest document, and then one byte more. */
function endless(): Response {
  const part = new Uint8Array(1024 * 1024).fill(0x20);
  let left = DOCUMENT_BYTES_MAX + 1;
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller) {
      if (left <= 0) return controller.close();
      controller.enqueue(part.slice(0, left));
      left -= part.length;
    },
  });
  return new Response(body);
}

/** Always something new, and never all of it. */
function trickle(_file: ServedFile, closing: AbortSignal): Response {
  let timer: ReturnType<typeof setInterval> | undefined;
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      const end = () => clearInterval(timer);
      closing.addEventListener("abort", end, { once: true });
      timer = setInterval(() => controller.enqueue(new Uint8Array([0x20])), 20);
    },
    cancel: () => clearInterval(timer),
  });
  return new Response(body);
}

for (const [name, fault, words] of KINDS) {
  Deno.test(`sync() survives ${name}`, async () => {
    await withMirror(async ({ mirror, store, server }) => {
      const times = 20;
      server.faults.set(BASALT, Array(times).fill(fault));
      const first = await mirror.sync();
      assertEquals([first.outcome, first.problems.length], ["partial", 1]);
      assertEquals(first.problems[0]?.document, BASALT);
      assertStringIncludes(first.problems[0]?.message ?? "", words);
      await assertWholeTree(store);
      assertEquals(await store.index.get(BASALT), undefined);
      server.faults.delete(BASALT);
      assertEquals((await mirror.sync()).outcome, "complete");
      const before = await storedTree(store);

      for (const path of [BASALT, CINDER]) edit(server, path, (distro) => distro.name = "New");
      server.faults.set(BASALT, Array(times).fill(fault));
      const later = await mirror.sync();
      assertEquals([later.outcome, later.problems[0]?.document], ["partial", BASALT]);
      await assertWholeTree(store);
      const after = await storedTree(store);
      assertEquals(after.get(BASALT), before.get(BASALT));
      assertStringIncludes(after.get(CINDER) ?? "", '"New"');
      server.faults.delete(BASALT);
      assertEquals((await mirror.sync()).outcome, "complete");
      assert((await storedTree(store)).get(BASALT)?.includes('"New"'));
    }, { times: TIMES });
  });
}

Deno.test("sync() stops asking an upstream that requests a long pause, and says how long", async () => {
  await withMirror(async ({ mirror, server, waits }) => {
    await mirror.sync();
    edit(server, CINDER, (distro) => distro.name = "New");
    server.requests.length = 0;
    const headers = { "retry-after": "3600" };
    server.faults.set(BASALT, [{ kind: "status", status: 503, headers }]);
    const sync = await mirror.sync();
    assertEquals([sync.outcome, sync.retry_after_seconds], ["failed", 3600]);
    assertEquals([server.countOf(BASALT), waits], [1, []]);
    assert(sync.problems.some(({ message }) => message.includes("asked to wait 3600 s")));
  });
});

Deno.test("sync() treats a 304 to an unconditional request as a fault", async () => {
  await withMirror(async ({ mirror, server, store }) => {
    server.faults.set(BASALT, Array(9).fill({ kind: "status", status: 304 }));
    const sync = await mirror.sync();
    assertEquals([sync.outcome, sync.problems[0]?.document], ["partial", BASALT]);
    await assertWholeTree(store);
  });
});

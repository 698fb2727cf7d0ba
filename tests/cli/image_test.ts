// `image` and `status` against a small server that answers as documents 1 and 2 say.

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { until } from "../support/until.ts";
import { noEvents, openScreen, resetEvents, type Screen, screenFor } from "./screen.ts";

const SYNC = {
  started_at: "2026-01-01T11:00:00.000Z",
  finished_at: "2026-01-01T11:00:10.000Z",
  upstream: "https://images.example",
  outcome: "partial",
  added: 1,
  changed: 2,
  removed: 0,
  unchanged: 9,
  problems: [{ document: "v1/distros/a/index.json", message: "expected an object\x1b[2J" }, {
    document: "v1/distros/b/index.json",
    message: "Cannot accept it",
    json_path: "$.id",
    reason: "must not be empty",
    kept: true,
  }],
};
const BUILDS = {
  distro: "omnios",
  release: "r151058",
  builds: [{
    build: "20261001",
    artifacts: [{
      arch: "x86_64",
      format: "raw",
      compression: "zstd",
      variant: "cloud",
      size: 631 * 1_048_576,
      locations: [{ url: "https://a.example/o.raw.zst", kind: "primary" }],
      integrity: { digests: [{ algorithm: "sha256", value: "ab" }] },
    }],
  }],
};

const TREE: Readonly<Record<string, unknown>> = {
  "GET /v1/index.json": {
    distros: [{ id: "omnios", name: "OmniOS", os_family: "illumos" }, {
      id: "b",
      os_family: "bsd",
    }],
  },
  "GET /v1/distros/omnios/index.json": {
    id: "omnios",
    releases: [{ id: "r151058", title: "OmniOS r151058", aliases: ["latest", "lts"] }],
  },
  "GET /v1/distros/omnios/releases/r151058/index.json": BUILDS,
  "GET /v1/distros/omnios/aliases/latest.json": BUILDS,
  "GET /agent/v1/index": {
    upstream: SYNC.upstream,
    syncing: true,
    progress: { phase: "documents", documents: 4, total: 9, bytes: 12 },
    last_sync: SYNC,
    compared_at: SYNC.finished_at,
    documents: 12,
  },
  "POST /agent/v1/index/sync {}": { syncing: true },
  'POST /agent/v1/index/sync {"wait":true}': SYNC,
  "GET /agent/v1/host": {
    name: "gz-7",
    mode: "ssh",
    version: "0.1.0",
    pid: 7,
    warnings: [{ code: "disk", message: "disk: 12 MiB free", hint: "zonewright media list" }],
    slots: { total: 8, busy: 4 },
    jobs: { queued: 4, running: 4, waiting: 0, failed_24h: 2 },
    index: { upstream: SYNC.upstream, compared_at: SYNC.finished_at },
    cache: { bytes: 1024, max_bytes: null },
    disk: { value: { folder: "/var/lib/zonewright", free_bytes: 12_000_000 } },
    machines: { value: null, error: "no vmadm" },
    leftovers: 1,
  },
};

/** Answers from a table of `METHOD path`, with the body behind it where there is one. */
function serveTree(
  tree: Readonly<Record<string, unknown>>,
  port = 0,
): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve({ hostname: "127.0.0.1", port, onListen: () => {} }, async (request) => {
    const { pathname, search } = new URL(request.url);
    const sent = request.body === null ? "" : ` ${await request.text()}`;
    const body = tree[`${request.method} ${pathname}${search}${sent}`];
    return body === undefined
      ? Response.json({ message: "Cannot find it", request_id: "1" }, { status: 404 })
      : Response.json(body);
  });
}

async function said(...args: string[]): Promise<Screen & { readonly code: number }> {
  const server = serveTree(TREE);
  try {
    const nowMs = () => Date.parse("2026-01-01T14:00:10Z");
    const screen = screenFor(`http://127.0.0.1:${server.addr.port}`, { nowMs });
    return { ...screen, code: await screen.run(...args) };
  } finally {
    await server.shutdown();
  }
}

Deno.test("image list shows distros, releases and files", async () => {
  assertEquals(
    (await said("image", "list")).out(),
    [
      "DISTRO  NAME    FAMILY",
      "omnios  OmniOS  illumos",
      "b       -       bsd",
      "",
    ].join("\n"),
  );
  assertMatch((await said("image", "list", "omnios")).out(), /^r151058 .* latest, lts +-$/m);
  const files = await said("image", "list", "omnios/r151058");
  assertMatch(files.out(), /^20261001 +cloud +x86_64 +raw +zstd +631 MiB$/m);
});

Deno.test("image list and show take an alias for a release", async () => {
  assertEquals((await said("image", "list", "omnios/latest")).code, 0);
  const { out } = await said("image", "show", "omnios/latest");
  assertStringIncludes(out(), "https://a.example/o.raw.zst");
  assertMatch(out(), /^sha256 +ab$/m);
});

Deno.test("image list --json is the document as it is served", async () => {
  const { out } = await said("image", "list", "omnios/r151058", "--json");
  assertEquals(JSON.parse(out()), BUILDS);
});

Deno.test("image exits 4 for a missing image and 2 for an invalid name", async () => {
  assertEquals((await said("image", "list", "none")).code, 4);
  assertEquals((await said("image", "list", "omnios/lts")).code, 4);
  for (const operand of ["a/b/c", "a/", "/b"]) {
    assertEquals((await said("image", "list", operand)).code, 2, operand);
  }
  assertEquals((await said("image", "show", "omnios")).code, 2);
});

Deno.test("image sync starts a sync; with --wait it reports changes and problems", async () => {
  const started = await said("image", "sync");
  assertEquals([started.code, started.out()], [0, ""]);
  const { code, out, err } = await said("image", "sync", "--wait");
  assertEquals([code, out()], [
    0,
    "partial, 3 h ago: 1 added, 2 changed, 0 removed, 9 unchanged\n",
  ]);
  assertEquals(
    err(),
    "zonewright: v1/distros/a/index.json: expected an object\\x1b[2J\n" +
      "zonewright: v1/distros/b/index.json $.id: must not be empty; the previous one stays\n",
  );
});

const PREVIEW = {
  dry_run: true,
  upstream: "https://images.example",
  outcome: "partial",
  added: 1,
  changed: 1,
  removed: 2,
  unchanged: 9,
  bytes_put: 4096,
  bytes_removed: 2048,
  changes: [
    { change: "+", document: "v1/a.json", bytes: 1024 },
    { change: "~", document: "v1/b\x1b.json", bytes: 3072 },
    { change: "-", document: "v1/c.json", bytes: 2048 },
  ],
  problems: [],
};

/** A server whose sync lasts until the test ends it, and the bodies that were sent. */
function serveSync(answer: object) {
  const held = Promise.withResolvers<void>();
  const bodies: unknown[] = [];
  const progress = { phase: "list", documents: 0, total: 3, bytes: 0 };
  let polls = 0;
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    if (request.method === "GET") {
      polls += 1;
      return Response.json({ syncing: true, progress });
    }
    bodies.push(await request.json());
    await held.promise;
    return Response.json(answer);
  });
  const url = `http://127.0.0.1:${server.addr.port}`;
  return { server, url, bodies, progress, end: held.resolve, polls: () => polls };
}

Deno.test("image sync --dry-run lists what would change, and its sums", async () => {
  const { server, url, bodies, end } = serveSync(PREVIEW);
  end();
  try {
    const screen = screenFor(url);
    assertEquals(await screen.run("image", "sync", "--dry-run", "--accept-changed"), 0);
    assertEquals(bodies, [{ dry_run: true, accept_changed: true }]);
    assertEquals(
      screen.out(),
      [
        "+ v1/a.json  1 KiB",
        "~ v1/b\\x1b.json  3 KiB",
        "- v1/c.json  2 KiB",
        "... and 1 more",
        "partial: 1 to add, 1 to change, 2 to remove, 9 unchanged; 4 KiB to write, 2 KiB to free",
        "",
      ].join("\n"),
    );
    const json = screenFor(url);
    assertEquals(await json.run("image", "sync", "--dry-run", "--json"), 0);
    assertEquals(JSON.parse(json.out()), PREVIEW);
  } finally {
    await server.shutdown();
  }
});

Deno.test("image sync --wait reports its phases: in lines, or in one line that moves", async () => {
  for (const isTerminal of [false, true]) {
    const { server, url, progress, end, polls } = serveSync(SYNC);
    try {
      const screen = screenFor(url, { isTerminal, columns: 60, nowMs: () => 0 });
      const ended = screen.run("image", "sync", "--wait");
      await until("the list", () => screen.err().includes("reading the list  0 of 3  0 B"));
      Object.assign(progress, { phase: "documents", documents: 2, bytes: 2048 });
      await until("documents", () => screen.err().includes("reading documents  2 of 3  2 KiB"));
      const before = polls();
      await until("another look", () => polls() > before + 1);
      end();
      assertEquals(await ended, 0);
      const lines = screen.err().split("\n");
      // Said twice, it is written once where nothing moves.
      assertEquals(lines.filter((line) => line.startsWith("reading")).length, isTerminal ? 0 : 2);
      assertEquals(screen.err().includes("\x1b[2K"), isTerminal);
      assertEquals(screen.err().includes("███████████░░░░░"), isTerminal);
    } finally {
      end();
      await server.shutdown();
    }
  }
});

Deno.test("image sync --wait --curl prints its single call", async () => {
  const screen = openScreen();
  assertEquals(await screen.run("image", "sync", "--wait", "--curl"), 0);
  assertEquals(screen.out().trim().split("\n").length, 1);
  assertStringIncludes(screen.out(), '{"wait":true}');
});

Deno.test("image status shows the upstream and the last sync", async () => {
  const { out } = await said("image", "status");
  assertMatch(out(), /^index +https:\/\/images\.example$/m);
  assertMatch(out(), /^last sync +partial, 3 h ago/m);
  assertMatch(out(), /^syncing +documents, 4 of 9$/m);
  assertMatch(out(), /^age +3 h$/m);
});

Deno.test("status shows warnings first, then the host and what could not be read", async () => {
  const { code, out } = await said("status");
  assertEquals(code, 0);
  assertMatch(out(), /^warning: disk: 12 MiB free\n +zonewright media list\n/);
  assertMatch(out(), /^agent +http:.*, version 0\.1\.0, pid 7$/m);
  assertMatch(out(), /^host +gz-7 \(ssh\)$/m);
  assertMatch(out(), /^slots +4 of 8 in use$/m);
  assertMatch(out(), /^jobs +4 queued, 4 running, 0 waiting$/m);
  assertMatch(out(), /^failed in 24 h +2$/m);
  assertMatch(out(), /^machines +unknown$/m);
  assertMatch(out(), /^index age +3 h$/m);
  assertMatch(out(), /^leftovers +1$/m);
});

Deno.test("status --curl prints the one request that it would send", async () => {
  const screen = openScreen();
  assertEquals(await screen.run("status", "--curl"), 0);
  assertEquals(screen.out().trim().split("\n").length, 1);
});

const FOLLOWED = "11111111-1111-4111-8111-111111111111";

Deno.test("a job is followed over a restart of the agent", async () => {
  const job = (execution: string) => ({ uuid: FOLLOWED, name: "n", execution, chain: [] });
  const asked: string[] = [];
  // Ends at once, as an agent that is killed: a graceful end would wait for idle connections.
  const restart = new AbortController();
  const place = { hostname: "127.0.0.1", onListen: () => {} };
  const first = Deno.serve({ ...place, port: 0, signal: restart.signal }, ({ url }) => {
    asked.push(url);
    if (url.includes("/events")) return noEvents();
    return Response.json(url.includes("/info") ? [] : job("running"));
  });
  const { port } = first.addr;
  const screen = screenFor(`http://127.0.0.1:${port}`);
  const ended = screen.run("job", "wait", FOLLOWED);
  await until("a poll", () => asked.filter((url) => url.includes("/events")).length >= 2);
  restart.abort();
  await first.finished;
  const end = new AbortController();
  const second = Deno.serve({ ...place, port, signal: end.signal }, ({ url }) => {
    // It has not kept what happened meanwhile.
    if (url.includes("/events")) return resetEvents();
    return Response.json(url.includes("/info") ? [] : job("success"));
  });
  try {
    assertEquals(await ended, 0);
  } finally {
    end.abort();
    await second.finished;
  }
});

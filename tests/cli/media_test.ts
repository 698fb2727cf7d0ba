// `media` against a small server that answers as the agent does.

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { noEvents, screenFor } from "./screen.ts";

const HEX = "ab".repeat(32);
const OTHER = "cd".repeat(32);
const JOB = "51fe1f0c-2f6c-4a33-9c0a-7f2f3f9d8e10";
const FILE = {
  digest: `sha256:${HEX}`,
  name: "a.iso",
  path: `/var/lib/zonewright/media/sha256-${HEX}/a.iso`,
  size: 1_048_576,
  level: "vendor",
  last_used_at: "2026-01-01T12:00:00.000Z",
  used_by: [JOB],
};
const MEDIUM = { path: FILE.path, sha256: HEX, size: FILE.size, name: "a.iso" };

const LIBRARY = {
  folders: [
    { path: "/media", place: "folder", problem: "it does not exist" },
    { path: "/up", place: "upload", problem: null },
  ],
  files: [
    { ...FILE, place: "cache", folder: null, kind: "iso", boot_record: true, problem: null },
    {
      name: "b.img",
      place: "upload",
      folder: "/up",
      size: 10,
      kind: "qcow2",
      problem: "it is a qcow2 file",
      digest: null,
      level: null,
      used_by: [],
    },
  ],
  truncated: false,
  cache: { bytes: 1_048_576, bytes_max: 64 * 1024 ** 3 },
};

interface Sent {
  readonly line: string;
  readonly body: unknown;
}

/** A server with two files, whose jobs have ended when they are asked for. */
async function withAgent(
  run: (url: string, sent: Sent[]) => Promise<void>,
  execution = "succeeded",
): Promise<void> {
  const sent: Sent[] = [];
  const job = {
    uuid: JOB,
    name: "fetch-medium",
    execution,
    chain: [{ name: "fetch" }],
    chain_results: [{ name: "fetch", result: MEDIUM, error: execution === "failed" ? "no" : "" }],
  };
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const { pathname } = new URL(request.url);
    const line = `${request.method} ${decodeURIComponent(pathname)}`;
    if (pathname === "/agent/v1/events") return noEvents();
    const text = await request.text();
    sent.push({ line, body: text === "" ? undefined : JSON.parse(text) });
    if (line === "GET /agent/v1/media/library") return Response.json(LIBRARY);
    if (line === "DELETE /agent/v1/media/library/b.iso") {
      return Response.json({ name: "b.iso", removed: "uploaded file", path: "/up/b.iso" });
    }
    if (line === "GET /agent/v1/media") {
      return Response.json([FILE, { ...FILE, digest: `sha256:${OTHER}`, used_by: [] }]);
    }
    if (line.startsWith("GET /agent/v1/media/")) return Response.json(FILE);
    if (request.method === "POST") return Response.json({ job_uuid: JOB }, { status: 202 });
    if (request.method === "DELETE") return new Response(null, { status: 204 });
    return Response.json(pathname.endsWith("/info") ? [] : job);
  });
  try {
    await run(`http://127.0.0.1:${server.addr.port}`, sent);
  } finally {
    await server.shutdown();
  }
}

Deno.test("media add recognizes a path, a URL and an artifact by their form", async () => {
  await withAgent(async (url, sent) => {
    const rows: [string[], unknown][] = [
      [["debian/13:1?format=iso&arch=aarch64"], {
        artifact: { distro: "debian", release: "13", build: "1", format: "iso", arch: "aarch64" },
      }],
      [["debian/13", "--check", "signature"], {
        artifact: { distro: "debian", release: "13" },
        check: "signature",
      }],
      [["https://h/a.raw.xz", "--sha256", HEX.toUpperCase(), "--compression", "xz"], {
        url: "https://h/a.raw.xz",
        digest: `sha256:${HEX}`,
        compression: "xz",
      }],
      [["https://h/a.raw", "--allow-unverified"], {
        url: "https://h/a.raw",
        allow_unverified: true,
      }],
      [["/media/a.qcow2"], { path: "/media/a.qcow2" }],
      [["./a.iso"], { path: "/a.iso" }],
      [["a.iso"], { path: "a.iso" }],
    ];
    for (const [args, body] of rows) {
      sent.length = 0;
      const screen = screenFor(url);
      assertEquals(await screen.run("media", "add", ...args), 0);
      assertEquals(sent, [{ line: "POST /agent/v1/media", body }]);
      assertEquals(screen.out(), `${JOB}\n`);
    }
  });
});

Deno.test("media add refuses contradicting words before any call", async () => {
  await withAgent(async (url, sent) => {
    const rows = [
      ["https://h/a.iso"],
      ["https://h/a.iso", "--sha256", "12"],
      ["https://h/a.iso", "--sha256", HEX, "--sha512", HEX + HEX],
      ["a.iso", "--check", "none"],
      ["debian/13", "--compression", "xz"],
      ["debian/13", "--check", "best"],
      ["debian/13?flavour=x"],
      ["debian/"],
      ["ftp://h/a.iso"],
      [""],
      ["debian/13", "--wait", "--timeout", "soon"],
    ];
    for (const args of rows) {
      const screen = screenFor(url);
      assertEquals([args, await screen.run("media", "add", ...args)], [args, 2]);
    }
    assertEquals(sent, []);
  });
});

Deno.test("media add --wait shows the file, and --json the job", async () => {
  await withAgent(async (url) => {
    const screen = screenFor(url);
    assertEquals(await screen.run("media", "add", "debian/13", "--wait"), 0);
    for (const words of [`sha256:${HEX}`, FILE.path, "vendor"]) {
      assertStringIncludes(screen.out(), words);
    }
    const json = screenFor(url);
    assertEquals(await json.run("media", "add", "debian/13", "--wait", "--json"), 0);
    assertEquals(JSON.parse(json.out()).uuid, JOB);
  });
});

Deno.test("media add --wait exits 5 when the job has failed", async () => {
  await withAgent(async (url) => {
    assertEquals(await screenFor(url).run("media", "add", "debian/13", "--wait"), 5);
  }, "failed");
});

Deno.test("media list shows folders, uploads and cache, and the whole library with --json", async () => {
  await withAgent(async (url) => {
    const screen = screenFor(url);
    assertEquals(await screen.run("media", "list"), 0);
    const [, cached = "", uploaded = ""] = screen.out().split("\n");
    assertMatch(cached, /^a\.iso +1 MiB +iso +cache +abababababababab +vendor +1$/);
    assertMatch(uploaded, /^b\.img +10 B +qcow2! +\/up +- +- +0$/);
    assertEquals(screen.err(), "/media: it does not exist\ncache: 1 MiB, of 64 GiB\n");
    const json = screenFor(url);
    await json.run("media", "list", "--json");
    assertEquals(JSON.parse(json.out()), LIBRARY);
  });
});

Deno.test("media rm reports what it removed, by name and by digest", async () => {
  await withAgent(async (url) => {
    const screen = screenFor(url);
    assertEquals(await screen.run("media", "rm", "b.iso", HEX), 0);
    assertEquals(screen.err(), `removed uploaded file: /up/b.iso\nremoved a.iso: ${FILE.path}\n`);
    const json = screenFor(url);
    assertEquals([await json.run("media", "rm", "b.iso", HEX, "--json"), json.err()], [0, ""]);
    const [uploaded, cached] = JSON.parse(json.out());
    assertEquals([uploaded.path, cached.path], ["/up/b.iso", FILE.path]);
    const half = screenFor(url);
    assertEquals([await half.run("media", "rm", "b.iso", "zz", "--json"), half.out()], [4, ""]);
    assertStringIncludes(JSON.parse(half.err()).message, "; removed before that: /up/b.iso");
  });
});

Deno.test("media verify and rm take a digest, or the first digits of one", async () => {
  await withAgent(async (url, sent) => {
    for (const digest of [HEX, `sha256:${HEX}`, HEX.slice(0, 16)]) {
      sent.length = 0;
      assertEquals(await screenFor(url).run("media", "rm", digest), 0);
      assertStringIncludes(sent.at(-1)?.line ?? "", HEX);
      assertEquals(await screenFor(url).run("media", "verify", digest), 0);
      assertStringIncludes(sent.at(-1)?.line ?? "", `${HEX}/verify`);
    }
    assertEquals(await screenFor(url).run("media", "verify"), 2);
    assertEquals(await screenFor(url).run("media", "verify", HEX, "--all"), 2);
  });
});

Deno.test("media verify --all reads every file, and is one document with --json", async () => {
  await withAgent(async (url, sent) => {
    const screen = screenFor(url);
    assertEquals(await screen.run("media", "verify", "--all", "--wait", "--json"), 0);
    assertEquals(JSON.parse(screen.out()).length, 2);
    const posts = sent.filter(({ line }) => line.startsWith("POST"));
    assertEquals(posts.map(({ line }) => line), [
      `POST /agent/v1/media/sha256:${HEX}/verify`,
      `POST /agent/v1/media/sha256:${OTHER}/verify`,
    ]);
  });
});

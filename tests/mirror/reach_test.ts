import { assertEquals, assertStringIncludes } from "@std/assert";
import type { MirrorDependencies } from "../../src/mirror/mirror.ts";
import { openIndexServer } from "./index_server.ts";
import { withMirror } from "./test_mirror.ts";
import { artifact, digestsOf, ISO, PATH, patterned, rejection } from "./vendor_file.ts";

const [SHA256] = await digestsOf(ISO);

/** Names of the tests, and what they resolve to. */
const ADDRESSES: Readonly<Record<string, string>> = {
  "images.example.com": "192.0.2.10",
  "mirror.example.com": "198.51.100.7",
  "cache.internal": "10.0.0.5",
  "inside.internal": "10.0.0.6",
};

/** Speaks https with names that lead to the tests' server, so that nobody leaves this host. */
function withNames(
  run: (test: {
    get(url: string): Promise<unknown>;
    location(url: string): Promise<unknown>;
    readonly redirects: Map<string, string>;
    readonly asked: string[];
  }) => Promise<void>,
  changes: Partial<MirrorDependencies> = {},
): Promise<void> {
  const redirects = new Map<string, string>();
  const asked: string[] = [];
  const fetch: typeof globalThis.fetch = (input) => {
    const url = String(input);
    asked.push(url);
    const to = redirects.get(url);
    if (to !== undefined) {
      return Promise.resolve(new Response(null, { status: 302, headers: { location: to } }));
    }
    return Promise.resolve(new Response(new Uint8Array(ISO)));
  };
  const resolve = (name: string) => Promise.resolve([ADDRESSES[name] ?? "127.0.0.1"]);
  const upstream = "https://images.example.com/";
  return withMirror(async ({ mirror }) => {
    await run({
      get: (url) => mirror.downloadUrl(url, SHA256),
      location: async (url) => await mirror.download(await artifact(url)),
      redirects,
      asked,
    });
  }, { fetch, resolve, upstream, allowHttp: false, ...changes });
}

Deno.test("downloadUrl() asks the host of the upstream and no other that is not named", async () => {
  await withNames(async ({ get, asked }) => {
    await get(`https://images.example.com/${PATH}`);
    const error = await rejection(get(`https://mirror.example.com/${PATH}`));
    assertEquals([error.code, asked.length], ["forbidden", 1]);
    assertStringIncludes(error.message, "the setting download_host does not name it");
    // The port belongs to the name.
    await rejection(get(`https://images.example.com:8443/${PATH}`));
    assertEquals(asked.length, 1);
  });
});

Deno.test("downloadUrl() asks a host of the allow list, also one that is not public", async () => {
  const allowedHosts = ["cache.internal", "mirror.example.com"];
  await withNames(async ({ get, asked }) => {
    await get("https://cache.internal/disk.raw");
    await rejection(get("https://inside.internal/disk.raw"));
    await rejection(get("http://cache.internal/disk.raw"));
    assertEquals(asked, ["https://cache.internal/disk.raw"]);
  }, { allowedHosts });
});

Deno.test("downloadUrl() asks the hosts that locations of the index name", async () => {
  const url = "https://vendor.example/a.raw";
  await withMirror(async ({ mirror, store, again }) => {
    await mirror.sync();
    const hosts = new Set<string>();
    for (const { path } of await store.index.list()) {
      const document = await store.index.get(path);
      const text = new TextDecoder().decode(document?.body);
      for (const [, host] of text.matchAll(/"url": ?"https:\/\/([^/"]+)/g)) hosts.add(host ?? "");
    }
    const asked: string[] = [];
    const offline = again({
      allowHttp: false,
      upstream: null,
      resolve: () => Promise.resolve(["192.0.2.1"]),
      fetch: (input) => {
        asked.push(new URL(String(input)).host);
        return Promise.resolve(new Response(null, { status: 404 }));
      },
    });
    const known = [...hosts][0] ?? "";
    assertStringIncludes(
      (await rejection(offline.downloadUrl(`https://${known}/a.raw`, SHA256))).message,
      "the server answered 404",
    );
    assertEquals((await rejection(offline.downloadUrl(url, SHA256))).code, "forbidden");
    assertEquals(asked, [known]);
  });
});

Deno.test("a location is never at an address of this host, of its link or of a private network", async () => {
  await withNames(async ({ location, asked }) => {
    for (const host of ["inside.internal", "127.0.0.1", "[::1]", "169.254.169.254", "localhost"]) {
      const error = await rejection(location(`https://${host}/disk.raw`));
      assertStringIncludes(error.message, "is not public");
    }
    assertEquals(asked, []);
  });
});

Deno.test("every redirect is checked, and their number is limited", async () => {
  await withNames(async ({ location, redirects, asked }) => {
    const from = "https://images.example.com/disk.raw";
    const cases: [string, string][] = [
      ["https://127.0.0.1/disk.raw", "is not public"],
      ["https://inside.internal/disk.raw", "is not public"],
      ["https://cache.internal/disk.raw", "is not public"],
      ["http://mirror.example.com/disk.raw", "expected an https: address"],
      ["file:///etc/passwd", "expected an https: address"],
      [from, "it redirects over 5 times"],
    ];
    for (const [to, words] of cases) {
      redirects.set(from, to);
      asked.length = 0;
      assertStringIncludes((await rejection(location(from))).message, words, to);
      assertEquals(asked.filter((url) => url !== from), []);
    }
    redirects.set(from, "https://mirror.example.com/disk.raw");
    await location(from);
  }, { allowedHosts: ["images.example.com", "mirror.example.com"] });
});

Deno.test("an upstream over http allows downloads from its own host, and from no other private one", async () => {
  await using inside = openIndexServer(new Map([[PATH, { body: ISO }]]));
  await withMirror(async ({ mirror, server, again }) => {
    server.files.set(PATH, { body: ISO });
    await mirror.download(await artifact(`${server.url}/${PATH}`));
    const other = await artifact(`${inside.url}/${PATH}`, { body: patterned(5000, 9) });
    assertStringIncludes((await rejection(mirror.download(other))).message, "is not public");
    server.faults.set("away.raw", Array(9).fill({ kind: "redirect", to: `${inside.url}/${PATH}` }));
    const away = await artifact(`${server.url}/away.raw`, { body: patterned(5000, 9) });
    assertStringIncludes((await rejection(mirror.download(away))).message, "is not public");
    assertEquals(inside.received, []);
    const allowedHosts = [new URL(inside.url).host];
    inside.files.set(PATH, { body: patterned(5000, 9) });
    await again({ allowedHosts }).download(other);
  });
});

Deno.test("a vendor's document may be on a host of the allow list that is not public", async () => {
  const url = "https://cache.internal/disk.raw";
  const signed = await artifact(url, { digests: [SHA256] });
  const source = { format: "bare", url: `${url}.sha256`, filename: null };
  const digests = [{ ...SHA256, source }];
  const integrity = { digests, http: null, signatures: [] };
  const found = { ...signed, artifact: { ...signed.artifact, integrity } };
  const fetch: typeof globalThis.fetch = (input) =>
    Promise.resolve(
      new Response(String(input) === url ? new Uint8Array(ISO) : `${SHA256.value}\n`),
    );
  const resolve = (name: string) => Promise.resolve([ADDRESSES[name] ?? "127.0.0.1"]);
  await withMirror(async ({ mirror, again }) => {
    const refused = await rejection(mirror.download(found, { check: "vendor" }));
    assertStringIncludes(refused.message, "is not public");
    const named = again({ allowedHosts: ["cache.internal"] });
    assertEquals((await named.download(found, { check: "vendor" })).level, "vendor");
  }, { fetch, resolve, allowHttp: false, upstream: null });
});

// Where an upstream may send a sync: nowhere but to public servers of its own scheme. A canary on the
// loopback address must never be asked. The upstream is an https address whose requests a test answers
// with a local server; every other request would go out for real.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { openIndexServer } from "./index_server.ts";
import { edit, storedTree, type TestMirror, withMirror } from "./test_mirror.ts";

const LIST = "v1/index.json";
const BASALT = "v1/distros/basalt/index.json";
const UPSTREAM = "https://index.example.com";
/** Names that lead where no name should. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  "public.example.com": ["93.184.215.14"],
  "loopback.example.com": ["127.0.0.1"],
  "both.example.com": ["93.184.215.14", "::1"],
  "metadata.example.com": ["169.254.169.254"],
  "mapped.example.com": ["::ffff:127.0.0.1"],
  "nobody.example.com": [],
};

/** Addresses that a redirect may name; PORT is the canary's. */
const ADDRESSES: readonly string[] = [
  "http://127.0.0.1:PORT/",
  "https://127.0.0.1:PORT/",
  "//127.0.0.1:PORT/",
  "https://localhost:PORT/",
  "https://[::1]:PORT/",
  "https://[::ffff:127.0.0.1]:PORT/",
  "https://[::ffff:7f00:1]:PORT/",
  "https://[64:ff9b::7f00:1]:PORT/",
  "https://[2002:7f00:1::]:PORT/",
  "https://[fe80::1]:PORT/",
  "https://[fd00::1]:PORT/",
  "https://[ff02::1]:PORT/",
  "https://[::]:PORT/",
  "https://2130706433:PORT/",
  "https://0x7f.1:PORT/",
  "https://0177.0.0.1:PORT/",
  "https://127.1:PORT/",
  "https://0.0.0.0:PORT/",
  "https://10.0.0.1:PORT/",
  "https://100.64.0.1/",
  "https://169.254.169.254/latest/meta-data/",
  "https://172.16.0.1/",
  "https://192.168.1.1/",
  "https://198.18.0.1/",
  "https://224.0.0.1/",
  "https://255.255.255.255/",
  "https://loopback.example.com:PORT/",
  "https://both.example.com:PORT/",
  "https://metadata.example.com/",
  "https://mapped.example.com:PORT/",
  "https://nobody.example.com/",
  "https://index.example.com@127.0.0.1:PORT/",
  "https://user:password@index.example.com/",
  "http://index.example.com/",
  "file:///etc/passwd",
  "gopher://127.0.0.1:PORT/",
  "ftp://127.0.0.1:PORT/",
  "unix:///var/run/docker.sock",
  "data:application/json,{}",
  "javascript:1",
  "blob:https://index.example.com/1",
];

/** A mirror behind https, and the addresses that it really asked. */
async function withReach(
  run: (test: TestMirror, seen: { asked: string[]; port: number }) => Promise<void>,
): Promise<void> {
  await using canary = openIndexServer();
  let local = "";
  const asked: string[] = [];
  const port = Number(new URL(canary.url).port);
  const routed: typeof fetch = async (input, init) => {
    const url = new URL(String(input instanceof Request ? input.url : input));
    asked.push(url.href);
    const served = url.protocol === "https:" && /^(index|public)\.example\.com$/.test(url.host);
    return await fetch(served ? local + url.pathname : url, init);
  };
  const resolve = (name: string) => Promise.resolve(NAMES[name] ?? []);
  await withMirror(async (test) => {
    local = test.server.url;
    await run(test, { asked, port });
    assertEquals(canary.received, []);
  }, { upstream: UPSTREAM, allowHttp: false, fetch: routed, resolve });
}

Deno.test(`sync() refuses ${ADDRESSES.length} redirects to private and reserved addresses`, async () => {
  await withReach(async ({ mirror, server, store }, { asked, port }) => {
    assertEquals((await mirror.sync()).outcome, "complete");
    const before = await storedTree(store);
    for (const address of ADDRESSES) {
      const to = address.replace("PORT", String(port));
      edit(server, BASALT, (distro) => distro.name = to);
      server.faults.set(BASALT, Array(9).fill({ kind: "redirect", to }));
      asked.length = 0;
      const { problems } = await mirror.sync();
      assertEquals(problems.map(({ document }) => document), [BASALT], to);
      assertEquals(asked.filter((url) => !url.startsWith(`${UPSTREAM}/v1/`)), [], to);
      assertEquals(await storedTree(store), before, to);
    }
  });
});

/** Name, the addresses of a chain, and words of the refusal or null when it is followed. */
const CHAINS: readonly (readonly [string, readonly string[], string | null])[] = [
  ["one to a path", ["/moved.json"], null],
  ["one to a public host", ["https://public.example.com/moved.json"], null],
  ["five", ["/1", "/2", "https://public.example.com/3", "/4", "/moved.json"], null],
  ["six", ["/1", "/2", "/3", "/4", "/5", "/moved.json"], "redirects over 5 times"],
  ["a circle of two", ["/1", "/2", "/1", "/2", "/1", "/2", "/1"], "redirects over 5 times"],
  [
    "one that leaves https late",
    ["/1", "http://public.example.com/2"],
    "expected an https: address",
  ],
  ["one that ends on this host", ["/1", "https://loopback.example.com/2"], "is not public"],
];

for (const [name, chain, words] of CHAINS) {
  Deno.test(`sync() judges every step of a chain of redirects: ${name}`, async () => {
    await withReach(async ({ mirror, server, store }) => {
      const { body } = server.files.get(BASALT) ?? { body: new Uint8Array() };
      server.files.set("moved.json", { body });
      let path = BASALT;
      for (const to of chain) {
        const faults = server.faults.get(path) ?? [];
        server.faults.set(path, [...faults, { kind: "redirect", to }]);
        path = new URL(to, UPSTREAM).pathname.slice(1);
      }
      const { outcome, problems } = await mirror.sync();
      assertEquals(outcome, words === null ? "complete" : "partial");
      if (words !== null) assertStringIncludes(problems[0]?.message ?? "", words);
      else assertEquals((await store.index.get(BASALT))?.body, body);
    });
  });
}

Deno.test("an upstream that is not public is asked only because the operator named it", async () => {
  await withMirror(async ({ again, server }) => {
    server.faults.set(LIST, [{ kind: "redirect", to: "https://127.0.0.1:1/" }]);
    const refused = await again({ upstream: "https://127.0.0.1:2", allowHttp: false }).sync();
    assertEquals(refused.outcome, "failed");
    assert(!refused.problems[0]?.message.includes("is not public"));
    assertEquals(server.received, []);
  });
});

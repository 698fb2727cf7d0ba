import { assert, assertEquals, assertRejects } from "@std/assert";
import { Hono } from "hono";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { AgentError, messageOf } from "../../src/domain/error.ts";
import type { HttpEnv } from "../../src/http/served_agent.ts";
import { headChecked } from "../../src/http/request/head_check.ts";
import { type App, listen, type Server } from "../../src/http/server.ts";
import { readTlsIdentity } from "../../src/http/listen/listener.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { GRACE_MS, LISTENING } from "../support/listening.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { programTest } from "../support/program.ts";
import { until, withFolder } from "../support/until.ts";
import { listed, rawCall } from "./raw_call.ts";
import { makeCertificate, type TlsPaths } from "./tls_files.ts";

const APP: App = { fetch: (_request, { secure }) => new Response(secure ? "secure" : "plain") };
const LOCAL = { hostname: "127.0.0.1", port: 0 };

/** Runs a test with TLS served in both ways. */
async function withTls(
  run: (server: Server, paths: TlsPaths, folder: string) => Promise<void>,
  app: App = APP,
): Promise<void> {
  for (const relayed of [false, true]) {
    await withFolder(async (folder) => {
      const paths = await makeCertificate(folder, "first");
      const tls = await readTlsIdentity(paths);
      const options = {
        ...LISTENING,
        tcp: LOCAL,
        tls,
        relayed,
      };
      const server = await listen(app, options);
      try {
        await run(server, paths, folder);
      } finally {
        await server.shutdown(100);
      }
    });
  }
}

async function getBy(certPath: string, url: string): Promise<string> {
  const client = Deno.createHttpClient({ caCerts: [await Deno.readTextFile(certPath)] });
  try {
    return await (await fetch(url, { client })).text();
  } finally {
    client.close();
  }
}

programTest(
  "openssl",
  "TLS is spoken on the port, and plain HTTP there gets nowhere",
  () =>
    withTls(async ({ urls: [url = ""], port = 0 }, { certPath }) => {
      assert(url.startsWith("https://127.0.0.1:"), url);
      assertEquals(await getBy(certPath, url), "secure");
      const plain = listed(["GET / HTTP/1.1", "Host: localhost"]);
      assertEquals((await rawCall(port, plain, { firstOnly: true })).status, 0);
      await assertRejects(() => fetch(url)); // Nobody has said that this certificate is to be trusted.
      assertEquals(await getBy(certPath, url), "secure");
    }),
);

programTest("openssl", "another certificate is taken, and requests under way are answered", () => {
  let gate = Promise.withResolvers<void>();
  let entered = false;
  const app: App = {
    fetch: async ({ url }) => {
      if (url.endsWith("/slow")) {
        entered = true;
        await gate.promise;
      }
      return new Response("done");
    },
  };
  return withTls(async (server, first, folder) => {
    gate = Promise.withResolvers();
    entered = false;
    const [url = ""] = server.urls;
    const underWay = getBy(first.certPath, `${url}/slow`);
    await until("the request to be under way", () => entered);
    const second = await makeCertificate(folder, "second");
    server.replaceTls(await readTlsIdentity(second));
    const renewed = until(
      "the second certificate to be served",
      () => getBy(second.certPath, url).catch(() => undefined),
    );
    gate.resolve();
    assertEquals(await underWay, "done");
    assertEquals(await renewed, "done");
    await assertRejects(() => getBy(first.certPath, url));
  }, app);
});

programTest(
  "openssl",
  "readTlsIdentity() refuses what cannot be served",
  () =>
    withFolder(async (folder) => {
      const one = await makeCertificate(folder, "one");
      const other = await makeCertificate(folder, "other");
      const codeOf = async (paths: TlsPaths) =>
        (await assertRejects(() => readTlsIdentity(paths), AgentError)).code;
      assertEquals(await codeOf({ ...one, keyPath: other.keyPath }), "invalid_argument");
      assertEquals(await codeOf({ ...one, certPath: one.keyPath }), "invalid_argument");
      assertEquals(await codeOf({ ...one, keyPath: `${folder}/none` }), "invalid_argument");
      await Deno.chmod(one.keyPath, 0o644);
      assertEquals(await codeOf(one), "forbidden");
      await new Deno.Command("mkfifo", { args: [`${folder}/pipe`] }).output();
      assertEquals(await codeOf({ ...other, certPath: `${folder}/pipe` }), "invalid_argument");
    }),
);

programTest(
  "openssl",
  "listening beyond loopback wants both a token and TLS",
  () =>
    withFolder(async (folder) => {
      const tls = await readTlsIdentity(await makeCertificate(folder, "one"));
      const everywhere = {
        ...LISTENING,
        tcp: { hostname: "0.0.0.0", port: 0 },
        connections: DEFAULT_LIMITS,
        log: silentLog,
      };
      const messageOf = async (options: object) =>
        (await assertRejects(() => listen(APP, { ...everywhere, ...options }), AgentError)).message;
      assert((await messageOf({})).endsWith("there must be a token and TLS"));
      assert((await messageOf({ tls })).endsWith("there must be a token"));
      assert((await messageOf({ tokenRequired: true })).endsWith("there must be TLS"));
      await (await listen(APP, { ...everywhere, tls, tokenRequired: true })).shutdown(GRACE_MS);
    }),
);

programTest("openssl", "HTTP/2, which has no Host header, is held to the same names", async () => {
  const app = new Hono<HttpEnv>();
  app.use(headChecked({ limits: DEFAULT_HTTP_LIMITS, allowedHosts: [] }));
  app.onError((error) => new Response(messageOf(error), { status: 403 }));
  app.get("/", (c) => c.text("mine"));
  await withTls(async ({ urls: [url = ""] }, { certPath }) => {
    assertEquals(await getBy(certPath, url), "mine");
    const caCerts = [await Deno.readTextFile(certPath)];
    const client = Deno.createHttpClient({ caCerts, http1: false, http2: true });
    assertEquals(await (await fetch(url, { client })).text(), "mine");
    client.close();
    const foreign = new Request("https://evil.example/");
    assertEquals((await app.request(foreign, undefined, { secure: true })).status, 403);
  }, app);
});

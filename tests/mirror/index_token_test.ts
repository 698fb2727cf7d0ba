// The token of a private index: shown to its own server over TLS, for documents and files, and to
// nobody else, wherever documents and redirects lead.

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { AgentError } from "../../src/domain/error.ts";
import { readSecretFile } from "../../src/state_dir/secret_file.ts";
import { makeCertificate } from "../http/tls_files.ts";
import { programTest } from "../support/program.ts";
import { withFolder } from "../support/until.ts";
import { fixtureFiles } from "./index_server.ts";
import { type TestMirror, withMirror } from "./test_mirror.ts";
import { artifact, ISO, PATH, rejection } from "./vendor_file.ts";

const TOKEN = "private-index-token";

interface Asked {
  readonly path: string;
  readonly authorization: string | null;
}

interface Servers {
  readonly test: TestMirror;
  readonly own: { readonly url: string; readonly asked: Asked[] };
  readonly other: { readonly url: string; readonly asked: Asked[] };
  /** The file of the token. */
  readonly path: string;
}

/** A private index that knows one token, and another server; both speak TLS for real. */
async function withServers(run: (servers: Servers) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const { certPath, keyPath } = await makeCertificate(folder, "localhost");
    const [cert, key] = [await Deno.readTextFile(certPath), await Deno.readTextFile(keyPath)];
    const files = await fixtureFiles();
    const path = join(folder, "token");
    await Deno.writeTextFile(path, `${TOKEN}\n`, { mode: 0o600 });
    const serve = (answer: (path: string, known: boolean) => Response) => {
      const asked: Asked[] = [];
      const options = { hostname: "localhost", port: 0, cert, key, onListen: () => {} };
      const server = Deno.serve(options, ({ url, headers }) => {
        const { pathname } = new URL(url);
        const authorization = headers.get("authorization");
        asked.push({ path: pathname.slice(1), authorization });
        return answer(pathname.slice(1), authorization === `Bearer ${TOKEN}`);
      });
      return { server, asked, url: `https://localhost:${server.addr.port}` };
    };
    const other = serve(() => new Response(ISO.slice()));
    const own = serve((asked, known) => {
      if (!known) return new Response("who are you?", { status: 401 });
      if (asked === "away") {
        return new Response(null, { status: 302, headers: { location: `${other.url}/${PATH}` } });
      }
      const body = asked === PATH ? ISO : files.get(asked)?.body;
      return body === undefined ? new Response("", { status: 404 }) : new Response(body.slice());
    });
    const client = Deno.createHttpClient({ caCerts: [cert] });
    const hosts = [own.url, other.url].map((url) => new URL(url).host);
    try {
      await withMirror((test) => run({ test, own, other, path }), {
        upstream: own.url,
        allowedHosts: hosts,
        allowHttp: false,
        indexToken: () => readSecretFile(path),
        fetch: (input, init) => fetch(input, { ...init, client }),
      });
    } finally {
      client.close();
      await own.server.shutdown();
      await other.server.shutdown();
    }
  });
}

programTest(
  "openssl",
  "a private index is synced and its files are downloaded with its token",
  () =>
    withServers(async ({ test: { mirror }, own, other }) => {
      const report = await mirror.sync({});
      assertEquals([report.outcome, report.problems], ["complete", []]);
      await mirror.download(await artifact(`${own.url}/${PATH}`));
      assert(own.asked.length > 3);
      assertEquals(
        own.asked.filter(({ authorization }) => authorization !== `Bearer ${TOKEN}`),
        [],
      );
      assertEquals(other.asked, []);
    }),
);

programTest(
  "openssl",
  "another server is never shown the token, named or redirected to",
  () =>
    withServers(async ({ test: { mirror }, own, other }) => {
      await mirror.download(await artifact(`${own.url}/away`));
      assertEquals(own.asked.map(({ path }) => path), ["away"]);
      assertEquals(other.asked, [{ path: PATH, authorization: null }]);
      const body = ISO.slice(1);
      await rejection(mirror.download(await artifact(`${other.url}/${PATH}`, { body })));
      assert(other.asked.length > 1);
      assertEquals(other.asked.filter(({ authorization }) => authorization !== null), []);
    }),
);

programTest(
  "openssl",
  "a replaced token is used from the next request on, and a bad one is reported",
  () =>
    withServers(async ({ test: { mirror }, own, path }) => {
      await Deno.writeTextFile(path, "old");
      const refused = await mirror.sync({}).then(({ outcome }) => outcome, () => "refused");
      assert(refused !== "complete", refused);
      await Deno.writeTextFile(path, TOKEN);
      assertEquals((await mirror.sync({})).outcome, "complete");
      await Deno.chmod(path, 0o644);
      const before = own.asked.length;
      const error = await rejection(mirror.download(await artifact(`${own.url}/${PATH}`)));
      assertStringIncludes(error.message, "its mode is 0644, expected 0600");
      assertEquals(own.asked.length, before);
    }),
);

Deno.test("a secret is one word in a regular file of its owner, and no message shows it", () =>
  withFolder(async (folder) => {
    const path = join(folder, "secret");
    const write = (text: string) => Deno.writeTextFile(path, text, { mode: 0o600 });
    for (const text of ["s3cret", "s3cret\n", "s3cret\r\n"]) {
      await write(text);
      assertEquals(await readSecretFile(path), "s3cret");
    }
    for (
      const text of ["", "\n", "s3cret two", "s3cret\nX-Forged: 1", "s3cret\n\n", "s3cr\u00e9t"]
    ) {
      await write(text);
      const error = await assertRejects(() => readSecretFile(path), AgentError);
      assertEquals(error.code, "invalid_argument");
      assert(!error.message.includes("s3cr"), error.message);
    }
    await write("x".repeat(4097));
    await assertRejects(() => readSecretFile(path), AgentError, "4096");
    await write("x".repeat(64 * 1024 + 1));
    await assertRejects(() => readSecretFile(path), AgentError, "bytes long");
    for (const bad of [folder, join(folder, "none")]) {
      await assertRejects(() => readSecretFile(bad), AgentError, bad);
    }
  }));

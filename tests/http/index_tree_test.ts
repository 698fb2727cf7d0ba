import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { INDEX_OPENAPI } from "../../src/http/routes/index/openapi.ts";
import { STALE_MS } from "../../src/http/answer/document_cache.ts";
import { AGE_HEADER } from "../../src/http/answer/document_cache.ts";
import { edit } from "../mirror/test_mirror.ts";
import { served } from "./served_index.ts";

const AURORA = "v1/distros/aurora/index.json";

Deno.test("every document reaches the client byte for byte as the upstream sent it", async () => {
  await served(async ({ mirror, server }, url) => {
    await mirror.sync();
    for (const [path, { body }] of server.files) {
      const response = await fetch(`${url}/${path}`, {
        headers: { "accept-encoding": "identity" },
      });
      assertEquals(await response.bytes(), body, path);
      assertEquals(response.status, 200);
      assertEquals(response.headers.get("content-type"), "application/json");
      assertEquals(response.headers.get("content-length"), String(body.byteLength));
      assertEquals(response.headers.get("etag"), `"${await sha256(body)}"`);
    }
  });
});

Deno.test("a compressed answer holds the same bytes under an entity tag of its own", async () => {
  await served(async ({ mirror, server }, url) => {
    await mirror.sync();
    const path = "v1/distros/aurora/releases/24.2/index.json";
    const { body } = server.files.get(path) ?? { body: new Uint8Array() };
    for (const coding of ["gzip", "br"]) {
      const headers = { "accept-encoding": coding };
      const response = await fetch(`${url}/${path}`, { headers });
      assertEquals(response.headers.get("content-encoding"), coding);
      assertEquals(response.headers.get("vary"), "accept-encoding");
      assertEquals(await response.bytes(), body);
      const etag = response.headers.get("etag") ?? "";
      assertEquals(etag, `"${await sha256(body)}-${coding}"`);
      const again = await fetch(`${url}/${path}`, {
        headers: { ...headers, "if-none-match": etag },
      });
      assertEquals([again.status, again.headers.get("etag")], [304, etag]);
    }
  });
});

Deno.test("GET answers 304 to any tag of the document, to a list, a weak tag and a star", async () => {
  await served(async ({ mirror, server }, url) => {
    await mirror.sync();
    const { body } = server.files.get(AURORA) ?? { body: new Uint8Array() };
    const tag = `"${await sha256(body)}"`;
    const ask = async (headers: Record<string, string>) => {
      const all = { "accept-encoding": "identity", ...headers };
      const response = await fetch(`${url}/${AURORA}`, { headers: all });
      const size = (await response.bytes()).byteLength;
      if (response.status === 304) {
        assertEquals([size, response.headers.get("etag")], [0, tag]);
        assert(response.headers.has("last-modified"));
      }
      return response.status;
    };
    for (const match of [tag, `"a", W/${tag} , "b"`, "*", `${tag.slice(0, -1)}-gzip", ${tag}`]) {
      assertEquals(await ask({ "if-none-match": match }), 304, match);
    }
    for (const match of ['"other"', tag.slice(1, -1), ""]) {
      assertEquals(await ask({ "if-none-match": match }), 200, match);
    }
    const modified = "Thu, 01 Oct 2026 04:05:06 GMT";
    assertEquals(await ask({ "if-modified-since": modified }), 304);
    assertEquals(await ask({ "if-modified-since": "Thu, 01 Oct 2026 04:05:05 GMT" }), 200);
    assertEquals(await ask({ "if-modified-since": "yesterday" }), 200);
    // If-None-Match decides alone where both are sent.
    assertEquals(await ask({ "if-modified-since": modified, "if-none-match": '"x"' }), 200);
  });
});

Deno.test("HEAD returns the headers of GET without a body", async () => {
  await served(async ({ mirror, server }, url) => {
    await mirror.sync();
    const headers = { "accept-encoding": "identity" };
    const response = await fetch(`${url}/${AURORA}`, { method: "HEAD", headers });
    assertEquals([response.status, (await response.bytes()).byteLength], [200, 0]);
    const { body } = server.files.get(AURORA) ?? { body: new Uint8Array() };
    assertEquals(response.headers.get("content-length"), String(body.byteLength));
    assertEquals(response.headers.get("etag"), `"${await sha256(body)}"`);
    assertEquals(response.headers.get("last-modified"), "Thu, 01 Oct 2026 04:05:06 GMT");
  });
});

Deno.test("GET answers 404 for missing documents, and for invalid names", async () => {
  await served(async ({ mirror }, url) => {
    await mirror.sync();
    const paths = [
      "v1/distros/none/index.json",
      "v1/distros/aurora/releases/1/index.json",
      "v1/distros/aurora/releases/24.2/archive.json",
      "v1/distros/aurora/aliases/dev.json",
      "v1/distros/basalt/aliases/lts.json",
      "v1/distros/aurora%2Freleases%2F24.2/index.json",
      "v1/distros/..%2F../index.json",
      "v1/distros/aurora%00/index.json",
      `v1/distros/${"x".repeat(3000)}/index.json`,
      "v1/distros/cinder-os/aliases/stable.json",
    ];
    for (const path of paths) {
      const response = await fetch(`${url}/${path}`);
      assertEquals(response.status, 404, path);
      const body = await response.json();
      assertEquals(typeof body.message, "string");
    }
  });
});

Deno.test("GET looks up a path exactly as written, dots included", async () => {
  await served(async ({ mirror }, url) => {
    await mirror.sync();
    // fetch() would resolve the dots before it asks.
    for (const path of ["/v1/distros/../index.json", "/v1/distros/%2e%2e/index.json"]) {
      using connection = await Deno.connect({
        hostname: "127.0.0.1",
        port: Number(new URL(url).port),
      });
      const request = `GET ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`;
      await connection.write(new TextEncoder().encode(request));
      const answer = await new Response(connection.readable).text();
      assertStringIncludes(answer, "HTTP/1.1 404 Not Found");
    }
  });
});

Deno.test("GET before the first sync says that there is no index yet", async () => {
  await served(async (_test, url) => {
    const response = await fetch(`${url}/v1/index.json`);
    assertEquals(response.status, 404);
    assertStringIncludes((await response.json()).message, "the index has not been synced yet");
  });
});

Deno.test("GET shows the changes of a sync at once, although documents are cached", async () => {
  await served(async ({ mirror, server }, url) => {
    await mirror.sync();
    const read = async () => (await (await fetch(`${url}/${AURORA}`)).json()).name;
    assertEquals(await read(), "Aurora Linux");
    edit(server, AURORA, (distro) => distro.name = "New");
    assertEquals(await read(), "Aurora Linux");
    await mirror.sync();
    assertEquals(await read(), "New");
  });
});

Deno.test("GET shows the age of a tree that is stale or whose last sync failed", async () => {
  await served(async ({ mirror, server, clock }, url) => {
    await mirror.sync();
    const age = async () => {
      const response = await fetch(`${url}/${AURORA}`);
      await response.body?.cancel();
      return response.headers.get(AGE_HEADER);
    };
    assertEquals(await age(), null);
    const start = Date.parse(clock.now);
    clock.now = new Date(start + 60_000).toISOString();
    server.outage = { kind: "status", status: 403 };
    assertEquals((await mirror.sync()).outcome, "failed");
    assertEquals(await age(), "60");
    server.outage = undefined;
    await mirror.sync();
    assertEquals(await age(), null);
    clock.now = new Date(start + 60_000 + STALE_MS + 1000).toISOString();
    assertEquals(await age(), String(STALE_MS / 1000 + 1));
  });
});

Deno.test("GET /v1/openapi.json is the upstream's, or a complete one of the agent", async () => {
  await served(async ({ mirror, server }, url) => {
    const own = await (await fetch(`${url}/v1/openapi.json`)).json();
    assertEquals(own, INDEX_OPENAPI);
    await mirror.sync();
    const theirs = await (await fetch(`${url}/v1/openapi.json`)).json();
    assertEquals(theirs.info.title, "Example index");
    server.files.delete("v1/openapi.json");
    await mirror.sync();
    assertEquals(await (await fetch(`${url}/v1/openapi.json`)).json(), INDEX_OPENAPI);
  });
});

Deno.test("our description contains the eight operations, and no others", () => {
  const { paths } = INDEX_OPENAPI;
  assert(isJsonObject(paths));
  const ids = Object.values(paths).map((path) =>
    isJsonObject(path) && isJsonObject(path.get) ? path.get.operationId : undefined
  );
  assertEquals(ids.sort(), [
    "alias_dev",
    "alias_latest",
    "alias_lts",
    "distro",
    "distro_list",
    "openapi",
    "release_archive",
    "release_builds",
  ]);
  for (const [path, item] of Object.entries(paths)) {
    const inPath = Array.from(path.matchAll(/\{(\w+)\}/g), (match) => match[1]);
    const operation = (item as JsonObject).get as JsonObject;
    const named = ((operation.parameters ?? []) as JsonObject[]).map(({ name }) => name);
    assertEquals(named, inPath);
  }
  const texts = JSON.stringify(INDEX_OPENAPI);
  for (const [, section, name] of texts.matchAll(/#\/components\/(\w+)\/(\w+)/g)) {
    const components = INDEX_OPENAPI.components as Record<string, JsonObject>;
    assert(components[section ?? ""]?.[name ?? ""] !== undefined, name);
  }
  // OpenAPI 3.0 has no type null and no list of types.
  assert(!/"type":(\[|"null")/.test(texts));
});

async function sha256(body: Uint8Array): Promise<string> {
  const hash = await crypto.subtle.digest("SHA-256", new Uint8Array(body));
  return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// The sentences of document 1, and its table of endpoints, step by step against an agent that
// listens.

import { assert, assertEquals } from "@std/assert";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { edit, replace } from "../mirror/test_mirror.ts";
import { type IndexAgent, type IndexAnswer, withIndexAgent } from "./index_agent.ts";

type Step = readonly [words: string, run: (agent: IndexAgent) => Promise<void>];

function test(name: string, steps: readonly Step[]): void {
  Deno.test(`document 1: ${name}`, async (t) => {
    for (const [words, run] of steps) await t.step(words, () => withIndexAgent(run));
  });
}

function objectOf({ text }: IndexAnswer): JsonObject {
  const value: unknown = JSON.parse(text);
  assert(isJsonObject(value));
  return value;
}

function objectsIn(object: JsonObject, key: string): JsonObject[] {
  const value = object[key];
  assert(Array.isArray(value) && value.every(isJsonObject), key);
  return value;
}

/** Asserts an answer of the Error shape, and that its request id is that of the header. */
function assertRefused(answer: IndexAnswer, status: number, words = ""): void {
  assertEquals(answer.status, status, words);
  assertEquals(answer.headers.get("content-type"), "application/json", words);
  const { message, request_id, error_code } = objectOf(answer);
  assertEquals([typeof message, typeof error_code], ["string", "string"], words);
  assertEquals(request_id, answer.headers.get("x-request-id"), words);
}

const AURORA = "/v1/distros/aurora";
const BASALT = "/v1/distros/basalt";

/** Path, and what tells its document from others. */
const OPERATIONS: readonly (readonly [id: string, path: string, key: string])[] = [
  ["distro_list", "/v1/index.json", "distros"],
  ["distro", `${AURORA}/index.json`, "releases"],
  ["release_builds", `${AURORA}/releases/24.2/index.json`, "builds"],
  ["release_archive", `${AURORA}/releases/24.0/archive.json`, "builds"],
  ["alias_latest", `${AURORA}/aliases/latest.json`, "builds"],
  ["alias_lts", `${AURORA}/aliases/lts.json`, "builds"],
  ["alias_dev", `${BASALT}/aliases/dev.json`, "builds"],
  ["openapi", "/v1/openapi.json", "paths"],
];

test("every endpoint answers", [
  ...OPERATIONS.map(([id, path, key]): Step => [
    `${id}: GET answers 200 with the document as application/json`,
    async ({ get, server }) => {
      const answer = await get(path);
      assertEquals(answer.status, 200);
      assertEquals(answer.headers.get("content-type"), "application/json");
      assertEquals(answer.bytes, server.files.get(path.slice(1))?.body);
      assert(key in objectOf(answer));
    },
  ]),
  ["each is answered alike on the first request and on the later ones", async ({ get }) => {
    for (const [, path] of OPERATIONS) {
      for (const coding of ["identity", "gzip", "br"]) {
        const [first, ...later] = [
          await get(path, { "accept-encoding": coding, "x-request-id": "same" }),
          await get(path, { "accept-encoding": coding, "x-request-id": "same" }),
          await get(path, { "accept-encoding": coding, "request-id": "same" }),
          await get(`${path}?`, { "accept-encoding": coding, "x-request-id": "same" }),
        ];
        for (const one of later) {
          assertEquals(one.bytes, first?.bytes);
          assertEquals(comparable(one), first && comparable(first));
        }
      }
    }
  }],
  ["each is answered to HEAD with the headers of GET and without a body", async ({ get }) => {
    for (const [, path] of OPERATIONS) {
      const sent = { "x-request-id": "same" };
      const [head, body] = [await get(path, sent, "HEAD"), await get(path, sent)];
      assertEquals([head.status, head.bytes.byteLength], [200, 0]);
      assertEquals(comparable(head), comparable(body));
      assertEquals(head.headers.get("content-length"), String(body.bytes.byteLength));
    }
  }],
  ["each takes no query parameters: what is sent changes nothing", async ({ get }) => {
    for (const [, path] of OPERATIONS) {
      const plain = await get(path);
      assertEquals((await get(`${path}?limit=1&x=%00`)).bytes, plain.bytes);
    }
  }],
  ["each is read-only: other methods are refused", async ({ get }) => {
    for (const [, path] of OPERATIONS) {
      for (const method of ["POST", "PUT", "PATCH", "DELETE"]) {
        const answer = await get(path, { "content-type": "application/json" }, method);
        assertRefused(answer, 405, path);
        assertEquals(answer.headers.get("allow"), "GET, HEAD");
      }
    }
  }],
]);

/** The headers of an answer without those of the moment. */
function comparable({ headers }: IndexAnswer): Record<string, string> {
  const { date: _, connection: __, ...others } = Object.fromEntries(headers);
  return others;
}

test("the service does what it promises", [
  [
    "a distro leads to its releases, a release to its builds, a build to its artifacts",
    async ({ get }) => {
      let artifacts = 0;
      for (const distro of objectsIn(objectOf(await get("/v1/index.json")), "distros")) {
        const document = objectOf(await get(`/v1/distros/${distro.id}/index.json`));
        assertEquals([document.id, document.os_family], [distro.id, distro.os_family]);
        for (const release of objectsIn(document, "releases")) {
          const list = objectOf(
            await get(`/v1/distros/${distro.id}/releases/${release.id}/index.json`),
          );
          assertEquals([list.distro, list.release], [distro.id, release.id]);
          for (const build of objectsIn(list, "builds")) {
            artifacts += objectsIn(build, "artifacts").length;
          }
        }
      }
      assertEquals(artifacts, 11);
    },
  ],
  [
    "an alias is held by at most one release, and its file equals that release's",
    async ({ get, server, mirror }) => {
      for (const distro of ["aurora", "basalt", "cinder-os"]) {
        const document = objectOf(await get(`/v1/distros/${distro}/index.json`));
        for (const release of objectsIn(document, "releases")) {
          const aliases = release.aliases as string[];
          // An alias of another name has no operation.
          for (const alias of aliases.filter((one) => ["latest", "lts", "dev"].includes(one))) {
            const held = await get(`/v1/distros/${distro}/aliases/${alias}.json`);
            const builds = await get(`/v1/distros/${distro}/releases/${release.id}/index.json`);
            assertEquals([held.status, objectOf(held)], [200, objectOf(builds)]);
          }
        }
      }
      const before = await get(`${AURORA}/index.json`);
      edit(server, `${AURORA.slice(1)}/index.json`, (value) => {
        for (const release of objectsIn(value, "releases")) release.aliases = ["latest"];
      });
      await mirror.sync();
      assertEquals((await get(`${AURORA}/index.json`)).text, before.text);
    },
  ],
  [
    "the order, the text and the unknown fields of a document are the publisher's",
    async ({ get, server, mirror }) => {
      const path = "v1/index.json";
      const { distros, ...others } = objectOf(await get(`/${path}`));
      const odd = JSON.stringify({ "\u2028 odd": 1e400, ...others, distros }, null, "\t ")
        .replace("null", "1e400").replace("/", "\\/");
      replace(server, path, odd);
      await mirror.sync();
      assertEquals((await get(`/${path}`)).text, odd);
    },
  ],
  [
    "an OpenAPI 3.0.3 description, version 1.0.0, is served at one of the paths",
    async ({ get, server, mirror }) => {
      server.files.delete("v1/openapi.json");
      await mirror.sync();
      const { openapi, info, paths } = objectOf(await get("/v1/openapi.json"));
      assertEquals([openapi, (info as JsonObject).version], ["3.0.3", "1.0.0"]);
      const described = Object.values(paths as JsonObject).map((path) =>
        ((path as JsonObject).get as JsonObject).operationId
      );
      assertEquals(described.sort(), OPERATIONS.map(([id]) => id).sort());
    },
  ],
  [
    "the upstream's description is served instead, as its version wrote it",
    async ({ get, server }) => {
      const { body } = server.files.get("v1/openapi.json") ?? {};
      assertEquals((await get("/v1/openapi.json")).bytes, body);
    },
  ],
]);

const ODD_NAMES = [
  "..",
  ".",
  "%2e%2e",
  "..%2f..",
  "..%252f..",
  "%00",
  "aurora%00",
  "aurora%2findex.json%3f",
  "aurora%5c..",
  "%c0%ae%c0%ae",
  "%ff",
  "%",
  "%zz",
  "aurora%20",
  "AURORA",
  "aur%6Fra%2F..%2Fbasalt",
  "__proto__",
  "constructor",
  "x".repeat(65),
  "x".repeat(6000),
  "狐",
];

test("an error has its status and body", [
  ["a request for what is not there has a body of the Error shape", async ({ get }) => {
    const paths = [
      "/v1/",
      "/v1/index",
      "/v1/images.json",
      "/v1/distros/none/index.json",
      `${AURORA}/releases/1/index.json`,
      `${AURORA}/releases/24.2/archive.json`,
      `${AURORA}/releases/24.2/`,
      `${AURORA}/aliases/stable.json`,
      `${AURORA}//index.json`,
      "//v1/index.json",
      "/v2/index.json",
    ];
    for (const path of paths) assertRefused(await get(path), 404, path);
  }],
  ["an alias file that the distro does not hold is not found", async ({ get }) => {
    assertRefused(await get(`${BASALT}/aliases/lts.json`), 404);
    assertRefused(await get(`${AURORA}/aliases/dev.json`), 404);
  }],
  ["path parameters are matched against what exists, whatever they hold", async ({ port }) => {
    for (const odd of ODD_NAMES) {
      for (
        const path of [
          `/v1/distros/${odd}/index.json`,
          `${AURORA}/releases/${odd}/index.json`,
          `${AURORA}/releases/${odd}/archive.json`,
          `/v1/distros/${odd}/aliases/latest.json`,
        ]
      ) {
        const answer = await askPlainly(port, path);
        assert(/^HTTP\/1\.1 (404|400|414|431) /.test(answer), `${path}: ${answer.slice(0, 40)}`);
        if (!answer.startsWith("HTTP/1.1 404")) continue;
        const [head = "", body = ""] = answer.split("\r\n\r\n");
        const { request_id } = JSON.parse(body);
        assert(head.toLowerCase().includes(`x-request-id: ${request_id}`), path);
      }
    }
  }],
  ["an escaped letter of a name is that letter", async ({ get }) => {
    const plain = await get(`${AURORA}/index.json`);
    assertEquals((await get("/v1/distros/aur%6Fra/index.json")).bytes, plain.bytes);
  }],
  ["a request id of the caller's comes back, and one is made where none came", async ({ get }) => {
    for (const path of ["/v1/index.json", "/v1/index.json", "/v1/none.json"]) {
      assertEquals(
        (await get(path, { "x-request-id": "mine-1" })).headers.get("x-request-id"),
        "mine-1",
      );
      const made = (await get(path)).headers.get("x-request-id") ?? "";
      assert(/^[0-9a-f-]{36}$/.test(made), made);
    }
  }],
]);

/** Sends a path as it is written, which fetch() would not, and reads the whole answer. */
async function askPlainly(port: number, path: string): Promise<string> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const bytes = new TextEncoder().encode(
    `GET ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`,
  );
  let written = 0;
  while (written < bytes.length) written += await connection.write(bytes.subarray(written));
  return await new Response(connection.readable).text();
}

test("versions and caches are named", [
  ["every path of the index carries the prefix /v1/", async ({ get }) => {
    for (const [id, path] of OPERATIONS) {
      // Without the prefix there is a description too: that of the whole agent.
      if (id !== "openapi") assertRefused(await get(path.replace("/v1", "")), 404);
    }
  }],
  ["a tag holds exactly as long as the bytes", async ({ get, server, mirror }) => {
    const path = `${AURORA}/index.json`;
    const etag = (await get(path)).headers.get("etag") ?? "";
    const ask = async () => (await get(path, { "if-none-match": etag })).status;
    assertEquals(await ask(), 304);
    await mirror.sync();
    assertEquals(await ask(), 304);
    edit(server, path.slice(1), (value) => value.name = "Another");
    await mirror.sync();
    assertEquals(await ask(), 200);
  }],
  [
    "a further document that the upstream has is served where the mirror takes it",
    async ({ get, store }) => {
      assertRefused(await get("/v1/images.json"), 404);
      const list = await store.index.get("v1/index.json");
      const sync = await store.index.lastSync();
      assert(list !== undefined && sync !== undefined);
      await store.index.swap([{ ...list, path: "v1/images.json" }], [], sync);
      assertEquals((await get("/v1/images.json")).bytes, list.body);
    },
  ],
]);

import { assert, assertEquals } from "@std/assert";
import { SAMPLE_ISO } from "../../src/simulator/outside/sample_file.ts";
import { type SampleUpstream, startSampleUpstream } from "../../src/simulator/outside/upstream.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { withFolder } from "../support/until.ts";

const MIB = 1 << 20;

async function withUpstream(
  run: (upstream: SampleUpstream, cacheDir: string) => Promise<void>,
): Promise<void> {
  await withFolder(async (folder) => {
    const cacheDir = `${folder}/cache/deeper`;
    const upstream = startSampleUpstream({ cacheDir, log: silentLog, isoBytes: MIB });
    try {
      await run(upstream, cacheDir);
    } finally {
      await upstream.close();
    }
  });
}

async function get(url: string, headers: Record<string, string> = {}, method = "GET") {
  const response = await fetch(url, { method, headers });
  return { response, bytes: new Uint8Array(await response.arrayBuffer()) };
}

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Every download that the tree offers, with what it promises about it. */
async function offers(url: string) {
  const json = async (path: string) => await (await fetch(`${url}/v1/${path}`)).json();
  const found: { url: string; size: number; sha256: string; etag: string; modified: string }[] = [];
  for (const { id } of (await json("index.json")).distros) {
    for (const release of (await json(`distros/${id}/index.json`)).releases) {
      const { builds } = await json(`distros/${id}/releases/${release.id}/index.json`);
      for (const artifact of builds[0].artifacts) {
        found.push({
          url: artifact.locations[0].url,
          size: artifact.size,
          sha256: artifact.integrity.digests[0].value,
          etag: artifact.integrity.http.etag,
          modified: artifact.integrity.http.last_modified,
        });
      }
    }
  }
  return found;
}

Deno.test("the sample upstream serves every file that its index describes", async () => {
  await withUpstream(async ({ url }) => {
    const found = await offers(url);
    assertEquals(found.length, 5);
    for (const offer of found) {
      const { response, bytes } = await get(offer.url);
      assertEquals(response.status, 200);
      assertEquals(response.headers.get("content-length"), String(offer.size));
      assertEquals(response.headers.get("accept-ranges"), "bytes");
      assertEquals(response.headers.get("etag"), offer.etag);
      assertEquals(response.headers.get("last-modified"), offer.modified);
      assertEquals([bytes.length, await sha256(bytes)], [offer.size, offer.sha256]);
    }
  });
});

Deno.test("the sample upstream answers 304 if the client has the document", async () => {
  await withUpstream(async ({ url }) => {
    for (const path of ["v1/index.json", SAMPLE_ISO]) {
      const { response } = await get(`${url}/${path}`);
      const etag = response.headers.get("etag") ?? "";
      assert(/^"[0-9a-f]{64}"$/.test(etag), etag);
      for (const match of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
        const again = await get(`${url}/${path}`, { "if-none-match": match });
        assertEquals([again.response.status, again.bytes.length], [304, 0], match);
        assertEquals(again.response.headers.get("etag"), etag);
      }
      assertEquals(
        (await get(`${url}/${path}`, { "if-none-match": '"other"' })).response.status,
        200,
      );
    }
  });
});

Deno.test("the sample upstream answers a range, so that a download can be resumed", async () => {
  await withUpstream(async ({ url }) => {
    for (const path of [SAMPLE_ISO, "files/zonewright-sample-2.0.raw.gz"]) {
      const whole = (await get(`${url}/${path}`)).bytes;
      const { response, bytes } = await get(`${url}/${path}`, { range: "bytes=1000-" });
      assertEquals(response.status, 206);
      assertEquals(
        response.headers.get("content-range"),
        `bytes 1000-${whole.length - 1}/${whole.length}`,
      );
      assertEquals(bytes, whole.slice(1000));
      const middle = await get(`${url}/${path}`, { range: "bytes=10-19" });
      assertEquals(middle.response.headers.get("content-length"), "10");
      assertEquals(middle.bytes, whole.slice(10, 20));
      const end = await get(`${url}/${path}`, { range: "bytes=-7" });
      assertEquals(end.bytes, whole.slice(-7));
    }
  });
});

Deno.test("the sample upstream answers 416 to a range beyond the end", async () => {
  await withUpstream(async ({ url }) => {
    const { response } = await get(`${url}/${SAMPLE_ISO}`, { range: `bytes=${MIB}-` });
    assertEquals(response.status, 416);
    assertEquals(response.headers.get("content-range"), `bytes */${MIB}`);
  });
});

Deno.test("the sample upstream sends the whole file when If-Range names another version", async () => {
  await withUpstream(async ({ url }) => {
    const etag = (await get(`${url}/${SAMPLE_ISO}`, {}, "HEAD")).response.headers.get("etag") ?? "";
    const range = "bytes=0-9";
    const other = await get(`${url}/${SAMPLE_ISO}`, { range, "if-range": '"other"' });
    assertEquals([other.response.status, other.bytes.length], [200, MIB]);
    const same = await get(`${url}/${SAMPLE_ISO}`, { range, "if-range": etag });
    assertEquals([same.response.status, same.bytes.length], [206, 10]);
  });
});

Deno.test("the sample upstream answers HEAD with the length and nothing else", async () => {
  await withUpstream(async ({ url }) => {
    const { response, bytes } = await get(`${url}/${SAMPLE_ISO}`, { range: "bytes=0-9" }, "HEAD");
    assertEquals([response.status, bytes.length], [200, 0]);
    assertEquals(response.headers.get("content-length"), String(MIB));
  });
});

Deno.test("the sample upstream answers other methods with 405", async () => {
  await withUpstream(async ({ url }) => {
    for (const method of ["POST", "PUT", "DELETE"]) {
      const { response } = await get(`${url}/v1/index.json`, {}, method);
      assertEquals([response.status, response.headers.get("allow")], [405, "GET, HEAD"]);
    }
  });
});

Deno.test("the sample upstream answers an HTML 404 for anything outside its tree", async () => {
  await withUpstream(async ({ url }, cacheDir) => {
    const { port } = new URL(url);
    const absent = ["/", "/v1/", "/v1/distros/zonewright-sample/aliases/dev.json", "/files/"];
    for (const path of absent) {
      const { response, bytes } = await get(`${url}${path}`);
      assertEquals(response.status, 404, path);
      assertEquals(response.headers.get("content-type"), "text/html; charset=utf-8");
      assert(new TextDecoder().decode(bytes).includes("<h1>404</h1>"));
    }
    // As written, since a client of ours would tidy them up.
    const kept = `${cacheDir}/zonewright-sample.iso`;
    const crafted = [
      "/../../etc/passwd",
      "/%2e%2e/%2e%2e/etc/passwd",
      "/files/../../x",
      `/${kept}`,
    ];
    for (const path of crafted) {
      const answer = await rawGet(Number(port), path);
      assert(answer.startsWith("HTTP/1.1 404 "), `${path}: ${answer.slice(0, 40)}`);
    }
  });
});

async function rawGet(port: number, path: string): Promise<string> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const request = `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n`;
  await connection.write(new TextEncoder().encode(request));
  const buffer = new Uint8Array(4096);
  const count = await connection.read(buffer);
  return new TextDecoder().decode(buffer.subarray(0, count ?? 0));
}

import { assertEquals, assertStringIncludes } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import type { Decoders } from "../../src/decoder/pool.ts";
import type { Signature } from "../../src/domain/index/artifact.ts";
import { listedHashes } from "../../src/decoder/work/checksums.ts";
import type { FoundArtifact } from "../../src/mirror/media/find_artifact.ts";
import type { IndexServer } from "./index_server.ts";
import { withFolder } from "../support/until.ts";
import { type TestMirror, withMirror } from "./test_mirror.ts";
import { artifact, digestsOf, ISO, patterned, rejection } from "./vendor_file.ts";

const SIGNED = fromFileUrl(new URL("../fixtures/signed/", import.meta.url));
const [SHA256, SHA512] = await digestsOf(ISO);
/** By the name that the tests' server gives them. */
const DOCUMENTS = ["SHA256SUMS", "SHA256SUMS.gpg", "SHA256SUMS.sign", "CHECKSUM", "disk.raw.sig"];

/** Serves the file, its lists and their signatures. */
function publish(server: IndexServer): void {
  server.files.set("disk.raw", { body: ISO, etag: '"one"' });
  for (const name of DOCUMENTS) {
    server.files.set(name, { body: Deno.readFileSync(join(SIGNED, name)) });
  }
}

interface Said {
  readonly document?: string;
  readonly format?: string;
  readonly filename?: string | null;
  readonly signatures?: readonly Signature[];
}

/** The artifact of the file, whose digest is from a document of the server. */
async function described({ server }: TestMirror, said: Said = {}): Promise<FoundArtifact> {
  const { document = "SHA256SUMS", format = "gnu", filename = "disk.raw" } = said;
  const found = await artifact(`${server.url}/disk.raw`, { digests: [SHA256] });
  const source = { format, url: `${server.url}/${document}`, filename };
  const integrity = {
    http: null,
    digests: [{ ...SHA256, source }],
    signatures: said.signatures ?? [],
  };
  return { ...found, artifact: { ...found.artifact, integrity } };
}

function signature({ server }: TestMirror, kind: string, signs: string, url: string): Signature {
  return { kind, signs: `${server.url}/${signs}`, url: `${server.url}/${url}`, key_url: null };
}

async function withVendor(
  run: (test: TestMirror) => Promise<void>,
  keys: readonly string[] = ["aurora.asc"],
): Promise<void> {
  await withFolder(async (keyDir) => {
    for (const name of keys) await Deno.copyFile(join(SIGNED, name), join(keyDir, name));
    await withMirror(async (test) => {
      publish(test.server);
      await run(test);
    }, { keyDir });
  });
}

Deno.test("listedHashes() reads gnu, bsd and bare lines, and skips all others", () => {
  const hex = "a".repeat(64);
  const upper = hex.toUpperCase();
  const rows: [string, string, string[]][] = [
    ["gnu", `${hex}  disk.raw\n`, [hex]],
    ["gnu", `${upper} *disk.raw\r\n`, [hex]],
    ["gnu", `${hex}  ./disk.raw\n`, [hex]],
    ["gnu", `# ${hex}  disk.raw\n\n${hex}  other.raw\n`, []],
    ["gnu", `${hex}  disk.raw.xz\n`, []],
    ["gnu", `${"a".repeat(128)}  disk.raw\n`, []],
    ["gnu", `${hex}  disk.raw\n${"b".repeat(64)}  disk.raw\n`, [hex, "b".repeat(64)]],
    ["bsd", `SHA256 (disk.raw) = ${hex}\n`, [hex]],
    ["bsd", `SHA512 (disk.raw) = ${hex}\nSHA256 (disk.raw.xz) = ${hex}\n`, []],
    ["bare", `${upper}\n`, [hex]],
    ["bare", `\n${hex}  -\n${"b".repeat(64)}\n`, [hex]],
    ["bare", "<html>not found</html>", []],
  ];
  for (const [format, text, expected] of rows) {
    const file = { format: format as "gnu", algorithm: "sha256", filename: "disk.raw" } as const;
    assertEquals(listedHashes(text, file), expected, `${format} ${text}`);
  }
});

Deno.test("download() with the check vendor reads the vendor's document again", async () => {
  await withVendor(async (test) => {
    const { mirror, server, store } = test;
    const found = await described(test);
    const medium = await mirror.download(found, { check: "vendor" });
    assertEquals([medium.level, (await store.media.get(medium.sha256))?.level], [
      "vendor",
      "vendor",
    ]);
    assertEquals(server.requests.map(({ path }) => path), ["SHA256SUMS", "disk.raw"]);
    // What was reached is remembered.
    assertEquals((await mirror.download(found)).level, "vendor");
    assertEquals(server.requests.length, 2);
  });
});

Deno.test("documents of two distros on one host never share a decoder", async () => {
  await withVendor(async (test) => {
    const origins: (string | undefined)[] = [];
    const decoders: Decoders = {
      ask(work, request, input, options) {
        if (work === "checksums") origins.push(options.origin);
        return test.decoders.ask(work, request, input, options);
      },
      stream: (...order) => test.decoders.stream(...order),
      warm: () => test.decoders.warm(),
      pids: () => test.decoders.pids(),
      close: () => test.decoders.close(),
    };
    const found = await described(test);
    const port = new URL(test.server.url).port;
    for (const distro of ["aurora", "basalt"]) {
      const mirror = test.again({ decoders, cacheDir: `${test.cacheDir}-${distro}` });
      await mirror.download({ ...found, distro }, { check: "vendor" });
    }
    assertEquals(origins, [`aurora 127.0.0.1:${port}`, `basalt 127.0.0.1:${port}`]);
  });
});

Deno.test("download() of what is in the cache is checked further without another download", async () => {
  await withVendor(async (test) => {
    const found = await described(test);
    assertEquals((await test.mirror.download(found)).level, "index");
    assertEquals((await test.mirror.download(found, { check: "vendor" })).level, "vendor");
    assertEquals(test.server.countOf("disk.raw"), 1);
  });
});

Deno.test("download() refuses a file that contradicts the vendor's document, whatever is allowed", async () => {
  await withVendor(async (test) => {
    const { mirror, server } = test;
    const text = `${"0".repeat(64)}  disk.raw\n`;
    server.files.set("SHA256SUMS", { body: new TextEncoder().encode(text) });
    for (const allowUnverified of [false, true]) {
      const wanted = mirror.download(await described(test), { check: "vendor", allowUnverified });
      const error = await rejection(wanted);
      assertEquals(error.code, "digest_mismatch");
      assertStringIncludes(error.message, `SHA256SUMS says ${"0".repeat(64)}`);
    }
    assertEquals(server.countOf("disk.raw"), 0);
  });
});

Deno.test("download() accepts a lower check level than requested only with allow_unverified", async () => {
  await withVendor(async (test) => {
    const { mirror } = test;
    const cases: [Said, string][] = [
      [{ format: "vendor_document" }, "has the format vendor_document"],
      [{ document: "gone" }, "gone does not exist"],
      [{ filename: "renamed.raw" }, "does not list renamed.raw"],
    ];
    for (const [said, why] of cases) {
      const found = await described(test, said);
      const error = await rejection(mirror.download(found, { check: "vendor" }));
      assertEquals(error.code, "forbidden");
      assertStringIncludes(error.message, 'it was checked to level "index", expected "vendor"');
      assertStringIncludes(error.message, why);
      const medium = await mirror.download(found, { check: "vendor", allowUnverified: true });
      assertEquals(medium.level, "index");
    }
  });
});

Deno.test("download() applies the configured check_min to every request", async () => {
  await withVendor(async (test) => {
    const strict = test.again({ checkMin: "vendor" });
    const found = await described(test);
    const less = await rejection(strict.download(found, { check: "index" }));
    assertEquals(less.code, "forbidden");
    assertStringIncludes(less.message, 'the setting check_min requires "vendor"');
    const url = `${test.server.url}/disk.raw`;
    const address = await rejection(strict.downloadUrl(url, SHA512));
    assertStringIncludes(address.message, "no vendor document confirms its digest");
    assertEquals((await strict.download(found)).level, "vendor");
  });
});

Deno.test("download() without any digest takes a file only when that is allowed", async () => {
  await withVendor(async (test) => {
    const { mirror, store, server } = test;
    const url = `${server.url}/disk.raw`;
    const error = await rejection(mirror.downloadUrl(url, undefined));
    assertStringIncludes(error.message, "nothing gives its digest");
    server.faults.set("disk.raw", [{ kind: "cut", after: 1000 }]);
    const medium = await mirror.downloadUrl(url, undefined, { allowUnverified: true });
    assertEquals([medium.level, medium.sha256], ["none", SHA256.value]);
    // Nothing would have shown whether the two parts are of one file.
    assertEquals(server.requests.at(-1)?.headers.get("range"), null);
    assertEquals((await store.media.get(medium.sha256))?.level, "none");
    // Its digest is known now: a request with it finds the file, and has checked it by that.
    assertEquals((await mirror.downloadUrl(url, SHA256)).level, "index");
  });
});

Deno.test("download() with the check signature requires one by a trusted key", async () => {
  await withVendor(async (test) => {
    const signatures: [Said, Signature][] = [
      [{}, signature(test, "pgp_detached", "SHA256SUMS", "SHA256SUMS.gpg")],
      [{}, signature(test, "pgp_detached", "SHA256SUMS", "SHA256SUMS.sign")],
      [
        { document: "CHECKSUM", format: "bsd" },
        signature(test, "pgp_clearsigned", "CHECKSUM", "CHECKSUM"),
      ],
      [{}, signature(test, "pgp_detached", "disk.raw", "disk.raw.sig")],
    ];
    for (const [said, one] of signatures) {
      const fresh = test.again();
      for (const { sha256 } of await fresh.files.list()) await fresh.files.remove(sha256);
      const found = await described(test, { ...said, signatures: [one] });
      const medium = await fresh.download(found, { check: "signature" });
      assertEquals([one.url, medium.level], [one.url, "signature"]);
      // Checked once, it need not be checked again.
      assertEquals((await fresh.download(found, { check: "signature" })).level, "signature");
    }
  });
});

Deno.test("download() refuses a signature by a key that the operator does not have", async () => {
  await withVendor(async (test) => {
    const list = signature(test, "pgp_detached", "SHA256SUMS", "SHA256SUMS.gpg");
    const found = await described(test, { signatures: [list] });
    const error = await rejection(test.mirror.download(found, { check: "signature" }));
    assertEquals(error.code, "forbidden");
    assertStringIncludes(error.message, "which is not a trusted key");
    const requested = { check: "signature", allowUnverified: true } as const;
    assertEquals((await test.mirror.download(found, requested)).level, "vendor");
    const image = signature(test, "pgp_detached", "disk.raw", "disk.raw.sig");
    const own = await described(test, { signatures: [image] });
    assertEquals((await rejection(test.mirror.download(own, requested))).code, "forbidden");
  }, ["else.gpg"]);
});

Deno.test("download() refuses what was changed after it was signed, whatever is allowed", async () => {
  await withVendor(async (test) => {
    const { mirror, server } = test;
    const requested = { check: "signature", allowUnverified: true } as const;
    const changed = (name: string, from: string, to: string) => {
      const text = new TextDecoder().decode(server.files.get(name)?.body).replace(from, to);
      server.files.set(name, { body: new TextEncoder().encode(text) });
    };
    changed("SHA256SUMS", "other.raw", "owner.raw");
    changed("CHECKSUM", "# made", "# Made");
    const cases: [Said, Signature][] = [
      [{}, signature(test, "pgp_detached", "SHA256SUMS", "SHA256SUMS.gpg")],
      [
        { document: "CHECKSUM", format: "bsd" },
        signature(test, "pgp_clearsigned", "CHECKSUM", "CHECKSUM"),
      ],
      // No signature at all, where one is said to be.
      [{}, signature(test, "pgp_detached", "SHA256SUMS", "CHECKSUM")],
    ];
    for (const [said, one] of cases) {
      const found = await described(test, { ...said, signatures: [one] });
      const error = await rejection(mirror.download(found, requested));
      assertEquals([one.url, error.code], [one.url, "digest_mismatch"]);
    }
    assertEquals(server.countOf("disk.raw"), 0);
  });
});

Deno.test("download() refuses a signed list that says something else, and a file that is not the signed one", async () => {
  await withVendor(async (test) => {
    const { mirror, server } = test;
    const body = patterned(300_000, 4);
    const [sha256] = await digestsOf(body);
    server.files.set("disk.raw", { body });
    const image = signature(test, "pgp_detached", "disk.raw", "disk.raw.sig");
    const found = await described(test, { signatures: [image] });
    const list = `${sha256.value}  disk.raw\n`;
    server.files.set("SHA256SUMS", { body: new TextEncoder().encode(list) });
    const source = { format: "gnu", url: `${server.url}/SHA256SUMS`, filename: "disk.raw" };
    const integrity = { http: null, digests: [{ ...sha256, source }], signatures: [image] };
    const forged = { ...found, artifact: { ...found.artifact, integrity } };
    const error = await rejection(mirror.download(forged, { check: "signature" }));
    assertEquals(error.code, "digest_mismatch");
    assertStringIncludes(error.message, "Cannot accept the signature of key");
    assertEquals(await test.store.media.list(), []);
  });
});

Deno.test("download() with the check signature needs a folder of keys that can be read", async () => {
  await withVendor(async (test) => {
    const list = signature(test, "pgp_detached", "SHA256SUMS", "SHA256SUMS.gpg");
    const found = await described(test, { signatures: [list] });
    const none = await rejection(
      test.again({ keyDir: null }).download(found, { check: "signature" }),
    );
    assertStringIncludes(none.message, "the setting key_dir is not set");
    const gone = test.again({ keyDir: "/nowhere/keys" });
    const missing = await rejection(gone.download(found, { check: "signature" }));
    assertStringIncludes(missing.message, "Cannot read the folder of keys /nowhere/keys");
    await withFolder(async (keyDir) => {
      await Deno.writeTextFile(join(keyDir, "broken.asc"), "no key");
      const broken = await rejection(
        test.again({ keyDir }).download(found, { check: "signature" }),
      );
      assertStringIncludes(broken.message, "broken.asc");
    });
  });
});

Deno.test("download() with the check signature takes the keys of the distro's own folder alone", async () => {
  await withFolder(async (keyDir) => {
    const place = async (from: string, ...to: string[]) => {
      await Deno.mkdir(join(keyDir, ...to), { recursive: true });
      await Deno.copyFile(join(SIGNED, from), join(keyDir, ...to, from));
    };
    await withMirror(async (test) => {
      publish(test.server);
      const list = signature(test, "pgp_detached", "SHA256SUMS", "SHA256SUMS.gpg");
      const found = await described(test, { signatures: [list] });
      // The right key at the top does not count once the distro has a folder.
      await place("aurora.asc");
      await place("else.gpg", "aurora");
      const error = await rejection(test.mirror.download(found, { check: "signature" }));
      assertStringIncludes(error.message, "which is not a trusted key for aurora");
      await place("aurora.asc", "aurora");
      assertEquals((await test.mirror.download(found, { check: "signature" })).level, "signature");
    }, { keyDir });
  });
});

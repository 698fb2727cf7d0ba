import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { AgentError } from "../../src/domain/error.ts";
import {
  isMediaName,
  mediaKind,
  parseArtifactRef,
  parseMediaName,
  parseMediaRequest,
  safeMediaName,
} from "../../src/domain/machine/media.ts";

const SHA256 = `sha256:${"ab".repeat(32)}`;
const SHA512 = `sha512:${"cd".repeat(64)}`;

Deno.test("parseMediaRequest() accepts a path, a URL and an artifact", () => {
  const artifact = { distro: "debian", release: "latest", arch: "x86_64" };
  for (
    const media of [
      { path: "/media/a b/omnios.iso" },
      { path: "/media/omnios.iso", digest: SHA512 },
      { url: "https://example.org/omnios.iso", digest: SHA256 },
      { artifact },
      { artifact, digest: SHA256 },
    ]
  ) assertEquals(parseMediaRequest(media), media);
});

Deno.test("parseMediaRequest() folds the hex of a digest to lower case", () => {
  const media = parseMediaRequest({ path: "/a.iso", digest: SHA256.toUpperCase() });
  assertEquals(media, { path: "/a.iso", digest: SHA256 });
});

const REFUSED: readonly (readonly [unknown, string])[] = [
  [null, "media"],
  ["/a.iso", "media"],
  [{}, "media"],
  [{ digest: SHA256 }, "media"],
  [{ path: "/a.iso", url: "https://example.org/a.iso", digest: SHA256 }, "media"],
  [{ path: "folder/a.iso" }, "media.path"],
  [{ path: ".." }, "media.path"],
  [{ path: "/media/../etc/a.iso" }, "media.path"],
  [{ path: "/media/./a.iso" }, "media.path"],
  [{ path: "/media/a\0.iso" }, "media.path"],
  [{ path: "/media/a\n.iso" }, "media.path"],
  [{ path: `/${"a".repeat(1024)}.iso` }, "media.path"],
  [{ path: "/etc/shadow" }, "media.path"],
  [{ path: "/media/a.qcow2" }, "media.path"],
  [{ path: 5 }, "media.path"],
  [{ path: "/a.iso", digest: "sha256:abc" }, "media.digest"],
  [{ path: "/a.iso", digest: `md5:${"a".repeat(32)}` }, "media.digest"],
  [{ path: "/a.iso", digest: "" }, "media.digest"],
  [{ path: "/a.iso", size: 5 }, "media.size"],
  [{ url: "https://example.org/a.iso" }, "media.digest"],
  [{ url: "file:///etc/a.iso", digest: SHA256 }, "media.url"],
  [{ url: "gopher://example.org/a.iso", digest: SHA256 }, "media.url"],
  [{ url: "https://user:pass@example.org/a.iso", digest: SHA256 }, "media.url"],
  [{ url: "https://example.org/download", digest: SHA256 }, "media.url"],
  [{ url: "nonsense", digest: SHA256 }, "media.url"],
  [{ artifact: { distro: "debian" } }, "media.artifact.release"],
  [{ artifact: { distro: "../x", release: "13" } }, "media.artifact.distro"],
  [{ artifact: { distro: "debian", release: "13", arhc: "x" } }, "media.artifact.arhc"],
  [{ artifact: "debian" }, "media.artifact"],
];

for (const [media, field] of REFUSED) {
  Deno.test(`parseMediaRequest() refuses ${JSON.stringify(media)?.slice(0, 80)}`, () => {
    const { code, errors } = assertThrows(() => parseMediaRequest(media), AgentError);
    assertEquals(code, "invalid_argument");
    assertEquals(errors.map((error) => error.field), [field]);
    assertEquals(errors.filter(({ message }) => /[,:;\s]$/.test(message)), []);
  });
}

Deno.test("parseArtifactRef() names its own field", () => {
  const { errors } = assertThrows(() => parseArtifactRef({ release: 5 }), AgentError);
  assertEquals(errors.map(({ field }) => field), ["artifact.distro", "artifact.release"]);
});

Deno.test("mediaKind() reads the file extension, in any case", () => {
  assertEquals(mediaKind("a.iso"), "cd");
  assertEquals(mediaKind("A.ISO"), "cd");
  assertEquals(mediaKind("a.img"), "disk");
  assertEquals(mediaKind("a.b.raw"), "disk");
  assertEquals(mediaKind("a.qcow2"), undefined);
  assertEquals(mediaKind("iso"), undefined);
  assertEquals(mediaKind("a.constructor"), undefined);
});

Deno.test("parseMediaName() refuses names that vmadm, a shell or a zone root would misread", () => {
  assertEquals(parseMediaName("debian-13.1_x.iso", "name"), "debian-13.1_x.iso");
  for (
    const name of [
      "",
      ".",
      "..",
      ".iso",
      "-a.iso",
      "a,b.iso",
      "a=b.iso",
      "a b.iso",
      "a/b.iso",
      "../a.iso",
      "a\n.iso",
      "a$(x).iso",
      "ä.iso",
      "startvm",
      "tmp",
      "a.iso\n",
      `${"a".repeat(125)}.iso`,
    ]
  ) {
    const words = "expected 1 to 128 letters, digits, dots, dashes and underscores, the first a " +
      "letter or a digit, that end in .iso, .img or .raw";
    assertThrows(() => parseMediaName(name, "name"), AgentError, words);
  }
});

Deno.test("safeMediaName() keeps valid characters and replaces the rest", () => {
  assertEquals(safeMediaName("omnios-r151056.iso"), "omnios-r151056.iso");
  assertEquals(safeMediaName("/media/Win 11 (x64).iso"), "Win-11-x64-.iso");
  assertEquals(safeMediaName("https://example.org/a/b.iso"), "b.iso");
  assertEquals(safeMediaName("..\\..\\x.iso"), "x.iso");
  assertEquals(safeMediaName("--help.iso"), "help.iso");
  assertEquals(safeMediaName(""), "medium");
  assertEquals(safeMediaName("../.."), "medium");
  assertEquals(safeMediaName(`${"a".repeat(300)}.iso`), `${"a".repeat(124)}.iso`);
});

Deno.test("safeMediaName() makes a valid name from any text", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 400 }), (text) => {
      assert(isMediaName(safeMediaName(text)));
    }),
    { numRuns: 500 },
  );
});

Deno.test("safeMediaName() changes nothing when it is applied again", () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 200 }), (text) => {
      const name = safeMediaName(text);
      assertEquals(safeMediaName(name), name);
    }),
    { numRuns: 500 },
  );
});

// Texts that strangers write are read in a time that grows with their length alone: a mebibyte of what
// is worst for each reader. A quadratic one takes minutes for it.

import { assert } from "@std/assert";
import { CHECKSUM_FORMATS, listedHashes } from "../../src/decoder/work/checksums.ts";
import { parseDigest } from "../../src/domain/digest.ts";
import { AgentError } from "../../src/domain/error.ts";
import { indexPlaceOf, isIndexName } from "../../src/domain/index/index_document.ts";
import { mediaKind, safeMediaName, unpackedName } from "../../src/domain/machine/media.ts";
import { rangeValidator } from "../../src/mirror/media/partial.ts";
import { parseRemote } from "../../src/mirror/web/allowed_hosts.ts";
import { retryAfterSeconds } from "../../src/mirror/web/retry.ts";
import { keptValidator } from "../../src/mirror/web/upstream.ts";
import { shown } from "../../src/mirror/web/request.ts";
import { rowsPlace } from "../../src/store/sqlite/local/artifacts.ts";

const SIZE = 1024 * 1024;
/** For all readers of one text; a linear one takes milliseconds. */
const DEADLINE_MS = 20_000;

const HEX = "a".repeat(64);
/** A beginning, what is repeated to a mebibyte, and an end that makes a hopeful reader start again. */
const TEXTS: readonly (readonly [string, string, string])[] = [
  [`${HEX}  x`, " ", "x"],
  [`${HEX} `, " ", "\x0b\u2028"],
  [`${HEX}  `, "* ", "x"],
  [`${HEX}  `, "./", "x"],
  ["SHA256 (", ")", "x"],
  ["SHA256 (", ") = a", " x"],
  ["SHA256 (x) = ", "a", "!"],
  ["SHA256", " ", "("],
  ["", "\r", "x"],
  ["", "\n", "x"],
  ["", "\r\n", "x"],
  ["", "# \n", "x"],
  ["", "a", "!"],
  ["sha256:", "0", "g"],
  ["", ":", "x"],
  ["a", ".", "b"],
  ["a", "-", "b"],
  ["a", ".gz", "!"],
  ["a", "/", "b"],
  ["", "?#", "\n"],
  ["v1/distros/", "a", "!"],
  ["v1/distros/", "a/releases/", "!"],
  ['"', "a", ""],
  ["https://a.example/", "%2e", "?"],
  ["https://", "a.", "/"],
];

/** Everything that reads such texts; what it refuses is refused by an error of its own. */
const READERS: readonly ((text: string) => unknown)[] = [
  ...CHECKSUM_FORMATS.map((format) => (text: string) =>
    listedHashes(text, { format, algorithm: "sha256", filename: "disk.raw" })
  ),
  (text) => parseDigest(text, "digest"),
  isIndexName,
  indexPlaceOf,
  rowsPlace,
  mediaKind,
  safeMediaName,
  (text) => unpackedName(text, "gzip"),
  keptValidator,
  (text) => rangeValidator(new Headers({ etag: text, "last-modified": text })),
  (text) => retryAfterSeconds(new Headers({ "retry-after": text })),
  shown,
  (text) => parseRemote(text, { allowHttp: true }),
];

Deno.test("untrusted texts are read in linear time", () => {
  for (const [start, again, end] of TEXTS) {
    const text = start + again.repeat(Math.ceil(SIZE / again.length)) + end;
    const began = performance.now();
    for (const read of READERS) {
      try {
        read(text);
      } catch (error) {
        // A header cannot hold every text.
        assert(error instanceof AgentError || error instanceof TypeError, String(error));
      }
    }
    const took = performance.now() - began;
    assert(took < DEADLINE_MS, `${JSON.stringify(start + again)} took ${Math.round(took)} ms`);
  }
});

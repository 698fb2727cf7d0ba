import { assertEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import {
  answerDocument,
  documentConditions,
  heldAnswer,
  matchedEncoding,
  preferredEncoding,
  serve,
} from "../../src/http/answer/served_document.ts";
import { T0 } from "../support/job.ts";

const SHA256 = "0".repeat(63) + "a";
const DOCUMENT = serve({
  path: "v1/index.json",
  body: new Uint8Array(5000),
  sha256: SHA256,
  etag: null,
  last_modified: "Thu, 01 Oct 2026 04:05:06 GMT",
  fetched_at: T0,
});

Deno.test("the encoding with the highest weight is used; of equal ones the smaller", () => {
  const cases: [header: string | null, expected: string][] = [
    [null, "identity"],
    ["", "identity"],
    ["gzip", "gzip"],
    ["x-gzip", "gzip"],
    ["GZIP;Q=0.5", "gzip"],
    ["br, gzip", "br"],
    ["gzip, deflate, br, zstd", "br"],
    ["gzip;q=1.0, br;q=0.9", "gzip"],
    ["*", "br"],
    ["*;q=0.1, br;q=0", "gzip"],
    ["gzip;q=0", "identity"],
    ["gzip;q=0.5, identity;q=0.6", "identity"],
    ["gzip;q=0.5, identity;q=0.5", "gzip"],
    ["gzip;q=0.001", "gzip"],
    ["deflate, zstd", "identity"],
    ["gzip;q=2, br;q=x", "identity"],
    ["identity;q=0, *;q=0", "identity"],
    [", ,gzip ; q=0.3,", "gzip"],
    ["gzip;level=9;q=0", "identity"],
  ];
  for (const [header, expected] of cases) {
    assertEquals([header, preferredEncoding(header, false)], [header, expected]);
  }
});

Deno.test("a small document is compressed only for callers that refuse identity", () => {
  assertEquals(preferredEncoding("br, gzip", true), "identity");
  assertEquals(preferredEncoding("gzip, identity;q=0", true), "gzip");
  assertEquals(preferredEncoding("br, *;q=0", true), "br");
});

Deno.test("an entity tag matches weakly, in lists and under every encoding, but only as a whole", () => {
  const tag = `"${SHA256}"`;
  const cases: [header: string, expected: string | undefined][] = [
    [tag, "identity"],
    [`W/${tag}`, "identity"],
    [`"${SHA256}-gzip"`, "gzip"],
    [`"${SHA256}-br"`, "br"],
    [`"x,y", ${tag}`, "identity"],
    [`, ,"x" ,\t${tag} ,`, "identity"],
    ["*", "identity"],
    [` * `, "identity"],
    ['"*"', undefined],
    [`"x", *`, undefined],
    [SHA256, undefined],
    [`w/${tag}`, undefined],
    [`"x${tag}`, undefined],
    [`x, ${tag}`, undefined],
    [`"${SHA256}`, undefined],
    [`"${SHA256.toUpperCase()}"`, undefined],
    ["", undefined],
  ];
  for (const [header, expected] of cases) {
    const headers = new Headers({ "if-none-match": header });
    assertEquals([header, matchedEncoding(documentConditions(headers), DOCUMENT)], [
      header,
      expected,
    ]);
  }
});

Deno.test("of several matching tags, that of the preferred encoding is returned", () => {
  const list = `"${SHA256}", "${SHA256}-br", "${SHA256}-gzip"`;
  for (const coding of ["identity", "gzip", "br"] as const) {
    const headers = new Headers({ "if-none-match": list, "accept-encoding": coding });
    assertEquals(matchedEncoding(documentConditions(headers), DOCUMENT), coding);
  }
});

Deno.test("If-Modified-Since is read in the three forms of an HTTP date only", () => {
  const cases: [header: string, matches: boolean][] = [
    ["Thu, 01 Oct 2026 04:05:06 GMT", true],
    ["Thursday, 01-Oct-26 04:05:06 GMT", true],
    ["Thu Oct  1 04:05:06 2026", true],
    ["Thu, 01 Oct 2026 04:05:05 GMT", false],
    ["Fri, 02 Oct 2026 00:00:00 GMT", true],
    ["2026-10-02T00:00:00Z", false],
    ["Thu, 01 Oct 2026 04:05:06 +0000", false],
    ["1790827506", false],
    ["", false],
  ];
  for (const [header, matches] of cases) {
    const headers = new Headers({ "if-modified-since": header });
    assertEquals([header, matchedEncoding(documentConditions(headers), DOCUMENT) !== undefined], [
      header,
      matches,
    ]);
  }
  const both = { "if-modified-since": "Fri, 02 Oct 2026 00:00:00 GMT", "if-none-match": '"x"' };
  assertEquals(matchedEncoding(documentConditions(new Headers(both)), DOCUMENT), undefined);
});

Deno.test("If-Match takes the tag of what would be sent, If-Unmodified-Since its date; others get 412", async () => {
  const tag = `"${SHA256}"`;
  const old = "Thu, 01 Oct 2026 04:05:05 GMT";
  const same = "Thu, 01 Oct 2026 04:05:06 GMT";
  const cases: [status: number, headers: Record<string, string>][] = [
    [200, { "if-match": "*" }],
    [200, { "if-match": tag }],
    [200, { "if-match": `"x", ${tag}`, "if-unmodified-since": old }],
    [200, { "if-match": `"${SHA256}-gzip"`, "accept-encoding": "gzip" }],
    [304, { "if-match": tag, "if-none-match": tag }],
    [200, { "if-unmodified-since": same }],
    [200, { "if-unmodified-since": "yesterday" }],
    [412, { "if-match": '"x"' }],
    [412, { "if-match": `W/${tag}` }],
    [412, { "if-match": "" }],
    [412, { "if-match": `"${SHA256}-gzip"` }],
    [412, { "if-match": '"x"', "if-none-match": tag }],
    [412, { "if-unmodified-since": old }],
  ];
  await DOCUMENT.response("identity");
  for (const [status, headers] of cases) {
    const given = new Headers(headers);
    if (status === 412) {
      const error = await assertRejects(() => answerDocument(given, DOCUMENT), AgentError);
      assertEquals([headers, error.code], [headers, "precondition_failed"]);
      assertEquals(heldAnswer(documentConditions(given), DOCUMENT), undefined);
    } else {
      assertEquals([headers, (await answerDocument(given, DOCUMENT)).status], [headers, status]);
    }
  }
});

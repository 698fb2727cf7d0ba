import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import {
  checkOpenapi,
  type DistroSummary,
  holderOf,
  parseDistro,
  parseDistroList,
} from "../../src/domain/index/image_index.ts";
import {
  decodeDocument,
  DOCUMENT_LIST_MAX,
  isIndexName,
} from "../../src/domain/index/index_document.ts";
import { FIXTURE_FOLDER } from "../mirror/index_server.ts";

const AURORA: DistroSummary = {
  id: "aurora",
  name: "Aurora Linux",
  homepage: null,
  os_family: "linux",
};

const NAMES_REFUSED = [
  "",
  ".",
  "..",
  "../../etc",
  "a/b",
  ".hidden",
  "a..b",
  "a b",
  "a\0b",
  "a\n",
  "é",
  "x".repeat(65),
  "%2e%2e",
];

Deno.test("parseDistroList() reads the distros in their order and ignores unknown fields", async () => {
  const { distros } = parseDistroList(await fixture("v1/index.json"));
  assertEquals(distros.map((distro) => distro.id), ["aurora", "basalt", "cinder-os"]);
  assertEquals(distros[2], {
    id: "cinder-os",
    name: "Cinder OS — für alle",
    homepage: "https://cinder.example.org/",
    os_family: "illumos",
  });
});

Deno.test("parseDistro() reads releases, their aliases and their defaults", async () => {
  const [aurora, basalt, cinder] = parseDistroList(await fixture("v1/index.json")).distros;
  assert(aurora && basalt && cinder);
  const linux = parseDistro(await fixture("v1/distros/aurora/index.json"), aurora);
  assertEquals(holderOf(linux, "lts")?.id, "24.0");
  assertEquals(linux.releases[1]?.osinfo?.short_id, "aurora24.0");
  const bsd = parseDistro(await fixture("v1/distros/basalt/index.json"), basalt);
  assertEquals([bsd.dev_channel, bsd.releases[1]?.osinfo], ["edge", null]);
  const illumos = parseDistro(await fixture("v1/distros/cinder-os/index.json"), cinder);
  assertEquals(illumos.releases[0]?.aliases, ["latest", "stable"]);
});

Deno.test("isIndexName() refuses names that could lead out of a folder", () => {
  for (const name of NAMES_REFUSED) assert(!isIndexName(name), JSON.stringify(name));
  for (const name of ["9", "45_Beta", "10-kitten", "r151054r", "v1.2-3", "x".repeat(64)]) {
    assert(isIndexName(name), name);
  }
});

Deno.test("parseDistroList() refuses hostile and repeated names", () => {
  for (const id of NAMES_REFUSED) {
    const message = refusal(() => parseDistroList({ distros: [{ id, os_family: "linux" }] }));
    assertStringIncludes(
      message,
      "Cannot accept v1/index.json: $.distros[0].id must be 1 to 64 of",
    );
  }
  const twice = { id: "a", os_family: "bsd" };
  assertEquals(
    refusal(() => parseDistroList({ distros: [twice, twice] })),
    'Cannot accept v1/index.json: $.distros[1].id repeats "a" of [0]',
  );
});

Deno.test("parseDistroList() refuses wrong types, and unknown words of closed lists", () => {
  const cases: [unknown, string][] = [
    [null, "$ must be an object, found null"],
    [[], "$ must be an object, found a list"],
    [{}, "$.distros must be a list, found nothing"],
    [{ distros: null }, "$.distros must be a list, found null"],
    [{ distros: {} }, "$.distros must be a list, found an object"],
    [{ distros: [7] }, "$.distros[0] must be an object, found 7"],
    [{ distros: [{ os_family: "bsd" }] }, "$.distros[0].id must be a text, found nothing"],
    [{ distros: [{ id: "a" }] }, "$.distros[0].os_family must be one of linux, bsd, illumos"],
    [{ distros: [{ id: "a", os_family: "beos" }] }, 'found "beos"'],
    [{ distros: [{ id: "a", os_family: "bsd", name: 1 }] }, "$.distros[0].name must be a text"],
    [{ distros: [{ id: "a", os_family: "bsd", homepage: [] }] }, "found a list"],
    [{ distros: Array(DOCUMENT_LIST_MAX + 1).fill(0) }, "over the limit"],
    [JSON.parse('{"__proto__": {"distros": []}}'), "$.distros must be a list, found nothing"],
  ];
  for (const [value, words] of cases) {
    assertStringIncludes(refusal(() => parseDistroList(value)), words);
  }
});

Deno.test("parseDistro() refuses contents that contradict the path, the list or each other", () => {
  const good = { id: "aurora", os_family: "linux", releases: [{ id: "1", aliases: ["latest"] }] };
  assertEquals(parseDistro(good, AURORA).dev_channel, undefined);
  const cases: [object, string][] = [
    [{ id: "other" }, '$.id must be "aurora" as in its path, found other'],
    [{ os_family: "bsd" }, "$.os_family must be linux as in v1/index.json, found bsd"],
    [{ releases: null }, "$.releases must be a list, found null"],
    [{ releases: [{ id: "../1" }] }, "$.releases[0].id must be 1 to 64 of"],
    [{ releases: [{ id: "1" }, { id: "1" }] }, '$.releases[1].id repeats "1" of [0]'],
    [
      { releases: [{ id: "1", aliases: null }] },
      "$.releases[0].aliases must be a list, found null",
    ],
    [{ releases: [{ id: "1", aliases: [5] }] }, "$.releases[0].aliases[0] must be a text, found 5"],
    [
      { releases: [{ id: "1", aliases: ["lts"] }, { id: "2", aliases: ["latest", "lts"] }] },
      '$.releases[1].aliases[1] gives "lts" to 2, but 1 holds it',
    ],
    [
      { releases: [{ id: "1", aliases: ["edge"] }, { id: "2", aliases: ["edge"] }] },
      '$.releases[1].aliases[0] gives "edge" to 2, but 1 holds it',
    ],
    [{ dev_channel: "edge" }, "$.dev_channel must be null as no release holds dev"],
    [
      { dev_channel: null, releases: [{ id: "1", aliases: ["dev"] }] },
      "$.dev_channel must name the channel that dev follows",
    ],
    [{ releases: [{ id: "1", eol_date: "2030-02-30" }] }, "$.releases[0].eol_date must be a date"],
    [{ releases: [{ id: "1", eol_date: "soon" }] }, 'such as 2030-05-31, found "soon"'],
    [{ releases: [{ id: "1", osinfo: { id: "x" } }] }, "$.releases[0].osinfo.short_id must be"],
    [{ releases: [{ id: "1", title: false }] }, "$.releases[0].title must be a text, found false"],
  ];
  for (const [change, words] of cases) {
    assertStringIncludes(refusal(() => parseDistro({ ...good, ...change }, AURORA)), words);
  }
});

Deno.test("decodeDocument() refuses bytes that are not JSON or not UTF-8, and deep nesting", () => {
  const text = (words: string) => new TextEncoder().encode(words);
  const cases: [Uint8Array, string][] = [
    [text("<html>not found</html>"), "$ is not JSON"],
    [text('{"distros": ['), "$ is not JSON"],
    [text(""), "$ is not JSON"],
    [text("\ufeff{}"), "$ is not JSON"],
    [new Uint8Array([0x7b, 0xff, 0x7d]), "$ is not UTF-8"],
    [text("[".repeat(100_000) + "]".repeat(100_000)), "$ is nested deeper than 64"],
  ];
  for (const [body, words] of cases) {
    assertStringIncludes(refusal(() => decodeDocument(body, "v1/index.json")), words);
  }
});

Deno.test("checkOpenapi() requires a description of version 3 with paths", () => {
  checkOpenapi({ openapi: "3.0.3", info: { version: "1.0.0" }, paths: {} });
  const cases: [unknown, string][] = [
    [[], "$ must be an object"],
    [{ openapi: "2.0" }, "$.openapi must be a version 3"],
    [{ openapi: "3.0.3" }, "$.info must be an object"],
    [{ openapi: "3.0.3", info: { version: "" } }, "$.info.version must not be empty"],
    [{ openapi: "3.0.3", info: { version: "1" }, paths: [] }, "$.paths must be an object"],
  ];
  for (const [value, words] of cases) {
    assertStringIncludes(refusal(() => checkOpenapi(value)), words);
  }
});

function refusal(act: () => unknown): string {
  const error = assertThrows(act, AgentError);
  assertEquals(error.code, "upstream");
  return error.message;
}

async function fixture(path: string): Promise<unknown> {
  return JSON.parse(await Deno.readTextFile(`${FIXTURE_FOLDER}/${path}`));
}

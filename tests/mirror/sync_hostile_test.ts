// Documents that somebody wrote to do harm. Each is refused by its name, its place and a reason, asks
// the upstream for nothing outside of the tree, and leaves what was there.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { DOCUMENT_NAMES_MAX, DOCUMENT_VALUES_MAX } from "../../src/domain/index/index_document.ts";
import { TREE_ARTIFACTS_MAX } from "../../src/mirror/sync/reader.ts";
import { replace, storedTree, withMirror } from "./test_mirror.ts";
import { assertWholeTree } from "./whole_tree.ts";

const LIST = "v1/index.json";
const DISTRO = "v1/distros/cinder-os/index.json";
const RELEASE = "v1/distros/cinder-os/releases/r151058/index.json";
const ALIAS = "v1/distros/cinder-os/aliases/latest.json";
const OPENAPI = "v1/openapi.json";

function summary(text: string): string {
  return `{"distros":[${text}]}`;
}

function distro(releases: string, more = ""): string {
  return `{"id":"cinder-os","os_family":"illumos"${more},"releases":${releases}}`;
}

function builds(text: string): string {
  return `{"distro":"cinder-os","release":"r151058","builds":${text}}`;
}

const PLACE = '"locations":[{"url":"https://a.example/","kind":"primary"}]';

function artifact(more = "", places = PLACE): string {
  return `{"arch":"x86_64","format":"raw","compression":"none",${places}${more}}`;
}

function build(artifacts: string, id = '"1"'): string {
  return builds(`[{"build":${id},"artifacts":[${artifacts}]}]`);
}

const linux = (id: string) => `{"id":${JSON.stringify(id)},"os_family":"linux"}`;
const names = (count: number) =>
  `{${Array.from({ length: count }, (_, n) => `"${n}":${n}`).join()}}`;
const nested = (depth: number, inner = "1") => "[".repeat(depth) + inner + "]".repeat(depth);

/** Document, its text, JSON path and words of the reason. */
const DOCUMENTS: readonly (readonly [string, string, string, string])[] = [
  [LIST, summary(linux("../../etc")), "$.distros[0].id", 'found "../../etc"'],
  [LIST, summary(linux("..%2f..")), "$.distros[0].id", 'found "..%2f.."'],
  [LIST, summary(linux("..")), "$.distros[0].id", 'found ".."'],
  [LIST, summary(linux(".json")), "$.distros[0].id", 'found ".json"'],
  [LIST, summary(linux("a/b")), "$.distros[0].id", 'found "a/b"'],
  [LIST, summary(linux("a\\b")), "$.distros[0].id", "must be 1 to 64"],
  [LIST, summary(linux("a\0b")), "$.distros[0].id", "must be 1 to 64"],
  [LIST, summary(linux("a?b")), "$.distros[0].id", "must be 1 to 64"],
  [LIST, summary(linux("a#b")), "$.distros[0].id", "must be 1 to 64"],
  [LIST, summary(linux("")), "$.distros[0].id", 'found ""'],
  [LIST, summary(linux("x".repeat(300))), "$.distros[0].id", "must be 1 to 64"],
  [LIST, summary(linux("\u202egnp")), "$.distros[0].id", "must be 1 to 64"],
  [LIST, summary(`${linux("a")},${linux("a")}`), "$.distros[1].id", 'repeats "a"'],
  [LIST, '{"__proto__":{"distros":[]}}', "$.distros", "found nothing"],
  [LIST, '{"constructor":{"prototype":{"distros":[]}}}', "$.distros", "found nothing"],
  [LIST, summary('{"__proto__":{"id":"a"},"os_family":"bsd"}'), "$.distros[0].id", "found nothing"],
  [LIST, '{"distros":[],"distros":{}}', "$", "names a member twice"],
  [LIST, summary('{"id":"a","id":"b","os_family":"bsd"}'), "$", "names a member twice"],
  [LIST, nested(100_000), "$", "is nested deeper than 64"],
  [LIST, `{"distros":${nested(65, "")}}`, "$", "is nested deeper than 64"],
  [
    LIST,
    `[${"1,".repeat(DOCUMENT_VALUES_MAX)}1]`,
    "$",
    `has more than ${DOCUMENT_VALUES_MAX} values`,
  ],
  [LIST, summary(`${linux("a")},`.repeat(10_000) + linux("b")), "$.distros", "over the limit"],
  [LIST, names(DOCUMENT_NAMES_MAX + 1), "$", `has an object of over ${DOCUMENT_NAMES_MAX} names`],
  [LIST, `{"distros":[],"x":[${names(DOCUMENT_NAMES_MAX + 1)}]}`, "$", "has an object of over"],
  [LIST, '"distros"', "$", "must be an object"],
  [LIST, "\ufeff{}", "$", "is not JSON"],
  [DISTRO, distro("[]", ',"name":"\\ud800'), "$", "is not JSON"],
  [
    DISTRO,
    distro('[{"id":"1","aliases":["latest","latest"]}]'),
    "$.releases[0].aliases[1]",
    "holds",
  ],
  [
    DISTRO,
    distro('[{"id":"1","aliases":["latest"]},{"id":"2","aliases":["latest"]}]'),
    "$.releases[1].aliases[0]",
    'gives "latest" to 2, but 1 holds it',
  ],
  [DISTRO, distro('[{"id":"../../../v1/index.json?"}]'), "$.releases[0].id", "must be 1 to 64"],
  [DISTRO, distro('[{"id":"1"},{"id":"1"}]'), "$.releases[1].id", "repeats"],
  [DISTRO, distro('[{"id":"1","eol_date":"2026-02-30"}]'), "$.releases[0].eol_date", "a date"],
  [DISTRO, distro("[]", ',"dev_channel":"edge"'), "$.dev_channel", "no release holds dev"],
  [RELEASE, builds(`[${Array(1_000_000).fill("{}").join()}]`), "$", "values"],
  [RELEASE, builds(`[${Array(20_000).fill("{}").join()}]`), "$.builds", "over the limit"],
  [RELEASE, build(artifact(',"size":18446744073709551616')), size(), "found 2^64 or more"],
  [RELEASE, build(artifact(',"size":1.8446744073709552e19')), size(), "must be an integer"],
  [RELEASE, build(artifact(',"size":1844674407370955161600e-2')), size(), "found 2^64 or more"],
  [RELEASE, build(artifact(',"size":1e999')), size(), "must be an integer"],
  [RELEASE, build(artifact(',"size":-1')), size(), "found -1"],
  [RELEASE, build(artifact(',"size":0.5')), size(), "found 0.5"],
  [RELEASE, build(artifact(',"size":"1"')), size(), 'found "1"'],
  [RELEASE, build(artifact(',"firmware":["coreboot"]')), one(".firmware[0]"), "one of bios, uefi"],
  [RELEASE, build(artifact("", '"locations":[]')), one(".locations"), "kind primary"],
  [
    RELEASE,
    build(artifact("", '"locations":[{"url":"https://a/","kind":"torrent"}]')),
    one(".locations[0].kind"),
    "one of primary, vault, mirror",
  ],
  [RELEASE, build(`${artifact()},${artifact()}`), "$.builds[0].artifacts[1]", "repeats"],
  [RELEASE, build(""), "$.builds[0].artifacts", "must not be empty"],
  [RELEASE, build(artifact(), '""'), "$.builds[0].build", "must not be empty"],
  [RELEASE, build(artifact(), JSON.stringify("b".repeat(5000))), "$.builds[0].build", "characters"],
  [RELEASE, build(digest("sha256", "A".repeat(64))), value(), "lower-case hex"],
  [RELEASE, build(digest("sha256", "a".repeat(128))), value(), "64 digits"],
  [RELEASE, build(digest("md5", "a".repeat(32))), value(".algorithm"), "one of sha256, sha512"],
  [ALIAS, build(artifact()), "$", `must equal ${RELEASE}`],
  [OPENAPI, '{"openapi":"2.0"}', "$.openapi", "must be a version 3"],
];

function one(rest: string): string {
  return `$.builds[0].artifacts[0]${rest}`;
}

function size(): string {
  return one(".size");
}

function value(rest = ".value"): string {
  return one(`.integrity.digests[0]${rest}`);
}

function digest(algorithm: string, value: string): string {
  return artifact(`,"integrity":{"digests":[{"algorithm":"${algorithm}","value":"${value}"}]}`);
}

Deno.test(`${DOCUMENTS.length} hostile documents are refused by name, place and reason`, async () => {
  await withMirror(async ({ mirror, store, server }) => {
    await mirror.sync();
    const before = await storedTree(store);
    const known = new Set(server.received);
    for (const [path, text, json_path, words] of DOCUMENTS) {
      const what = `${path} ${text.slice(0, 200)}`;
      const good = server.files.get(path);
      assert(good !== undefined, path);
      replace(server, path, text);
      const { outcome, problems } = await mirror.sync();
      assertEquals(outcome, path === LIST ? "failed" : "partial", what);
      const [problem] = problems;
      assertEquals([problem?.document, problem?.json_path], [path, json_path], what);
      assertStringIncludes(problem?.reason ?? "", words, what);
      assert((problem?.message.length ?? 0) < 1000, what);
      assertEquals(await storedTree(store), before, what);
      server.files.set(path, good);
    }
    assertEquals(server.received.filter((path) => !known.has(path)), []);
    await assertWholeTree(store);
  });
});

Deno.test("sync() accepts the largest size, and unknown words of open lists", async () => {
  await withMirror(async ({ mirror, store, server }) => {
    const text = build(
      `${artifact(',"size":18446744073709551615,"zeta":1e999,"__proto__":{"a":1}')},` +
        '{"arch":"riscv128","format":"qed","compression":"lz9",' + PLACE + "}",
    );
    for (const path of [RELEASE, ALIAS]) replace(server, path, text);
    assertEquals((await mirror.sync()).problems, []);
    assertEquals((await storedTree(store)).get(RELEASE), text);
  });
});

Deno.test("a tree of more artifacts than are written at once is not taken", async () => {
  await withMirror(async ({ mirror, server }) => {
    const names = Array.from({ length: 6 }, (_, n) => `r${n}`);
    replace(server, LIST, summary('{"id":"cinder-os","os_family":"illumos"}'));
    replace(server, DISTRO, distro(`[${names.map((id) => `{"id":"${id}"}`).join()}]`));
    const many = Array.from(
      { length: 10_000 },
      (_, n) =>
        `{"arch":"a${n}","format":"raw","compression":"none","locations":[{"url":"https://a.example/"}]}`,
    );
    for (const id of names) {
      const text =
        `{"distro":"cinder-os","release":"${id}","builds":[{"build":"1","artifacts":[${many}]}]}`;
      replace(server, `v1/distros/cinder-os/releases/${id}/index.json`, text);
    }
    const { outcome, problems } = await mirror.sync();
    assertEquals(outcome, "failed");
    assertStringIncludes(
      problems[0]?.message ?? "",
      `more than ${TREE_ARTIFACTS_MAX} new artifacts`,
    );
  });
});

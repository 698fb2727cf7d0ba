// The tables of fields of document 1, row by row: the upstream changes one field of its tree, the
// mirror syncs, and the agent serves the new document when the row allows it, else the one before.

import { assertEquals } from "@std/assert";
import type { JsonObject, JsonValue } from "../../src/domain/json.ts";
import { fixtureFiles } from "../mirror/index_server.ts";
import { edit } from "../mirror/test_mirror.ts";
import { type IndexAgent, withIndexAgent } from "./index_agent.ts";

const LIST = "v1/index.json";
const DISTRO = "v1/distros/cinder-os/index.json";
/** A list of builds that no alias file has to equal. */
const BUILDS = "v1/distros/aurora/releases/24.0/archive.json";

/** Where objects of a table stand in the tree; the first document is the one that is looked at. */
type Objects = readonly (readonly [document: string, ...place: (string | number)[]])[];

interface Row {
  readonly field: string;
  readonly required?: true;
  readonly nullable?: true;
  /** Values that must be served. */
  readonly good?: readonly JsonValue[];
  /** Values that the parser must refuse. */
  readonly wrong: readonly JsonValue[];
}

const NULLABLE_TEXT: Omit<Row, "field"> = {
  nullable: true,
  good: ["", "狐 – “x”"],
  wrong: [5, [], {}],
};
const REQUIRED_TEXT: Omit<Row, "field"> = { required: true, wrong: [5, {}] };
const FLAG: Omit<Row, "field"> = { nullable: true, good: [true, false], wrong: ["true", 1] };
/** A list that is empty when nothing is known. */
const WORDS: Omit<Row, "field"> = { good: [[]], wrong: ["nocloud", {}, [5]] };
const DATE_TIME: Omit<Row, "field"> = {
  nullable: true,
  good: ["2026-10-01T04:05:06Z", "2026-10-01T04:05:06.123456789+02:00"],
  wrong: ["yesterday", "2026-10-01", 5],
};
const OSINFO: Row = {
  field: "osinfo",
  nullable: true,
  good: [{ id: "http://a.example/1", short_id: "a1" }],
  wrong: ["a1", { id: "x" }, { short_id: "x" }, { id: 1, short_id: "x" }],
};
const SUMMARY: readonly Row[] = [
  { field: "id", required: true, wrong: [5, "", "..", "a/b", "a b"] },
  { field: "name", ...NULLABLE_TEXT },
  { field: "homepage", ...NULLABLE_TEXT },
  { field: "os_family", required: true, good: ["linux", "bsd"], wrong: ["windows", 5, null] },
];

const TABLES: readonly (readonly [name: string, objects: Objects, rows: readonly Row[]])[] = [
  ["DistroSummary", [[LIST, "distros", 2], [DISTRO]], SUMMARY],
  ["DistroList", [[LIST]], [{ field: "distros", required: true, wrong: [{}, "x", [5]] }]],
  ["Distro", [[DISTRO], [LIST, "distros", 2]], [
    ...SUMMARY,
  ]],
  ["Distro, its own fields", [[DISTRO]], [
    { field: "dev_channel", nullable: true, wrong: [5, [], "edge"] },
    { field: "releases", required: true, wrong: [{}, "x", [5]] },
  ]],
  ["Release", [[DISTRO, "releases", 0]], [
    { field: "id", required: true, wrong: [5, "", "..", "a/b"] },
    { field: "title", ...NULLABLE_TEXT },
    { field: "version", ...NULLABLE_TEXT },
    {
      field: "eol_date",
      nullable: true,
      good: ["2031-04-30"],
      wrong: ["2031-02-30", "soon", "2031-04-30T00:00:00Z", 5],
    },
    { field: "aliases", good: [[], ["latest", "some other"]], wrong: ["latest", [5]] },
    OSINFO,
  ]],
  ["BuildList", [[BUILDS]], [
    { field: "distro", required: true, wrong: ["basalt", 5] },
    { field: "release", required: true, wrong: ["24.2", 5] },
    { field: "builds", required: true, wrong: [{}, "x", [5]] },
  ]],
  ["Build", [[BUILDS, "builds", 0]], [
    { field: "build", ...REQUIRED_TEXT, good: ["v7.9_2026-08-31-22-45"] },
    { field: "artifacts", required: true, wrong: [{}, "x", [5]] },
    { field: "point_release", ...NULLABLE_TEXT },
    { field: "published_at", ...DATE_TIME },
    { field: "first_seen", ...DATE_TIME },
    OSINFO,
  ]],
  ["Artifact", [[BUILDS, "builds", 0, "artifacts", 0]], [
    { field: "arch", ...REQUIRED_TEXT, good: ["aarch64", "riscv64"] },
    { field: "format", ...REQUIRED_TEXT, good: ["qcow2", "raw", "vmdk", "vhdx"] },
    {
      field: "compression",
      ...REQUIRED_TEXT,
      good: ["none", "gzip", "xz", "zstd", "bzip2", "lz4"],
    },
    { field: "locations", required: true, wrong: [{}, "x", [5]] },
    { field: "variant", ...NULLABLE_TEXT, good: ["lvm"] },
    { field: "default_variant", ...FLAG },
    { field: "size", nullable: true, good: [0, 2 ** 40], wrong: [-1, 1.5, "1"] },
    { field: "firmware", good: [[], ["bios"], ["uefi", "bios"]], wrong: ["bios", ["pxe"], [5]] },
    { field: "datasources", ...WORDS, good: [[], ["nocloud", "new"]] },
    { field: "ssh_key_injection", ...FLAG },
    { field: "integrity", nullable: true, good: [{}], wrong: [5, "x", []] },
  ]],
  ["Location", [[BUILDS, "builds", 0, "artifacts", 0, "locations", 0]], [
    { field: "url", ...REQUIRED_TEXT, good: ["https://vault.example.com/other"] },
    { field: "kind", nullable: true, good: ["vault", "mirror"], wrong: ["torrent", 5] },
    { field: "redirects_off_host", ...FLAG },
  ]],
  ["Integrity", [[BUILDS, "builds", 0, "artifacts", 0, "integrity"]], [
    { field: "digests", ...WORDS, wrong: [{}, "x", [5], [{}]] },
    { field: "http", nullable: true, good: [{}], wrong: [5, "x"] },
    { field: "signatures", ...WORDS, wrong: [{}, "x", [5], [{}]] },
  ]],
  ["Digest", [[BUILDS, "builds", 0, "artifacts", 0, "integrity", "digests", 0]], [
    { field: "algorithm", required: true, good: ["sha256"], wrong: ["md5", "SHA256", 5] },
    {
      field: "value",
      required: true,
      good: ["0".repeat(64)],
      wrong: ["0".repeat(63), "F".repeat(64), "x".repeat(64), 5],
    },
    { field: "source", nullable: true, wrong: [5, {}, "x"] },
  ]],
  ["ChecksumSource", [[BUILDS, "builds", 0, "artifacts", 0, "integrity", "digests", 0, "source"]], [
    {
      field: "format",
      ...REQUIRED_TEXT,
      good: ["gnu", "bsd", "bare", "vendor_document", "other"],
    },
    { field: "url", ...REQUIRED_TEXT },
    { field: "filename", ...NULLABLE_TEXT, good: ["x.raw"] },
  ]],
  ["HttpMetadata", [[BUILDS, "builds", 0, "artifacts", 0, "integrity", "http"]], [
    { field: "etag", ...NULLABLE_TEXT, good: ['W/"1.2:3"', "8f3f0c0e-5b1a"] },
    { field: "last_modified", ...NULLABLE_TEXT, good: ["Thu, 01 Oct 2026 04:05:06 GMT", "then"] },
  ]],
  ["Signature", [[BUILDS, "builds", 0, "artifacts", 0, "integrity", "signatures", 0]], [
    { field: "kind", ...REQUIRED_TEXT, good: ["pgp_detached", "minisign"] },
    { field: "signs", ...REQUIRED_TEXT },
    { field: "url", ...REQUIRED_TEXT },
    { field: "key_url", ...NULLABLE_TEXT, good: ["https://vault.example.com/key"] },
  ]],
];

/** Stands for a field that is taken away. */
const ABSENT = Symbol("absent");

/** Changes the field upstream and syncs. @returns whether the agent serves the change */
async function takes(
  { server, mirror, get }: IndexAgent,
  objects: Objects,
  field: string,
  value: JsonValue | typeof ABSENT,
): Promise<boolean> {
  const [[looked]] = objects as [[string]];
  server.files.clear();
  for (const [path, file] of await fixtureFiles()) server.files.set(path, file);
  // What a later row changes in a known build is no attack here.
  await mirror.sync({ acceptChanged: true });
  const before = await get(`/${looked}`);
  for (const [document, ...place] of objects) {
    edit(server, document, (root) => {
      // The places were read off the tree.
      const object = place.reduce<JsonObject>((at, key) => at[key] as JsonObject, root);
      if (value === ABSENT) delete object[field];
      else object[field] = value;
    });
  }
  await mirror.sync({ acceptChanged: true });
  const after = await get(`/${looked}`);
  assertEquals([before.status, after.status], [200, 200]);
  const wanted = new TextDecoder().decode(server.files.get(looked)?.body);
  assertEquals(after.text === wanted || after.text === before.text, true);
  return after.text === wanted;
}

for (const [name, objects, rows] of TABLES) {
  Deno.test(`document 1: the fields of ${name} take the values described`, async (t) => {
    await withIndexAgent(async (agent) => {
      for (const { field, required, nullable, good = [], wrong } of rows) {
        await t.step(field, async () => {
          const taken = (value: JsonValue | typeof ABSENT) => takes(agent, objects, field, value);
          assertEquals(["absent", await taken(ABSENT)], ["absent", required !== true]);
          assertEquals(["null", await taken(null)], ["null", nullable === true]);
          for (const value of good) assertEquals([value, await taken(value)], [value, true]);
          for (const value of wrong) assertEquals([value, await taken(value)], [value, false]);
          assertEquals(
            ["further fields", await takes(agent, objects, `not_${field}`, { kept: [1] })],
            ["further fields", true],
          );
        });
      }
    });
  });
}

import { assertEquals, assertStringIncludes } from "@std/assert";
import { type BuildList, parseBuildList } from "../../src/domain/index/artifact.ts";
import {
  pinsOf,
  rolledBack,
  weakened as weakenedPins,
} from "../../src/decoder/work/index_documents.ts";

const SHA256 = { algorithm: "sha256", value: "1".repeat(64) };
const SHA512 = { algorithm: "sha512", value: "2".repeat(128) };
const SIGNATURE = { kind: "pgp_detached", signs: "https://a", url: "https://a.asc" };

Deno.test("weakened() finds nothing when a list publishes the same or more", () => {
  const before = list("1", { digests: [SHA256] });
  assertEquals(weakened([before], [before]), undefined);
  assertEquals(weakened([before], [list("1", { digests: [SHA512, SHA256] })]), undefined);
  assertEquals(weakened([before], [list("2", { digests: [] })]), undefined);
  assertEquals(weakened([], [list("1", null)]), undefined);
  assertEquals(weakened([list("1", null)], [before]), undefined);
});

Deno.test("weakened() finds digests and signatures that are dropped or changed", () => {
  const before = list("1", { digests: [SHA256, SHA512], signatures: [SIGNATURE] });
  const other = { algorithm: "sha256", value: "9".repeat(64) };
  const cases: [object | null, string][] = [
    [null, "drops the sha256"],
    [{ digests: [] }, "drops the sha256"],
    [{ digests: [SHA256] }, "drops the sha512"],
    [{ digests: [other, SHA512] }, "changes the sha256"],
    [{ digests: [SHA256, other, SHA512] }, "changes the sha256"],
    [{ digests: [SHA256, SHA512] }, "drops the pgp_detached signature"],
  ];
  for (const [integrity, words] of cases) {
    const found = weakened([before], [list("1", integrity)]);
    assertEquals(found, `${words} of build "1" [null,"x86_64","raw"]`);
  }
});

Deno.test("weakened() follows a build into the archive", () => {
  const before = list("1", { digests: [SHA256] });
  const archived = list("1", { digests: [] }, "archived");
  const found = weakened([before], [list("2", null), archived]);
  assertEquals(found, 'drops the sha256 of build "1" [null,"x86_64","raw"]');
});

Deno.test("weakened() compares an artifact in the current list and in the archive", () => {
  const before = list("1", { digests: [SHA256] });
  const changed = list("1", { digests: [{ algorithm: "sha256", value: "9".repeat(64) }] });
  const archived = list("1", { digests: [SHA256] }, "archived");
  const found = weakened([before], [changed, archived]);
  assertEquals(found, 'changes the sha256 of build "1" [null,"x86_64","raw"]');
});

Deno.test("rolledBack() finds lists whose newest build is older than a known one", () => {
  const dated = (...dates: (string | null)[]) =>
    dates.map((first_seen, index) => list(`${index}`, null, "current", first_seen));
  const old = dated("2026-11-01T00:00:00Z", "2026-11-03T00:00:00.000000001Z");
  assertEquals(rolledBack(old, old), undefined);
  assertEquals(rolledBack(old, dated("2026-11-04T00:00:00Z")), undefined);
  assertEquals(rolledBack([], dated(null)), undefined);
  assertEquals(rolledBack(dated(null), dated(null)), undefined);
  assertEquals(
    rolledBack(old, dated("2026-11-02T00:00:00Z")),
    "goes back behind a build that was first seen at 2026-11-03T00:00:00.000000001Z: " +
      "the newest is of 2026-11-02T00:00:00Z",
  );
  assertStringIncludes(rolledBack(old, dated(null)) ?? "", "none has a date");
});

function weakened(before: readonly BuildList[], after: readonly BuildList[]): string | undefined {
  return weakenedPins(new Map(pinsOf(before)), pinsOf(after));
}

function list(
  build: string,
  integrity: object | null,
  kind: "current" | "archived" = "current",
  first_seen: string | null = null,
): BuildList {
  const artifact = {
    arch: "x86_64",
    format: "raw",
    compression: "none",
    locations: [{ url: "https://example.com/a" }],
    integrity,
  };
  const value = {
    distro: "a",
    release: "1",
    builds: [{ build, first_seen, artifacts: [artifact] }],
  };
  return parseBuildList(value, { document: "list", distro: "a", release: "1", kind });
}

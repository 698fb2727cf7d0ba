import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { type ExpectedBuilds, parseBuildList } from "../../src/domain/index/artifact.ts";
import { AgentError } from "../../src/domain/error.ts";
import { aliasPath, releasePath } from "../../src/domain/index/index_document.ts";
import { FIXTURE_FOLDER } from "../mirror/index_server.ts";

const RELEASE: ExpectedBuilds = {
  document: "v1/distros/aurora/releases/24.2/index.json",
  distro: "aurora",
  release: "24.2",
  kind: "current",
};

Deno.test("parseBuildList() keeps unknown words, and instants as they are written", async () => {
  const path = releasePath("cinder-os", "r151058");
  const expected = { document: path, distro: "cinder-os", release: "r151058" } as const;
  const { builds } = parseBuildList(await fixture(path), { ...expected, kind: "current" });
  const [build] = builds;
  assertEquals(build?.published_at, "2026-09-30T23:59:60Z");
  const odd = build?.artifacts[1];
  assertEquals([odd?.format, odd?.compression], ["vhdx", "lz4"]);
  assertEquals(odd?.integrity?.digests[0]?.source?.format, "b3");
  assertEquals(odd?.integrity?.signatures[0]?.kind, "minisign");
  assertEquals(odd?.integrity?.http?.etag, "3b9d6c2e-aaaa-bbbb-cccc-000000000000");
  const latest = await fixture(releasePath("aurora", "24.2"));
  assertEquals(
    parseBuildList(latest, RELEASE).builds[0]?.first_seen,
    "2026-10-15T01:02:03.123456789Z",
  );
});

Deno.test("parseBuildList() reads an alias file like the list that it copies", async () => {
  const list = parseBuildList(await fixture(aliasPath("aurora", "latest")), RELEASE);
  assertEquals(list.builds.map((build) => build.build), ["20261015.1", "20260901"]);
});

Deno.test("parseBuildList() fills in optional fields", () => {
  const list = parseBuildList(builds({}), RELEASE);
  assertEquals(list.builds[0]?.artifacts[0], {
    arch: "x86_64",
    format: "raw",
    compression: "none",
    locations: [{ url: "https://example.com/a", kind: null, redirects_off_host: null }],
    variant: null,
    default_variant: null,
    size: null,
    firmware: [],
    datasources: [],
    ssh_key_injection: null,
    integrity: null,
  });
});

Deno.test("parseBuildList() refuses contents that contradict the path, and repeated or empty lists", () => {
  const cases: [object, string][] = [
    [{ distro: "other" }, '$.distro must be "aurora" as in its path, found "other"'],
    [{ release: "24.0" }, '$.release must be "24.2" as in its path, found "24.0"'],
    [{ builds: [] }, "$.builds must not be empty"],
    [{ builds: undefined }, "$.builds must be a list, found nothing"],
    [{ builds: [{ build: "1", artifacts: [] }] }, "$.builds[0].artifacts must not be empty"],
    [{ builds: [{ build: "", artifacts: [artifact()] }] }, "$.builds[0].build must not be empty"],
    [
      {
        builds: [{ build: "1", artifacts: [artifact()] }, { build: "1", artifacts: [artifact()] }],
      },
      '$.builds[1].build repeats "1" of [0]',
    ],
    [
      { builds: [{ build: "1", artifacts: [artifact(), artifact({ compression: "xz" })] }] },
      "$.builds[0].artifacts[1] repeats",
    ],
    [
      { builds: [{ build: "1", artifacts: [artifact()], first_seen: "2026-10-01 04:05:06" }] },
      "$.builds[0].first_seen must be a date and time",
    ],
    [
      { builds: [{ build: "1", artifacts: [artifact()], published_at: "2026-13-01T04:05:06Z" }] },
      "$.builds[0].published_at must be a date and time",
    ],
  ];
  for (const [change, words] of cases) {
    const value = { distro: "aurora", release: "24.2", builds: [], ...change };
    assertStringIncludes(refusal(() => parseBuildList(value, RELEASE)), words);
  }
});

Deno.test("parseBuildList() refuses an artifact that breaks a rule, naming the field", () => {
  const sha256 = (value: unknown) => ({ integrity: { digests: [{ algorithm: "sha256", value }] } });
  const cases: [object, string][] = [
    [{ arch: undefined }, ".arch must be a text, found nothing"],
    [{ format: null }, ".format must be a text, found null"],
    [{ compression: 1 }, ".compression must be a text, found 1"],
    [{ locations: [] }, ".locations must have a location of kind primary"],
    [{ locations: [{ url: "https://a", kind: "vault" }] }, "must have a location of kind primary"],
    [{ locations: [{ url: "https://a", kind: "cdn" }] }, ".locations[0].kind must be one of"],
    [{ locations: [{ kind: "primary" }] }, ".locations[0].url must be a text"],
    [{ locations: [{ url: "https://a", redirects_off_host: "no" }] }, "must be true or false"],
    [{ size: -1 }, ".size must be an integer from 0, found -1"],
    [{ size: 1.5 }, ".size must be an integer from 0, found 1.5"],
    [{ size: "12" }, '.size must be an integer from 0, found "12"'],
    [{ size: 1e300 }, ".size must be an integer from 0"],
    [{ firmware: ["coreboot"] }, ".firmware[0] must be one of bios, uefi"],
    [{ firmware: null }, ".firmware must be a list, found null"],
    [{ datasources: [null] }, ".datasources[0] must be a text, found null"],
    [{ default_variant: "yes" }, ".default_variant must be true or false"],
    [{ ssh_key_injection: 0 }, ".ssh_key_injection must be true or false"],
    [{ integrity: [] }, ".integrity must be an object, found a list"],
    [
      { integrity: { digests: [{ algorithm: "md5", value: "0" }] } },
      "must be one of sha256, sha512",
    ],
    [sha256("0".repeat(63)), ".integrity.digests[0].value must be 64 digits of lower-case hex"],
    [sha256("A".repeat(64)), "must be 64 digits of lower-case hex"],
    [sha256("0".repeat(128)), "must be 64 digits of lower-case hex"],
    [sha256(null), ".integrity.digests[0].value must be a text, found null"],
    [
      { integrity: { signatures: [{ kind: "x", signs: "y" }] } },
      ".signatures[0].url must be a text",
    ],
    [{ integrity: { http: "none" } }, ".integrity.http must be an object"],
  ];
  for (const [change, words] of cases) {
    const message = refusal(() => parseBuildList(builds(change), RELEASE));
    assertStringIncludes(message, `Cannot accept ${RELEASE.document}: $.builds[0].artifacts[0]`);
    assertStringIncludes(message, words);
  }
});

Deno.test("parseBuildList() refuses a primary location in an archive", () => {
  const archive: ExpectedBuilds = { ...RELEASE, kind: "archived" };
  const vault = { locations: [{ url: "https://a", kind: "vault" }] };
  assertEquals(parseBuildList(builds(vault), archive).builds.length, 1);
  const primary = { locations: [{ url: "https://a", kind: "primary" }] };
  assertStringIncludes(
    refusal(() => parseBuildList(builds(primary), archive)),
    "locations[0].kind must not be primary in an archive",
  );
});

function artifact(change: object = {}): object {
  return {
    arch: "x86_64",
    format: "raw",
    compression: "none",
    locations: [{ url: "https://example.com/a" }],
    ...change,
  };
}

function builds(change: object): object {
  return {
    distro: "aurora",
    release: "24.2",
    builds: [{ build: "1", artifacts: [artifact(change)] }],
  };
}

function refusal(act: () => unknown): string {
  const error = assertThrows(act, AgentError);
  assertEquals(error.code, "upstream");
  return error.message;
}

async function fixture(path: string): Promise<unknown> {
  return JSON.parse(await Deno.readTextFile(`${FIXTURE_FOLDER}/${path}`));
}

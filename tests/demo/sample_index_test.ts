import { assert, assertEquals, assertMatch } from "@std/assert";
import { type SampleFiles, sampleFiles } from "../../src/simulator/outside/sample_file.ts";
import { sampleIndex } from "../../src/simulator/outside/sample_index.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../src/domain/json.ts";

// The size of the medium is of no interest here.
const files: SampleFiles = await sampleFiles({ isoBytes: 1 << 20 });
const BASE = "http://127.0.0.1:1234";

function documents(baseUrl = BASE): Map<string, JsonObject> {
  const index = sampleIndex({ baseUrl, files });
  const decoder = new TextDecoder("utf-8", { fatal: true });
  return new Map([...index].map(([path, bytes]) => [path, JSON.parse(decoder.decode(bytes))]));
}

function objects(value: JsonValue | undefined): JsonObject[] {
  assert(Array.isArray(value));
  return value.map((item) => {
    assert(isJsonObject(item));
    return item;
  });
}

function texts(value: JsonValue | undefined): string[] {
  assert(Array.isArray(value));
  return value.map(String);
}

/** Every release of the tree with the distro it is in. */
function releases(tree: Map<string, JsonObject>): [distro: JsonObject, release: JsonObject][] {
  return objects(tree.get("v1/index.json")?.distros).flatMap(({ id }) => {
    const distro = tree.get(`v1/distros/${id}/index.json`);
    assert(distro !== undefined, `${id} has a document`);
    return objects(distro.releases).map((release): [JsonObject, JsonObject] => [distro, release]);
  });
}

/** Every build list of a release (current or archived), aliases left out. */
function buildLists(tree: Map<string, JsonObject>): [path: string, list: JsonObject][] {
  return [...tree].filter(([path]) => path.includes("/releases/"));
}

Deno.test("sampleIndex() lists every document in its parent, and has no others", () => {
  const tree = documents();
  const expected = new Set(["v1/index.json", "v1/openapi.json"]);
  for (const [distro, release] of releases(tree)) {
    const folder = `v1/distros/${distro.id}`;
    expected.add(`${folder}/index.json`);
    expected.add(`${folder}/releases/${release.id}/index.json`);
    for (const alias of texts(release.aliases)) expected.add(`${folder}/aliases/${alias}.json`);
  }
  const archives = [...tree.keys()].filter((path) => path.endsWith("/archive.json"));
  for (const path of archives) {
    assert(expected.has(path.replace("archive", "index")), `${path} belongs to a listed release`);
    expected.add(path);
  }
  assert(archives.length > 0);
  assertEquals([...tree.keys()].sort(), [...expected].sort());
});

Deno.test("sampleIndex() writes every optional key and no unknown one", () => {
  const keys = (value: JsonObject) => Object.keys(value).sort().join(" ");
  const tree = documents();
  for (const distro of objects(tree.get("v1/index.json")?.distros)) {
    assertEquals(keys(distro), "homepage id name os_family");
  }
  for (const [distro, release] of releases(tree)) {
    assertEquals(keys(distro), "dev_channel homepage id name os_family releases");
    assertEquals(keys(release), "aliases eol_date id osinfo title version");
  }
  for (const [, list] of buildLists(tree)) {
    assertEquals(keys(list), "builds distro release");
    for (const build of objects(list.builds)) {
      assertEquals(keys(build), "artifacts build first_seen osinfo point_release published_at");
      for (const artifact of objects(build.artifacts)) {
        assertEquals(
          keys(artifact),
          "arch compression datasources default_variant firmware format integrity locations size " +
            "ssh_key_injection variant",
        );
        const { integrity } = artifact;
        assert(isJsonObject(integrity) && isJsonObject(integrity.http ?? null));
        assertEquals(keys(integrity), "digests http signatures");
        for (const digest of objects(integrity.digests)) {
          assertEquals(keys(digest), "algorithm source value");
        }
        for (const location of objects(artifact.locations)) {
          assertEquals(keys(location), "kind redirects_off_host url");
        }
      }
    }
  }
});

Deno.test("sampleIndex() describes a distro alike in the list and in its document", () => {
  const tree = documents();
  for (const summary of objects(tree.get("v1/index.json")?.distros)) {
    const distro = tree.get(`v1/distros/${summary.id}/index.json`) ?? {};
    assertMatch(String(summary.id), /^[a-z0-9]+(-[a-z0-9]+)*$/);
    assert(["linux", "bsd", "illumos"].includes(String(summary.os_family)));
    for (const [key, value] of Object.entries(summary)) assertEquals(distro[key], value, key);
  }
});

Deno.test("sampleIndex() has a file for each alias, equal to that of its release", () => {
  const tree = documents();
  const held = new Map<string, string>();
  for (const [distro, release] of releases(tree)) {
    const folder = `v1/distros/${distro.id}`;
    for (const alias of texts(release.aliases)) {
      const path = `${folder}/aliases/${alias}.json`;
      assert(!held.has(path), `${path} is held once`);
      held.set(path, String(release.id));
      assertEquals(tree.get(path), tree.get(`${folder}/releases/${release.id}/index.json`), path);
    }
  }
  const shown = new Set([...held.keys()].map((path) => path.slice(path.lastIndexOf("/") + 1)));
  assertEquals(shown, new Set(["latest.json", "lts.json", "dev.json"]));
});

Deno.test("sampleIndex() names a dev channel exactly if a release holds dev", () => {
  const tree = documents();
  for (const [distro] of releases(tree)) {
    const hasDev = objects(distro.releases).some((one) => texts(one.aliases).includes("dev"));
    assertEquals(distro.dev_channel !== null, hasDev, String(distro.id));
    const latest = objects(distro.releases).find((one) => !texts(one.aliases).includes("dev"));
    assert(texts(latest?.aliases).includes("latest"), "latest is the first that is not dev");
  }
});

Deno.test("sampleIndex() has no empty list, no equal builds and no equal artifacts", () => {
  for (const [path, list] of buildLists(documents())) {
    const [, distro, release] = /^v1\/distros\/([^/]+)\/releases\/([^/]+)\//.exec(path) ?? [];
    assertEquals([list.distro, list.release], [distro, release]);
    assertMatch(String(release), /^[A-Za-z0-9._-]{1,64}$/);
    const builds = objects(list.builds);
    assert(builds.length > 0, path);
    assertEquals(new Set(builds.map(({ build }) => build)).size, builds.length);
    for (const build of builds) {
      const artifacts = objects(build.artifacts);
      assert(artifacts.length > 0, path);
      const names = artifacts.map((one) => `${one.variant}/${one.arch}/${one.format}`);
      assertEquals(new Set(names).size, names.length);
      assertEquals(artifacts.filter((one) => one.default_variant === true).length, 1);
    }
  }
});

Deno.test("sampleIndex() gives current builds a primary location, archived none", () => {
  for (const [path, list] of buildLists(documents())) {
    const archived = path.endsWith("/archive.json");
    for (const artifact of objects(list.builds).flatMap(({ artifacts }) => objects(artifacts))) {
      const kinds = objects(artifact.locations).map(({ kind }) => kind);
      assertEquals(kinds, [archived ? "vault" : "primary"], path);
    }
  }
});

Deno.test("sampleIndex() describes the files: address, size and both digests", () => {
  const named = new Set<string>();
  for (const [, list] of buildLists(documents())) {
    for (const artifact of objects(list.builds).flatMap(({ artifacts }) => objects(artifacts))) {
      const url = String(objects(artifact.locations)[0]?.url);
      assert(url.startsWith(`${BASE}/`));
      const path = url.slice(BASE.length + 1);
      named.add(path);
      const file = Object.entries(files).find(([name]) => name === path)?.[1];
      assertEquals(artifact.size, file?.content.size);
      const integrity = artifact.integrity ?? null;
      assert(isJsonObject(integrity));
      assertEquals(integrity.digests, [
        { algorithm: "sha256", value: file?.digests.sha256 ?? "", source: null },
        { algorithm: "sha512", value: file?.digests.sha512 ?? "", source: null },
      ]);
      const [format, compression] = path.endsWith(".iso") ? ["iso", "none"] : ["raw", "gzip"];
      assertEquals([artifact.format, artifact.compression], [format ?? "", compression ?? ""]);
    }
  }
  assertEquals([...named].sort(), Object.keys(files).sort());
});

Deno.test("sampleIndex() offers the ISO image as the default of the latest release", () => {
  const tree = documents();
  const latest = tree.get("v1/distros/zonewright-sample/aliases/latest.json");
  const artifacts = objects(objects(latest?.builds)[0]?.artifacts);
  const byDefault = artifacts.find((one) => one.default_variant === true);
  assertEquals([byDefault?.format, byDefault?.arch], ["iso", "x86_64"]);
});

Deno.test("sampleIndex() gives the same bytes for the same address", () => {
  assertEquals(
    sampleIndex({ baseUrl: BASE, files }),
    sampleIndex({ baseUrl: BASE, files }),
  );
});

Deno.test("sampleIndex() describes the eight paths of document 1 in OpenAPI 3.0.3", () => {
  const openapi = (documents()).get("v1/openapi.json") ?? {};
  assertEquals(openapi.openapi, "3.0.3");
  const { info, paths, components } = openapi;
  assert(isJsonObject(info ?? null) && isJsonObject(paths ?? null));
  assertEquals((info as JsonObject).version, "1.0.0");
  const operations = Object.values(paths as JsonObject).map((path) =>
    ((path as JsonObject).get as JsonObject).operationId
  );
  assertEquals(operations, [
    "distro_list",
    "distro",
    "release_builds",
    "release_archive",
    "alias_latest",
    "alias_lts",
    "alias_dev",
    "openapi",
  ]);
  const schemas = Object.keys((components as JsonObject).schemas as JsonObject);
  const references = JSON.stringify(openapi).matchAll(/"#\/components\/schemas\/(\w+)"/g);
  for (const [, name = ""] of references) assert(schemas.includes(name), name);
});

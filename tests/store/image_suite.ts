// The suite's part on searching the artifacts of the image index.

import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import type { ImageFilter, ListedImage } from "../../src/store/image_store.ts";
import type { IndexDocument, IndexSync, Store } from "../../src/store/store.ts";
import { T0 } from "../support/job.ts";
import type { Test } from "./store_case.ts";

/** The report of a sync; what it tells is of no interest here. */
export const SYNC: IndexSync = {
  started_at: T0,
  finished_at: T0,
  upstream: "folder",
  outcome: "complete",
  added: 0,
  changed: 0,
  removed: 0,
  unchanged: 0,
  problems: [],
};

/** A document of the index. */
export function documentOf(path: string, value: unknown): IndexDocument {
  return {
    path: `v1/${path}`,
    body: new TextEncoder().encode(JSON.stringify(value)),
    sha256: "0".repeat(64),
    etag: null,
    last_modified: null,
    fetched_at: T0,
  };
}

function artifact(words: string, fields: JsonObject = {}): JsonObject {
  const [variant = "", arch = "", format = "", compression = "none"] = words.split("/");
  return {
    variant: variant === "-" ? null : variant,
    arch,
    format,
    compression,
    locations: [
      { url: `https://vendor.example/m/${variant}.${format}`, kind: "mirror" },
      { url: `https://vendor.example/${variant}.${format}`, kind: "primary" },
    ],
    ...fields,
  };
}

const ZETA = {
  id: "zeta",
  os_family: "bsd",
  releases: [
    { id: "10", title: "Zeta Ten – “new”", aliases: ["latest"] },
    { id: "9", aliases: ["lts", "old stable"] },
  ],
};

/** A tree of two distros, in an order that is not that of their names. */
export const TREE: readonly IndexDocument[] = [
  documentOf("index.json", {
    distros: [
      { id: "zeta", os_family: "bsd" },
      { id: "alpha", name: "Alpha Linux", os_family: "linux" },
    ],
  }),
  documentOf("distros/zeta/index.json", ZETA),
  documentOf("distros/alpha/index.json", {
    id: "alpha",
    releases: [{ id: "latest", aliases: [] }, { id: "7", aliases: ["latest"] }],
  }),
  documentOf("distros/zeta/releases/10/index.json", {
    builds: [
      {
        build: "b2",
        point_release: "10.1",
        published_at: "2026-10-02T03:04:05.123456789Z",
        artifacts: [
          artifact("base/x86_64/qcow2", { default_variant: true, unknown: [1] }),
          artifact("base/x86_64/raw/xz", { default_variant: true }),
          artifact("lvm/x86_64/qcow2", { default_variant: false, datasources: ["nocloud", "ec2"] }),
          artifact("-/aarch64/qcow2", { firmware: ["uefi"], datasources: ["no"] }),
        ],
      },
      { build: "b1", artifacts: [artifact("base/x86_64/qcow2", { default_variant: true })] },
    ],
  }),
  documentOf("distros/zeta/releases/9/index.json", {
    builds: [{ build: "old", artifacts: [artifact("-/x86_64/qcow2")] }],
  }),
  documentOf("distros/zeta/releases/9/archive.json", {
    builds: [{
      build: "older",
      artifacts: [artifact("-/x86_64/vmdk", {
        locations: [{ url: "https://vault.example/x.vmdk", kind: "vault" }],
      })],
    }],
  }),
  documentOf("distros/alpha/releases/7/index.json", {
    builds: [{ build: "1", artifacts: [artifact("-/x86_64/qcow2")] }],
  }),
  documentOf("distros/alpha/releases/latest/index.json", {
    builds: [{ build: "2", artifacts: [artifact("-/x86_64/qcow2")] }],
  }),
  documentOf("distros/alpha/aliases/latest.json", { builds: [{ build: "copy", artifacts: [{}] }] }),
];

function nameOf({ distro, release, build, artifact: { variant, arch, format } }: ListedImage) {
  return [distro, release, build, variant ?? "-", arch, format].join("/");
}

async function found(store: Store, filter: ImageFilter): Promise<string[]> {
  const images = await store.images.search(filter, { limit: 100 });
  assertEquals(await store.images.count(filter), images.length);
  return images.map(nameOf);
}

const ALL = [
  "zeta/10/b2/base/x86_64/qcow2",
  "zeta/10/b2/base/x86_64/raw",
  "zeta/10/b2/lvm/x86_64/qcow2",
  "zeta/10/b2/-/aarch64/qcow2",
  "zeta/10/b1/base/x86_64/qcow2",
  "zeta/9/old/-/x86_64/qcow2",
  "zeta/9/older/-/x86_64/vmdk",
  "alpha/latest/2/-/x86_64/qcow2",
  "alpha/7/1/-/x86_64/qcow2",
];

function only(...words: string[]): string[] {
  return ALL.filter((name) => words.every((word) => name.includes(word)));
}

export function imageTests(test: Test): void {
  const filled = (name: string, run: (store: Store) => Promise<void>) =>
    test(name, async (store) => {
      await store.index.swap(TREE, [], SYNC);
      await run(store);
    });

  test("an index without documents has no artifacts", async (store) => {
    assertEquals(await found(store, {}), []);
  });
  filled(
    "search() lists every artifact in the order of the tree, alias files left out",
    async (store) => {
      assertEquals(await found(store, {}), ALL);
    },
  );
  filled("search() finds by each key, and by several at once", async (store) => {
    const cases: [filter: ImageFilter, expected: string[]][] = [
      [{ distro: "alpha" }, only("alpha/")],
      [{ distro: "ALPHA" }, []],
      [{ release: "9" }, only("zeta/9/")],
      [{ release: "old stable" }, only("zeta/9/")],
      // An alias comes before a release of the same name.
      [{ release: "latest" }, [...only("zeta/10/"), ...only("alpha/7/")]],
      [{ distro: "alpha", release: "7" }, only("alpha/7/")],
      [{ build: "b1" }, only("/b1/")],
      [{ arch: "aarch64" }, only("/aarch64/")],
      [{ format: "vmdk" }, only("/vmdk")],
      [{ variant: "lvm" }, only("/lvm/")],
      [{ compression: "xz" }, only("/raw")],
      [{ datasource: "nocloud" }, only("/lvm/")],
      [{ datasource: "no" }, only("/aarch64/")],
      [{ firmware: "uefi" }, only("/aarch64/")],
      [{ archived: true }, only("/older/")],
      [{ archived: false, format: "vmdk" }, []],
      [{ newest: true, distro: "zeta" }, [...only("/b2/"), ...only("/old/")]],
      [{ newest: false }, [...only("/b1/"), ...only("/older/")]],
      [{ distro: "zeta", release: "latest", newest: true, default_variant: true }, [
        ...only("/b2/base/"),
        ...only("/aarch64/"),
      ]],
      [{ default_variant: false }, only("/lvm/")],
      [{ arch: "x86_64", format: "qcow2", distro: "zeta", build: "b2" }, [
        ...only("b2/base", "qcow2"),
        ...only("lvm"),
      ]],
    ];
    for (const [filter, expected] of cases) {
      assertEquals([filter, await found(store, filter)], [filter, expected]);
    }
  });
  filled(
    "search() looks for each word in all that names an artifact, whatever its case",
    async (store) => {
      const cases: [words: string[], expected: string[]][] = [
        [["LINUX"], only("alpha/")],
        [["zeta", "TEN"], only("zeta/10/")],
        [["“NEW”"], only("zeta/10/")],
        [["old st"], only("zeta/9/")],
        [["lvm.qcow2"], only("/lvm/")],
        [["10.1", "ec2"], only("/lvm/")],
        [["%"], []],
        [["b2", "b1"], []],
        // Facts that stand side by side are no common word.
        [["b210.1"], []],
      ];
      for (const [words, expected] of cases) {
        assertEquals([words, await found(store, { words })], [words, expected]);
      }
    },
  );
  filled("search() goes on after each place, whatever stands there by then", async (store) => {
    for (let limit = 1; limit <= ALL.length + 1; limit++) {
      const names: string[] = [];
      let page = await store.images.search({}, { limit });
      while (page.length > 0) {
        names.push(...page.map(nameOf));
        const after = page.at(-1)?.place;
        page = after === undefined ? [] : await store.images.search({}, { limit, after });
      }
      assertEquals(names, ALL);
    }
    const [first] = await store.images.search({}, { limit: 1 });
    const after = first?.place ?? [0, 0, 0, 0, 0];
    await store.index.swap([], ["v1/distros/zeta/releases/10/index.json"], SYNC);
    const next = await store.images.search({}, { limit: 1, after });
    assertEquals(next.map(nameOf), ["zeta/9/old/-/x86_64/qcow2"]);
  });
  filled(
    "an artifact comes with its place in the tree, as its publisher wrote it",
    async (store) => {
      const [image] = await store.images.search({ build: "b2" }, { limit: 1 });
      assertEquals(image, {
        distro: "zeta",
        release: "10",
        aliases: ["latest"],
        build: "b2",
        point_release: "10.1",
        published_at: "2026-10-02T03:04:05.123456789Z",
        archived: false,
        url: "https://vendor.example/base.qcow2",
        artifact: artifact("base/x86_64/qcow2", { default_variant: true, unknown: [1] }),
        place: [0, 0, 0, 0, 0],
      });
      const [archived] = await store.images.search({ archived: true }, { limit: 1 });
      assertEquals([archived?.url, archived?.point_release], [
        "https://vault.example/x.vmdk",
        null,
      ]);
    },
  );
  filled("swap() changes what is found together with the documents", async (store) => {
    const release = (build: string) =>
      documentOf("distros/zeta/releases/9/index.json", {
        builds: [{ build, artifacts: [artifact("-/x86_64/qcow2")] }],
      });
    await store.index.swap([release("renewed")], ["v1/distros/zeta/releases/9/archive.json"], SYNC);
    assertEquals(await found(store, { distro: "zeta", release: "lts" }), [
      "zeta/9/renewed/-/x86_64/qcow2",
    ]);
    const [, nine] = ZETA.releases;
    const moved = { ...ZETA, releases: [{ ...nine, aliases: ["latest"] }] };
    await store.index.swap([documentOf("distros/zeta/index.json", moved)], [], SYNC);
    assertEquals(await found(store, { distro: "zeta" }), ["zeta/9/renewed/-/x86_64/qcow2"]);
    assertEquals(await found(store, { distro: "zeta", release: "latest" }), [
      "zeta/9/renewed/-/x86_64/qcow2",
    ]);
    assertEquals(await found(store, { distro: "zeta", release: "lts" }), []);
    await store.index.swap([], TREE.map(({ path }) => path), SYNC);
    assertEquals(await found(store, {}), []);
    await store.index.swap(TREE, [], SYNC);
    assertEquals(await found(store, {}), ALL);
  });
  test("a document that is no JSON is stored, but adds no search results", async (store) => {
    const broken = { ...documentOf("distros/zeta/index.json", 0), body: Uint8Array.of(0xff) };
    await store.index.swap([...TREE, broken], [], SYNC);
    assertEquals(await found(store, { distro: "zeta" }), []);
    assertEquals((await store.index.get(broken.path))?.body, broken.body);
  });
}

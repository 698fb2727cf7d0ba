// The search over HTTP: its query, its pages, and what it refuses.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { type IndexAgent, withIndexAgent } from "./index_agent.ts";

interface Page {
  readonly names: string[];
  readonly next: string | null;
  readonly count: string | null;
}

async function search({ get }: IndexAgent, query: string): Promise<Page> {
  const answer = await get(`/agent/v1/images${query}`);
  assertEquals([query, answer.status], [query, 200]);
  const { images, next } = JSON.parse(answer.text);
  return { names: images.map(nameOf), next, count: answer.headers.get("x-count") };
}

function nameOf({ distro, release, build, artifact }: JsonObject): string {
  const { variant, arch, format } = isJsonObject(artifact) ? artifact : {};
  return [distro, release, build, variant ?? "-", arch, format].join("/");
}

const ALL = [
  "aurora/24.2/20261015.1/server/x86_64/qcow2",
  "aurora/24.2/20261015.1/server/aarch64/qcow2",
  "aurora/24.2/20261015.1/minimal/x86_64/qcow2",
  "aurora/24.2/20261015.1/install/x86_64/iso",
  "aurora/24.2/20260901/server/x86_64/qcow2",
  "aurora/24.0/20261001/server/x86_64/raw",
  "aurora/24.0/20261001/server/x86_64/qcow2",
  "aurora/24.0/20250101/server/x86_64/raw",
  "basalt/9-next/v9_2026-10-02-22-45/-/x86_64/qcow2",
  "basalt/8_Beta/8.1/min/x86_64/qcow2",
  "cinder-os/r151058/r151058h/cloud/x86_64/raw",
  "cinder-os/r151058/r151058h/cloud/x86_64/vhdx",
];

Deno.test("GET /agent/v1/images lists every artifact in the order of the tree", async () => {
  await withIndexAgent(async (agent) => {
    assertEquals(await search(agent, ""), { names: ALL, next: null, count: "12" });
  });
});

Deno.test("GET /agent/v1/images filters by every key, and by several at once", async () => {
  await withIndexAgent(async (agent) => {
    const cases: [query: string, names: string[]][] = [
      ["?distro=basalt", ALL.slice(8, 10)],
      ["?release=lts", ALL.slice(5, 8)],
      ["?distro=aurora&release=24.2&arch=aarch64", ALL.slice(1, 2)],
      ["?build=20250101", ALL.slice(7, 8)],
      ["?format=vhdx", ALL.slice(11)],
      ["?variant=minimal", ALL.slice(2, 3)],
      ["?compression=lz4", ALL.slice(11)],
      ["?firmware=uefi&archived=true", ALL.slice(7, 8)],
      ["?archived=true&datasource=nocloud", ALL.slice(7, 8)],
      ["?q=AURORA+kea+install", ALL.slice(3, 4)],
      ["?q=f%C3%BCr+vhdx", ALL.slice(11)],
      ["?newest=true&default_variant=true&arch=x86_64&release=latest", [
        ...ALL.slice(0, 1),
        ...ALL.slice(9, 11),
      ]],
      ["?distro=none", []],
      ["?q=%25", []],
    ];
    for (const [query, names] of cases) {
      assertEquals([query, (await search(agent, query)).names], [query, names]);
    }
  });
});

Deno.test("GET /agent/v1/images pages continue after the last image of the previous page", async () => {
  await withIndexAgent(async (agent) => {
    for (let limit = 1; limit <= ALL.length; limit++) {
      const names: string[] = [];
      let next: string | null = "";
      for (let pages = 0; next !== null && pages <= ALL.length; pages++) {
        const page = await search(agent, `?limit=${limit}${next === "" ? "" : `&after=${next}`}`);
        assertEquals(page.count, "12");
        names.push(...page.names);
        next = page.next;
      }
      assertEquals(names, ALL);
    }
  });
});

Deno.test("GET /agent/v1/images shows a sync at once", async () => {
  await withIndexAgent(async (agent) => {
    agent.server.files.delete("v1/distros/aurora/releases/24.0/archive.json");
    await agent.mirror.sync();
    assertEquals((await search(agent, "?archived=true")).names, []);
  });
});

Deno.test("GET /agent/v1/images refuses an invalid filter, with a suggestion", async () => {
  await withIndexAgent(async ({ get }) => {
    const cases: [query: string, field: string, words: string][] = [
      ["distr=x", "distr", 'nearest known name is "distro"'],
      ["formats=x", "formats", 'nearest known name is "format"'],
      ["zzzz=x", "zzzz", "expected distro, release"],
      ["distro=a&distro=b", "distro", "given twice"],
      ["distro=", "distro", "a text of 1 to 200 characters"],
      ["distro=%00", "distro", "text without NUL"],
      [`q=${"x".repeat(201)}`, "q", "a text of 1 to 200 characters"],
      ["q=1+2+3+4+5+6+7+8+9", "q", "at most 8 words"],
      ["arch=amd64", "arch", 'did you mean "x86_64"?'],
      ["arch=ARM64", "arch", 'did you mean "aarch64"?'],
      ["firmware=efi", "firmware", 'did you mean "uefi"?'],
      ["firmware=openfirmware", "firmware", "one of bios, uefi"],
      ["newest=yes", "newest", "must be true or false"],
      ["limit=0", "limit", "from 1 to 1000"],
      ["limit=1001", "limit", "from 1 to 1000"],
      ["after=5", "after", "of an earlier page"],
      ["after=1.2.3.4.5.6", "after", "of an earlier page"],
      ["after=1.2.3.4.-5", "after", "of an earlier page"],
    ];
    for (const [query, field, words] of cases) {
      const answer = await get(`/agent/v1/images?${query}`);
      const { message, errors, error_code } = JSON.parse(answer.text);
      assertEquals([query, answer.status, error_code], [query, 409, "invalid_argument"]);
      assertEquals(errors[0].field, field);
      assertStringIncludes(message, words);
    }
  });
});

Deno.test("HEAD /agent/v1/images counts without listing", async () => {
  await withIndexAgent(async ({ get }) => {
    const { status, headers, bytes } = await get("/agent/v1/images?distro=basalt", {}, "HEAD");
    assertEquals([status, headers.get("x-count"), bytes.byteLength], [200, "2", 0]);
    for (const method of ["POST", "DELETE"]) {
      assertEquals((await get("/agent/v1/images", {}, method)).status, 405);
    }
  });
});

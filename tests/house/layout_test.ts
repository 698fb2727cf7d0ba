// How the sources are cut into files and folders: nothing too small, nothing split that is read together.

import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import { folderOf, linesOf, localImports, placeOf, ROOT, type Source, sources } from "./sources.ts";

/** Lines from which a file may stand alone. */
const FILE_LINES_MIN = 40;
/** Two files that are longer together stay apart: joined, they would be two subjects in one file. */
const JOINED_LINES_MAX = 250;
/** Files with one prefix that are a folder instead. */
const SAME_PREFIX_MAX = 2;

/**
 * Files that stand apart though they are small or have one importer beside them, with the reason. A
 * file that is loaded only by `import()` needs none.
 */
const APART: readonly { readonly files: RegExp; readonly why: "wall" | "peer" }[] = [
  // The other side of the wall: each file is text of a realm, or what runs before tasks do.
  { files: /^src\/guest\//, why: "wall" },
  // One file for each subcommand of vmadm, and for each way to play a machine.
  { files: /^src\/simulator\/(vmadm|engine)\//, why: "peer" },
  // The console: one file for each part that a person sees.
  { files: /^src\/ui\//, why: "peer" },
  // One file for each noun of the published description.
  { files: /^src\/http\/openapi\//, why: "peer" },
];

interface Importers {
  /** Files that load it at once. */
  readonly eager: Set<string>;
  readonly lazy: Set<string>;
}

function importersOf(files: readonly Source[]): Map<string, Importers> {
  const found = new Map<string, Importers>();
  for (const file of files) {
    for (const { path, lazy } of localImports(file)) {
      const importers = found.get(path) ?? { eager: new Set(), lazy: new Set() };
      importers[lazy ? "lazy" : "eager"].add(file.path);
      found.set(path, importers);
    }
  }
  return found;
}

/** Imports of files that are not there; the type check passes over those of `import()`. */
function lostImports(files: readonly Source[]): string[] {
  const paths = new Set(files.map(({ path }) => path));
  return files.flatMap((file) =>
    localImports(file).filter(({ path }) => path.startsWith("src/") && !paths.has(path))
      .map(({ path }) => `${file.path} imports ${path}, which is not there`)
  );
}

function mayStandApart(path: string, importers: Importers | undefined): boolean {
  return (importers?.lazy.size ?? 0) > 0 || APART.some(({ files }) => files.test(path));
}

function smallFiles(files: readonly Source[]): string[] {
  const importers = importersOf(files);
  return files
    .filter((file) => file.path !== "main.ts" && linesOf(file) < FILE_LINES_MIN)
    .filter(({ path }) => !mayStandApart(path, importers.get(path)))
    .map((file) => `${file.path} has ${linesOf(file)} lines`);
}

function splitFiles(files: readonly Source[]): string[] {
  const importers = importersOf(files);
  const lines = new Map(files.map((file) => [file.path, linesOf(file)]));
  return files.flatMap((file) => {
    const by = importers.get(file.path);
    const [only] = by?.eager ?? [];
    if (only === undefined || by?.eager.size !== 1 || mayStandApart(file.path, by)) return [];
    const neighbours = folderOf(only) === folderOf(file.path);
    const together = linesOf(file) + (lines.get(only) ?? 0);
    if (!neighbours || together > JOINED_LINES_MAX) return [];
    return [`${file.path} is imported by ${only} alone: ${together} lines together`];
  });
}

function crowdedPrefixes(files: readonly Source[]): string[] {
  const prefixes = new Map<string, string[]>();
  for (const { path } of files) {
    const [prefix = ""] = path.slice(folderOf(path).length + 1).replace(/\.ts$/, "").split("_");
    const key = `${folderOf(path)}/${prefix}`;
    prefixes.set(key, [...prefixes.get(key) ?? [], path]);
  }
  return [...prefixes]
    .filter(([, paths]) => paths.length > SAME_PREFIX_MAX)
    .map(([prefix, paths]) => `${prefix}: ${paths.length} files`);
}

/** Prose between declarations, at the first column: the head of what was or should be another file. */
function secondHeads(files: readonly Source[]): string[] {
  return files.flatMap((file) => {
    const begin = file.text.search(/^[^/#\s]/m);
    return Array.from(file.text.matchAll(/^\/\/.*\n(?:\/\/.*\n)*\n/gm))
      .filter(({ index }) => begin >= 0 && index > begin)
      .map(({ index }) => placeOf(file, index));
  });
}

function looseFiles(files: readonly Source[]): string[] {
  return files.map(({ path }) => path).filter((path) => folderOf(path) === "src");
}

Deno.test("a small file stands apart only for a reason", async () => {
  const main = { path: "main.ts", text: await Deno.readTextFile(join(ROOT, "main.ts")) };
  assertEquals(smallFiles([...await sources("src"), main]), []);
});

Deno.test("a file that only its neighbour imports is joined with it", async () => {
  assertEquals(splitFiles(await sources("src")), []);
});

Deno.test("three files with one prefix are a folder", async () => {
  assertEquals(crowdedPrefixes(await sources("src")), []);
});

Deno.test("every file that another one loads is there", async () => {
  assertEquals(lostImports(await sources("src")), []);
});

Deno.test("no file lies loose at the top of src/", async () => {
  assertEquals(looseFiles(await sources("src")), []);
});

Deno.test("a file has no second head further down", async () => {
  const files = await Promise.all(["src", "vendors", "bench"].map(sources));
  assertEquals(secondHeads(files.flat()), []);
});

Deno.test("the rules of the layout find what breaks them", () => {
  const text = "line\n".repeat(50);
  const files = [
    { path: "src/loose.ts", text },
    { path: "src/room/one.ts", text: `import { two } from "./two.ts";\n${text}` },
    { path: "src/room/two.ts", text },
    { path: "src/room/lazy.ts", text: 'const it = await import("./slow.ts");\n' + text },
    { path: "src/room/slow.ts", text: "line\n" },
    { path: "src/room/small.ts", text: "line\n".repeat(39) },
    ...["a", "b", "c"].map((end) => ({ path: `src/room/same_${end}.ts`, text })),
  ];
  const lost = { path: "src/room/lost.ts", text: 'const it = await import("./gone.ts");\n' };
  assertEquals(lostImports([...files, lost]), [
    "src/room/lost.ts imports src/room/gone.ts, which is not there",
  ]);
  assertEquals(looseFiles(files), ["src/loose.ts"]);
  assertEquals(smallFiles(files), ["src/room/small.ts has 39 lines"]);
  assertEquals(splitFiles(files), [
    "src/room/two.ts is imported by src/room/one.ts alone: 101 lines together",
  ]);
  assertEquals(crowdedPrefixes(files), ["src/room/same: 3 files"]);
  const headed =
    "// The head.\n\nconst one = 1;\n// Why.\nconst two = 2;\n\n// Another.\n// head\n\n";
  assertEquals(secondHeads([{ path: "src/room/one.ts", text: headed }]), ["src/room/one.ts:7"]);
});

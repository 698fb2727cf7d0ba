// What a file exports is what others import, and what the program uses: an export nobody imports says more than is
// true, and one that only tests use is dead.

import { assertEquals } from "@std/assert";
import { join, normalize } from "@std/path";
import { codeOf, folderOf, ROOT, type Source, sources } from "./sources.ts";

/** Files that import from src/: the program with what builds it, and others. */
const PROGRAM_FOLDERS = ["src", "vendors"];
const OTHER_FOLDERS = ["tests", "bench"];

/** The imports of a source: of which file, and its names, or what else makes names of it usable. */
interface NamedImport {
  readonly path: string;
  /** Its names; "all" for `import *` whose values are taken as a list. */
  readonly names: readonly string[] | "all";
}

function namedImports({ path, text }: Source): NamedImport[] {
  const pathOf = (specifier: string) => normalize(`${folderOf(path)}/${specifier}`);
  const lists = text.matchAll(
    /^(?:import|export)\s+(?:type\s+)?\{([^}]*)\}\s+from\s+"(\.[^"]+)"/gm,
  );
  const whole = text.matchAll(/^import\s+(?:type\s+)?\*\s+as\s+(\w+)\s+from\s+"(\.[^"]+)"/gm);
  const lazy = text.matchAll(/import\(\s*"(\.[^"]+)"/g);
  const words = /\bimport\(\s*"\./.test(text) ? [...new Set(text.match(/\w+/g))] : [];
  return [
    ...Array.from(
      lists,
      ([, list = "", file = ""]) => ({ path: pathOf(file), names: nameList(list) }),
    ),
    ...Array.from(whole, ([, name = "", file = ""]) => ({
      path: pathOf(file),
      names: membersOf(name, text),
    })),
    // What `import()` gives is taken apart further on: any word of the file may be its name.
    ...Array.from(lazy, ([, file = ""]) => ({ path: pathOf(file), names: words })),
  ];
}

/** Which members of `import * as name` a text uses. */
function membersOf(name: string, text: string): string[] | "all" {
  const used = Array.from(text.matchAll(new RegExp(`\\b${name}\\b(?:\\.(\\w+))?`, "g")));
  // The import itself is one use.
  if (used.filter(([, member]) => member === undefined).length > 1) return "all";
  return used.flatMap(([, member]) => member ?? []);
}

/** The names before `as` in the braces of an import. */
function nameList(list: string): string[] {
  return list.replaceAll(/\/\/.*$/gm, "").split(",")
    .map((name) => name.trim().replace(/^type\s+/, "").replace(/\s+as\s+.*$/s, ""))
    .filter((name) => name !== "");
}

function exportsOf(source: Source): string[] {
  const declared = codeOf(source).matchAll(
    /^export (?:abstract |async |declare )*(?:interface|type|class|const|let|function\*?|enum) (\w+)/gm,
  );
  const passedOn = codeOf(source).matchAll(/^export (?:type )?\{([^}]*)\}/gm);
  return [
    ...new Set(Array.from(declared, ([, name = ""]) => name)),
    ...Array.from(passedOn, ([, list = ""]) => nameList(list)).flat(),
  ];
}

/** The exports of files that importers do not import, as lines. */
function unimported(files: readonly Source[], importers: readonly Source[]): Export[] {
  const used = new Map<string, Set<string>>();
  const whole = new Set<string>();
  for (const { path, names } of importers.flatMap(namedImports)) {
    if (names === "all") whole.add(path);
    else used.set(path, new Set([...used.get(path) ?? [], ...names]));
  }
  return files.filter(({ path }) => !whole.has(path)).flatMap((file) =>
    exportsOf(file)
      .filter((name) => !used.get(file.path)?.has(name))
      .map((name) => ({ file, name }))
  );
}

interface Export {
  readonly file: Source;
  readonly name: string;
}

function unusedExports(files: readonly Source[], importers: readonly Source[]): string[] {
  return unimported(files, importers).map(({ file, name }) =>
    `${file.path} exports ${name}, which nobody imports`
  );
}

/** Exports that neither the program nor their own file uses. */
function deadExports(files: readonly Source[], program: readonly Source[]): string[] {
  return unimported(files, program)
    .filter(({ file, name }) =>
      (codeOf(file).match(new RegExp(`\\b${name}\\b`, "g")) ?? []).length < 2
    )
    .map(({ file, name }) => `${file.path} exports ${name}, which only tests use`);
}

async function programFiles(): Promise<Source[]> {
  const main = { path: "main.ts", text: await Deno.readTextFile(join(ROOT, "main.ts")) };
  return [main, ...(await Promise.all(PROGRAM_FOLDERS.map(sources))).flat()];
}

Deno.test("every export is imported by another file", async () => {
  const others = (await Promise.all(OTHER_FOLDERS.map(sources))).flat();
  const importers = [...await programFiles(), ...others];
  assertEquals(unusedExports(await sources("src"), importers), []);
});

Deno.test("what is exported is used by the program, not by tests alone", async () => {
  assertEquals(deadExports(await sources("src"), await programFiles()), []);
});

Deno.test("the rule of exports finds what breaks it", () => {
  const file = {
    path: "src/room/one.ts",
    text: "export const A = 1;\nexport interface B {}\nexport async function c() {}\n" +
      '// export const D = 1;\nexport function* e() {}\nexport { F } from "./two.ts";\n',
  };
  const importing = (text: string) => unusedExports([file], [{ path: "tests/x_test.ts", text }]);
  assertEquals(
    importing("").map((line) => line.split(" ")[2]),
    ["A,", "B,", "c,", "e,", "F,"],
  );
  assertEquals(
    importing('import { A, type B as Other } from "../src/room/one.ts";\n').length,
    3,
  );
  assertEquals(
    importing('const { A, c } = await import("../src/room/one.ts");\n').length,
    3,
  );
  assertEquals(importing('import * as one from "../src/room/one.ts";\nconst x = [one];\n'), []);
  assertEquals(importing('import * as one from "../src/room/one.ts";\none.c();\n').length, 4);
  assertEquals(importing('import { A } from "../src/room/two.ts";\n').length, 5);
  const seam = { path: "src/room/two.ts", text: "export const F = 1;\nexport const G = F;\n" };
  assertEquals(deadExports([seam], []), ["src/room/two.ts exports G, which only tests use"]);
});

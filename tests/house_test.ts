// The rules of the house as a program: which room may import which, how large a file may be, which
// words and calls are banned, and that every path named in README.md exists.

import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import {
  DERIVED,
  folderOf,
  linesOf,
  localImports,
  pages,
  ROOT,
  type Source,
  sources,
  sourcesAndStyles,
} from "./house/sources.ts";

/** Lines of one source file. */
const FILE_LINES_MAX = 400;
/** Lines of one function, from its head to its closing brace. */
const FUNCTION_LINES_MAX = 60;

/** What each room may import besides itself. A room is a folder of src/, an entry a room or a file. */
const ROOMS: Record<string, readonly string[]> = {
  domain: [],
  runtime: ["domain"],
  metrics: ["domain"],
  store: ["domain", "runtime/timers.ts", "metrics"],
  state_dir: ["domain", "runtime", "store"],
  config: ["domain", "runtime", "wall/task_limits.ts"],
  // What both sides of the wall load: messages, framing, limits, and what the runtime refuses.
  wall: ["domain/json.ts", "runtime/node.ts"],
  // The other side of the wall.
  guest: ["wall"],
  sandbox: ["domain", "runtime", "metrics", "wall"],
  // Its processes stand behind the walls of the guests.
  decoder: ["domain", "runtime", "metrics", "sandbox", "wall"],
  host: ["domain", "runtime"],
  mirror: ["domain", "runtime", "metrics", "store", "decoder"],
  capabilities: [
    "domain",
    "runtime",
    "metrics",
    "host",
    "mirror",
    "store",
    "sandbox/task_calls.ts",
    "wall/protocol.ts",
  ],
  machines: ["domain", "runtime", "metrics", "store"],
  runner: ["domain", "runtime", "metrics", "store", "sandbox", "wall"],
  http: [
    "domain",
    "runtime",
    "metrics",
    "store",
    "mirror",
    "machines",
    "host/vmadm/vnc.ts",
  ],
  // Runs in a browser: of the agent it knows what /openapi.json says, which changes a job takes, and what is no JSON.
  ui: ["domain/job/state.ts", "domain/json_problem.ts"],
  // What stands in for the outside; only wiring starts it.
  simulator: ["domain", "runtime", "metrics"],
  // The doctor looks at what the others rest on, and decides nothing.
  service: [
    "domain",
    "runtime",
    "metrics",
    "state_dir",
    "config",
    "store",
    "host",
    "mirror",
    "agent",
    "http/listen/listener.ts",
  ],
  // The agent wires the rooms, so it may import any.
  agent: ["*"],
  trial: ["*"],
  cli: [
    "domain",
    "runtime",
    "metrics",
    "agent",
    "config",
    "decoder",
    "host/program.ts",
    "service",
    "state_dir",
    "trial",
    "wall/protocol.ts",
  ],
};
const GUEST_FILES = /^src\/guest\//;
/** Technologies that do not know each other: what both need stands above them, in src/store/. */
const STORES = ["store/sqlite/", "store/postgres/"];
/** The other side of a decoder's pipes: nothing of the agent is loaded there. */
const DECODER_FILES = /^src\/decoder\/(decoder|decoder_message|work\/\w+)\.ts$/;
const DECODER_IMPORTS = /^(domain|decoder|wall)(\/\w+)+\.ts$/;

const BANNED: readonly {
  readonly pattern: RegExp;
  readonly why: string;
  readonly except?: RegExp;
}[] = [
  { pattern: /\b(TODO|FIXME|XXX|HACK)\b/, why: "finish it, or say what ends it" },
  { pattern: /\.only\(/, why: "runs one test instead of all" },
  { pattern: /from "(npm|jsr|https?):/, why: "deno.json alone says where packages come from" },
  {
    pattern: /^import (?!type)[^;]*from "node:/m,
    why: "each node: module costs milliseconds at start; import it where it is needed",
    except: GUEST_FILES,
  },
  { pattern: /^export default/m, why: "things are imported by their name" },
  { pattern: /^export \* from/m, why: "import the file that defines the thing" },
  {
    pattern: /: any\b|<any>|\bas any\b|as unknown as|@ts-ignore/,
    why: "name the type",
    // The second is the text of types for others, whose params may be anything.
    except: /^src\/(domain\/id|cli\/workflow\/type_text)\.ts$/,
  },
  {
    pattern: /\bDate\.now\(\)/,
    why: "the clock is an argument",
    // Programs of their own, which begin at a process: there the clock is the system's.
    except: /^src\/((cli|simulator)\/|ui\/part\/shown\.tsx$)/,
  },
  {
    pattern: /^ *(await )?using \w+ = /m,
    why: "the bundler drops the closing of what is used once; call whileOpen()",
  },
  { pattern: /\binnerHTML\b/, why: "text is set as text" },
];
const BANNED_NAMES =
  /(^|_|\/)(utils?|helpers?|common|types|misc|services?)\.ts$|\/(index|mod)\.ts$/;

/** Local files that a source imports, as paths below src/. */
function importedBelowSrc(source: Source): string[] {
  return localImports(source).map(({ path }) => path.replace(/^src\//, ""));
}

function roomOf(path: string): string | undefined {
  return path.includes("/") ? path.slice(0, path.indexOf("/")) : undefined;
}

function mayImport(room: string, target: string): boolean {
  if (roomOf(target) === room) return true;
  const allowed = ROOMS[room] ?? [];
  return allowed.some((entry) => ["*", target, roomOf(target)].includes(entry));
}

Deno.test("every room imports only the rooms below it", async () => {
  const wrong: string[] = [];
  for (const source of await sources("src")) {
    const room = roomOf(source.path.replace(/^src\//, ""));
    for (const target of importedBelowSrc(source)) {
      if (room === undefined) wrong.push(`${source.path} stands in no room`);
      else if (DECODER_FILES.test(source.path)) {
        if (!DECODER_IMPORTS.test(target)) wrong.push(`${source.path} imports ${target}`);
      } else if (!mayImport(room, target)) wrong.push(`${source.path} imports ${target}`);
    }
  }
  assertEquals(wrong, []);
});

/** The arrows of the picture of the source layout that stand for imports, as `http store`. */
function drawnImports(page: string): string[] {
  const [, picture = ""] = /```mermaid\n([^]*?)```/.exec(page) ?? [];
  return Array.from(picture.matchAll(/^ *([\w& ]+) --> ([\w& ]+)$/gm)).flatMap(
    ([, from = "", to = ""]) =>
      from.split(" & ").flatMap((one) => to.split(" & ").map((other) => `${one} ${other}`)),
  );
}

Deno.test("the picture of the source layout draws the imports between its rooms", async () => {
  const drawn = drawnImports(await Deno.readTextFile(join(ROOT, "docs/architecture.md")));
  const rooms = new Set(drawn.flatMap((arrow) => arrow.split(" ")));
  const found = new Set<string>();
  for (const source of await sources("src")) {
    const room = roomOf(source.path.replace(/^src\//, ""));
    for (const target of importedBelowSrc(source)) found.add(`${room} ${roomOf(target)}`);
  }
  assertEquals(drawn.filter((arrow) => !found.has(arrow)), []);
  // What the agent opens below those, and who knows the words of the wall, would hide the rest.
  const left = [...found].filter((arrow) => {
    const [from = "", to = ""] = arrow.split(" ");
    return from !== to && from !== "agent" && to !== "wall" && rooms.has(from) && rooms.has(to);
  });
  assertEquals(left.filter((arrow) => !drawn.includes(arrow)), []);
});

Deno.test("every grant is used", async () => {
  // Files behind a decoder's pipes have a rule of their own.
  const files = (await sources("src")).filter(({ path }) => !DECODER_FILES.test(path));
  const imported = new Map(Object.keys(ROOMS).map((room) => [room, new Set<string>()]));
  for (const source of files) {
    const room = roomOf(source.path.replace(/^src\//, "")) ?? "";
    for (const target of importedBelowSrc(source)) {
      imported.get(room)?.add(target).add(roomOf(target) ?? "");
    }
  }
  const unused = Object.entries(ROOMS).flatMap(([room, grants]) =>
    grants
      .filter((grant) => grant !== "*" && !imported.get(room)?.has(grant))
      .map((grant) => `${room} may import ${grant}, and does not`)
  );
  assertEquals(unused, []);
});

/** The names that import themselves through others, and those that import such names. */
function circlesIn(imports: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  const left = new Map(imports);
  for (;;) {
    const ground = [...left].find(([name, below]) =>
      [...below].every((other) => other === name || !left.has(other))
    );
    if (ground === undefined) return [...left.keys()];
    left.delete(ground[0]);
  }
}

/** The imports of sources, with each path named by what it stands for. */
function importsBetween(
  files: readonly Source[],
  nameOf: (path: string) => string,
): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (const source of files) {
    const name = nameOf(source.path.replace(/^src\//, ""));
    found.set(
      name,
      (found.get(name) ?? new Set()).union(new Set(importedBelowSrc(source).map(nameOf))),
    );
  }
  return found;
}

Deno.test("the rooms import each other in no circle", async () => {
  const files = await sources("src");
  assertEquals(circlesIn(importsBetween(files, (path) => roomOf(path) ?? "")), []);
});

Deno.test("the folders of a room, and the files beside them, import each other in no circle", async () => {
  const files = await sources("src");
  const folders = files.map(({ path }) => folderOf(path.replace(/^src\//, "")));
  const nameOf = (path: string) =>
    folders.some((folder) => folderOf(folder) === folderOf(path)) ? path : folderOf(path);
  assertEquals(circlesIn(importsBetween(files, nameOf)), []);
});

Deno.test("the rule of circles finds one", () => {
  const file = (path: string, ...imported: string[]): Source => ({
    path: `src/${path}`,
    text: imported.map((target) => `import { it } from "${target}";\n`).join(""),
  });
  const files = [
    file("http/listen/listen.ts", "../request/id.ts"),
    file("http/request/id.ts", "./body.ts"),
    file("http/request/body.ts", "../listen/status.ts"),
    file("http/listen/status.ts"),
  ];
  assertEquals(circlesIn(importsBetween(files, folderOf)), ["http/listen", "http/request"]);
  assertEquals(circlesIn(importsBetween(files, (path) => path)), []);
});

Deno.test("neither store imports the other", async () => {
  const storeOf = (path: string) => STORES.find((folder) => path.startsWith(folder));
  const crossing = (await sources("src")).flatMap((source) => {
    const store = storeOf(source.path.replace(/^src\//, ""));
    return importedBelowSrc(source)
      .filter((target) => store !== undefined && ![undefined, store].includes(storeOf(target)))
      .map((target) => `${source.path} imports ${target}`);
  });
  assertEquals(crossing, []);
});

Deno.test("every room is known to the rules", async () => {
  const rooms = [];
  for await (const { name, isDirectory } of Deno.readDir(join(ROOT, "src"))) {
    if (isDirectory) rooms.push(name);
  }
  assertEquals(rooms.filter((room) => ROOMS[room] === undefined), []);
});

Deno.test("no source file imports itself through others", async () => {
  const imports = new Map(
    (await sources("src")).map((source) =>
      [source.path.replace(/^src\//, ""), importedBelowSrc(source)] as const
    ),
  );
  const finished = new Set<string>();
  const cycles: string[] = [];
  const visit = (path: string, trail: readonly string[]) => {
    if (finished.has(path)) return;
    if (trail.includes(path)) {
      cycles.push([...trail.slice(trail.indexOf(path)), path].join(" -> "));
      return;
    }
    for (const target of imports.get(path) ?? []) visit(target, [...trail, path]);
    finished.add(path);
  };
  for (const path of imports.keys()) visit(path, []);
  assertEquals(cycles, []);
});

Deno.test(`no file is longer than ${FILE_LINES_MAX} lines`, async () => {
  const long = (await sourcesAndStyles("src"))
    .filter(({ path }) => path !== DERIVED)
    .map((source) => ({ path: source.path, lines: linesOf(source) }))
    .filter(({ lines }) => lines > FILE_LINES_MAX);
  assertEquals(long, []);
});

/** The first line of a function, a method, an arrow function, or one in the text of a task. */
const FUNCTION_HEAD =
  /=> [{(]$|\bfunction\b.*[{(<]$|^ *(static |readonly |async |get |set )*#?\w+\(.*\)(: .*)? \{$/;
const STATEMENT = /^\s*(if|for|while|switch|catch)\b/;

/** The functions of a source that are too long. */
function longFunctions(source: Source): string[] {
  const lines = source.text.split("\n");
  return lines.flatMap((line, start) => {
    if (!FUNCTION_HEAD.test(line) || STATEMENT.test(line)) return [];
    // The text of a task begins and ends at the first column.
    const [indent = ""] = line.includes("`") ? [] : /^ */.exec(line) ?? [];
    const ends = [`${indent}}`, `${indent})`];
    const length = lines.slice(start).findIndex((next, at) =>
      at > 0 && ends.some((end) =>
        next.startsWith(end)
      ) && !next.endsWith("{")
    ) + 1;
    return length > FUNCTION_LINES_MAX ? [`${source.path}:${start + 1}, ${length} lines`] : [];
  });
}

Deno.test(`no function is longer than ${FUNCTION_LINES_MAX} lines`, async () => {
  assertEquals((await sources("src")).flatMap(longFunctions), []);
});

Deno.test("the rule of long functions finds each kind of them", () => {
  const body = "  one;\n".repeat(FUNCTION_LINES_MAX);
  const heads = [
    ["export async function f(\n  a: A,\n): B {", "}"],
    ["  async #m(a: A): Promise<B> {", "  }"],
    ["  const f = async (a) => {", "  };"],
    ["Deno.test(() => {", "});"],
    ["const TASK = `async function t(job, cb) {", "}`;"],
    ["  run: (job) => (", "  ),"],
  ];
  for (const [head = "", end = ""] of heads) {
    const long = longFunctions({ path: "a.ts", text: `${head}\n${body}${end}\n` });
    assertEquals(long.length, 1, head);
    assertEquals(longFunctions({ path: "a.ts", text: `${head}\n${end}\n${body}` }), []);
  }
});

Deno.test("banned words, calls and file names do not occur", async () => {
  const found: string[] = [];
  for (const { path, text } of await sources("src")) {
    if (BANNED_NAMES.test(path)) found.push(`${path}: a file is named after its noun`);
    for (const { pattern, why, except } of BANNED) {
      if (except?.test(path)) continue;
      const match = pattern.exec(text);
      if (match === null) continue;
      const line = text.slice(0, match.index).split("\n").length;
      found.push(`${path}:${line} has ${JSON.stringify(match[0].slice(0, 40))}: ${why}`);
    }
  }
  assertEquals(found, []);
});

/** The headings of a page, code left out. */
function headingsOf(text: string): string[] {
  const prose = text.replaceAll(/^```[\s\S]*?^```/gm, "");
  return Array.from(prose.matchAll(/^#+ (.*)$/gm), ([, heading = ""]) => heading);
}

/** The anchor that a heading gets on a page. */
function anchorOf(heading: string): string {
  return heading.toLowerCase().replaceAll(/[^\w\- ]/g, "").replaceAll(" ", "-");
}

Deno.test("every section that a page links or a comment cites exists", async () => {
  const all = await pages();
  const headings = new Map(all.map(({ path, text }) => [path, headingsOf(text)]));
  const missing: string[] = [];
  for (const { path: page, text } of all) {
    for (const [link, to = "", anchor] of text.matchAll(/\]\(([\w./-]*)#([\w-]+)\)/g)) {
      const found = headings.get(to === "" ? page : join(page, "..", to));
      if (found === undefined) continue; // A page outside of docs/.
      if (!found.some((heading) => anchorOf(heading) === anchor)) missing.push(`${page} ${link}`);
    }
  }
  for (const { path, text } of await sources("src")) {
    for (
      const [, page = "", section = ""] of text.matchAll(
        /@see (docs\/\w+\.md), ([\w ]+?) *(?:\*\/)?$/gm,
      )
    ) {
      if (!headings.get(page)?.includes(section)) missing.push(`${path} cites ${page}, ${section}`);
    }
  }
  assertEquals(missing, []);
});

Deno.test("every path that README.md and docs/ name exists", async () => {
  const missing: string[] = [];
  for (const { path: page, text } of await pages()) {
    const named = text.matchAll(/`((?:src|tests|docs|vendors|bench)\/[\w./-]*)`|\]\(([\w./-]+)\)/g);
    for (const [, quoted, linked] of named) {
      const path = quoted ?? join(page, "..", linked ?? "");
      const there = await Deno.stat(join(ROOT, path)).then(() => true, () => false);
      if (!there) missing.push(`${page} names ${path}`);
    }
  }
  assertEquals(missing, []);
});

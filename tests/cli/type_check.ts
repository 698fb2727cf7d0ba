// Type-checks sources against docs/zonewright.d.ts, as an editor does with checkJs.

import { fromFileUrl, join } from "@std/path";
import { withFolder } from "../support/until.ts";

/** The settings that docs/tasks.md recommends, with the types that Deno loads by name. */
const COMPILER_OPTIONS = {
  checkJs: true,
  strict: true,
  noImplicitAny: false,
  useUnknownInCatchVariables: false,
  lib: ["es2024"],
  types: ["./zonewright.d.ts"],
};
const TYPES = fromFileUrl(new URL("../../docs/zonewright.d.ts", import.meta.url));

/** One error of the compiler. */
export interface TypeProblem {
  readonly file: string;
  /** From 1. */
  readonly line: number;
  /** Such as `TS2345`. */
  readonly code: string;
}

/**
 * What the compiler says to these sources, by the names of their files.
 * @param options settings that differ from those of the page; null for none at all
 */
export async function typeProblems(
  sources: Readonly<Record<string, string>>,
  options: Readonly<Record<string, unknown>> | null = {},
): Promise<{ problems: TypeProblem[]; text: string }> {
  return await withFolder(async (folder) => {
    await Deno.copyFile(TYPES, join(folder, "zonewright.d.ts"));
    const compilerOptions = options === null ? {} : { ...COMPILER_OPTIONS, ...options };
    await Deno.writeTextFile(join(folder, "deno.json"), JSON.stringify({ compilerOptions }));
    for (const [name, text] of Object.entries(sources)) {
      await Deno.writeTextFile(join(folder, name), text);
    }
    const { success, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["check", "--quiet", "--no-lock", "--config", "deno.json", ...Object.keys(sources)],
      env: { NO_COLOR: "1" },
      cwd: folder,
      stdout: "null",
    }).output();
    const text = new TextDecoder().decode(stderr);
    const problems = problemsIn(text);
    if (!success && problems.length === 0) throw new Error(`The compiler failed: ${text}`);
    return { problems, text };
  });
}

/** A head such as `TS2345 [ERROR]: ...` is followed by its place; what belongs to it is indented. */
function problemsIn(text: string): TypeProblem[] {
  const places = text.matchAll(/^(TS\d+) \[ERROR\]:.*?\n {4}at file:\S*\/([\w.-]+):(\d+):\d+$/gms);
  return Array.from(places, ([, code = "", file = "", line = ""]) => ({
    file,
    line: Number(line),
    code,
  }));
}

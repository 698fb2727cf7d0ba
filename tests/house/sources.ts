// The sources as the rules of the house read them: their text, what they import, and who imports them.

import { fromFileUrl, join, normalize } from "@std/path";

export const ROOT = fromFileUrl(new URL("../..", import.meta.url));

/** The console's types, written from the agent's description; a test compares them. */
export const DERIVED = "src/ui/client/schema.ts";

/** One file of the sources. */
export interface Source {
  /** Below the repository: `src/domain/job/job.ts`. */
  readonly path: string;
  readonly text: string;
}

/** All files of TypeScript below a folder, by path. */
export async function sources(folder: string): Promise<Source[]> {
  return await filesBelow(folder, /\.tsx?$/);
}

/** The same, with the styles of the console. */
export async function sourcesAndStyles(folder: string): Promise<Source[]> {
  return await filesBelow(folder, /\.(tsx?|css)$/);
}

async function filesBelow(folder: string, named: RegExp): Promise<Source[]> {
  const found: Source[] = [];
  for await (const { name, isDirectory } of Deno.readDir(join(ROOT, folder))) {
    const path = `${folder}/${name}`;
    if (isDirectory) found.push(...await filesBelow(path, named));
    else if (named.test(name)) {
      found.push({ path, text: await Deno.readTextFile(join(ROOT, path)) });
    }
  }
  return found.sort((a, b) => a.path < b.path ? -1 : 1);
}

/** README.md and the pages of docs/. */
export async function pages(): Promise<Source[]> {
  const paths = ["README.md"];
  for await (const { name } of Deno.readDir(join(ROOT, "docs"))) paths.push(`docs/${name}`);
  return await Promise.all(
    paths.sort().map(async (path) => ({ path, text: await Deno.readTextFile(join(ROOT, path)) })),
  );
}

/** One import of a local file. */
export interface LocalImport {
  /** The path below the repository. */
  readonly path: string;
  /** Whether it is loaded only when it is needed, by `import()`. */
  readonly lazy: boolean;
}

export function localImports(source: Source): LocalImport[] {
  const specifiers = source.text.matchAll(/(?:from|import)\s*(\(?)\s*"(\.[^"]+)"/g);
  return Array.from(specifiers, ([, call = "", path = ""]) => ({
    path: normalize(`${folderOf(source.path)}/${path}`),
    lazy: call !== "",
  }));
}

export function folderOf(path: string): string {
  return path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : ".";
}

export function linesOf({ text }: Source): number {
  return text.split("\n").length - 1;
}

/** The text without its comments, so that what they quote is no literal. */
export function codeOf({ text }: Source): string {
  return text.replaceAll(/^\s*(\/\/|\*|\/\*).*$/gm, "");
}

/** Where a match stands, as `path:line`. */
export function placeOf({ path, text }: Source, index: number): string {
  return `${path}:${text.slice(0, index).split("\n").length}`;
}

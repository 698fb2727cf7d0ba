// Every regular expression of the program is linear: none needs more than a moment for 1 MiB of what
// it backtracks over longest. The expressions are taken from the sources, so that a new one is tried
// without anybody thinking of it.

import { assert, assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";

const SRC = fromFileUrl(new URL("../src", import.meta.url));

/** Characters of the first try; an expression that is quadratic needs over 300 ms for them. */
const CHARS_FIRST = 20_000;
const CHARS = 1024 * 1024;
/** For the first try, the best of ten; and for the second, where quadratic means minutes. */
const FIRST_MS_MAX = 100;
const MS_MAX = 5000;

/** What texts are made of that make an expression go back: each is repeated, and ends wrongly. */
const UNITS = [
  ..." \t\n\raA0-._/\\\"'([{%=:;,<*#$é",
  ..."x.|0.| a|a |a:|1:| 0|\na|a\n|a=|a,| (|(1:|${|%2|.0|-a|::|--".split("|"),
];

/** A literal where one may stand: behind a bracket, a comma, an assignment or an operator. */
const LITERAL =
  /(?:^\s*|[=(,:[&|?!]\s*)(\/(?![/*])(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/)([dgimsuvy]*)(?=[\s.,;)\]:]|$)/g;

interface Found {
  readonly where: string;
  readonly expression: RegExp;
}

async function expressionsIn(folder: string): Promise<Found[]> {
  const found: Found[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = join(folder, name);
    if (isDirectory) found.push(...await expressionsIn(path));
    if (!name.endsWith(".ts")) continue;
    for (const [at, line] of (await Deno.readTextFile(path)).split("\n").entries()) {
      if (/^\s*(?:\/\/|\/?\*)/.test(line)) continue;
      for (const [, literal = "", flags] of line.matchAll(LITERAL)) {
        const where = `${path.slice(SRC.length - 3)}:${at + 1}`;
        found.push({ where, expression: new RegExp(literal.slice(1, -1), flags) });
      }
    }
  }
  return found;
}

function text(head: string, unit: string, chars: number): string {
  return `${head}${unit.repeat(Math.ceil(chars / unit.length))}\u0001`;
}

/** Time of one search, of all matches where the expression is global. */
function timed(expression: RegExp, subject: string): number {
  const began = performance.now();
  expression.lastIndex = 0;
  if (expression.global) { for (const _ of subject.matchAll(expression)); }
  else expression.exec(subject);
  return performance.now() - began;
}

/** What an expression begins with, as far as it is plain text. */
function headOf({ source }: RegExp): string {
  return /^[\w\s"'=:<-]+/.exec(source.replace(/^\^/, ""))?.[0] ?? "";
}

Deno.test("every regular expression of the program takes 1 MiB of its worst text", async () => {
  const found = await expressionsIn(SRC);
  assert(found.length > 200, `only ${found.length} expressions were found`);
  const slow: string[] = [];
  for (const { where, expression } of found) {
    let worst = { head: "", unit: " ", ms: -1 };
    for (const head of new Set(["", headOf(expression), "a"])) {
      for (const unit of UNITS) {
        const subject = text(head, unit, CHARS_FIRST);
        let ms = timed(expression, subject);
        // Other work on the machine is no fault of the expression.
        for (let tries = 1; tries < 10 && ms > FIRST_MS_MAX; tries++) {
          ms = Math.min(ms, timed(expression, subject));
        }
        if (ms > worst.ms) worst = { head, unit, ms };
      }
    }
    const ms = worst.ms > FIRST_MS_MAX
      ? Infinity
      : timed(expression, text(worst.head, worst.unit, CHARS));
    if (ms > MS_MAX) slow.push(`${where} ${expression}: ${JSON.stringify(worst)}`);
  }
  assertEquals(slow, []);
});

Deno.test("the search for slow expressions finds one", () => {
  const quadratic = /(\S.*?)\s*$/;
  const ms = Math.min(...[1, 2].map(() => timed(quadratic, text("a", " ", CHARS_FIRST))));
  assert(ms > FIRST_MS_MAX, `${ms} ms`);
  assertEquals(
    ["re = /a+$/;"].flatMap((line) => [...line.matchAll(LITERAL)].map(([, one]) => one)),
    [
      "/a+$/",
    ],
  );
});

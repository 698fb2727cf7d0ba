// Runs the tests and closes with what a newcomer wants to know: which tests were left out because a
// program is missing, by name, how many passed and failed, and where the time went. With `long` it runs
// the tests that take minutes instead of all the others.

import { fromFileUrl, join, relative } from "@std/path";

const ROOT = fromFileUrl(new URL("..", import.meta.url));

/**
 * Files that take longer than a newcomer waits: they kill, flood and load agents, or drive many
 * machines. `make test` leaves them out, `make test-full` runs them.
 */
const LONG: readonly RegExp[] = [
  /^tests\/chaos\//,
];

/** Files between two lines of progress. */
const PROGRESS_FILES = 25;
/** Files that are named with their time at the end. */
const SLOWEST = 12;

/** One test of the report. */
interface Case {
  readonly name: string;
  readonly place: string;
  readonly outcome: "passed" | "failed" | "skipped";
  readonly detail: string;
  readonly seconds: number;
}

async function testFiles(folder: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = join(folder, name);
    if (isDirectory) found.push(...await testFiles(path));
    else if (name.endsWith("_test.ts")) found.push(relative(ROOT, path));
  }
  return found.sort();
}

function casesOf(report: string): Case[] {
  const cases = report.matchAll(
    /<testcase name="([^"]*)" classname="([^"]*)"([^>]*?)(?:\/>|>(.*?)<\/testcase>)/gs,
  );
  return Array.from(cases, ([, name = "", place = "", attributes = "", inner = ""]) => ({
    name: plain(name),
    place: plain(place),
    outcome: /<(failure|error)/.test(inner)
      ? "failed"
      : inner.includes("<skipped")
      ? "skipped"
      : "passed",
    detail: plain(inner.replaceAll(/<[^>]*>/g, "")).trim(),
    seconds: Number(/ time="([\d.]+)"/.exec(attributes)?.[1] ?? 0),
  }));
}

function plain(text: string): string {
  const entities: Record<string, string> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };
  return text.replaceAll(/&(lt|gt|quot|apos|amp);/g, (_, name: string) => entities[name] ?? "")
    .replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCodePoint(Number(code)));
}

/** Counts the files that Deno reports on, and says now and then how far it is. */
async function showProgress(output: ReadableStream<Uint8Array>, files: number): Promise<void> {
  const began = performance.now();
  const seen = new Set<string>();
  let rest = "";
  for await (const text of output.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const [, file] = /^(\S+) => /.exec(line) ?? [];
      if (file === undefined || seen.has(file)) continue;
      seen.add(file);
      if (seen.size % PROGRESS_FILES > 0) continue;
      const seconds = ((performance.now() - began) / 1000).toFixed(0);
      console.log(`${seen.size} of ${files} test files after ${seconds} s`);
    }
  }
}

function printSlowest(cases: readonly Case[]): void {
  const seconds = new Map<string, number>();
  for (const test of cases) {
    seconds.set(test.place, (seconds.get(test.place) ?? 0) + test.seconds);
  }
  const slowest = [...seconds].sort(([, a], [, b]) => b - a).slice(0, SLOWEST);
  for (const [place, total] of slowest) console.log(`${total.toFixed(1).padStart(7)} s  ${place}`);
}

const [kind] = Deno.args;
const isLong = (file: string) => LONG.some((pattern) => pattern.test(file));
const files = (await testFiles(join(ROOT, "tests")))
  .filter((file) => isLong(file) === (kind === "long"));
const report = await Deno.makeTempFile({ suffix: ".xml" });
const began = performance.now();
try {
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      "test",
      "--quiet",
      "--cached-only",
      "--parallel",
      "-A",
      `--junit-path=${report}`,
      ...files,
    ],
    cwd: ROOT,
    env: { NO_COLOR: "1" },
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  await showProgress(child.stdout, files.length);
  const { code } = await child.status;
  const cases = casesOf(await Deno.readTextFile(report));
  const of = (outcome: Case["outcome"]) => cases.filter((test) => test.outcome === outcome);
  for (const { place, name, detail } of of("failed")) {
    console.log(`FAILED ${place}: ${name}\n${detail}\n`);
  }
  for (const { name } of of("skipped")) console.log(`skipped: ${name}`);
  printSlowest(cases);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  console.log(`${cases.length} tests in ${files.length} files in ${seconds} s`);
  // A run that ends without a report (a crash of the runner itself) has failed, whatever it counted.
  const failed = code !== 0 && of("failed").length === 0 ? 1 : of("failed").length;
  console.log(`${of("passed").length} passed, ${failed} failed, ${of("skipped").length} skipped`);
  Deno.exitCode = failed > 0 ? 1 : 0;
} finally {
  await Deno.remove(report);
}

// Runs the tests and closes with what a newcomer wants to know: which tests were left out because a
// program is missing, by name, how many passed and failed, and where the time went. Without a word it
// runs what takes minutes in all, on the compiled binary; with `long` it runs the rest: the files that
// take long by themselves, and some of both on the program from source and on each Node. With `node`, it
// runs on each Node everything that is shown of the whole program.

import { fromFileUrl, join, relative } from "@std/path";
import { NODES } from "../vendors/pins.ts";
import { ALSO_ON_NODE, CHAOS, LONG, NODE_LATER, ON_SOURCE } from "./lists.ts";
import { nodePath } from "./support/each_node.ts";

const ROOT = fromFileUrl(new URL("..", import.meta.url));

/** The program of a run, see support/agent_process.ts. */
const BINARY = { ZONEWRIGHT_TEST_PROGRAM: "binary" };
const SOURCE = { ZONEWRIGHT_TEST_PROGRAM: "source" };
/** Files at a time: tests wait for processes and deadlines as well as they work, and the long ones more than the others. */
const AT_ONCE = { DENO_JOBS: String(navigator.hardwareConcurrency + 1) };
const LONG_AT_ONCE = { DENO_JOBS: String(navigator.hardwareConcurrency + 2) };
/**
 * Tests of pages are the longest by themselves. Deno runs what is in the folder of the longest name first, and them last;
 * so they run beside the others, or some of them would be left to run alone at the end.
 */
const PAGES = "tests/ui/";
/** Of those, at a time; with one, Deno names no file in its lines. */
const PAGES_AT_ONCE = { DENO_JOBS: "2" };
/** Time between two lines of progress, milliseconds. */
const PROGRESS_MS = 15_000;
/** Longest time in which no test may end, milliseconds: a run that hangs says so, names what hangs, and fails. */
const STALLED_MS = 300_000;
/** Time for Deno to name the tests that had not ended, milliseconds. */
const NAMING_MS = 10_000;
/** What hardly ever comes, and should be seen when it does: an agent that ends badly, and the errors that it logged. */
const STRANGE = /The agent ended with code|"level":"error"|^error: |panicked/;
/** Files that are named with their time at the end. */
const SLOWEST = 15;
/** Lines of the beginning and of the end of an error that are shown. */
const DETAIL_LINES = 22;

/** One test of the report. */
interface Case {
  readonly name: string;
  readonly place: string;
  readonly outcome: "passed" | "failed" | "skipped";
  readonly detail: string;
  readonly seconds: number;
}

/** What was run and what came of it. */
interface Run {
  readonly cases: readonly Case[];
  readonly failed: boolean;
  /** Seconds of tests by file. */
  readonly seconds: ReadonlyMap<string, number>;
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
    detail: shortened(plain(inner.replaceAll(/<[^>]*>/g, "")).trim()),
    seconds: Number(/ time="([\d.]+)"/.exec(attributes)?.[1] ?? 0),
  }));
}

/** An error without its middle, so that the last lines of a run hold what failed in it. */
function shortened(detail: string): string {
  const lines = detail.split("\n").filter((line) => line.trim() !== "");
  const left = lines.length - 2 * DETAIL_LINES;
  if (left <= 0) return lines.join("\n");
  const [first, last] = [lines.slice(0, DETAIL_LINES), lines.slice(-DETAIL_LINES)];
  return [...first, `(${left} lines left out)`, ...last].join("\n");
}

function plain(text: string): string {
  const entities: Record<string, string> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };
  return text.replaceAll(/&(lt|gt|quot|apos|amp);/g, (_, name: string) => entities[name] ?? "")
    .replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCodePoint(Number(code)));
}

/** What the lines of a run say and its report does not. */
interface Followed {
  /** Seconds of tests by file. */
  readonly seconds: ReadonlyMap<string, number>;
  /** Files of tests that failed, by their names: the report has the file that registered them, maybe of support/. */
  readonly failedIn: ReadonlyMap<string, string>;
}

/** Reads the lines of Deno's report, says now and then how far it is, and notes where time goes. */
async function follow(
  { stdout, interrupt }: { stdout: ReadableStream<Uint8Array>; interrupt: () => void },
  files: readonly string[],
  words: string,
): Promise<Followed> {
  const began = performance.now();
  const seconds = new Map<string, number>();
  const failedIn = new Map<string, string>();
  let tests = 0;
  let lastMs = began;
  let hangs = false;
  const timer = setInterval(() => {
    const so = secondsSince(began);
    console.log(
      `${seconds.size} of ${files.length} files begun, ${tests} tests ended after ${so} s${words}`,
    );
    if (hangs || performance.now() - lastMs < STALLED_MS) return;
    hangs = true;
    console.log(`FAILED: no test has ended in ${secondsSince(lastMs)} s`);
    interrupt();
  }, PROGRESS_MS);
  let rest = "";
  for await (const text of stdout.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      // Of an agent that ended all the same, see support/agent_process.ts.
      if (hangs || STRANGE.test(line)) console.log(line);
      // ./tests/metrics/log_test.ts => a line is JSON ... ok (12ms); a step stands behind its test and another ...
      const [, file, words = ""] = /^(\S+_test\.ts) => (.*)$/.exec(line) ?? [];
      if (file === undefined || words.split(" ... ").length > 2) continue;
      tests += 1;
      lastMs = performance.now();
      if (/ \.\.\. FAILED\b/.test(words)) {
        const [name = ""] = words.split(" ... ");
        console.log(`FAILED ${file}: ${name}`);
        failedIn.set(name, file);
      }
      const [, time = ""] = /\(([\dms]+)\)$/.exec(words) ?? [];
      seconds.set(file, (seconds.get(file) ?? 0) + secondsOf(time));
    }
  }
  clearInterval(timer);
  return { seconds, failedIn };
}

function secondsSince(beganMs: number): string {
  return ((performance.now() - beganMs) / 1000).toFixed(0);
}

/** `12ms`, `3s` or `1m2s`. */
function secondsOf(time: string): number {
  const part = (unit: string) => Number(new RegExp(`(\\d+)${unit}(?!s)`).exec(time)?.[1] ?? 0);
  const ms = Number(/(\d+)ms/.exec(time)?.[1] ?? 0);
  return part("m") * 60 + part("s") + ms / 1000;
}

async function run(
  files: readonly string[],
  { env, filter, suffix = "", label }: {
    readonly env: Record<string, string>;
    readonly filter?: string;
    /** What the names of the tests do not say. */
    readonly suffix?: string;
    /** What the lines of progress say. */
    readonly label?: string;
  },
): Promise<Run> {
  const began = performance.now();
  const report = await Deno.makeTempFile({ suffix: ".xml" });
  // Types are checked by `make check`, which comes before.
  const flags = ["--quiet", "--cached-only", "--no-check", "--parallel", "-A"];
  const named = filter === undefined ? [] : ["--filter", filter];
  try {
    const child = new Deno.Command(Deno.execPath(), {
      args: ["test", ...flags, ...named, `--junit-path=${report}`, ...files],
      cwd: ROOT,
      env: { NO_COLOR: "1", ...env },
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    // Deno names the tests that had not ended, and writes its report.
    let killer: ReturnType<typeof setTimeout> | undefined;
    const interrupt = () => {
      child.kill("SIGINT");
      killer = setTimeout(() => child.kill("SIGKILL"), NAMING_MS);
    };
    const words = label ?? (suffix === "" && filter !== undefined ? ` ${filter}` : suffix);
    const { seconds, failedIn } = await follow({ stdout: child.stdout, interrupt }, files, words);
    const { code } = await child.status;
    clearTimeout(killer);
    console.log(`${files.length} files ended after ${secondsSince(began)} s${words}`);
    // What the filter left out is in the report as skipped.
    const cases = casesOf(await Deno.readTextFile(report))
      .filter(({ name }) => filter === undefined || name.includes(filter))
      .map((test) => ({
        ...test,
        name: test.name + suffix,
        place: failedIn.get(test.name) ?? test.place,
      }));
    return { cases, failed: code !== 0, seconds };
  } finally {
    await Deno.remove(report);
  }
}

async function runOnBinary(
  files: readonly string[],
  atOnce: Record<string, string>,
): Promise<Run[]> {
  const isPage = (file: string) => file.startsWith(PAGES);
  return await Promise.all([
    run(files.filter((file) => !isPage(file)), { env: { ...BINARY, ...atOnce } }),
    run(files.filter(isPage), { env: { ...BINARY, ...PAGES_AT_ONCE }, label: " (pages)" }),
  ]);
}

/** The files among these that register tests of both programs. */
async function filesOfBoth(files: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const file of files) {
    const text = await Deno.readTextFile(join(ROOT, file));
    if (text.includes("each_program.ts")) found.push(file);
  }
  return found;
}

/**
 * Runs on each Node what these files show of the whole program, on all Nodes at once: much of it waits. What lacks its
 * Node is skipped by name.
 */
async function runOnNodes(files: readonly string[]): Promise<Run[]> {
  return (await Promise.all(NODES.map(({ version }) => runOnNode(version, files)))).flat();
}

async function runOnNode(version: string, files: readonly string[]): Promise<Run[]> {
  const path = nodePath(version);
  if (path === undefined) return [skippedRun([...files, ...ALSO_ON_NODE], version)];
  const env = { ZONEWRIGHT_TEST_PROGRAM: path };
  const words = `(on Node ${version})`;
  return [
    await run(files, { env, filter: words }),
    await run(ALSO_ON_NODE, { env, suffix: ` ${words}` }),
  ];
}

function skippedRun(files: readonly string[], version: string): Run {
  const cases = files.map((place): Case => ({
    name: `${place} (on Node ${version})`,
    place,
    outcome: "skipped",
    detail: "",
    seconds: 0,
  }));
  return { cases, failed: false, seconds: new Map() };
}

function printSlowest(runs: readonly Run[]): void {
  const slowest = runs.flatMap(({ seconds }) => [...seconds])
    .sort(([, a], [, b]) => b - a).slice(0, SLOWEST);
  for (const [file, total] of slowest) console.log(`${total.toFixed(1).padStart(7)} s  ${file}`);
}

function printRuns(runs: readonly Run[], beganMs: number): void {
  const cases = runs.flatMap((one) => one.cases);
  const of = (outcome: Case["outcome"]) => cases.filter((test) => test.outcome === outcome);
  for (const { name } of of("skipped")) console.log(`skipped: ${name}`);
  printSlowest(runs);
  for (const { place, name, detail } of of("failed")) {
    console.log(`FAILED ${place}: ${name}\n${detail}\n`);
  }
  console.log(`${cases.length} tests in ${secondsSince(beganMs)} s`);
  // A run that ends without a report (a crash of the runner itself) has failed, whatever it counted.
  const crashed = runs.some(({ failed }) => failed) && of("failed").length === 0;
  const failed = crashed ? 1 : of("failed").length;
  console.log(`${of("passed").length} passed, ${failed} failed, ${of("skipped").length} skipped`);
  Deno.exitCode = failed > 0 ? 1 : 0;
}

const [kind] = Deno.args;
const began = performance.now();
const all = await testFiles(join(ROOT, "tests"));
for (const path of [...LONG, ...CHAOS, ...NODE_LATER, ...ALSO_ON_NODE]) {
  if (!all.some((file) => file.startsWith(path))) throw new Error(`There is no ${path}`);
}
const long = all.filter((file) => LONG.some((path) => file.startsWith(path)));
const short = all.filter((file) => !long.includes(file));
const full = long.filter((file) => !CHAOS.includes(file));
printRuns(await runsOf(kind), began);

async function runsOf(kind = "short"): Promise<Run[]> {
  const ofBoth = await filesOfBoth(all);
  if (kind === "node") return await runOnNodes(ofBoth);
  if (kind !== "long") return await runOnBinary(short, AT_ONCE);
  return [
    ...await runOnBinary(full, LONG_AT_ONCE),
    await run(ON_SOURCE, { env: SOURCE, filter: "(from source)" }),
    ...await runOnNodes(ofBoth.filter((file) => !NODE_LATER.includes(file))),
  ];
}

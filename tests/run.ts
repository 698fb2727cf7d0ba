// Runs the tests and closes with what a newcomer wants to know: which tests were left out because a
// program is missing, by name, how many passed and failed, and where the time went. Without a word it
// runs what takes minutes in all, on the compiled binary; with `long` it runs the rest: the files that
// take long by themselves, and some of both on the program from source and on each Node. With `node`, it
// runs on each Node everything that is shown of the whole program.

import { fromFileUrl, join, relative } from "@std/path";
import { NODES } from "../vendors/pins.ts";
import { ALSO_ON_NODE, CHAOS, LONG, LONGEST, NODE_LATER, ON_SOURCE } from "./lists.ts";
import { PROGRAM_VARIABLE } from "./support/agent_process.ts";
import { nodePath } from "./support/each_node.ts";

const ROOT = fromFileUrl(new URL("..", import.meta.url));

/** The program of a run, see support/agent_process.ts. */
const BINARY = { [PROGRAM_VARIABLE]: "binary" };
const SOURCE = { [PROGRAM_VARIABLE]: "source" };
/**
 * Files at a time: tests wait for processes and deadlines as well as they work. With many more, guests and decoders,
 * which give way to all else, do not start within their 30 seconds.
 */
const AT_ONCE = navigator.hardwareConcurrency + 3;
/** Tests of pages, which start browsers. */
const PAGES = "tests/ui/";
/** Of those, at a time. */
const PAGES_AT_ONCE = 2;
/** Time between two lines of progress, milliseconds. */
const PROGRESS_MS = 15_000;
/** Longest time in which a file may end no test, milliseconds: one that hangs is named, with the test, and fails. */
const STALLED_MS = 600_000;
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
}

/** A file of tests, and how it is run. */
interface Unit {
  readonly file: string;
  /** Undefined when its program is not there; then it is skipped by name. */
  readonly env: Readonly<Record<string, string>> | undefined;
  /** Words of the tests that are run; all unless given. */
  readonly filter?: string;
  /** What the names of its tests do not say. */
  readonly suffix?: string;
}

/** What was run and what came of it. */
interface Run {
  readonly unit: Unit;
  readonly cases: readonly Case[];
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

function casesOf(report: string, { file, filter = "", suffix = "" }: Unit): Case[] {
  const cases = report.matchAll(/<testcase name="([^"]*)"[^>]*?(?:\/>|>(.*?)<\/testcase>)/gs);
  return Array.from(cases, ([, name = "", inner = ""]): Case => ({
    name: plain(name) + suffix,
    place: file,
    outcome: /<(failure|error)/.test(inner)
      ? "failed"
      : inner.includes("<skipped")
      ? "skipped"
      : "passed",
    detail: shortened(plain(inner.replaceAll(/<[^>]*>/g, "")).trim()),
  }))
    // What the filter left out may be in the report as skipped.
    .filter(({ name }) => name.includes(filter));
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

function secondsSince(beganMs: number): number {
  return Math.round((performance.now() - beganMs) / 1000);
}

/** Files that run now. Each leads a group of processes, with the agents that its tests start. */
const children = new Set<Deno.ChildProcess>();

/** Ends the files and their agents before this run ends, whoever asks for that. */
function endChildrenWithRun(): void {
  for (const [signal, code] of [["SIGHUP", 129], ["SIGINT", 130], ["SIGTERM", 143]] as const) {
    Deno.addSignalListener(signal, () => {
      for (const { pid } of children) {
        try {
          Deno.kill(-pid, "SIGTERM");
        } catch {
          // It has just ended.
        }
      }
      Deno.exit(code);
    });
  }
}

/** Runs one file in a process of its own. */
async function run(unit: Unit): Promise<Run> {
  if (unit.env === undefined) return { unit, cases: [skipped(unit)], seconds: 0 };
  const began = performance.now();
  const folder = await Deno.makeTempDir();
  const report = join(folder, "report.xml");
  // Types are checked by `make check`, which comes before.
  const flags = ["--quiet", "--cached-only", "--no-check", "-A", `--junit-path=${report}`];
  const named = unit.filter === undefined ? [] : ["--filter", unit.filter];
  try {
    const child = new Deno.Command(Deno.execPath(), {
      args: ["test", ...flags, ...named, unit.file],
      cwd: ROOT,
      env: { NO_COLOR: "1", ...unit.env },
      stdout: "piped",
      stderr: "inherit",
      detached: true,
    }).spawn();
    children.add(child);
    void child.status.then(() => children.delete(child));
    const said = await follow(child, unit);
    const { code } = await child.status;
    // A file that does not load has none.
    const cases = casesOf(await Deno.readTextFile(report).catch(() => ""), unit);
    const failed = cases.filter(({ outcome }) => outcome === "failed");
    for (const { name } of failed) console.log(`FAILED ${unit.file}: ${name}`);
    if (failed.length === 0 && (code !== 0 || cases.length === 0)) {
      cases.push(endedBadly(unit, code, said));
    }
    return { unit, cases, seconds: secondsSince(began) };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function skipped(unit: Unit): Case {
  return { name: nameOf(unit), place: unit.file, outcome: "skipped", detail: "" };
}

/** A file that does not load or has no tests, or whose process ends on the way, has failed, whatever it counted. */
function endedBadly({ file, suffix = "" }: Unit, code: number, said: string): Case {
  const name = `the file ends with code ${code}${suffix}`;
  console.log(`FAILED ${file}: ${name}`);
  return { name, place: file, outcome: "failed", detail: shortened(said) };
}

/** Reads what a file says, and ends it when it hangs. @returns all of it */
async function follow(child: Deno.ChildProcess, { file }: Unit): Promise<string> {
  const lines: string[] = [];
  let hangs = false;
  let killer: ReturnType<typeof setTimeout> | undefined;
  const stalled = () => {
    hangs = true;
    console.log(`FAILED ${file}: no test has ended in ${STALLED_MS / 1000} s`);
    // Deno names the tests that had not ended, and writes its report.
    child.kill("SIGINT");
    killer = setTimeout(() => child.kill("SIGKILL"), NAMING_MS);
  };
  let timer = setTimeout(stalled, STALLED_MS);
  let rest = "";
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    const whole = (rest + text).split("\n");
    rest = whole.pop() ?? "";
    for (const line of whole) {
      lines.push(line);
      // Of an agent that ended all the same, see support/agent_process.ts.
      if (hangs || STRANGE.test(line)) console.log(line);
      if (hangs || !/ \.\.\. .*\([\dms.µ]+\)$/.test(line)) continue;
      clearTimeout(timer);
      timer = setTimeout(stalled, STALLED_MS);
    }
  }
  clearTimeout(timer);
  clearTimeout(killer);
  return lines.join("\n");
}

/** Runs files, some at a time, and says now and then how far it is. */
async function runAll(units: readonly Unit[]): Promise<Run[]> {
  const began = performance.now();
  const waiting = units.toSorted((one, other) => rank(one) - rank(other));
  const running = new Map<Unit, number>();
  const runs: Run[] = [];
  const timer = setInterval(() => {
    const [[unit, sinceMs] = []] = running;
    const longest = unit === undefined || sinceMs === undefined
      ? ""
      : `; ${nameOf(unit)} has run for ${secondsSince(sinceMs)} s`;
    const so = secondsSince(began);
    console.log(`${runs.length} of ${units.length} files ended after ${so} s${longest}`);
  }, PROGRESS_MS);
  const next = (): Unit | undefined => {
    const pages = Array.from(running.keys()).filter(isPage).length;
    const at = waiting.findIndex((unit) => pages < PAGES_AT_ONCE || !isPage(unit));
    return at === -1 ? undefined : waiting.splice(at, 1)[0];
  };
  const worker = async () => {
    for (let unit = next(); unit !== undefined; unit = next()) {
      running.set(unit, performance.now());
      runs.push(await run(unit));
      running.delete(unit);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  clearInterval(timer);
  return runs;
}

/** What is to begin first: pages, of which few run at a time, and what would be left to run alone at the end. */
function rank(unit: Unit): number {
  const at = LONGEST.indexOf(unit.file);
  return isPage(unit) ? -1 : at === -1 ? LONGEST.length : at;
}

function isPage({ file }: Unit): boolean {
  return file.startsWith(PAGES);
}

function nameOf({ file, filter = "", suffix = "" }: Unit): string {
  return `${file} ${filter || suffix.trim()}`.trim();
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

/** What these files show of the whole program, on each Node. */
function unitsOnNodes(files: readonly string[]): Unit[] {
  return NODES.flatMap(({ version }) => {
    const path = nodePath(version);
    const env = path === undefined ? undefined : { [PROGRAM_VARIABLE]: path };
    const words = `(on Node ${version})`;
    return [
      ...files.map((file) => ({ file, env, filter: words })),
      ...ALSO_ON_NODE.map((file) => ({ file, env, suffix: ` ${words}` })),
    ];
  });
}

function printSlowest(runs: readonly Run[]): void {
  const slowest = runs.toSorted((one, other) => other.seconds - one.seconds).slice(0, SLOWEST);
  for (const { unit, seconds } of slowest) {
    console.log(`${`${seconds}`.padStart(5)} s  ${nameOf(unit)}`);
  }
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
  const [passed, failed, left] = [of("passed"), of("failed"), of("skipped")];
  console.log(`${passed.length} passed, ${failed.length} failed, ${left.length} skipped`);
  Deno.exitCode = failed.length > 0 ? 1 : 0;
}

endChildrenWithRun();
const [kind] = Deno.args;
const began = performance.now();
const all = await testFiles(join(ROOT, "tests"));
for (const path of [...LONG, ...CHAOS, ...LONGEST, ...NODE_LATER, ...ALSO_ON_NODE]) {
  if (!all.some((file) => file.startsWith(path))) throw new Error(`There is no ${path}`);
}
const long = all.filter((file) => LONG.some((path) => file.startsWith(path)));
const short = all.filter((file) => !long.includes(file));
const full = long.filter((file) => !CHAOS.includes(file));
printRuns(await runAll(await unitsOf(kind)), began);

async function unitsOf(kind = "short"): Promise<Unit[]> {
  const onBinary = (files: readonly string[]) => files.map((file) => ({ file, env: BINARY }));
  if (kind === "short") return onBinary(short);
  const ofBoth = await filesOfBoth(all);
  if (kind === "node") return unitsOnNodes(ofBoth);
  return [
    ...onBinary(full),
    ...ON_SOURCE.map((file) => ({ file, env: SOURCE, filter: "(from source)" })),
    ...unitsOnNodes(ofBoth.filter((file) => !NODE_LATER.includes(file))),
  ];
}

// Runs the tests and closes with what a newcomer wants to know: which tests were left out because a
// program is missing, by name, how many passed and failed, and where the time went. Without a word it
// runs what takes minutes in all, on the compiled binary; with `long` it runs the rest: the files that
// take long by themselves, and some of both on the program from source and on each Node. With `node`, it
// runs on each Node everything that is shown of the whole program.

import { fromFileUrl, join, relative } from "@std/path";
import { NODES } from "../vendors/pins.ts";
import { nodePath } from "./support/each_node.ts";

const ROOT = fromFileUrl(new URL("..", import.meta.url));

/** Files and folders of tests that kill, flood, fill and load agents, or drive many machines. */
const LONG: readonly string[] = [
  "tests/capabilities/host_room_test.ts",
  "tests/capabilities/host_turns_test.ts",
  "tests/capabilities/policy_test.ts",
  "tests/capabilities/vmadm_test.ts",
  "tests/chaos/",
  "tests/cli/completion_shell_test.ts",
  "tests/cli/workflow_try_test.ts",
  "tests/cli/workflow_types_test.ts",
  "tests/doctor/shared_store_test.ts",
  "tests/host/simulator_boot_test.ts",
  "tests/host/simulator_fault_test.ts",
  "tests/host/simulator_qemu_test.ts",
  "tests/host/ssh_command_test.ts",
  "tests/host/ssh_failure_test.ts",
  "tests/host/vmadm_faults_test.ts",
  "tests/host/vmadm_host_test.ts",
  "tests/host/vnc_test.ts",
  "tests/host/zone_root_race_test.ts",
  "tests/host/zone_root_test.ts",
  "tests/http/document_1_fields_test.ts",
  "tests/http/head_test.ts",
  "tests/http/hostile_connections_test.ts",
  "tests/http/machine_life_test.ts",
  "tests/http/odd_requests_test.ts",
  "tests/http/openapi_examples_test.ts",
  "tests/http/slow_clients_test.ts",
  "tests/journeys/away_test.ts",
  "tests/journeys/builtin_jobs_test.ts",
  "tests/journeys/console_relay_test.ts",
  "tests/journeys/console_secrets_test.ts",
  "tests/journeys/demo_test.ts",
  "tests/journeys/events_test.ts",
  "tests/journeys/fleet_run_test.ts",
  "tests/journeys/fleet_test.ts",
  "tests/journeys/host_test.ts",
  "tests/journeys/hosts_test.ts",
  "tests/journeys/hygiene_test.ts",
  "tests/journeys/machine_test.ts",
  "tests/journeys/outage_test.ts",
  "tests/journeys/own_index_test.ts",
  "tests/journeys/peers_test.ts",
  "tests/journeys/shared_backup_test.ts",
  "tests/journeys/shared_secrets_test.ts",
  "tests/journeys/ssh_test.ts",
  "tests/journeys/standstill_test.ts",
  "tests/journeys/stop_test.ts",
  "tests/journeys/store_transfer_test.ts",
  "tests/journeys/tail_test.ts",
  "tests/journeys/two_versions_test.ts",
  "tests/journeys/upload_test.ts",
  "tests/limits/",
  "tests/mirror/download_fault_test.ts",
  "tests/mirror/hostile_unpacking_test.ts",
  "tests/mirror/sync_fault_kinds_test.ts",
  "tests/mirror/sync_rollback_test.ts",
  "tests/sandbox/escapes_test.ts",
  "tests/sandbox/guest_owner_test.ts",
  "tests/sandbox/hostile_agent_test.ts",
  "tests/sandbox/layers_test.ts",
  "tests/sandbox/node_wall_test.ts",
  "tests/sandbox/self_test_test.ts",
  "tests/service/upgrade_test.ts",
  "tests/store/outage_test.ts",
  "tests/store/postgres_failover_test.ts",
  "tests/store/postgres_migration_test.ts",
  "tests/store/postgres_readers_test.ts",
  "tests/store/postgres_sessions_test.ts",
  "tests/store/postgres_store_test.ts",
  "tests/trial_test.ts",
  "tests/ui/library_test.ts",
  "tests/ui/cut_stream_test.ts",
  "tests/ui/host_pages_test.ts",
  "tests/ui/leftovers_test.ts",
  "tests/ui/machines_test.ts",
  "tests/ui/many_jobs_test.ts",
  "tests/ui/new_machine_test.ts",
  "tests/ui/pages_test.ts",
  "tests/ui/pictures_test.ts",
  "tests/ui/several_hosts_test.ts",
  "tests/vendors/node/",
  "tests/workflows/artifact_test.ts",
  "tests/workflows/interrupted_create_test.ts",
  "tests/workflows/leftovers_test.ts",
  "tests/workflows/outliving_call_test.ts",
  "tests/workflows/power_loss_test.ts",
  "tests/workflows/undo_test.ts",
];
/** Of these, what `make chaos` runs: loads and faults that say little in a minute, or need the machine alone. */
const CHAOS: readonly string[] = [
  "tests/chaos/call_memory_test.ts",
  "tests/chaos/console_memory_test.ts",
  "tests/chaos/endurance_test.ts",
  "tests/chaos/event_readers_test.ts",
  "tests/chaos/guest_messages_test.ts",
  "tests/chaos/held_jobs_test.ts",
  "tests/chaos/info_flood_test.ts",
  "tests/chaos/io_error_test.ts",
  "tests/chaos/log_memory_test.ts",
  "tests/chaos/machine_kills_test.ts",
  "tests/chaos/machine_leftovers_test.ts",
  "tests/chaos/machine_power_loss_test.ts",
  "tests/chaos/machine_saga_test.ts",
  "tests/chaos/many_jobs_test.ts",
  "tests/chaos/mirror_memory_test.ts",
  "tests/chaos/reading_memory_test.ts",
  "tests/chaos/sync_order_test.ts",
];
/** The program of a run, see support/agent_process.ts. */
const BINARY = { ZONEWRIGHT_TEST_PROGRAM: "binary" };
const SOURCE = { ZONEWRIGHT_TEST_PROGRAM: "source" };
/** What also runs on the program from source, which `make run` starts. */
const ON_SOURCE: readonly string[] = [
  "tests/decoder/decoder_pool_test.ts",
  "tests/journeys/jobs_test.ts",
];
/** What shows the whole program, but on a Node only in `make test-node`: much of it is shown there by other files. */
const NODE_LATER: readonly string[] = [
  "tests/cli/workflow_try_test.ts",
  "tests/http/machine_life_test.ts",
];
/** What runs on each Node as well, though its tests are of whichever program a run is of. */
const ALSO_ON_NODE: readonly string[] = [
  "tests/chaos/event_stream_test.ts",
  "tests/chaos/kill_points_test.ts",
  "tests/chaos/two_agents_test.ts",
  "tests/http/accept_loop_test.ts",
];

/** Long files wait for intervals of the agent more than they work: one file more than there are processors. */
const LONG_AT_ONCE = { DENO_JOBS: String(navigator.hardwareConcurrency + 1) };
/** Tests of pages are the longest by themselves. They begin first, so that none is left to run alone at the end. */
const FIRST = "tests/ui/";
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
    detail: plain(inner.replaceAll(/<[^>]*>/g, "")).trim(),
    seconds: Number(/ time="([\d.]+)"/.exec(attributes)?.[1] ?? 0),
  }));
}

function plain(text: string): string {
  const entities: Record<string, string> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };
  return text.replaceAll(/&(lt|gt|quot|apos|amp);/g, (_, name: string) => entities[name] ?? "")
    .replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCodePoint(Number(code)));
}

/** Reads the lines of Deno's report, says now and then how far it is, and notes where time goes. */
async function follow(
  { stdout, interrupt }: { stdout: ReadableStream<Uint8Array>; interrupt: () => void },
  files: readonly string[],
  words: string,
): Promise<Map<string, number>> {
  const began = performance.now();
  const seconds = new Map<string, number>();
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
      if (/ \.\.\. FAILED\b/.test(words)) console.log(`FAILED ${file}: ${words.split(" ... ")[0]}`);
      const [, time = ""] = /\(([\dms]+)\)$/.exec(words) ?? [];
      seconds.set(file, (seconds.get(file) ?? 0) + secondsOf(time));
    }
  }
  clearInterval(timer);
  return seconds;
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
  { env, filter, suffix = "" }: {
    readonly env: Record<string, string>;
    readonly filter?: string;
    /** What the names of the tests do not say. */
    readonly suffix?: string;
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
    const words = suffix === "" && filter !== undefined ? ` ${filter}` : suffix;
    const seconds = await follow({ stdout: child.stdout, interrupt }, files, words);
    const { code } = await child.status;
    clearTimeout(killer);
    console.log(`${files.length} files ended after ${secondsSince(began)} s${words}`);
    // What the filter left out is in the report as skipped.
    const cases = casesOf(await Deno.readTextFile(report))
      .filter(({ name }) => filter === undefined || name.includes(filter))
      .map((test) => ({ ...test, name: test.name + suffix }));
    return { cases, failed: code !== 0, seconds };
  } finally {
    await Deno.remove(report);
  }
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
  for (const { place, name, detail } of of("failed")) {
    console.log(`FAILED ${place}: ${name}\n${detail}\n`);
  }
  for (const { name } of of("skipped")) console.log(`skipped: ${name}`);
  printSlowest(runs);
  console.log(`${cases.length} tests in ${secondsSince(beganMs)} s`);
  // A run that ends without a report (a crash of the runner itself) has failed, whatever it counted.
  const crashed = runs.some(({ failed }) => failed) && of("failed").length === 0;
  const failed = crashed ? 1 : of("failed").length;
  console.log(`${of("passed").length} passed, ${failed} failed, ${of("skipped").length} skipped`);
  Deno.exitCode = failed > 0 ? 1 : 0;
}

const [kind] = Deno.args;
const began = performance.now();
const found = await testFiles(join(ROOT, "tests"));
const isFirst = (file: string) => file.startsWith(FIRST);
const all = [...found.filter(isFirst), ...found.filter((file) => !isFirst(file))];
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
  if (kind !== "long") return [await run(short, { env: BINARY })];
  return [
    await run(full, { env: { ...BINARY, ...LONG_AT_ONCE } }),
    await run(ON_SOURCE, { env: SOURCE, filter: "(from source)" }),
    ...await runOnNodes(ofBoth.filter((file) => !NODE_LATER.includes(file))),
  ];
}

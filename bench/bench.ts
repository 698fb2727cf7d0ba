// What `make bench` prints: start, jobs, requests, memory and size of the compiled binary, and, given paths
// of Nodes, of the file for Node on each beside it. Each figure is min / median / max of several runs; load comes
// from this process, on the same cores.

import {
  type AgentUnderTest,
  BINARY,
  descendants,
  INDEX,
  residentMiB,
  startAgentUnderTest,
} from "./agent_under_test.ts";
import { nodeProgram } from "../tests/support/agent_process.ts";
import { ownCpuMs, privateMiB } from "./process_use.ts";

const START_RUNS = 10;
const ROUNDS = 3;
const JOBS = 1_000;
const REQUEST_SECONDS = 3;
const CONNECTIONS = 32;
const IDLE_SECONDS = 5;

function triple(values: readonly number[], digits = 0): string {
  const sorted = values.toSorted((a, b) => a - b);
  const pick = (share: number) =>
    (sorted[Math.round((sorted.length - 1) * share)] ?? 0).toFixed(digits);
  return `${pick(0)} / ${pick(0.5)} / ${pick(1)}`;
}

function report(what: string, figure: string): void {
  console.log(`${what.padEnd(58)} ${figure}`);
}

/** A program, as it is measured. */
interface Measured {
  readonly name: string;
  readonly command: readonly string[];
  /** What is copied to a host. */
  readonly file: string;
}

async function withAgent<T>(
  { command }: Measured,
  run: (agent: AgentUnderTest) => Promise<T>,
): Promise<T> {
  const folder = await Deno.makeTempDir({ prefix: "zonewright-bench-" });
  try {
    const agent = await startAgentUnderTest(folder, ["--index", INDEX], command);
    try {
      return await run(agent);
    } finally {
      await agent.stop();
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function post(url: string, body: unknown): Promise<{ uuid: string }> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${await response.text()}`);
  return await response.json();
}

/** Runs `one` over and over on several connections. @returns calls in all */
async function together(calls: number, one: () => Promise<unknown>): Promise<void> {
  let left = calls;
  await Promise.all(Array.from({ length: CONNECTIONS }, async () => {
    while (left-- > 0) await one();
  }));
}

async function measureJobs(agent: AgentUnderTest): Promise<{ posted: number; finished: number }> {
  const { uuid } = await post(`${agent.url}/workflows`, {
    name: "no-op",
    chain: [{ name: "nothing", body: "function (job, cb) { cb(); }" }],
  });
  const succeeded = async () => {
    const stats = await (await fetch(`${agent.url}/stats`)).json();
    return stats.current.succeeded as number;
  };
  const before = await succeeded();
  const began = performance.now();
  await together(JOBS, () => post(`${agent.url}/jobs`, { workflow: uuid }));
  const posted = performance.now();
  while (await succeeded() < before + JOBS) await new Promise((resolve) => setTimeout(resolve, 10));
  const finished = performance.now();
  return { posted: JOBS / (posted - began) * 1000, finished: JOBS / (finished - began) * 1000 };
}

async function measureLatency(agent: AgentUnderTest): Promise<number[]> {
  const { uuid } = await post(`${agent.url}/workflows`, {
    name: "no-op",
    chain: [{ name: "nothing", body: "function (job, cb) { cb(); }" }],
  });
  const latencies: number[] = [];
  for (let job = 0; job < 100; job++) {
    const began = performance.now();
    const { uuid: job_uuid } = await post(`${agent.url}/jobs`, { workflow: uuid });
    await (await fetch(`${agent.url}/jobs/${job_uuid}/wait?timeout=10`)).json();
    latencies.push(performance.now() - began);
  }
  return latencies;
}

async function measureRequests(url: string): Promise<number> {
  const end = performance.now() + REQUEST_SECONDS * 1000;
  let answered = 0;
  await Promise.all(Array.from({ length: CONNECTIONS }, async () => {
    while (performance.now() < end) {
      const response = await fetch(url);
      await response.arrayBuffer();
      if (response.status !== 200) throw new Error(`${url} answered ${response.status}`);
      answered += 1;
    }
  }));
  return answered / REQUEST_SECONDS;
}

/** Prints the figures of one program. */
async function measure(program: Measured): Promise<void> {
  console.log(`\n${program.name}`);
  const { size } = await Deno.stat(program.file);
  report("size, MB", (size / 1e6).toFixed(1));
  await measureStart(program);
  await measureIdle(program);
  await measureWork(program);
}

async function measureStart(program: Measured): Promise<void> {
  const starts: number[] = [];
  const used: number[] = [];
  for (let run = 0; run < START_RUNS; run++) {
    await withAgent(program, ({ listeningMs, pid }) => {
      starts.push(listeningMs);
      used.push(ownCpuMs(pid));
      return Promise.resolve();
    });
  }
  report(`start to listening, ms (${START_RUNS} runs)`, triple(starts));
  report("processor time until then, ms", triple(used));
}

async function measureIdle(program: Measured): Promise<void> {
  await withAgent(program, async (agent) => {
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const beforeMs = ownCpuMs(agent.pid);
    await new Promise((resolve) => setTimeout(resolve, IDLE_SECONDS * 1000));
    const idleShare = (ownCpuMs(agent.pid) - beforeMs) / IDLE_SECONDS / 10;
    report("idle: RSS of the agent, MiB", residentMiB(agent.pid).toFixed(0));
    const guests = descendants(agent.pid);
    report(`idle: RSS of each of ${guests.length} guests, MiB`, triple(guests.map(residentMiB)));
    report("idle: private memory of each, MiB", triple(guests.map(privateMiB)));
    report(`idle: CPU over ${IDLE_SECONDS} s, %`, idleShare.toFixed(1));
  });
}

async function measureWork(program: Measured): Promise<void> {
  await withAgent(program, async (agent) => {
    const rounds = [];
    for (let round = 0; round < ROUNDS; round++) rounds.push(await measureJobs(agent));
    report("POST /jobs accepted, durable, per second", triple(rounds.map(({ posted }) => posted)));
    report(
      "no-op jobs posted to finished, per second",
      triple(rounds.map(({ finished }) => finished)),
    );
    const latencies = (await measureLatency(agent)).toSorted((a, b) => a - b);
    report("one job posted to finished, ms (min / p50 / max)", triple(latencies, 1));
    report("one job posted to finished, p99 ms", (latencies[98] ?? 0).toFixed(1));
    const requests = [];
    for (let round = 0; round < ROUNDS; round++) {
      requests.push(await measureRequests(`${agent.url}/v1/index.json`));
    }
    report(`GET /v1/index.json per second, ${CONNECTIONS} connections`, triple(requests));
    report("RSS of the agent after the load, MiB", residentMiB(agent.pid).toFixed(0));
  });
}

const measured: Measured[] = [{ name: "the binary", command: [BINARY], file: BINARY }];
for (const node of Deno.args) {
  const found = nodeProgram(node);
  if (found === undefined) throw new Error("Cannot measure: dist/zonewright.mjs was not built");
  const command = [found.program, ...found.args];
  measured.push({ name: `the file for Node, on ${node}`, command, file: command.at(-1) ?? "" });
}
for (const program of measured) await measure(program);

// A long mixed load at rates that two busy processors manage: jobs, workflows, lists, info, machines with
// their consoles, syncs, downloads, refusals and cancels. What the agent holds of memory, descriptors,
// processes and disk is the same in the second half as in the first, and little is left after a rest.

import { assert, assertEquals, AssertionError } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import type { IndexServer } from "../mirror/index_server.ts";
import { digestsOf, ISO } from "../mirror/vendor_file.ts";
import { consoleUrl, openConsole } from "../http/console_client.ts";
import { until } from "../support/until.ts";
import { type ChaosAgent, length, objectOf } from "./agent_under_chaos.ts";
import { FINAL, makeMachine, prepareMedium } from "./load_machine.ts";
import { fetchMedium, openUpstream, publish, syncWhole, upstreamFlags } from "./load_upstream.ts";
import { loadTest } from "./memory_load.ts";
import { RawConnection } from "./raw_connection.ts";
import { type Holdings, holdings, medianOf, shown } from "./holdings.ts";

/** Two hours, or what stands for them in every run. */
const LOAD_MS = length({ quick: 45_000, full: 7_200_000 });
/** Milliseconds in which memory that nobody uses may be given back. */
const REST_MS = length({ quick: 5_000, full: 60_000 });
const SAMPLE_MS = length({ quick: 1_000, full: 10_000 });
/** The beginning, in which caches fill and the first machine is made, is in neither half. */
const WARM_UP = 0.25;
/** Finished jobs that are kept, so that the database comes to its size at once. */
const FINISHED_MAX = 50;
const END_MS_MAX = 120_000;

/** MiB by which a heap may still grow to its size: within minutes it has seen few collections of all of it. */
const HEAP_MIB = length({ quick: 64, full: 32 });
/** Guests by which the pool may still grow, and descriptors for them: it starts them as tasks ask for them. */
const GUESTS = length({ quick: 6, full: 0 });
const GUEST_DESCRIPTORS = 5 * GUESTS;
/** What the second half may have more than the first. */
const MORE_MAX: Holdings = {
  residentMiB: HEAP_MIB,
  descriptors: 24 + GUEST_DESCRIPTORS,
  processes: 4 + GUESTS,
  databaseMiB: 2,
};
/** What may be there after a rest more than in the first half. */
const LEFT_MAX: Holdings = {
  residentMiB: HEAP_MIB,
  descriptors: 8 + GUEST_DESCRIPTORS,
  processes: 2 + GUESTS,
  databaseMiB: 2,
};

/** What goes on at the same time, and milliseconds between two turns of it. */
interface Part {
  readonly name: string;
  readonly everyMs: number;
  readonly turn: (agent: ChaosAgent, workflow: string, at: number) => Promise<void>;
}

const BODY =
  "async function (job, cb) { await info({ at: job.params.at }); await sleep(20); cb(null, job.params.at); }";
const chain = [{ name: "tell", body: BODY }];

/** @throws {Error} unless the answer has one of these statuses; 503 asks for patience and is always one */
async function expect(
  agent: ChaosAgent,
  statuses: readonly number[],
  ...request: Parameters<ChaosAgent["ask"]>
): Promise<void> {
  const { status, body } = await agent.ask(...request);
  if (statuses.includes(status) || status === 503) return;
  throw new Error(`${request[0]} ${request[1]} was answered ${status} ${JSON.stringify(body)}`);
}

async function ended(agent: ChaosAgent, job: string): Promise<string> {
  return await until(`job ${job} to end`, async () => {
    const { execution } = objectOf(await agent.ask("GET", `/jobs/${job}`));
    return FINAL.includes(String(execution)) ? String(execution) : undefined;
  }, END_MS_MAX);
}

async function runJob(agent: ChaosAgent, workflow: string, at: number): Promise<void> {
  const { status, body } = await agent.ask("POST", "/jobs", {
    workflow,
    at,
    text: "x".repeat(2_000),
  });
  if (status === 503) return;
  const { uuid } = objectOf({ status, body });
  await expect(agent, [200, 409], "POST", `/jobs/${uuid}/info`, { at });
  if (at % 5 === 0) await expect(agent, [200, 409], "POST", `/jobs/${uuid}/cancel`, {});
  await ended(agent, String(uuid));
  await expect(agent, [200], "GET", `/jobs/${uuid}/info`);
}

async function changeWorkflow(agent: ChaosAgent, _workflow: string, at: number): Promise<void> {
  const made = await agent.ask("POST", "/workflows", { name: `endurance ${at}`, chain });
  if (made.status === 503) return;
  const path = `/workflows/${objectOf(made).uuid}`;
  await expect(agent, [200, 201], "PUT", path, { name: `endurance ${at} again`, chain });
  await expect(agent, [204], "DELETE", path);
}

async function list(agent: ChaosAgent): Promise<void> {
  for (const path of ["/jobs?limit=50", "/workflows", "/agent/v1/machines", "/v1/index.json"]) {
    await expect(agent, [200], "GET", path);
  }
}

async function refuse(agent: ChaosAgent, workflow: string): Promise<void> {
  await expect(agent, [409], "POST", "/jobs", { workflow: "none" });
  await expect(agent, [409], "POST", "/workflows", { name: "x", chain: [{ body: "function (" }] });
  await expect(agent, [404], "GET", "/jobs/00000000-0000-4000-8000-000000000000");
  await refuseLarge(agent, { workflow, text: "x".repeat(3 * 1024 * 1024) });
}

/** On a connection of its own, which the agent may close before all of the body was sent. */
async function refuseLarge(agent: ChaosAgent, body: JsonObject): Promise<void> {
  const connection = await RawConnection.open(agent.url);
  try {
    await connection.send([{ method: "POST", path: "/jobs", body }]);
    const { status, text } = await connection.answer();
    assert(status === 413 || status === 503, text);
  } catch (error) {
    if (error instanceof AssertionError) throw error;
  } finally {
    connection.close();
  }
}

/** One machine from its beginning to its end, with a console that is looked at. */
async function useMachine(agent: ChaosAgent): Promise<void> {
  const uuid = await makeMachine(agent);
  const client = await openConsole(consoleUrl(agent.url, uuid));
  if (client.socket.readyState === WebSocket.OPEN) await client.read(12);
  await client.close();
  const { status, body } = await agent.ask("DELETE", `/agent/v1/machines/${uuid}`);
  assertEquals(status, 202, JSON.stringify(body));
  assertEquals(await ended(agent, String(objectOf({ status, body }).job_uuid)), "success");
}

async function download(agent: ChaosAgent): Promise<void> {
  const job = await fetchMedium(agent, {});
  assertEquals(job.execution, "success", JSON.stringify(job.chain_results));
  const [{ value }] = await digestsOf(ISO);
  await expect(agent, [200, 204, 404, 409], "DELETE", `/agent/v1/media/sha256:${value}`);
}

const PARTS: readonly Part[] = [
  { name: "jobs", everyMs: 250, turn: runJob },
  { name: "workflows", everyMs: 1_000, turn: changeWorkflow },
  { name: "lists", everyMs: 1_000, turn: list },
  { name: "refusals", everyMs: 2_000, turn: refuse },
  { name: "machines", everyMs: 5_000, turn: useMachine },
  { name: "syncs", everyMs: 4_000, turn: syncWhole },
  { name: "downloads", everyMs: 4_000, turn: download },
];

let server: IndexServer | undefined;

loadTest(
  `an agent under mixed load for ${LOAD_MS / 60_000} min holds no more as time passes`,
  async (load) => {
    const { agent, folder } = load;
    if (server === undefined) throw new Error("there is no upstream");
    await using _upstream = server;
    await publish(server, { body: ISO });
    await syncWhole(agent);
    const workflow = objectOf(await agent.ask("POST", "/workflows", { name: "endurance", chain }));
    const database = join(folder, "state/zonewright.db");
    const endMs = performance.now() + LOAD_MS;
    const turns = new Map<string, number>();
    const going = PARTS.map(async ({ name, everyMs, turn }) => {
      for (let at = 0; performance.now() < endMs; at++) {
        await turn(agent, String(workflow.uuid), at);
        turns.set(name, at + 1);
        // The rate of the load.
        await new Promise((resolve) => setTimeout(resolve, everyMs));
      }
    });
    const samples: Holdings[] = [];
    const sampling = setInterval(() => samples.push(holdings(agent.pid, database)), SAMPLE_MS);
    try {
      await Promise.all(going);
    } finally {
      clearInterval(sampling);
    }
    const steady = samples.slice(Math.floor(samples.length * WARM_UP));
    const middle = Math.floor(steady.length / 2);
    const first = medianOf(steady.slice(0, middle));
    const second = medianOf(steady.slice(middle));
    const rested = await restedHoldings(() => holdings(agent.pid, database), first);
    console.log(
      `endurance: ${[...turns].map((one) => one.join(": ")).join(", ")}; first half ${
        shown(first)
      }; ` +
        `second half ${shown(second)}; after a rest ${shown(rested)}`,
    );
    assertWithin(second, first, MORE_MAX, "in the second half");
    assertWithin(rested, first, LEFT_MAX, "after a rest");
  },
  {
    flags: ["--finished-jobs-max", `${FINISHED_MAX}`],
    prepare: async (folder) => {
      server = await openUpstream();
      return [...upstreamFlags(server), ...await prepareMedium(folder)];
    },
  },
);

/** What is held once no more than LEFT_MAX is left, or REST_MS have passed. */
async function restedHoldings(look: () => Holdings, first: Holdings): Promise<Holdings> {
  const endMs = performance.now() + REST_MS;
  return await until("what the load held to be given back", () => {
    const now = look();
    const names = Object.keys(LEFT_MAX) as (keyof Holdings)[];
    const isRested = names.every((name) => now[name] - first[name] <= LEFT_MAX[name]);
    return isRested || performance.now() > endMs ? now : null;
  }, REST_MS + END_MS_MAX);
}

function assertWithin(now: Holdings, before: Holdings, more: Holdings, when: string): void {
  for (const name of Object.keys(more) as (keyof Holdings)[]) {
    const grown = now[name] - before[name];
    assert(grown <= more[name], `${name} has grown by ${grown.toFixed(1)} ${when}`);
  }
}

// For every write of the store, what brings it about at least twice, so that the agent can be killed
// around each of them, and what must hold afterwards.

import { assert, assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { until } from "../support/until.ts";
import { length, listOf, objectOf } from "./agent_under_chaos.ts";
import { postJob } from "./job_calls.ts";
import {
  callbackSteps,
  changeSteps,
  ended,
  endSteps,
  infoSteps,
  makeStep,
  type Place,
  postStep,
  retryStep,
  running,
  type Step,
  stop,
  writeSteps,
} from "./kill_steps.ts";
import { expectStats } from "./stats.ts";
import { QUICK, SLOW, WAITING } from "./workloads.ts";

const TREE = fromFileUrl(new URL("../fixtures/index", import.meta.url));
/** The distro that the second generation of the index has no more. */
const REMOVED_DISTRO = "basalt";
/** Finished jobs that are removed in one write, and some more for a second. */
const PRUNED_AT_ONCE = 200;
const PRUNABLE = PRUNED_AT_ONCE + 5;
/** How many of them are kept. */
const KEPT = 2;

/** What brings one write about. */
export interface KillScenario {
  /** Which of the writes of this name the scenario reaches, counted from 1. */
  readonly reached: readonly number[];
  /** In the life before the one that is killed. */
  readonly before?: (place: Place) => Promise<void>;
  readonly flags?: (place: Pick<Place, "folder" | "callbackUrl">) => readonly string[];
  readonly steps: (place: Place) => readonly Step[];
  /** What must hold afterwards besides everything that is always looked at. */
  readonly after?: (place: Place, write: { count: number; done: boolean }) => Promise<void>;
  /** Whether finished jobs may be gone, so that the survey does not fit. */
  readonly removes?: true;
}

const TWICE: readonly number[] = [1, 2];

/** Finished jobs that may go at once when the agent starts. */
const PRUNING: KillScenario = {
  reached: TWICE,
  before: async (place) => {
    for (let job = 0; job < PRUNABLE; job++) await postJob(place.deps, QUICK, {}, false);
    for (const record of place.survey.jobs.records) await ended(place, record);
  },
  flags: () => ["--finished-jobs-max", String(KEPT)],
  steps: ({ agent }) => [{ run: () => agent.ended.then(() => false) }],
  removes: true,
};

/** Two jobs run when the agent before it is killed; the next one dies as it takes them up. */
const LEFT_BEHIND: Pick<KillScenario, "before" | "steps"> = {
  before: async (place) => {
    for (const step of [postStep(place, SLOW), postStep(place, SLOW)]) await step.run();
    await running(place, 2).run();
  },
  steps: ({ agent }) => [{ run: () => agent.ended.then(() => false) }],
};

/** By the name of the write. */
export const KILL_SCENARIOS: Readonly<Record<string, KillScenario>> = {
  workflow_create: { reached: TWICE, steps: (place) => [makeStep(place), makeStep(place)] },
  workflow_replace: { reached: TWICE, steps: (place) => writeSteps(place, false) },
  workflow_remove: { reached: TWICE, steps: (place) => writeSteps(place, true) },
  job_create: { reached: TWICE, steps: (place) => [postStep(place), postStep(place)] },
  // The claim of a later job that ends at once is a part of its end.
  job_claim: {
    reached: TWICE,
    steps: (place) => [...endSteps(place), postStep(place, SLOW), running(place, 1)],
  },
  job_record: { reached: TWICE, steps: (place) => [...endSteps(place), ...endSteps(place)] },
  job_release: {
    reached: TWICE,
    steps: (
      place,
    ) => [postStep(place, SLOW), postStep(place, SLOW), running(place, 2), stop(place)],
  },
  // A life begins once, and takes up what the one before it left.
  job_begin: { reached: [1], ...LEFT_BEHIND },
  // The second look for what others left behind comes by itself, after a while.
  job_rescue: { reached: length({ quick: [1], full: TWICE }), ...LEFT_BEHIND },
  job_cancel: { reached: TWICE, steps: (place) => changeSteps(place, "cancel", SLOW) },
  job_resume: { reached: TWICE, steps: (place) => changeSteps(place, "resume", WAITING) },
  job_retry: {
    reached: TWICE,
    steps: (place) => [...endSteps(place), retryStep(place), ...endSteps(place), retryStep(place)],
  },
  info_append: { reached: TWICE, steps: (place) => infoSteps(place) },
  index_swap: {
    reached: TWICE,
    flags: ({ folder }) => ["--index", join(folder, "index"), "--index-interval", "off"],
    before: ({ folder }) => copyTree(TREE, join(folder, "index")),
    steps: (place) => [synced(place), { run: () => changeIndex(place) }],
    after: expectOneGeneration,
  },
  // The info of each batch of jobs goes after them, in a write of its own.
  info_prune: { ...PRUNING, after: (place, { count }) => expectPruned(place, count) },
  job_prune: {
    ...PRUNING,
    after: (place, { count, done }) => expectPruned(place, done ? count : count - 1),
  },
  callback_done: {
    reached: TWICE,
    flags: ({ callbackUrl }) => ["--callback-host", new URL(callbackUrl).host],
    steps: (place) => [...callbackSteps(place), ...callbackSteps(place)],
    after: async ({ survey, calledBack }) => {
      await until(
        "the callback of every finished job",
        () =>
          survey.jobs.records.every(({ view }) =>
            view?.callback_url === undefined || calledBack.some(({ uuid }) => uuid === view.uuid)
          ),
      );
    },
  },
};

async function copyTree(from: string, to: string): Promise<void> {
  await Deno.mkdir(to, { recursive: true });
  for await (const { name, isDirectory } of Deno.readDir(from)) {
    const [source, copy] = [join(from, name), join(to, name)];
    if (isDirectory) await copyTree(source, copy);
    else await Deno.copyFile(source, copy);
  }
}

function synced({ agent }: Place): Step {
  const run = async () => {
    let answered = true;
    await until("the first sync", async () => {
      const reply = await agent.call("GET", "/agent/v1/index");
      answered = reply !== undefined;
      return !answered || (reply !== undefined && objectOf(reply).last_sync !== null);
    });
    return answered;
  };
  return { run };
}

async function changeIndex({ agent, folder }: Place): Promise<boolean> {
  const list = join(folder, "index/v1/index.json");
  const index = JSON.parse(await Deno.readTextFile(list));
  const distros = (index.distros as JsonObject[]).filter(({ id }) => id !== REMOVED_DISTRO);
  await Deno.writeTextFile(list, JSON.stringify({ ...index, distros }));
  return await agent.call("POST", "/agent/v1/index/sync", { wait: true }) !== undefined;
}

/** The index is what it was before the swap, or what it is after it (promise P12). */
async function expectOneGeneration(
  { agent }: Place,
  { count, done }: { count: number; done: boolean },
): Promise<void> {
  const index = await agent.ask("GET", "/v1/index.json");
  const listed = isJsonObject(index.body) && Array.isArray(index.body.distros)
    ? index.body.distros.filter(isJsonObject).map(({ id }) => id)
    : [];
  const generation = (done ? 0 : -1) + count;
  const wanted = [[], ["aurora", "basalt", "cinder-os"], ["aurora", "cinder-os"]][generation] ?? [];
  if (JSON.stringify(listed) !== JSON.stringify(wanted)) {
    throw new Error(`The index lists ${listed}, expected ${wanted}`);
  }
  for (const distro of ["aurora", "basalt", "cinder-os"]) {
    const { status } = await agent.ask("GET", `/v1/distros/${distro}/index.json`);
    const there = wanted.includes(distro) ? 200 : 404;
    if (status !== there) throw new Error(`Distro ${distro} is answered ${status}, not ${there}`);
  }
}

/** Those that ended first are gone with all that belongs to them, in whole batches. */
async function expectPruned({ agent, survey }: Place, batches: number): Promise<void> {
  const gone: string[] = [];
  const kept: string[] = [];
  for (const record of survey.jobs.records) {
    const job = await agent.ask("GET", `/jobs/${record.uuid}`);
    const info = await agent.ask("GET", `/jobs/${record.uuid}/info`);
    const statuses = `${job.status} ${info.status}`;
    const whole = statuses === "200 200" || statuses === "404 404";
    record.expect(whole ? [] : [`it and its info are answered ${statuses}`]);
    (job.status === 404 ? gone : kept).push(String(record.view?.finished_at));
    if (job.status === 200) survey.jobs.look(record, objectOf(job), survey.jobs.now());
  }
  assertEquals(gone.length, Math.min(batches * PRUNED_AT_ONCE, PRUNABLE - KEPT));
  assert((gone.sort().at(-1) ?? "") <= (kept.sort()[0] ?? ""), "a job is gone before an older one");
  const jobs = listOf(await agent.ask("GET", "/jobs"));
  expectStats(objectOf(await agent.ask("GET", "/stats")), jobs);
}

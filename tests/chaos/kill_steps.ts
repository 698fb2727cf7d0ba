// The steps of the kill scenarios: one request each, or one thing to wait for. A step knows, once
// everything was read again, whether the write that it asked for has happened.

import type { JsonObject } from "../../src/domain/json.ts";
import { until } from "../support/until.ts";
import type { ChaosAgent } from "./agent_under_chaos.ts";
import type { JobRecord } from "./job_book.ts";
import { postInfoTo } from "./info_calls.ts";
import { changeNow, postJob, retryRecord } from "./job_calls.ts";
import { isFinal } from "./job_rules.ts";
import { type LoadDeps, lookAtJob } from "./looks.ts";
import type { Survey } from "./survey.ts";
import { makeWorkflow, writeWorkflow } from "./workflow_calls.ts";
import { QUICK, type Workload } from "./workloads.ts";

/** Milliseconds before a job runs whose info is written until then. */
const IDLE_MS = 2_000;

/** What the steps work with. */
export interface Place {
  readonly survey: Survey;
  readonly deps: LoadDeps;
  readonly agent: ChaosAgent;
  /** A folder of the test: `index` below it is the upstream. */
  readonly folder: string;
  /** Where callbacks go, and what has come there. */
  readonly callbackUrl: string;
  readonly calledBack: readonly JsonObject[];
}

/** One request, or one thing to wait for. */
export interface Step {
  /** @returns false when the agent did not answer */
  readonly run: () => Promise<boolean>;
  /** The write that an unanswered step has asked for, and whether it has happened. */
  readonly asks?: { readonly write: string; readonly happened: () => boolean };
}

/** The job that was made last. */
export function latest({ survey }: Place): JobRecord {
  return survey.jobs.records.at(-1) as JobRecord;
}

export function makeStep({ survey, deps }: Place): Step {
  return {
    run: () => makeWorkflow(deps),
    asks: {
      write: "workflow_create",
      happened: () => survey.workflows.records.at(-1)?.exists === true,
    },
  };
}

/** Two workflows that are replaced, or removed. */
export function writeSteps(place: Place, remove: boolean): Step[] {
  const write = (): Step => {
    let before = "";
    const reported = () => JSON.stringify(place.survey.workflows.records.at(-1)?.states[0]);
    return {
      run: async () => {
        if (!await makeWorkflow(place.deps)) return false;
        before = reported();
        const record = place.survey.workflows.records.at(-1);
        return record !== undefined &&
          await record.turns.take(() => writeWorkflow(place.deps, record, remove));
      },
      asks: {
        write: remove ? "workflow_remove" : "workflow_replace",
        happened: () => reported() !== before,
      },
    };
  };
  return [write(), write()];
}

export function postStep(
  { survey, deps }: Place,
  workload: Workload = QUICK,
  more: JsonObject = {},
): Step {
  let known = 0;
  return {
    run: () => {
      known = survey.jobs.records.length;
      return postJob(deps, workload, more);
    },
    asks: { write: "job_create", happened: () => survey.jobs.records.length > known },
  };
}

/** Reads a job until it is what is waited for. @returns false when the agent did not answer */
async function readUntil(
  { deps }: Place,
  record: JobRecord,
  met: (view: JsonObject) => boolean,
): Promise<boolean> {
  let answered = true;
  await until(`job ${record.uuid} to go on`, async () => {
    answered = await lookAtJob(deps, record);
    return !answered || (record.view !== undefined && met(record.view));
  });
  return answered;
}

/** Waits for the end of a job. @returns false when the agent did not answer */
export async function ended(place: Place, record: JobRecord): Promise<boolean> {
  return await readUntil(place, record, isFinal);
}

/** A job from its request to its end. */
export function endSteps(place: Place, workload = QUICK): Step[] {
  return [postStep(place, workload), { run: () => ended(place, latest(place)) }];
}

/** Waits until the latest jobs have been claimed. */
export function running(place: Place, count: number): Step {
  const run = async () => {
    for (const record of place.survey.jobs.records.slice(-count)) {
      if (!await readUntil(place, record, ({ execution }) => execution !== "queued")) return false;
    }
    return true;
  };
  return { run };
}

/** Asks the agent to stop. */
export function stop({ agent }: Place): Step {
  const run = async () => {
    agent.signal("SIGTERM");
    await agent.ended;
    return false;
  };
  return { run };
}

/** Two jobs that are canceled, or resumed. */
export function changeSteps(place: Place, verb: "cancel" | "resume", workload: Workload): Step[] {
  const reached = verb === "cancel" ? "running" : "waiting";
  const change = (): Step[] => [postStep(place, workload), {
    run: async () => {
      const record = latest(place);
      const ready = ({ execution }: JsonObject) => execution === reached;
      if (!await readUntil(place, record, ready)) return false;
      return await record.turns.take(() => changeNow(place.deps, verb, record, 1));
    },
    asks: { write: `job_${verb}`, happened: () => latest(place).asked[verb] === "done" },
  }];
  return [...change(), ...change()];
}

/** Retries the latest job. */
export function retryStep(place: Place): Step {
  let record: JobRecord | undefined;
  return {
    run: async () => {
      record = latest(place);
      return await retryRecord(place.deps, record, 1);
    },
    asks: { write: "job_retry", happened: () => record?.asked.retry === "done" },
  };
}

/** To a job that does not run, so that no task comes in between. */
export function infoSteps(place: Place): Step[] {
  const exec_after = new Date(Date.now() + IDLE_MS).toISOString();
  const post: Step = {
    run: () => postInfoTo(place.deps, latest(place)),
    asks: {
      write: "info_append",
      happened: () => {
        const { info, posted } = latest(place);
        return info.some((entry) => entry.posted === posted.at(-1)?.id);
      },
    },
  };
  return [postStep(place, QUICK, { exec_after }), post, post];
}

/** A job with a callback, until that has come. */
export function callbackSteps(place: Place): Step[] {
  const { callbackUrl, calledBack } = place;
  const wait = async () => {
    const { uuid } = latest(place);
    await until(
      "the callback",
      () => place.deps.over() || calledBack.some((job) => job.uuid === uuid),
    );
    // The delivery is written after the receiver has answered.
    return await ended(place, latest(place));
  };
  return [postStep(place, QUICK, { callback_url: callbackUrl }), { run: wait }];
}

// Trials in tests: a workflow of one body, run to its end as `workflow try` runs it.

import { assertEquals } from "@std/assert";
import { randomUuid, type WorkflowUuid } from "../src/domain/id.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../src/domain/json.ts";
import type { Workflow } from "../src/domain/job/workflow.ts";
import { parseWorkflow } from "./support/parsed_workflow.ts";
import { silentLog } from "../src/metrics/log.ts";
import { type Trial, type TrialLook, type TrialOptions, withTrial } from "../src/trial/trial.ts";
import { until } from "./support/until.ts";

const LIMITS = { tasksMax: 10, sourceCharsMax: 100_000, retryMax: 10, timeoutSecondsMax: 3600 };

/** A workflow as POST /workflows reads it. */
export function workflowOf(body: JsonObject): Workflow {
  return parseWorkflow({ name: "tried", ...body }, randomUuid<WorkflowUuid>(), randomUuid, LIMITS);
}

/** What a trial is given unless a test says otherwise. */
export function trialOf(
  body: JsonObject,
  options: Partial<TrialOptions> = {},
): TrialOptions {
  return {
    workflow: workflowOf(body),
    params: {},
    target: null,
    flags: {},
    cwd: "/",
    hostState: null,
    log: silentLog,
    ...options,
  };
}

/** Waits until the job does not go on by itself. */
export async function rested(trial: Trial): Promise<TrialLook> {
  return await until("the job to rest", async () => {
    const look = await trial.look();
    return look.state === "under_way" ? undefined : look;
  });
}

/** The result of one body, which must succeed. */
export async function resultOf(
  body: string,
  { params, mediaDir }: { params: JsonObject; mediaDir: string },
): Promise<JsonValue> {
  const options = trialOf({ chain: [{ name: "only", body }] }, {
    params,
    flags: { "media-dir": [mediaDir] },
  });
  const { job } = await withTrial(options, rested);
  const [entry] = Array.isArray(job.chain_results) ? job.chain_results : [];
  const { result = null, error = null } = isJsonObject(entry) ? entry : {};
  assertEquals(error, "");
  return result;
}

// The load: many callers who post, read, cancel, resume and delete at random, and who hold every
// answer against what must be. A caller goes on until the agent no longer answers.

import { postInfo } from "./info_calls.ts";
import { changeJob, postEqualJobs, postJob, repeatJob, retryJob } from "./job_calls.ts";
import { isFinal } from "./job_rules.ts";
import { type LoadDeps, lookAtAny, lookAtNewest } from "./looks.ts";
import { makeWorkflow, onWorkflow } from "./workflow_calls.ts";
import { QUICK } from "./workloads.ts";

/** Unfinished jobs above which callers only read. */
const UNFINISHED_MAX = 60;
const DELAY_MS_MAX = 3_000;

const WEIGHTS = {
  job: 30,
  delayed: 6,
  pair: 5,
  repeat: 4,
  again: 3,
  cancel: 6,
  resume: 20,
  info: 12,
  read: 12,
  read_info: 6,
  list: 1,
  workflow: 4,
  change: 5,
  remove: 2,
  read_workflow: 3,
} as const;
type Action = keyof typeof WEIGHTS;

/** So many callers at the same time. */
export async function callTogether(deps: LoadDeps, callers: number): Promise<void> {
  await Promise.all(Array.from({ length: callers }, () => callInTurn(deps)));
}

/** One caller. Ends when the load is over, or the agent does not answer. */
export async function callInTurn(deps: LoadDeps): Promise<void> {
  while (!deps.over()) {
    if (!await act(deps)) return;
  }
}

/** @returns false when the agent did not answer */
function act(deps: LoadDeps): Promise<boolean> {
  const { random, jobs } = deps;
  const action: Action = random.weighted(WEIGHTS);
  const unfinished = jobs.records.filter(({ view }) => view !== undefined && !isFinal(view));
  const posts = action === "job" || action === "delayed" || action === "pair" ||
    action === "again";
  if (posts && unfinished.length > UNFINISHED_MAX) return lookAtAny(deps);
  switch (action) {
    case "job":
      return postJob(deps, random.pick(deps.workloads), {});
    case "delayed": {
      const due = new Date(Date.now() + random.integer(100, DELAY_MS_MAX)).toISOString();
      return postJob(deps, QUICK, { exec_after: due });
    }
    case "pair":
      return postEqualJobs(deps, random.integer(2, 3));
    case "repeat":
      return repeatJob(deps);
    case "again":
      return retryJob(deps);
    case "cancel":
      return changeJob(deps, "cancel", unfinished);
    case "resume": {
      const waiting = unfinished.filter(({ view }) => view?.execution === "waiting");
      return changeJob(deps, "resume", waiting);
    }
    case "info":
      return postInfo(deps);
    case "read":
      return lookAtAny(deps);
    case "read_info":
      return lookAtAny(deps, true);
    case "list":
      return lookAtNewest(deps);
    case "workflow":
      return makeWorkflow(deps);
    case "change":
    case "remove":
    case "read_workflow":
      return onWorkflow(deps, action);
  }
}

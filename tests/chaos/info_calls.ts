// What callers tell in the info of jobs.

import type { JobRecord } from "./job_book.ts";
import { anyJob, expectRefusal, type LoadDeps } from "./looks.ts";

/** Appends to the info of any job. */
export async function postInfo(deps: LoadDeps): Promise<boolean> {
  const record = anyJob(deps);
  return record === undefined || await postInfoTo(deps, record);
}

/** Appends to the info of one job. @returns false when the agent did not answer */
export async function postInfoTo(deps: LoadDeps, record: JobRecord): Promise<boolean> {
  const { agent, newMark } = deps;
  return await record.infoTurns.take(async () => {
    if (deps.over()) return false;
    const id = newMark();
    const reply = await agent.call("POST", `/jobs/${record.uuid}/info`, { posted: id });
    if (reply === undefined) record.posted.push({ id, acknowledged: false });
    else if (reply.status === 200) {
      deps.acknowledged();
      record.posted.push({ id, acknowledged: true });
    } else expectRefusal(reply, deps.notNow);
    record.history.add(`info ${id} answered ${reply?.status ?? "not at all"}`);
    return reply !== undefined;
  });
}

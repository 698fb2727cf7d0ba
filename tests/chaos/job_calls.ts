// What callers ask of jobs, each held against what may be answered.

import type { JsonObject } from "../../src/domain/json.ts";
import { objectOf } from "./agent_under_chaos.ts";
import type { JobRecord } from "./job_book.ts";
import { isFinal } from "./job_rules.ts";
import { expectRefusal, type LoadDeps, lookAtAny } from "./looks.ts";
import { nextWorkload, WAITING, type Workload } from "./workloads.ts";

const SLEEP_MS_MAX = 400;
/** How many posts are made under an idempotency key. */
const KEYED = 0.3;

function requestOf(deps: LoadDeps, mark: string, workload: Workload): JsonObject {
  const { uuids, random } = deps;
  const workflow = uuids.get(workload.name);
  if (workflow === undefined) throw new Error(`No workflow was made for ${workload.name}`);
  return { workflow, mark, ms: random.integer(0, SLEEP_MS_MAX) };
}

/** One request for a job, now and then under an idempotency key, for which a job is kept longer. */
export async function postJob(
  deps: LoadDeps,
  workload: Workload,
  more: JsonObject,
  keyed = deps.random.chance(KEYED),
): Promise<boolean> {
  const { jobs, newMark } = deps;
  const record = jobs.begin(newMark(), workload);
  const request = { ...requestOf(deps, record.mark, workload), ...more };
  if (keyed) record.keyed = request;
  return await postRecord(deps, record, request);
}

async function postRecord(
  deps: LoadDeps,
  record: JobRecord,
  request: JsonObject,
): Promise<boolean> {
  const { agent, jobs } = deps;
  const reply = await agent.call("POST", "/jobs", request, keyOf(record));
  if (reply === undefined) jobs.unanswered(record, false);
  else if (reply.status === 201) {
    deps.acknowledged();
    jobs.created(record, objectOf(reply));
  } else expectRefusal(reply, deps.notNow);
  return reply !== undefined;
}

function keyOf(record: JobRecord): Record<string, string> {
  return record.keyed === undefined ? {} : { "idempotency-key": record.mark };
}

/** What a caller does that got no answer: the same request again, under the same key. */
export async function repeatUnanswered(deps: LoadDeps): Promise<void> {
  for (const record of deps.jobs.toRepeat.splice(0)) {
    record.history.add("posted again under its idempotency key");
    const went = record.view === undefined
      ? await postRecord(deps, record, record.keyed ?? {})
      : await postAgain(deps, record);
    if (!went) return;
  }
}

/** A request that was acknowledged, under the same key: the same job is answered. */
async function postAgain({ agent, jobs }: LoadDeps, record: JobRecord): Promise<boolean> {
  return await record.turns.take(async () => {
    const since = jobs.now();
    const reply = await agent.call("POST", "/jobs", record.keyed, keyOf(record));
    if (reply === undefined) return false;
    const job = reply.status === 201 ? objectOf(reply) : {};
    const wrong = job.uuid !== record.uuid;
    record.expect(wrong ? [`posted again it was answered ${reply.status} ${job.uuid}`] : []);
    jobs.look(record, job, since);
    return true;
  });
}

/** Equal requests at the same time, with their keys in different orders: one gets a job. */
export async function postEqualJobs(deps: LoadDeps, count: number): Promise<boolean> {
  const { agent, jobs, newMark } = deps;
  const mark = newMark();
  const record = jobs.begin(mark, WAITING, `/chaos/${mark}`);
  const request = { ...requestOf(deps, mark, WAITING), target: `/chaos/${mark}` };
  const turned = Object.fromEntries(Object.entries(request).toReversed());
  const replies = await Promise.all(
    Array.from(
      { length: count },
      (_, at) => agent.call("POST", "/jobs", at % 2 === 0 ? request : turned),
    ),
  );
  const made = replies.filter((reply) => reply?.status === 201);
  const refused = replies.filter((reply) => reply?.status === 409);
  const silent = replies.filter((reply) => reply === undefined);
  for (const reply of replies) {
    if (reply !== undefined) expectRefusal(reply, [201, 409, ...deps.notNow]);
  }
  record.expect(made.length > 1 ? [`${made.length} of ${count} equal requests got a job`] : []);
  const [first] = made;
  if (first !== undefined) {
    deps.acknowledged();
    jobs.created(record, objectOf(first));
  } else if (silent.length > 0) jobs.unanswered(record, refused.length > 0);
  else record.expect(refused.length > 0 ? ["equal requests were all refused"] : []);
  return silent.length === 0;
}

/**
 * A request under a key that was used, or one equal to that of a job that waits: nobody resumes it
 * meanwhile.
 */
export async function repeatJob(deps: LoadDeps): Promise<boolean> {
  const { agent, jobs, random } = deps;
  const keyed = jobs.records.filter(({ keyed }) => keyed !== undefined);
  if (keyed.length > 0 && random.chance(0.5)) return await postAgain(deps, random.pick(keyed));
  const held = jobs.records.filter(({ target, view }) =>
    target !== undefined && view?.execution === "waiting"
  );
  if (held.length === 0) return await lookAtAny(deps);
  const record = random.pick(held);
  return await record.turns.take(async () => {
    if (deps.over()) return false;
    if (record.view?.execution !== "waiting") return true;
    const params = record.view.params as JsonObject;
    const workflow = record.view.workflow_uuid ?? "";
    const target = record.target ?? "";
    const reply = await agent.call("POST", "/jobs", { ...params, workflow, target });
    const wrong = reply !== undefined && ![409, ...deps.notNow].includes(reply.status);
    record.expect(wrong ? [`an equal request was answered ${reply.status}`] : []);
    return reply !== undefined;
  });
}

/** One or more equal changes of a job at the same time: one of them is acknowledged. */
export async function changeJob(
  deps: LoadDeps,
  verb: "cancel" | "resume",
  from: readonly JobRecord[],
): Promise<boolean> {
  const { random } = deps;
  if (from.length === 0) return await lookAtAny(deps);
  const record = random.pick(from);
  return await record.turns.take(async () => {
    if (deps.over()) return false;
    if (record.view === undefined || isFinal(record.view)) return true;
    if (verb === "resume" && record.view.execution !== "waiting") return true;
    return await changeNow(deps, verb, record, random.chance(0.2) ? 3 : 1);
  });
}

/** Sends a change of a job whose turn it is. @returns false when the agent did not answer */
export async function changeNow(
  deps: LoadDeps,
  verb: "cancel" | "resume",
  record: JobRecord,
  count: number,
): Promise<boolean> {
  const { agent, jobs, random } = deps;
  const before = record.asked;
  const error = random.chance(0.2) ? "given up outside" : "";
  const outcome = { result: `outside ${random.integer(0, 1_000_000)}`, error };
  record.asked = verb === "cancel"
    ? { ...before, cancel: "maybe" }
    : { ...before, resume: "maybe", resumed: outcome };
  const body = verb === "cancel"
    ? {}
    : { result: outcome.result, ...(error === "" ? {} : { error }) };
  record.history.add(`${count} ${verb} sent: ${JSON.stringify(body)}`);
  const since = jobs.now();
  const replies = await Promise.all(
    Array.from({ length: count }, () => agent.call("POST", `/jobs/${record.uuid}/${verb}`, body)),
  );
  const statuses = replies.map((reply) => reply?.status ?? "no answer");
  record.history.add(`${verb} answered ${statuses.join(", ")}`);
  const done = replies.filter((reply) => reply?.status === 200);
  for (const reply of replies) {
    if (reply !== undefined) expectRefusal(reply, [200, 409, ...deps.notNow]);
  }
  record.expect(done.length > 1 ? [`${done.length} of ${count} equal requests were done`] : []);
  const [first] = done;
  if (first !== undefined) {
    deps.acknowledged();
    record.asked = verb === "cancel"
      ? { ...record.asked, cancel: "done" }
      : { ...record.asked, resume: "done" };
    jobs.look(record, objectOf(first), since, true);
  } else if (!statuses.includes("no answer")) record.asked = before;
  return !statuses.includes("no answer");
}

/** Retries any finished job, by one request or by several at the same time. */
export async function retryJob(deps: LoadDeps): Promise<boolean> {
  const { jobs, random } = deps;
  const ended = jobs.records.filter(({ view, asked }) =>
    view !== undefined && isFinal(view) && view.next_attempt === undefined && asked.retry === "no"
  );
  if (ended.length === 0) return await lookAtAny(deps);
  return await retryRecord(deps, random.pick(ended), random.chance(0.2) ? 3 : 1);
}

/** Retries one finished job. @returns false when the agent did not answer */
export async function retryRecord(
  deps: LoadDeps,
  record: JobRecord,
  count: number,
): Promise<boolean> {
  const { agent, jobs } = deps;
  return await record.turns.take(async () => {
    if (deps.over()) return false;
    if (record.asked.retry !== "no") return true;
    record.asked = { ...record.asked, retry: "maybe" };
    record.history.add(`${count} retry sent`);
    const path = `/agent/v1/jobs/${record.uuid}/retry`;
    const replies = await Promise.all(
      Array.from({ length: count }, () => agent.call("POST", path, {})),
    );
    const made = replies.filter((reply) => reply?.status === 201);
    record.history.add(`retry answered ${replies.map((reply) => reply?.status).join(", ")}`);
    for (const reply of replies) {
      if (reply !== undefined) expectRefusal(reply, [201, 409, ...deps.notNow]);
    }
    record.expect(made.length > 1 ? [`${made.length} of ${count} equal requests were done`] : []);
    const [first] = made;
    if (first !== undefined) {
      deps.acknowledged();
      record.asked = { ...record.asked, retry: "done" };
      jobs.changed(record);
      const next = jobs.begin(record.mark, nextWorkload(record.workload), record.target);
      jobs.created(next, objectOf(first));
    } else if (!replies.includes(undefined)) record.asked = { ...record.asked, retry: "no" };
    return !replies.includes(undefined);
  });
}

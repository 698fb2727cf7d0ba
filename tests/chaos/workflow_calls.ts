// What callers ask of workflows, each held against what may be answered.

import { objectOf } from "./agent_under_chaos.ts";
import { expectRefusal, type LoadDeps, lookAtAny, lookAtWorkflow } from "./looks.ts";
import type { WorkflowRecord } from "./workflow_book.ts";
import { QUICK } from "./workloads.ts";

/** Makes a workflow that others may change. @returns false when the agent did not answer */
export async function makeWorkflow(deps: LoadDeps): Promise<boolean> {
  const { agent, workflows, newMark } = deps;
  const record = workflows.begin(newMark());
  const body = { name: record.mark, ...QUICK.definition, version: 0 };
  return await record.turns.take(async () => {
    record.may(body);
    const reply = await agent.call("POST", "/workflows", body);
    if (reply?.status === 201) {
      deps.acknowledged();
      const made = objectOf(reply);
      record.uuid = String(made.uuid);
      record.is(made, "POST acknowledged");
    } else if (reply !== undefined) {
      expectRefusal(reply, deps.notNow);
      record.is("none", "POST refused");
    }
    return reply !== undefined;
  });
}

/** Reads, replaces or removes any workflow. @returns false when the agent did not answer */
export async function onWorkflow(
  deps: LoadDeps,
  action: "change" | "remove" | "read_workflow",
): Promise<boolean> {
  const { workflows, random } = deps;
  const there = workflows.records.filter(({ exists, kept }) => exists && !kept);
  if (there.length === 0) return await lookAtAny(deps);
  const record = random.pick(there);
  return await record.turns.take(async () => {
    if (deps.over()) return false;
    if (!record.exists) return true;
    if (action === "read_workflow") return await lookAtWorkflow(deps, record);
    return await writeWorkflow(deps, record, action === "remove");
  });
}

/** Replaces or removes a workflow whose turn it is. @returns false when the agent did not answer */
export async function writeWorkflow(
  deps: LoadDeps,
  record: WorkflowRecord,
  remove: boolean,
): Promise<boolean> {
  const { agent, random } = deps;
  const next = { name: record.mark, ...QUICK.definition, version: random.integer(1, 1_000_000) };
  const [before] = record.states;
  record.may(remove ? "none" : next);
  const path = `/workflows/${record.uuid}`;
  const reply = remove ? await agent.call("DELETE", path) : await agent.call("PUT", path, next);
  if (reply === undefined) return false;
  if (reply.status === (remove ? 204 : 201)) {
    deps.acknowledged();
    record.states = [remove ? "none" : next];
    record.is(remove ? "none" : objectOf(reply), remove ? "DELETE done" : "PUT done");
  } else {
    expectRefusal(reply, deps.notNow);
    record.is(before ?? "none", `refused with ${reply.status}`);
  }
  return true;
}

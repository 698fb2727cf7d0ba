// Workflows whose bodies are scripts: one letter says what each execution ends with.

import type { TaskUuid, WorkflowUuid } from "../../../src/domain/id.ts";
import type { Task, Workflow } from "../../../src/domain/job/workflow.ts";
import type { TaskOutcome } from "../../../src/sandbox/run_task.ts";
import { uuidOf } from "../../support/job.ts";
import type { SomeWorkflow } from "./any_sequence.ts";
import type { OpenTask } from "./world.ts";

/** The workflow that was chosen. */
export function workflowFrom(some: SomeWorkflow, number: number): Workflow {
  const tasks = (list: SomeWorkflow["chain"], phase: string): Task[] =>
    list.map(({ body, retry, fallback, timeout }, index) => ({
      uuid: uuidOf<TaskUuid>(100 * number + index),
      name: `${phase} ${index}`,
      body,
      retry,
      ...(fallback === undefined ? {} : { fallback }),
      ...(timeout === undefined ? {} : { timeout }),
    }));
  return {
    uuid: uuidOf<WorkflowUuid>(number),
    name: `workflow ${number}`,
    chain: tasks(some.chain, "chain"),
    onerror: tasks(some.onerror, "onerror"),
    oncancel: tasks(some.oncancel, "oncancel"),
    ...(some.timeout === undefined ? {} : { timeout: some.timeout }),
    max_attempts: some.max_attempts,
    initial_delay: some.initial_delay,
  };
}

/** Ends an execution as its script says. @returns whether it answers at all */
export function answer(open: OpenTask): boolean {
  const { run } = open;
  const letter = run.source[(Math.max(Number(run.job.attempt), 1) - 1) % run.source.length];
  const outcome = outcomeOf(letter, open);
  if (outcome !== undefined) open.end(outcome);
  return outcome !== undefined;
}

function outcomeOf(letter: string | undefined, { run }: OpenTask): TaskOutcome | undefined {
  const job = { ...run.job, seen: Number(run.job.seen ?? 0) + 1 };
  const result = `${run.taskName} ${run.kind} ${run.job.attempt}`;
  switch (letter) {
    case "s":
      return { kind: "success", result, job };
    case "f":
      return { kind: "failure", error: result, job };
    case "w":
      return { kind: "signal", word: "wait", result, job };
    case "q":
      return { kind: "signal", word: "queue", result, job };
    case "r":
      return { kind: "signal", word: "retry", result, job };
    case "c":
      return { kind: "signal", word: "cancel", result, job };
    default:
      return undefined;
  }
}

// The workflows that the chaos tests run. Every execution of a body or fallback makes a token and
// tells it in the job's info before anything else; the recorded entry and a property of the job
// carry the token of the execution they came from. So the info tells which executions there were,
// and the result which of them was recorded.

import type { JsonObject } from "../../src/domain/json.ts";

/** How a job of a workload ends when nobody interferes, in the words of the wire. */
export type End = "success" | "failure" | "canceled" | "retried";

/** One workflow with what its jobs are to come to. */
export interface Workload {
  readonly name: string;
  /** For POST /workflows, without a name. */
  readonly definition: JsonObject;
  readonly end: End;
  /** Number of results in each phase at the end. */
  readonly results: { readonly chain: number; readonly onerror: number; readonly oncancel: number };
  /** Executions of one task, its fallback included, in a life of the agent that is not cut short. */
  readonly executionsMax: number;
}

/** A body that tells its execution and then does something. */
export function tellingBody(task: string, then: string): string {
  return `async function (job, cb) { ${telling(task)} ${then} }`;
}

function tellingFallback(task: string, then: string): string {
  return `async function (err, job, cb) { ${telling(task)} ${then} }`;
}

/** A task that meets a full disk waits for room: it is not its own failure. */
function telling(task: string): string {
  return `const token = Math.random().toString(36).slice(2); ` +
    `for (;;) try { await info({ began: "${task}", token }); break; } ` +
    `catch (error) { if (error.code !== "storage_full") throw error; await sleep(50); } ` +
    `job["${task}"] = token;`;
}

const DONE = "cb(null, { token });";
const PAUSE = "await sleep(job.params.ms || 0);";

function task(name: string, then = DONE, more: JsonObject = {}): JsonObject {
  return { name, body: tellingBody(name, then), ...more };
}

function workload(
  name: string,
  definition: JsonObject,
  more: Partial<Omit<Workload, "name" | "definition">> = {},
): Workload {
  const chain = Array.isArray(definition.chain) ? definition.chain.length : 0;
  return {
    name,
    definition,
    end: "success",
    results: { chain, onerror: 0, oncancel: 0 },
    executionsMax: 1,
    ...more,
  };
}

/** One task that ends at once. */
export const QUICK = workload("quick", { chain: [task("only")] });

/** Waits in its second task until somebody resumes it. */
export const WAITING = workload("waiting", {
  chain: [task("before"), task("outside", "cb('wait', { token });"), task("after")],
});

/** Stays in its task until it is canceled, or for a while; then undoes what it did. */
export const UNDONE = workload("undone", {
  chain: [task("do", `${PAUSE} ${DONE}`), task("do_more", `${PAUSE} ${DONE}`)],
  oncancel: [task("undo"), task("undo_more", `${PAUSE} ${DONE}`)],
});

/** Three tasks that take their time. */
export const SLOW = workload("slow", {
  chain: [
    task("first", `${PAUSE} ${DONE}`),
    task("second", `${PAUSE} ${DONE}`),
    task("third", `${PAUSE} ${DONE}`),
  ],
});

/** Its second task fails, and its onerror chain follows. */
export const FAILING = workload("failing", {
  chain: [task("well"), task("broken", `${PAUSE} cb("broken " + token);`), task("never")],
  onerror: [task("clear"), task("report", `${PAUSE} ${DONE}`)],
}, { end: "failure", results: { chain: 2, onerror: 2, oncancel: 0 } });

/** Its first job asks to be retried, its second one succeeds. */
export const RETRIED = workload("retried", {
  max_attempts: 3,
  initial_delay: 20,
  chain: [
    task("again", `if (job.num_attempts) ${DONE} else cb("retry", { token });`),
    task("then"),
  ],
}, { end: "retried", results: { chain: 1, onerror: 0, oncancel: 0 } });

/** Goes back to the queue between its tasks. */
export const REQUEUED = workload("requeued", {
  chain: [task("first"), task("yields", "cb('queue', { token });"), task("last")],
});

/** Fails twice before it succeeds. */
export const FLAKY = workload("flaky", {
  chain: [
    task(
      "flaky",
      `job.tries = (job.tries || 0) + 1; if (job.tries < 3) cb("again " + token); else ${DONE}`,
      { retry: 3 },
    ),
    task("steady"),
  ],
}, { executionsMax: 4 });

/** One task is saved by its fallback, another runs into its time limit first. */
export const FALLBACK = workload("fallback", {
  chain: [
    task("breaks", `cb("broken " + token);`, {
      retry: 1,
      fallback: tellingFallback("breaks", DONE),
    }),
    task("late", "await sleep(600000);", { timeout: 3, fallback: tellingFallback("late", DONE) }),
    task("last"),
  ],
}, { executionsMax: 3 });

/** Its task cancels the job. */
export const GIVES_UP = workload("gives_up", {
  chain: [task("first"), task("cancels", "cb('cancel', { token });"), task("never")],
  oncancel: [task("undo")],
}, { end: "canceled", results: { chain: 2, onerror: 0, oncancel: 1 } });

/** What becomes of the job that a `retry` made. */
const SECOND_ATTEMPT: Workload = {
  ...RETRIED,
  end: "success",
  results: { chain: 2, onerror: 0, oncancel: 0 },
};

/** What the job comes to that takes the place of one of this workload. */
export function nextWorkload(workload: Workload = QUICK): Workload {
  return workload === RETRIED ? SECOND_ATTEMPT : workload;
}

export const WORKLOADS: readonly Workload[] = [
  QUICK,
  WAITING,
  UNDONE,
  SLOW,
  FAILING,
  RETRIED,
  REQUEUED,
  FLAKY,
  FALLBACK,
  GIVES_UP,
];

/** Those without a time limit, which a task that waits for room on the disk would exceed. */
export const PATIENT_WORKLOADS = WORKLOADS.filter((workload) => workload !== FALLBACK);

// When each attempt of each task ran, made of what the agent says of a job.

import type { Schemas } from "../../client/schema.ts";
import type { JobView, WholeJob } from "./job_view.ts";

/** A chain of a job. */
type Phase = Schemas["SummaryTask"]["phase"];

/** One run of a task, as a bar. Milliseconds since 1970. */
export interface Bar {
  readonly kind: "done" | "failed" | "running" | "pause";
  readonly fromMs: number;
  readonly toMs: number;
  readonly attempt: number;
  readonly fallback: boolean;
  /** Of a failed attempt. */
  readonly error?: string;
}

/** A task and what came of it. */
export interface Line {
  readonly phase: Phase;
  /** Its place in the chain of its phase. */
  readonly index: number;
  readonly name: string;
  readonly status: "done" | "failed" | "running" | "waiting" | "kept" | "not run";
  readonly bars: readonly Bar[];
  readonly task: Schemas["Task"];
  readonly result: Schemas["TaskResult"] | undefined;
}

/** The tasks of a job in the order in which they run. @param nowMs ends what runs still */
export function linesOf(view: JobView, job: WholeJob, nowMs: number): readonly Line[] {
  const lines: Line[] = [];
  const add = (
    phase: Phase,
    tasks: readonly Schemas["Task"][],
    results: readonly Schemas["TaskResult"][],
  ) => {
    for (const [index, task] of tasks.entries()) {
      const result = results[index];
      const bars = barsOf(view, { phase, index }, result, nowMs);
      const name = task.name ?? task.uuid;
      const status = statusOf(view, { phase, index }, result);
      lines.push({ phase, index, name, status, bars, task, result });
    }
  };
  add("chain", job.chain, job.chain_results);
  // The others are of interest once they run.
  const { onerror_results, oncancel = [], oncancel_results = [] } = job;
  if (onerror_results.length > 0 || view.task?.phase === "onerror") {
    add("onerror", job.onerror, onerror_results);
  }
  if (oncancel_results.length > 0 || view.task?.phase === "oncancel") {
    add("oncancel", oncancel, oncancel_results);
  }
  return lines;
}

function barsOf(
  view: JobView,
  at: Pick<Line, "phase" | "index">,
  result: Schemas["TaskResult"] | undefined,
  nowMs: number,
): readonly Bar[] {
  const bars: Bar[] = [];
  for (const attempt of view.attempts.filter((one) => isOf(one, at))) {
    const fromMs = Date.parse(attempt.started_at);
    const toMs = Date.parse(attempt.finished_at);
    const { attempt: number, fallback, message: error } = attempt;
    bars.push({ kind: "failed", fromMs, toMs, attempt: number, fallback, error });
  }
  const freeMs = bars.at(-1)?.toMs ?? 0;
  const next = { attempt: (bars.at(-1)?.attempt ?? 0) + 1, fallback: false };
  const { task } = view;
  const waits = view.state === "waiting" && task !== null && isOf(task, at);
  if (waits && result !== undefined) {
    const fromMs = Date.parse(result.started_at);
    bars.push({ kind: "pause", fromMs, toMs: Math.max(fromMs, nowMs), ...next });
  } else if (result !== undefined && result.error === "") {
    const toMs = Date.parse(result.finished_at);
    // The entry of a task begins with its first attempt.
    const wait = view.attempts.findLast((one) => isOf(one, at))?.wait_seconds ?? 0;
    const fromMs = Math.min(Math.max(Date.parse(result.started_at), freeMs + wait * 1000), toMs);
    bars.push({ kind: "done", fromMs, toMs, ...next, attempt: result.attempts });
  }
  if (view.state === "running" && task !== null && isOf(task, at) && task.since !== null) {
    const fromMs = Date.parse(task.since);
    bars.push({ kind: "running", fromMs, toMs: Math.max(fromMs, nowMs), ...next });
  }
  return bars;
}

function isOf(
  one: Pick<Line, "phase" | "index">,
  { phase, index }: Pick<Line, "phase" | "index">,
): boolean {
  return one.phase === phase && one.index === index;
}

function statusOf(
  view: JobView,
  at: Pick<Line, "phase" | "index">,
  result: Schemas["TaskResult"] | undefined,
): Line["status"] {
  // The task that waits has a result already: what a resume without one gives it.
  if (view.state === "waiting" && view.task !== null && isOf(view.task, at)) return "waiting";
  if (result !== undefined) {
    if (result.error !== "") return "failed";
    const { started_at, created_at } = view;
    // The results before a retry's first task come from the job before.
    const from = Date.parse(started_at ?? created_at);
    return Date.parse(result.finished_at) < from ? "kept" : "done";
  }
  if (view.task === null || !isOf(view.task, at)) return "not run";
  if (view.state === "failed") return "failed";
  if (view.state === "waiting" || view.reason === "waiting_for_retry") return "waiting";
  return view.state === "running" || view.reason === "undoing" ? "running" : "not run";
}

/** The span of a job's bars. Milliseconds since 1970. */
export function axisOf(
  view: JobView,
  lines: readonly Line[],
  nowMs: number,
): { readonly fromMs: number; readonly toMs: number } {
  const bars = lines.filter(({ status }) => status !== "kept").flatMap((line) => line.bars);
  const fromMs = Math.min(
    Date.parse(view.started_at ?? view.created_at),
    ...bars.map((bar) => bar.fromMs),
  );
  const endMs = view.finished_at === null ? nowMs : Date.parse(view.finished_at);
  const toMs = Math.max(fromMs + 1, endMs, ...bars.map((bar) => bar.toMs));
  return { fromMs, toMs };
}

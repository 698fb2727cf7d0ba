// The timeline of a job: a line for each task, with a bar for each attempt; each line opens to its errors, result and
// source.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { mayChange } from "../../client/client.ts";
import { Button } from "../../part/controls.tsx";
import { Json, Source, spanText, timeOfDay } from "../../part/shown.tsx";
import { canRetry, RetryDialog } from "./actions.tsx";
import type { JobView, WholeJob } from "./job_view.ts";
import type { Schemas } from "../../client/schema.ts";

interface TimelineProps {
  readonly job: JobView;
  readonly whole: WholeJob;
  /** End of what still runs, milliseconds since 1970. */
  readonly nowMs: number;
}

/** All tasks of a job on one axis of time. */
export function Timeline({ job, whole, nowMs }: TimelineProps): JSX.Element {
  const lines = linesOf(job, whole, nowMs);
  const axis = axisOf(job, lines, nowMs);
  return (
    <section class="timeline" aria-label="Timeline">
      {lines.map((line, at) => (
        <div key={`${line.phase} ${line.index}`}>
          {line.phase !== "chain" && lines[at - 1]?.phase !== line.phase && (
            <h2 class="timeline-phase">{line.phase}</h2>
          )}
          <TaskLine line={line} axis={axis} job={job} />
        </div>
      ))}
    </section>
  );
}

type Axis = ReturnType<typeof axisOf>;

function TaskLine({ line, axis, job }: { line: Line; axis: Axis; job: JobView }): JSX.Element {
  const seconds = line.bars.reduce((sum, { fromMs, toMs }) => sum + (toMs - fromMs) / 1000, 0);
  const bars = line.status === "kept" ? [] : line.bars;
  return (
    <details class={`task task-${line.status.replace(" ", "-")}`}>
      <summary>
        <span class="task-name">{line.name}</span>
        <span class="task-track">
          {bars.map((bar) => <TaskBar key={`${bar.kind} ${bar.fromMs}`} bar={bar} axis={axis} />)}
        </span>
        <span class="task-status">{line.status}</span>
        <span class="task-time number">{bars.length === 0 ? "" : spanText(seconds)}</span>
      </summary>
      <TaskDetail line={line} job={job} />
    </details>
  );
}

/** Smallest width of a bar, percent, so that it stays visible. */
const BAR_PERCENT_MIN = 0.6;

function TaskBar({ bar, axis }: { bar: Bar; axis: Axis }): JSX.Element {
  const spanMs = axis.toMs - axis.fromMs;
  const left = 100 * (bar.fromMs - axis.fromMs) / spanMs;
  const width = Math.max(100 * (bar.toMs - bar.fromMs) / spanMs, BAR_PERCENT_MIN);
  const what = bar.fallback ? "fallback" : `attempt ${bar.attempt}`;
  const title = `${what}, ${spanText((bar.toMs - bar.fromMs) / 1000)}` +
    (bar.error === undefined ? "" : `: ${bar.error}`);
  return (
    <span
      class={`bar bar-${bar.kind}`}
      title={title}
      style={{ left: `${Math.min(left, 100 - width)}%`, width: `${width}%` }}
    />
  );
}

function TaskDetail({ line, job }: { line: Line; job: JobView }): JSX.Element {
  const asks = useSignal(false);
  const failed = line.bars.filter(({ kind }) => kind === "failed");
  const { result, task, index, name } = line;
  const mayRetry = mayChange() && line.phase === "chain" && canRetry(job);
  return (
    <div class="task-detail">
      {failed.length > 0 && (
        <ol class="attempts">
          {failed.map(({ attempt, fallback, fromMs, toMs, error }) => (
            <li key={fromMs}>
              <span class="muted">
                {fallback ? "Fallback" : `Attempt ${attempt}`},{" "}
                {timeOfDay(new Date(fromMs).toISOString())}, {spanText((toMs - fromMs) / 1000)}
              </span>
              <span class="step-error wrap">{error}</span>
            </li>
          ))}
        </ol>
      )}
      {result !== undefined && result.error === "" && (
        <>
          <h3>Result</h3>
          <Json value={result.result} label={`Result of ${name}`} />
        </>
      )}
      <h3>Source</h3>
      <Source text={task.body} label={`Source of ${name}`} />
      {mayRetry && <Button onClick={() => asks.value = true}>Retry from here…</Button>}
      {asks.value && (
        <RetryDialog
          job={job}
          from={{ index, name }}
          onClose={() => asks.value = false}
        />
      )}
    </div>
  );
}

/** A chain of a job. */
type Phase = Schemas["SummaryTask"]["phase"];

/** One run of a task, as a bar. Milliseconds since 1970. */
interface Bar {
  readonly kind: "done" | "failed" | "running" | "pause";
  readonly fromMs: number;
  readonly toMs: number;
  readonly attempt: number;
  readonly fallback: boolean;
  /** Set for failed attempts only. */
  readonly error?: string;
}

/** A task with its attempts. */
interface Line {
  readonly phase: Phase;
  /** Its place in the chain of its phase. */
  readonly index: number;
  readonly name: string;
  readonly status: "done" | "failed" | "running" | "waiting" | "kept" | "pending" | "not run";
  readonly bars: readonly Bar[];
  readonly task: Schemas["Task"];
  readonly result: Schemas["TaskResult"] | undefined;
}

/** The tasks of a job in the order in which they run. @param nowMs end of what still runs */
function linesOf(view: JobView, job: WholeJob, nowMs: number): readonly Line[] {
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
  // The other chains matter only once they run.
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
    // A task's entry begins with its first attempt.
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
  // A waiting task already has an entry: the result it gets if the resume has none.
  if (view.state === "waiting" && view.task !== null && isOf(view.task, at)) return "waiting";
  if (result !== undefined) {
    if (result.error !== "") return "failed";
    const { started_at, created_at } = view;
    // Results before a retry's first task come from the previous job.
    const from = Date.parse(started_at ?? created_at);
    return Date.parse(result.finished_at) < from ? "kept" : "done";
  }
  const later = view.finished_at === null ? "pending" : "not run";
  if (view.task === null || !isOf(view.task, at)) return later;
  if (view.state === "failed") return "failed";
  if (view.state === "waiting" || view.reason === "waiting_for_retry") return "waiting";
  return view.state === "running" || view.reason === "undoing" ? "running" : later;
}

/** From the first to the last bar of a job. Milliseconds since 1970. */
function axisOf(
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

// The timeline of a job: a line for each task, a bar for each attempt, and behind a line its errors, its result
// and its source.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { mayChange } from "../../client/client.ts";
import { Button } from "../../part/controls.tsx";
import { spanText, timeOfDay } from "../../part/shown.tsx";
import { canRetry, RetryDialog } from "./actions.tsx";
import type { JobView, WholeJob } from "./job_view.ts";
import { Json, Source } from "./source.tsx";
import { axisOf, type Bar, type Line, linesOf } from "./timeline.ts";

interface TimelineProps {
  readonly job: JobView;
  readonly whole: WholeJob;
  /** Ends what runs still; milliseconds since 1970. */
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

/** The least width of a bar, so that it is seen; percent. */
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

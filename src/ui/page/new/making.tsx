// A machine that is made: the steps of its job, live, and its screen as soon as it runs.

import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { Banner } from "../../part/controls.tsx";
import { Badge, clock, durationOf, Progress, spanText } from "../../part/shown.tsx";
import { announce, go, nameTab } from "../../browser.ts";
import { type JobView, openJobView } from "../job/job_view.ts";
import { Log, progressText } from "../job/log.tsx";
import { Reason } from "../job/reason.tsx";
import { Timeline } from "../job/task_lines.tsx";
import { forgetDraft } from "./draft.ts";

interface MakingProps {
  readonly job_uuid: string;
  readonly machine_uuid: string;
}

/** The job of an order; its machine takes the place of the page once it runs. */
export function Making({ job_uuid, machine_uuid }: MakingProps): JSX.Element {
  const view = useMemo(() => openJobView(job_uuid), [job_uuid]);
  useEffect(() => () => view.close(), [view]);
  const job = view.summary.value;
  const whole = view.whole.value;
  const name = job?.machine?.alias ?? "the machine";
  useEffect(() => {
    if (job === undefined) return;
    nameTab(`${job.state}: ${name}`, job.state);
    if (job.state !== "succeeded") return;
    forgetDraft();
    announce(`${name} runs`);
    go(`/machines/${machine_uuid}`, "replace");
  }, [job?.state, name]);
  return (
    <>
      <p class="crumbs">
        <a href="/ui/machines">Machines</a>
      </p>
      <div class="page-head">
        <h1>
          Making {name} {job !== undefined && <Badge state={job.state} reason={job.reason} />}
        </h1>
      </div>
      {view.error.value !== undefined && <Banner kind="bad" title={view.error.value} />}
      {job === undefined ? <p class="muted loading" role="status">Loading</p> : (
        <>
          <Reason job={job} />
          <Step job={job} />
          {job.finished_at !== null && job.state !== "succeeded" && <Ended job={job} />}
        </>
      )}
      {job !== undefined && whole !== undefined && (
        <Timeline
          job={job}
          whole={whole}
          nowMs={job.finished_at === null ? clock.value : 0}
        />
      )}
      {job !== undefined && <Log view={view} />}
    </>
  );
}

function Step({ job }: { job: JobView }): JSX.Element | null {
  if (job.finished_at !== null) return null;
  const { task, tasks_done, tasks_total, progress } = job;
  const seconds = durationOf(job);
  return (
    <div class="making-step">
      <p role="status">
        {task?.name ?? "not started"}, {tasks_done} of {tasks_total} tasks
      </p>
      {progress !== null && (
        <>
          <Progress
            done={Number(progress.done ?? 0)}
            total={typeof progress.total === "number" ? progress.total : undefined}
            label={progressText(progress)}
          />
          <span class="muted number">{progressText(progress)}</span>
        </>
      )}
      {seconds !== null && <span class="muted number">{spanText(seconds)}</span>}
      <span class="muted">The screen opens here automatically.</span>
    </div>
  );
}

function Ended({ job }: { job: JobView }): JSX.Element {
  return (
    <p>
      <a class="button button-primary" href="/ui/new">Change the request</a>{" "}
      <a class="button button-plain" href={`/ui/jobs/${job.uuid}`}>Open the job</a>
    </p>
  );
}

// A few jobs, one line each: the newest about a machine or of a workflow.

import type { JSX } from "preact";
import type { Schemas } from "../client/schema.ts";
import { Badge, durationOf, spanText, Time } from "./shown.tsx";

/** One line for each job, with its error. */
export function JobLines({ jobs }: { jobs: readonly Schemas["JobSummary"][] }): JSX.Element {
  return (
    <ul class="job-lines">
      {jobs.map((job) => {
        const seconds = durationOf(job);
        return (
          <li key={job.uuid} class="job-line">
            <Badge state={job.state} reason={job.reason} />
            <a class="job-link" href={`/ui/jobs/${job.uuid}`}>{job.name}</a>
            <span class="step-error" title={job.error ?? undefined}>{job.error}</span>
            <span class="muted number">{seconds === null ? "" : spanText(seconds)}</span>
            <span class="muted">
              <Time at={job.created_at} />
            </span>
          </li>
        );
      })}
    </ul>
  );
}

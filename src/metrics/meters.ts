// What the agent counts while it works, since its start. Everything else that /metrics shows is read
// from its source when it is asked for: see agent_figures.ts.

import type { JobUuid } from "../domain/id.ts";
import type { Family } from "./exposition.ts";
import { Histogram } from "./histogram.ts";
import { type Answered, RequestMeter } from "./request_meter.ts";

/** How jobs end. */
export const JOB_RESULTS = ["succeeded", "failed", "canceled", "retried"] as const;
export type JobResult = typeof JOB_RESULTS[number];

/** How one execution of a task ends: see TaskOutcome of src/sandbox/run_task.ts. */
export const TASK_RESULTS = ["success", "failure", "signal", "timeout", "aborted"] as const;
export type TaskOutcomeKind = typeof TASK_RESULTS[number];

/** Seconds: the shortest tasks take a millisecond, downloads an hour. */
const TASK_BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 1800, 3600];

/** Functions that are called at once and must return at once. */
export interface Told {
  answered?: (answered: Answered) => void;
  /** A job has ended; with an oncancel chain, again when that has. */
  jobEnded?: (uuid: JobUuid) => void;
}

/** Counters of one agent. */
export interface Meters {
  readonly requests: RequestMeter;
  readonly jobsCreated: { count: number };
  readonly jobs: Record<JobResult, number>;
  readonly tasks: Readonly<Record<TaskOutcomeKind, Histogram>>;
  /** Bytes that were placed in zones, and that came from elsewhere. */
  readonly media: { placed: number; downloaded: number };
  /** Entries that could not be written to the audit file. */
  readonly audit: { lost: number };
  /** Consoles that are open now, and were opened. */
  readonly consoles: { open: number; opened: number };
  /** Read when the figures are asked for; the runner sets them. */
  readonly now: { guests: () => number; slotsBusy: () => number };
  /** Who is told of single events, where there is a collector. */
  readonly told: Told;
}

/** Where requests are counted, and who is told of each. */
export type RequestCount = Pick<Meters, "requests" | "told">;

/** Meters that stand at zero. */
export function openMeters(): Meters {
  return {
    requests: new RequestMeter(),
    jobsCreated: { count: 0 },
    jobs: { succeeded: 0, failed: 0, canceled: 0, retried: 0 },
    tasks: {
      success: new Histogram(TASK_BOUNDS),
      failure: new Histogram(TASK_BOUNDS),
      signal: new Histogram(TASK_BOUNDS),
      timeout: new Histogram(TASK_BOUNDS),
      aborted: new Histogram(TASK_BOUNDS),
    },
    media: { placed: 0, downloaded: 0 },
    audit: { lost: 0 },
    consoles: { open: 0, opened: 0 },
    now: { guests: () => 0, slotsBusy: () => 0 },
    told: {},
  };
}

/** What the meters show. Every series that may come is there from the beginning, at zero. */
export function meterFamilies(meters: Meters): Family[] {
  const { jobsCreated, jobs, tasks, media, audit, consoles, now } = meters;
  return [
    counter("jobs_created_total", "Jobs that were written.", jobsCreated.count),
    {
      name: "zonewright_jobs_total",
      type: "counter",
      help: "Jobs that ended, by result.",
      samples: JOB_RESULTS.map((result) => ({ labels: { result }, value: jobs[result] })),
    },
    {
      name: "zonewright_task_duration_seconds",
      type: "histogram",
      help: "Time of one execution of a task, with its wait for a guest.",
      samples: TASK_RESULTS.flatMap((result) => tasks[result].samples({ result })),
    },
    counter("media_placed_bytes_total", "Bytes of media that were placed in zones.", media.placed),
    counter(
      "media_downloaded_bytes_total",
      "Bytes of media as they came, those of failed downloads included.",
      media.downloaded,
    ),
    counter(
      "audit_entries_lost_total",
      "Entries that could not be written to the audit file; the log has them.",
      audit.lost,
    ),
    gauge("vnc_sessions", "Consoles that are open over the agent.", consoles.open),
    counter("vnc_sessions_total", "Consoles that were opened over the agent.", consoles.opened),
    gauge("guests", "Guest processes.", now.guests()),
    gauge("runner_busy_slots", "Slots of the runner that hold a job.", now.slotsBusy()),
    ...meters.requests.families(),
  ];
}

/** A family with one value that only grows. @param name without the prefix */
function counter(name: string, help: string, value: number): Family {
  return { name: `zonewright_${name}`, type: "counter", help, samples: [{ value }] };
}

/** A family with one value. @param name without the prefix */
export function gauge(name: string, help: string, value: number): Family {
  return { name: `zonewright_${name}`, type: "gauge", help, samples: [{ value }] };
}

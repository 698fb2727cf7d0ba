// The counters of the agent since its start. Everything else in /metrics is read from its source at each
// scrape: see agent/monitoring.ts.

import { EXECUTIONS, type FinalExecution, isFinal } from "../domain/job/state.ts";
import { type Family, Histogram } from "./exposition.ts";
import type { LeftOut } from "./log_output.ts";

const JOB_RESULTS: readonly JobResult[] = EXECUTIONS.filter(isFinal);
/** The label `result` of finished jobs. */
export type JobResult = FinalExecution;

/** How one execution of a task ends: see TaskOutcome of src/sandbox/run_task.ts. */
const TASK_RESULTS = ["success", "failure", "signal", "timeout", "aborted"] as const;
/** The label `result` of executions. */
type TaskOutcomeKind = typeof TASK_RESULTS[number];

/** What a guest process may be doing: see GuestCounts of src/sandbox/pool.ts. */
const GUEST_STATES = ["working", "warm", "spare", "starting"] as const;
/** Guests by what they do; `started` and `given_up` only grow. */
type GuestNumbers = Readonly<
  Record<typeof GUEST_STATES[number] | "started" | "given_up", number>
>;

/** Seconds: the shortest tasks take a millisecond, downloads an hour. */
const TASK_BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 1800, 3600];

/** The counters of one agent. */
export interface Meters {
  readonly requests: RequestMeter;
  readonly jobsCreated: { count: number };
  readonly jobs: Record<JobResult, number>;
  readonly tasks: Readonly<Record<TaskOutcomeKind, Histogram>>;
  /** Bytes placed in zones, and bytes downloaded. */
  readonly media: { placed: number; downloaded: number };
  /** Entries that could not be written to the audit file. */
  readonly audit: { lost: number };
  /** Lines that the log does not have. */
  readonly log: Readonly<LeftOut>;
  /** Consoles that are open now, and were opened. */
  readonly consoles: { open: number; opened: number };
  /** Pieces of work that decoders began, and decoders that ended before they had answered. */
  readonly decoders: { works: number; deaths: number };
  /** Read for each request of the metrics; their owners set them. */
  readonly now: {
    guests: () => GuestNumbers | undefined;
    decoders: () => number;
    slotsBusy: () => number;
  };
}

/** The part that the HTTP server counts in. */
export type RequestCount = Pick<Meters, "requests">;

/** Counters that start at 0. @param log those of left-out lines, which the log itself counts in */
export function openMeters(log: LeftOut = { caller: 0, budget: 0, reader: 0 }): Meters {
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
    log,
    consoles: { open: 0, opened: 0 },
    decoders: { works: 0, deaths: 0 },
    now: { guests: () => undefined, decoders: () => 0, slotsBusy: () => 0 },
  };
}

/** The counters as metrics. Every possible series exists from the start, at zero. */
export function meterFamilies(meters: Meters): Family[] {
  const { jobsCreated, jobs, tasks, media, audit, log, consoles, decoders, now } = meters;
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
      "Bytes of media received, failed downloads included.",
      media.downloaded,
    ),
    counter(
      "audit_entries_lost_total",
      "Entries that could not be written to the audit file; the log has them.",
      audit.lost,
    ),
    {
      name: "zonewright_log_lines_left_out_total",
      type: "counter",
      help: "Log lines left out: counted together, over the hourly budget, or unread.",
      samples: Object.entries(log).map(([reason, value]) => ({ labels: { reason }, value })),
    },
    gauge("vnc_sessions", "Consoles open through the agent.", consoles.open),
    counter("vnc_sessions_total", "Consoles opened through the agent.", consoles.opened),
    ...guestFamilies(now.guests()),
    gauge("decoders", "Decoder processes.", now.decoders()),
    counter("decoder_works_total", "Decoder tasks started.", decoders.works),
    counter(
      "decoder_deaths_total",
      "Decoders that died or were killed before they answered.",
      decoders.deaths,
    ),
    gauge("runner_busy_slots", "Slots of the runner that hold a job.", now.slotsBusy()),
    ...meters.requests.families(),
  ];
}

function guestFamilies(guests: GuestNumbers | undefined): Family[] {
  return [
    {
      name: "zonewright_guests",
      type: "gauge",
      help: "Guest processes: at work, warm for their workflow, spare, or being started.",
      samples: GUEST_STATES.map((state) => ({ labels: { state }, value: guests?.[state] ?? 0 })),
    },
    counter("guests_started_total", "Guest processes that were started.", guests?.started ?? 0),
    counter(
      "guests_given_up_total",
      "Warm guests that were ended for a guest of another workflow.",
      guests?.given_up ?? 0,
    ),
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

/** Seconds: a document from memory takes a tenth of a millisecond, a commit some milliseconds. */
const BOUNDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60];
/** All others share one label: a caller may send any word as its method. */
const METHODS: ReadonlySet<string> = new Set([
  "GET",
  "HEAD",
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
]);
const OTHER_METHOD = "other";
/** The route of what was refused before one, or has none. */
export const NO_ROUTE = "none";

/** The method as metrics and log lines name it. */
export function methodName(sent: string): string {
  return METHODS.has(sent) ? sent : OTHER_METHOD;
}

interface Series {
  readonly route: string;
  readonly method: string;
  readonly code: string;
  readonly times: Histogram;
  count: number;
}

/**
 * Requests since the start of the agent, by what they asked for and how they were answered. A route is the pattern that
 * was registered, never a path: the number of series is bounded by the program, not by its callers.
 */
export class RequestMeter {
  readonly #series = new Map<string, Series>();
  readonly #times = new Map<string, Histogram>();

  /** Counts one answer. @param seconds until its head was there */
  answered(method: string, route: string, status: number, seconds: number): void {
    const key = `${method} ${status} ${route}`;
    const series = this.#series.get(key) ?? this.#open(key, method, route, status);
    series.count += 1;
    series.times.observe(seconds);
  }

  #open(key: string, sent: string, route: string, status: number): Series {
    const method = methodName(sent);
    if (method !== sent) key = `${method} ${status} ${route}`;
    const before = this.#series.get(key);
    if (before !== undefined) return before;
    const place = `${method} ${route}`;
    const times = this.#times.get(place) ?? new Histogram(BOUNDS);
    this.#times.set(place, times);
    const series = { route, method, code: String(status), times, count: 0 };
    this.#series.set(key, series);
    return series;
  }

  families(): Family[] {
    const series = [...this.#series.values()];
    const seen = new Set<Histogram>();
    return [{
      name: "zonewright_http_requests_total",
      type: "counter",
      help: "Requests by route, method and status.",
      samples: series.map(({ route, method, code, count }) => ({
        labels: { route, method, code },
        value: count,
      })),
    }, {
      name: "zonewright_http_request_duration_seconds",
      type: "histogram",
      help: "Time until the head of an answer was there; a WebSocket's is that of its upgrade.",
      samples: series.flatMap(({ route, method, times }) => {
        if (seen.has(times)) return [];
        seen.add(times);
        return times.samples({ route, method });
      }),
    }];
  }
}

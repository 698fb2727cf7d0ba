// Numbers of jobs by time and execution.

import { HOUR_MS, type Instant, instantAfter } from "../domain/instant.ts";
import { type Execution, EXECUTIONS, type FinalExecution } from "../domain/job/state.ts";
import type { STATS_WINDOWS } from "../domain/job/job.ts";

/** A number of jobs for each execution. */
export type Counts = Readonly<Record<Execution, number>>;

/** The beginnings of the windows other than `all_time`, the latest first. */
export function windowStarts(now: Instant): readonly [Instant, Instant, Instant] {
  return [
    instantAfter(now, -HOUR_MS),
    instantAfter(now, -2 * HOUR_MS),
    instantAfter(now, -24 * HOUR_MS),
  ];
}

/**
 * The four disjoint windows by time of creation: `current` for less than one hour ago, `past_hour` for one to two
 * hours, `past_24h` for two to 24 hours, `all_time` for longer.
 * @param since the jobs created since each of windowStarts()
 * @see document 2, Stats
 */
export function statsFrom(
  all: Counts,
  [hour, twoHours, day]: readonly [Counts, Counts, Counts],
): JobStats {
  return {
    all_time: difference(all, day),
    past_24h: difference(day, twoHours),
    past_hour: difference(twoHours, hour),
    current: hour,
  };
}

function difference(from: Counts, less: Counts): Counts {
  return Object.fromEntries(
    EXECUTIONS.map((execution) => [execution, from[execution] - less[execution]]),
  ) as Counts;
}

/** How many jobs ended in an hour, and how. */
export interface HourCount {
  /** The beginning of the instants in that hour. */
  readonly hour: string;
  readonly execution: FinalExecution;
  readonly jobs: number;
}

/** Combines counts of one hour. @param rows in the order of their hours */
export function hoursOf(rows: readonly HourCount[]): HourOfJobs[] {
  const hours = new Map<string, Record<FinalExecution, number>>();
  for (const { hour, execution, jobs } of rows) {
    const counts = hours.get(hour) ?? { succeeded: 0, failed: 0, canceled: 0, retried: 0 };
    hours.set(hour, { ...counts, [execution]: jobs });
  }
  return Array.from(hours, ([hour, counts]) => ({ hour: `${hour}:00:00.000Z`, ...counts }));
}

/**
 * Turns that are searched for the oldest job. The ready jobs of a workflow are in the order in which they became ready,
 * and the first jobs of all workflows are at the front, so the answer is exact while there are fewer workflows than
 * this.
 */
export const TURNS_MAX = 1000;

/** How jobs ended in one hour. */
export interface HourOfJobs extends Readonly<Record<FinalExecution, number>> {
  readonly hour: Instant;
}

/** A member of GET /stats. */
export type StatsWindow = typeof STATS_WINDOWS[number];
/** Job counts by age and execution. @see document 2, Stats */
export type JobStats = Record<StatsWindow, Record<Execution, number>>;

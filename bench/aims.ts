// What the job engine aims for, as ratios to what else was measured in the same run. README.md tells
// why these.

import type { Metrics } from "./http_rounds.ts";
import { figure, type Spread, spread } from "./numbers.ts";

/** The measurements of each contestant, round by round. */
export type Rounds = ReadonlyMap<string, readonly Metrics[]>;

export const OURS = "zonewright";
export const BARE = "bare server";

interface RatioAim {
  readonly what: string;
  readonly ours: string;
  readonly anchor: string;
  readonly theirs: string;
  /** Of our figure to the anchor's. */
  readonly ratio: number;
  readonly wanted: "at least" | "at most";
}

interface PlainAim {
  readonly what: string;
  readonly ours: string;
  readonly unit: string;
  readonly most: number;
}

const RATIOS: readonly RatioAim[] = [
  {
    what: "accepted/s, 32 connections, jobs executing",
    ours: "accepted_32",
    anchor: "plainjob FULL",
    theirs: "accepted_32",
    ratio: 1,
    wanted: "at least",
  },
  {
    what: "accepted/s, 1 connection, jobs executing",
    ours: "accepted_1",
    anchor: BARE,
    theirs: "accepted_1",
    ratio: 0.8,
    wanted: "at least",
  },
  {
    what: "posted to finished/s, 32 in flight",
    ours: "finished_32",
    anchor: "plainjob FULL",
    theirs: "finished_32",
    ratio: 1.5,
    wanted: "at least",
  },
  {
    what: "preloaded jobs finished/s",
    ours: "drained",
    anchor: "plainjob FULL",
    theirs: "drained",
    ratio: 1,
    wanted: "at least",
  },
  {
    what: "preloaded jobs finished/s",
    ours: "drained",
    anchor: "DBOS",
    theirs: "drained",
    ratio: 2,
    wanted: "at least",
  },
  {
    what: "preloaded jobs finished/s",
    ours: "drained",
    anchor: "graphile-worker",
    theirs: "drained",
    ratio: 0.2,
    wanted: "at least",
  },
  {
    what: "preloaded jobs finished/s",
    ours: "drained",
    anchor: "node-workflow tuned",
    theirs: "drained",
    ratio: 8,
    wanted: "at least",
  },
  {
    what: "preloaded jobs finished/s",
    ours: "drained",
    anchor: "node-workflow forked",
    theirs: "drained",
    ratio: 300,
    wanted: "at least",
  },
  {
    what: "pick-up after the acceptance, p50",
    ours: "pickup_p50_ms",
    anchor: "BullMQ",
    theirs: "pickup_p50_ms",
    ratio: 0.9,
    wanted: "at most",
  },
  {
    what: "peak memory of the agent",
    ours: "server_peak_mib",
    anchor: "plainjob FULL",
    theirs: "server_peak_mib",
    ratio: 1.75,
    wanted: "at most",
  },
];

const PLAIN: readonly PlainAim[] = [
  { what: "accepted, 32 connections, p99", ours: "accepted_32_p99_ms", unit: "ms", most: 10 },
  { what: "one job posted to finished, p50", ours: "whole_p50_ms", unit: "ms", most: 3 },
  { what: "one job posted to finished, p99", ours: "whole_p99_ms", unit: "ms", most: 10 },
  { what: "pick-up after the acceptance, p50", ours: "pickup_p50_ms", unit: "ms", most: 1 },
  { what: "pick-up after the acceptance, p99", ours: "pickup_p99_ms", unit: "ms", most: 4 },
  { what: "CPU of agent and guests a job", ours: "whole_cpu_ms", unit: "ms", most: 1 },
  { what: "peak memory of the agent", ours: "server_peak_mib", unit: "MiB", most: 120 },
  { what: "private memory of a guest", ours: "child_private_mib", unit: "MiB", most: 20 },
];

export interface Verdict {
  readonly what: string;
  /** What the figure is compared with. */
  readonly anchor: string;
  readonly found: Spread;
  readonly aim: string;
  readonly met: boolean;
}

/** Judges by the median; an aim whose anchor was not measured in this run is left out. */
export function verdicts(rounds: Rounds): Verdict[] {
  const ours = rounds.get(OURS) ?? [];
  const ratios = RATIOS.flatMap((aim): Verdict[] => {
    const values = ratiosOf(ours, aim.ours, rounds.get(aim.anchor) ?? [], aim.theirs);
    if (values.length === 0) return [];
    const found = spread(values);
    const met = aim.wanted === "at least" ? found.median >= aim.ratio : found.median <= aim.ratio;
    const anchor = `of ${aim.anchor}`;
    return [{ what: aim.what, anchor, found, aim: `${aim.wanted} ${figure(aim.ratio)}`, met }];
  });
  const plain = PLAIN.flatMap((aim): Verdict[] => {
    const values = ours.flatMap((metrics) => metrics[aim.ours] ?? []);
    if (values.length === 0) return [];
    const found = spread(values);
    const met = found.median <= aim.most;
    return [{ what: aim.what, anchor: aim.unit, found, aim: `at most ${aim.most}`, met }];
  });
  return [...ratios, ...plain];
}

/** Ratios of one figure to another, each of the same round; a round without either is left out. */
export function ratiosOf(
  ours: readonly Metrics[],
  ourName: string,
  theirs: readonly Metrics[],
  theirName: string,
): number[] {
  return ours.flatMap((metrics, round) => {
    const our = metrics[ourName];
    const their = theirs[round]?.[theirName];
    // A latency below zero, of a body that began before its caller had the answer, makes no ratio.
    return our === undefined || their === undefined || their <= 0 ? [] : [our / their];
  });
}

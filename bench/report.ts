// The tables of a run.

import { OURS, ratiosOf, type Rounds, verdicts } from "./aims.ts";
import type { Metrics } from "./http_rounds.ts";
import { figure, spread, spreadText, tableLines } from "./numbers.ts";
import type { StoreResults } from "./store_rounds.ts";

/** Measurements of every contestant, with their words, in the order of the table. */
const ROWS: readonly [name: string, words: string][] = [
  ["accepted_1", "accepted/s, 1 at a time"],
  ["accepted_1_p50_ms", "  p50 ms"],
  ["accepted_1_p99_ms", "  p99 ms"],
  ["accepted_32", "accepted/s, 32 in flight"],
  ["accepted_32_p50_ms", "  p50 ms"],
  ["accepted_32_p99_ms", "  p99 ms"],
  ["accepted_128", "accepted/s, 128 in flight"],
  ["accepted_128_p50_ms", "  p50 ms"],
  ["accepted_128_p99_ms", "  p99 ms"],
  ["delayed_1", "accepted/s delayed, 1 at a time"],
  ["delayed_1_p50_ms", "  p50 ms"],
  ["delayed_1_p99_ms", "  p99 ms"],
  ["delayed_32", "accepted/s delayed, 32 in flight"],
  ["delayed_32_p50_ms", "  p50 ms"],
  ["delayed_32_p99_ms", "  p99 ms"],
  ["delayed_128", "accepted/s delayed, 128 in flight"],
  ["delayed_128_p50_ms", "  p50 ms"],
  ["delayed_128_p99_ms", "  p99 ms"],
  ["finished_1", "posted to finished/s, 1 in flight"],
  ["finished_32", "posted to finished/s, 32 in flight"],
  ["finished_128", "posted to finished/s, 128 in flight"],
  ["drained", "preloaded jobs finished/s"],
  ["whole_p50_ms", "one job posted to finished, p50 ms"],
  ["whole_p99_ms", "  p99 ms"],
  ["pickup_p50_ms", "accepted to body begun, p50 ms"],
  ["pickup_p99_ms", "  p99 ms"],
  ["sent_to_body_p50_ms", "sent to body begun, p50 ms"],
  ["sent_to_body_p99_ms", "  p99 ms"],
  ["server_cpu_ms", "CPU of the process, ms a job"],
  ["tasks_cpu_ms", "CPU of its children, ms a job"],
  ["service_cpu_ms", "CPU of the database, ms a job"],
  ["accept_cpu_ms", "CPU of the process, ms an acceptance"],
  ["load_cpu_ms", "CPU of the load generator, ms a job"],
  ["machine_busy_percent", "machine busy meanwhile, %"],
  ["others_busy_percent", "others on this machine, % in the round"],
  ["server_peak_mib", "peak memory of the process, MiB"],
  ["children", "children at the end"],
  ["child_private_mib", "largest private memory of a child, MiB"],
  ["child_peak_mib", "largest peak of a child, MiB"],
  ["tree_peak_mib", "most memory with children, MiB"],
  ["service_mib", "most memory of the database, MiB"],
];

/** Min, median and max of each figure of one contestant. */
export function contestantLines(name: string, about: string, rounds: readonly Metrics[]): string[] {
  const rows = ROWS.flatMap(([figureName, words]): string[][] => {
    const values = rounds.flatMap((metrics) => metrics[figureName] ?? []);
    if (values.every((value) => value === 0)) return [];
    const { min, median, max } = spread(values);
    return [[`  ${words}`, figure(min), figure(median), figure(max)]];
  });
  return [`${name}: ${about}`, ...tableLines([["", "min", "median", "max"], ...rows]), ""];
}

/** Medians beside each other, and our ratio to each. */
const COMPARED: readonly [ours: string, theirs: string, words: string][] = [
  ["accepted_1", "accepted_1", "accepted/s, 1"],
  ["accepted_32", "accepted_32", "accepted/s, 32"],
  ["finished_32", "drained", "finished/s to draining/s"],
  ["drained", "drained", "draining/s"],
  ["whole_p50_ms", "whole_p50_ms", "whole job p50"],
  ["pickup_p50_ms", "pickup_p50_ms", "pick-up p50"],
  ["sent_to_body_p50_ms", "sent_to_body_p50_ms", "sent to body p50"],
  ["server_peak_mib", "server_peak_mib", "peak memory"],
];

export function ratioLines(rounds: Rounds): string[] {
  const ours = rounds.get(OURS) ?? [];
  const rows = [...rounds].filter(([name]) => name !== OURS).map(([name, theirs]) => [
    name,
    ...COMPARED.map(([our, their]) => {
      const values = ratiosOf(ours, our, theirs, their);
      return values.length === 0 ? "-" : figure(spread(values).median);
    }),
  ]);
  const head = ["zonewright divided by", ...COMPARED.map(([, , words]) => words)];
  return [...tableLines([head, ...rows]), ""];
}

export function aimLines(rounds: Rounds): string[] {
  const rows = verdicts(rounds).map(({ what, anchor, found, aim, met }) => [
    what,
    anchor,
    spreadText(found),
    aim,
    met ? "met" : "missed",
  ]);
  return [...tableLines([["aim", "", "min / median / max", "wanted", ""], ...rows]), ""];
}

const STORE_ROWS: readonly [name: string, words: string, better: "more" | "less"][] = [
  ["accepted_1", "accepted/s, 1 connection", "more"],
  ["accepted_32", "accepted/s, 32 connections", "more"],
  ["accepted_32_p99_ms", "  p99", "less"],
  ["finished_32", "posted to finished/s", "more"],
  ["whole_p50_ms", "one job posted to finished, p50", "less"],
  ["pickup_p50_ms", "accepted to body begun, p50", "less"],
  ["server_cpu_ms", "CPU of the agent a job", "less"],
];
/** What a full store may cost at the most. */
const STORE_COST = 0.1;
/** Longest start with that many finished jobs. */
const START_MS = 100;

export function storeLines(
  { rounds, listeningMs }: StoreResults,
  finished: number,
  delayed: number,
): string[] {
  const ratios = (name: string, store: "finished" | "removing" | "delayed") =>
    ratiosOf(rounds[store], name, rounds.empty, name);
  const cell = (values: readonly number[], better: "more" | "less") => {
    const found = spread(values);
    const met = better === "more" ? found.median >= 1 - STORE_COST : found.median <= 1 + STORE_COST;
    return [spreadText(found), met ? "met" : "missed"];
  };
  const rows = STORE_ROWS.map(([name, words, better]) => [
    words,
    ...cell(ratios(name, "finished"), better),
    ...cell(ratios(name, "removing"), better),
    ...cell(ratios(name, "delayed"), better),
  ]);
  const full = spread(listeningMs.finished);
  const empty = spread(listeningMs.empty);
  return [
    ...tableLines([
      [
        "a store with, to an empty one",
        `${figure(finished)} finished jobs`,
        "",
        "the same, removing the oldest",
        "",
        `${figure(delayed)} delayed jobs`,
        "",
      ],
      ...rows,
    ]),
    `start to listening, ms: ${spreadText(full)}; with an empty store ${spreadText(empty)}; ` +
    `wanted at most ${START_MS}: ${full.median <= START_MS ? "met" : "missed"}`,
    "",
  ];
}

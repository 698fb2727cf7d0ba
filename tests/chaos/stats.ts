// GET /stats against a recount of GET /jobs.

import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";

/** The counter of each word of the wire. */
const COUNTERS: Readonly<Record<string, string>> = { success: "succeeded", failure: "failed" };

/** @throws {Error} when a counter, over all windows, is not the number of such jobs */
export function expectStats(stats: JsonObject, jobs: readonly JsonObject[]): void {
  const counted = new Map<string, number>();
  for (const { execution } of jobs) {
    const counter = COUNTERS[String(execution)] ?? String(execution);
    counted.set(counter, (counted.get(counter) ?? 0) + 1);
  }
  const reported = new Map<string, number>();
  for (const [window, counts] of Object.entries(stats)) {
    for (const [counter, jobs] of Object.entries(isJsonObject(counts) ? counts : {})) {
      if (typeof jobs !== "number" || jobs < 0) {
        throw new Error(`GET /stats says ${window}.${counter} is ${jobs}`);
      }
      reported.set(counter, (reported.get(counter) ?? 0) + jobs);
    }
  }
  for (const counter of new Set([...counted.keys(), ...reported.keys()])) {
    const [recount, shown] = [counted.get(counter) ?? 0, reported.get(counter) ?? 0];
    if (recount !== shown) {
      throw new Error(`GET /stats has ${shown} ${counter}, GET /jobs ${recount}`);
    }
  }
}

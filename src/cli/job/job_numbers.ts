// `zonewright job info` and `job stats`: what jobs tell about themselves, and how many there are.

import { EXECUTIONS } from "../../domain/job/state.ts";
import { numberIn, readObject, readObjects } from "../kit/answer.ts";
import type { Command } from "../kit/command.ts";
import { EXIT } from "../kit/exit_code.ts";
import { jobPath } from "./job_path.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import type { Column } from "../kit/table.ts";

/** Entries that are read at once; a job may have a hundred thousand. */
const ENTRIES_MAX = 1000;

/** `zonewright job info`. */
export const INFO: Command = {
  summary: "print the info of a job, one JSON object a line",
  operands: "JOB",
  operandsMin: 1,
  operandsMax: 1,
  examples: [['job info "$JOB"', "everything that was told about its progress"]],
  flags: [],
  shared: "agent",
  async run(call) {
    const { client, printer } = call;
    const all: JsonObject[] = [];
    let after = 0;
    let count = 0;
    do {
      const query = new URLSearchParams({ after: String(after), limit: String(ENTRIES_MAX) });
      const path = `${jobPath(call)}/info${call.args.has("curl") ? "" : `?${query}`}`;
      const sent = await client.send({ method: "GET", path });
      if (sent.kind === "printed") return EXIT.ok;
      const entries = readObjects(sent.body, "the info");
      if (printer.json) all.push(...entries);
      else for (const entry of entries) printer.data(JSON.stringify(entry));
      count = entries.length;
      after += count;
    } while (count === ENTRIES_MAX);
    if (printer.json) printer.document(all);
    return EXIT.ok;
  },
};

const WINDOWS = ["current", "past_hour", "past_24h", "all_time"] as const;
/** `zonewright job stats`. */
export const STATS: Command = {
  summary: "count jobs by state and age",
  operands: "",
  operandsMin: 0,
  operandsMax: 0,
  examples: [["job stats", "every job is counted in one row"]],
  flags: [],
  shared: "agent",
  async run({ client, printer }) {
    const sent = await client.send({ method: "GET", path: "/stats" });
    if (sent.kind === "printed") return EXIT.ok;
    const stats = readObject(sent.body, "the stats");
    if (printer.json) {
      printer.document(stats);
      return EXIT.ok;
    }
    printer.table(
      [
        { head: "CREATED" },
        ...EXECUTIONS.map((name): Column => ({ head: name.toUpperCase(), right: true })),
      ],
      WINDOWS.map((window) => {
        const counters = stats[window];
        const row = isJsonObject(counters) ? counters : {};
        return [window, ...EXECUTIONS.map((name) => String(numberIn(row, name) ?? 0))];
      }),
    );
    return EXIT.ok;
  },
};

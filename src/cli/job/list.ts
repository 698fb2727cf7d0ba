// `zonewright job list`.

import type { JsonObject } from "../../domain/json.ts";
import { readObjects, textIn } from "../kit/answer.ts";
import { usageError } from "../kit/arguments.ts";
import type { Call, Command } from "../kit/command.ts";
import { EXIT } from "../kit/exit_code.ts";
import {
  FILTER_FLAGS,
  filterOf,
  hiddenParams,
  limitOf,
  noteUnknownWorkflow,
  queryOf,
} from "./job_filter.ts";
import { ageText, aheadText } from "../kit/table.ts";

const LIST_LIMIT = 100;

/** `zonewright job list`. */
export const LIST: Command = {
  summary: "list jobs, newest first",
  operands: "",
  operandsMin: 0,
  operandsMax: 0,
  examples: [
    ["job list", "the newest jobs"],
    [
      "job list --execution failed --since 1d --json",
      "failures of the last day, for another program",
    ],
    ['job list --param vm_uuid="$UUID" --limit 5', "the last five that were about one machine"],
  ],
  flags: [
    ...FILTER_FLAGS,
    { name: "limit", placeholder: "N", help: `at most so many; ${LIST_LIMIT} when left out` },
  ],
  notes: [
    "WAITS tells why a job does not run: slot (as many jobs run as may), resume (a task has set it\n" +
    "to waiting), or in how long its time comes.",
  ],
  shared: "agent",
  async run(call) {
    const { args, client, printer, terminal } = call;
    const filter = filterOf(call);
    const [hidden] = hiddenParams(filter);
    if (hidden !== undefined) {
      throw usageError(
        `--param ${hidden} cannot be listed by: ${
          JSON.stringify(hidden)
        } is a word of the list itself`,
      );
    }
    const query = queryOf(filter);
    query.set("limit", String(limitOf(args) ?? LIST_LIMIT));
    const sent = await client.send({ method: "GET", path: `/jobs?${query}` });
    if (sent.kind === "printed") return EXIT.ok;
    const jobs = readObjects(sent.body, "the jobs");
    if (printer.json) printer.document(jobs);
    else showTable(call, jobs, terminal.nowMs());
    const more = Number(sent.headers.get("x-count")) - jobs.length;
    if (more > 0) printer.note(`${more} older jobs are not shown, see --limit`);
    if (jobs.length === 0) await noteUnknownWorkflow(call, filter);
    return EXIT.ok;
  },
};

function showTable({ printer }: Call, jobs: readonly JsonObject[], nowMs: number): void {
  printer.table(
    [
      { head: "UUID" },
      { head: "NAME", flexible: true },
      { head: "STATE" },
      { head: "WAITS" },
      { head: "TARGET", flexible: true },
      { head: "AGE", right: true },
    ],
    jobs.map((job) => [
      textIn(job, "uuid") ?? "",
      textIn(job, "name") ?? "",
      textIn(job, "execution") ?? "",
      waitWord(job, nowMs),
      textIn(job, "target") ?? "-",
      ageText(textIn(job, "created_at"), nowMs),
    ]),
  );
}

/** What a job waits for in one word; a reason that is not known is shown as it came. */
function waitWord(job: JsonObject, nowMs: number): string {
  const next_run_at = textIn(job, "next_run_at");
  if (next_run_at !== undefined) return `in ${aheadText(next_run_at, nowMs)}`;
  return textIn(job, "reason")?.replace("waiting_for_", "") ?? "-";
}

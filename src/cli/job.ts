// `zonewright job`: looking at jobs. Running, waiting and changing stand in files of their own.

import { readObjects, textIn } from "./answer.ts";
import type { Call, Command, Noun } from "./command.ts";
import { EXIT } from "./exit_code.ts";
import { readJob } from "./job_answer.ts";
import { CANCEL, RESUME } from "./job_change.ts";
import { INFO, STATS } from "./job_numbers.ts";
import { jobPath } from "./job_path.ts";
import { RUN } from "./job_run.ts";
import { TAIL, WAIT } from "./job_watch.ts";
import { ageText, durationText } from "./table.ts";
import { printable } from "./terminal.ts";

const LIST_LIMIT = 100;

const LIST: Command = {
  summary: "list jobs, newest first",
  operands: "",
  operandsMin: 0,
  operandsMax: 0,
  examples: [
    ["job list", "the newest jobs"],
    ["job list --state failed --json", "failed jobs for another program"],
  ],
  flags: [
    {
      name: "state",
      placeholder: "STATE",
      help: "only queued, running, waiting, succeeded, failed or canceled",
    },
    { name: "target", placeholder: "TARGET", help: "only jobs with this target" },
    { name: "limit", placeholder: "N", help: `at most so many; ${LIST_LIMIT} when left out` },
  ],
  shared: "agent",
  async run({ args, client, printer, terminal }) {
    const query = new URLSearchParams();
    const state = args.text("state");
    const target = args.text("target");
    if (state !== undefined) query.set("execution", state);
    if (target !== undefined) query.set("target", target);
    query.set("limit", args.text("limit") ?? String(LIST_LIMIT));
    const sent = await client.send({ method: "GET", path: `/jobs?${query}` });
    if (sent.kind === "printed") return EXIT.ok;
    const jobs = readObjects(sent.body, "the jobs");
    if (printer.json) printer.document(jobs);
    else {
      printer.table(
        [
          { head: "UUID" },
          { head: "NAME", flexible: true },
          { head: "STATE" },
          { head: "TARGET", flexible: true },
          { head: "AGE", right: true },
        ],
        jobs.map((job) => [
          textIn(job, "uuid") ?? "",
          textIn(job, "name") ?? "",
          textIn(job, "execution") ?? "",
          textIn(job, "target") ?? "-",
          ageText(textIn(job, "created_at"), terminal.nowMs()),
        ]),
      );
    }
    const more = Number(sent.headers.get("x-count")) - jobs.length;
    if (more > 0) printer.note(`${more} older jobs are not shown, see --limit`);
    return EXIT.ok;
  },
};

const GET: Command = {
  summary: "show one job with its steps",
  operands: "JOB",
  operandsMin: 1,
  operandsMax: 1,
  examples: [["job get 6c1e8f0a-6a53-4c0c-9a3b-0d1f4e0a7a11", "state, steps and params"]],
  flags: [],
  shared: "agent",
  async run(call) {
    const sent = await call.client.send({ method: "GET", path: jobPath(call) });
    if (sent.kind === "printed") return EXIT.ok;
    showJob(call, sent.body);
    return EXIT.ok;
  },
};

/** A job for people, or as the document. */
function showJob({ printer, terminal }: Call, body: unknown): void {
  const job = readJob(body);
  if (printer.json) return printer.document(job.raw);
  const instant = (key: string): [string, string][] => {
    const text = textIn(job.raw, key);
    return text === undefined ? [] : [[key, `${text} (${ageText(text, terminal.nowMs())} ago)`]];
  };
  const target = textIn(job.raw, "target");
  printer.pairs([
    ["job", job.uuid],
    ["workflow", `${printable(job.name)} (${textIn(job.raw, "workflow_uuid") ?? "-"})`],
    ["state", job.execution],
    ...(target === undefined ? [] : [["target", printable(target)] as const]),
    ["params", printable(JSON.stringify(job.raw.params ?? {}))],
    ...instant("created_at"),
    ...instant("started_at"),
    ...instant("finished_at"),
  ]);
  if (job.steps.length === 0) return;
  printer.data("");
  printer.table(
    [
      { head: "STEP", flexible: true },
      { head: "STATE" },
      { head: "TIME", right: true },
      { head: "ERROR", flexible: true },
    ],
    job.steps.map((step) => [
      step.name,
      step.state,
      step.seconds === undefined ? "-" : durationText(step.seconds),
      step.error ?? "",
    ]),
  );
}

/** @see document 2 */
export const JOB: Noun = {
  kind: "verbs",
  summary: "run workflows and look after their jobs",
  verbs: {
    run: RUN,
    list: LIST,
    get: GET,
    wait: WAIT,
    tail: TAIL,
    cancel: CANCEL,
    resume: RESUME,
    info: INFO,
    stats: STATS,
  },
};

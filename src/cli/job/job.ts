// `zonewright job`: looking at jobs. Running, waiting and changing stand in files of their own.

import { numberIn, textIn } from "../kit/answer.ts";
import type { Call, Command, Noun } from "../kit/command.ts";
import { EXIT } from "../kit/exit_code.ts";
import { elapsedSeconds, type JobAnswer, readJob } from "./answer.ts";
import { CANCEL, RESUME } from "./change.ts";
import { LIST } from "./list.ts";
import { INFO, STATS } from "./job_numbers.ts";
import { jobPath } from "./job_path.ts";
import { RETRY } from "./job_retry.ts";
import { RUN } from "./run.ts";
import { TAIL, WAIT } from "./job_watch.ts";
import { ageText, aheadText, durationText } from "../kit/table.ts";
import { printable } from "../kit/terminal.ts";

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

/** Another word for it. */
const SHOW: Command = {
  ...GET,
  summary: "the same as job get",
  examples: [['job show "$JOB"', "why it does not run yet, and when it will"]],
};

/** A job for people, or as the document. */
function showJob({ printer, terminal }: Call, body: unknown): void {
  const job = readJob(body);
  if (printer.json) return printer.document(job.raw);
  const nowMs = terminal.nowMs();
  const word = (key: string): [string, string][] => {
    const text = textIn(job.raw, key);
    return text === undefined ? [] : [[key, printable(text)]];
  };
  const instant = (key: string): [string, string][] => {
    const text = textIn(job.raw, key);
    return text === undefined ? [] : [[key, `${text} (${ageText(text, nowMs)} ago)`]];
  };
  printer.pairs([
    ["job", job.uuid],
    ["workflow", `${printable(job.name)} (${textIn(job.raw, "workflow_uuid") ?? "-"})`],
    ["state", job.execution],
    ...waitPairs(job, nowMs),
    ...word("target"),
    ...word("locks"),
    ...word("callback_url"),
    ["params", printable(JSON.stringify(job.raw.params ?? {}))],
    ...attemptPairs(job),
    ...instant("created_at"),
    ...instant("started_at"),
    ...instant("finished_at"),
    ...elapsedPairs(job),
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

type Pairs = readonly (readonly [string, string])[];

/** Why a job does not run at present, and when it goes on. */
function waitPairs({ reason, next_run_at }: JobAnswer, nowMs: number): Pairs {
  const known = reason === undefined ? undefined : REASONS[reason] ?? reason;
  return [
    ...(known === undefined ? [] : [["reason", known] as const]),
    ...(next_run_at === undefined
      ? []
      : [["next_run_at", `${next_run_at} (in ${aheadText(next_run_at, nowMs)})`] as const]),
  ];
}

/** The agent's words for people; one that is not known is shown as it came. */
const REASONS: Readonly<Record<string, string>> = {
  scheduled: "scheduled: its time has not come",
  waiting_for_slot: "waiting for a slot: as many jobs run as may",
  waiting_for_resume: "waiting for zonewright job resume",
};

/** The jobs that this one was made of, or that was made of it. */
function attemptPairs({ raw }: JobAnswer): Pairs {
  const attempts = numberIn(raw, "num_attempts");
  const before = textIn(raw, "prev_attempt");
  const after = textIn(raw, "next_attempt");
  const many = attempts === undefined ? "" : ` (${attempts} before this one)`;
  return [
    ...(before === undefined ? [] : [["retry of", before + many] as const]),
    ...(after === undefined ? [] : [["retried as", after] as const]),
  ];
}

function elapsedPairs(job: JobAnswer): Pairs {
  const seconds = elapsedSeconds(job);
  return seconds === undefined ? [] : [["elapsed", durationText(seconds)]];
}

/** @see document 2 */
export const JOB: Noun = {
  kind: "verbs",
  summary: "run workflows and look after their jobs",
  verbs: {
    run: RUN,
    list: LIST,
    get: GET,
    show: SHOW,
    wait: WAIT,
    tail: TAIL,
    cancel: CANCEL,
    retry: RETRY,
    resume: RESUME,
    info: INFO,
    stats: STATS,
  },
};

// `zonewright job retry`: finished jobs made anew. The old job stays as it is; the two name each other.

import { textIn } from "../kit/answer.ts";
import { usageError } from "../kit/arguments.ts";
import type { Call, Command } from "../kit/command.ts";
import { EXIT, type ExitCode } from "../kit/exit_code.ts";
import { FOLLOW_FLAGS, timeoutMsOf } from "../follow/follow.ts";
import { otherJobHint } from "../kit/hint.ts";
import { readJob } from "./answer.ts";
import { BULK_FLAGS, type BulkChange, changeJobs, isBulk } from "./job_bulk.ts";
import { showNewJob } from "./new_job.ts";

/** `zonewright job retry`. */
export const RETRY: Command = {
  summary: "make a job anew that has ended, or every one that fits the flags",
  operands: "[JOB]",
  operandsMin: 0,
  operandsMax: 1,
  examples: [
    ['job retry "$JOB" --follow', "the whole job; prints the uuid of the new one"],
    ['job retry "$JOB" --from copy', "keep the results of the tasks before the task copy"],
    ["job retry --execution failed --since 1d", "tells how many there are, and asks"],
    ["job retry --workflow hello --param zone=a --yes", "without a question"],
  ],
  flags: [
    {
      name: "from",
      placeholder: "TASK",
      help: "begin with this task: its name, its uuid, or its place, 0 for the first",
    },
    ...BULK_FLAGS,
    ...FOLLOW_FLAGS,
  ],
  notes: [
    "A whole job is made of its workflow as that is now, with the params, target, locks and callback\n" +
    "of the old job; with --from it has the old job's own chain. With flags every failed or canceled\n" +
    "job that fits all of them is made anew, those excepted that were made anew already.",
  ],
  shared: "agent",
  async run(call) {
    timeoutMsOf(call);
    if (!isBulk(call)) return await retryJob(call);
    const single = ["from", ...FOLLOW_FLAGS.map(({ name }) => name)];
    const wrong = single.find((name) => call.args.has(name));
    if (wrong !== undefined) throw usageError(`--${wrong} is for one job: expected its uuid`);
    return await changeJobs(call, RETRY_JOBS);
  },
  hint(error, { operands, given }) {
    const [uuid] = operands;
    if (uuid === undefined) return undefined;
    const other = otherJobHint(error, operands);
    if (other !== undefined) return other;
    if (given.has("from") && error.errors.some(({ field }) => field === "from")) {
      return `zonewright job get ${uuid}  shows its tasks`;
    }
    if (error.code !== "conflict") return undefined;
    return `zonewright job wait ${uuid}, or zonewright job cancel ${uuid}`;
  },
};

const RETRY_JOBS: BulkChange = {
  verb: "retry",
  done: "retried",
  touches: ["failed", "canceled"],
  fits: (job) => textIn(job, "next_attempt") === undefined,
  line: (changed) => textIn(changed, "next_attempt") ?? "",
};

async function retryJob(call: Call): Promise<ExitCode> {
  const from = call.args.text("from");
  const body = from === undefined ? {} : { from: /^\d{1,9}$/.test(from) ? Number(from) : from };
  const path = `/agent/v1/jobs/${encodeURIComponent(call.args.operands[0] ?? "")}/retry`;
  const sent = await call.client.send({ method: "POST", path, body });
  return sent.kind === "printed" ? EXIT.ok : await showNewJob(call, readJob(sent.body));
}

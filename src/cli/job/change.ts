// `zonewright job cancel` and `job resume`: the changes that a caller may make to an unfinished job.

import { EXECUTIONS, isFinal } from "../../domain/job/state.ts";
import type { JsonObject } from "../../domain/json.ts";
import { textIn } from "../kit/answer.ts";
import { usageError } from "../kit/arguments.ts";
import type { Call, Command } from "../kit/command.ts";
import { EXIT, type ExitCode } from "../kit/exit_code.ts";
import { readJob } from "./answer.ts";
import { BULK_FLAGS, type BulkChange, changeJobs, isBulk } from "./job_bulk.ts";
import { jobPath } from "./job_path.ts";
import { parseJsonText } from "../kit/json_text.ts";

/** `zonewright job cancel`. */
export const CANCEL: Command = {
  summary: "stop a job that has not ended, or every one that fits the flags",
  operands: "[JOB]",
  operandsMin: 0,
  operandsMax: 1,
  examples: [
    ['job cancel "$JOB"', "its running task is stopped, later ones do not run"],
    ["job cancel --execution queued --workflow hello", "tells how many there are, and asks"],
    ["job cancel --since 1h --yes --json", "without a question, for another program"],
  ],
  flags: BULK_FLAGS,
  notes: ["With JOB one job is canceled; with flags every unfinished one that fits all of them."],
  shared: "agent",
  async run(call) {
    if (isBulk(call)) return await changeJobs(call, CANCEL_JOBS);
    return await change(call, "cancel", {});
  },
  hint(error, { operands: [uuid] }) {
    if (error.code !== "conflict" || uuid === undefined) return undefined;
    return `the job is final; zonewright job retry ${uuid} makes it anew`;
  },
};

const CANCEL_JOBS: BulkChange = {
  verb: "cancel",
  done: "canceled",
  touches: EXECUTIONS.filter((execution) => !isFinal(execution)),
  line: (changed) => `${textIn(changed, "uuid") ?? ""} canceled`,
};

/** `zonewright job resume`. */
export const RESUME: Command = {
  summary: "report the outcome of the task that set its job to waiting",
  operands: "JOB",
  operandsMin: 1,
  operandsMax: 1,
  examples: [
    ['job resume "$JOB" --result "disk is ready"', "the job goes on"],
    ['job resume "$JOB" --error "no disk"', "the job fails"],
  ],
  flags: [
    { name: "result", placeholder: "TEXT", help: "the result; OK when left out" },
    { name: "result-json", placeholder: "JSON", help: "the result as a JSON value" },
    { name: "error", placeholder: "TEXT", help: "let the job fail with this" },
  ],
  shared: "agent",
  run(call) {
    const { args } = call;
    if (args.has("result") && args.has("result-json")) {
      throw usageError("--result and --result-json both name a result");
    }
    const result = args.text("result");
    const json = args.text("result-json");
    const error = args.text("error");
    return change(call, "resume", {
      ...(result === undefined ? {} : { result }),
      ...(json === undefined ? {} : { result: parseJsonText(json, "--result-json") }),
      ...(error === undefined ? {} : { error }),
    });
  },
};

async function change(call: Call, verb: string, body: JsonObject): Promise<ExitCode> {
  const sent = await call.client.send({ method: "POST", path: `${jobPath(call)}/${verb}`, body });
  if (sent.kind === "printed") return EXIT.ok;
  const job = readJob(sent.body);
  if (call.printer.json) call.printer.document(job.raw);
  else call.printer.data(`${job.uuid} ${job.execution}`);
  return EXIT.ok;
}

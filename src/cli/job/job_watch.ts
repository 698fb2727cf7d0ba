// `zonewright job wait` and `job tail`: staying with a job until it has ended.

import type { Command } from "../kit/command.ts";
import { EXIT } from "../kit/exit_code.ts";
import { follow, followedExit, viewFor } from "../follow/follow.ts";
import { openPlainView } from "../follow/plain.ts";
import { readJob } from "./answer.ts";
import { jobPath } from "./job_path.ts";

const TIMEOUT_FLAG = {
  name: "timeout",
  placeholder: "TIME",
  help: "give up after 90s, 10m, 2h; exits 124",
} as const;

/** `zonewright job wait`. */
export const WAIT: Command = {
  summary: "wait until a job has ended; the exit code tells how",
  operands: "JOB",
  operandsMin: 1,
  operandsMax: 1,
  examples: [[
    'job wait "$JOB" --timeout 10m || echo "exit $?"',
    "5 is a failed job, 7 a canceled one, 124 a timeout",
  ]],
  flags: [TIMEOUT_FLAG],
  shared: "agent",
  async run(call) {
    const [uuid = ""] = call.args.operands;
    const sent = await call.client.send({ method: "GET", path: jobPath(call) });
    if (sent.kind === "printed") return EXIT.ok;
    const followed = await follow(call, readJob(sent.body).uuid, viewFor(call));
    if (followed.kind === "ended") {
      if (call.printer.json) call.printer.document(followed.job.raw);
      else call.printer.data(followed.job.execution);
    }
    return followedExit(call, uuid, followed);
  },
};

/** `zonewright job tail`. */
export const TAIL: Command = {
  summary: "print what a job does, step by step, until it has ended",
  operands: "JOB",
  operandsMin: 1,
  operandsMax: 1,
  examples: [['job tail "$JOB"', "steps, messages, progress and calls; ends with the job"]],
  flags: [TIMEOUT_FLAG],
  shared: "agent",
  async run(call) {
    const [uuid = ""] = call.args.operands;
    const path = `${jobPath(call)}/info`;
    const sent = await call.client.send({ method: "GET", path });
    if (sent.kind === "printed") return EXIT.ok;
    // What a job says is the data here; with --json, standard output is for the job itself.
    const { printer } = call;
    const write = (line: string) => printer.json ? printer.note(line) : printer.data(line);
    const view = openPlainView(write, { calls: true });
    const followed = await follow(call, uuid.toLowerCase(), view);
    if (followed.kind === "ended" && printer.json) printer.document(followed.job.raw);
    return followedExit(call, uuid, followed);
  },
};

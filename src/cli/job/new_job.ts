// A job that a command has just made: its uuid, or its end when the command stays with it.

import type { Call } from "../kit/command.ts";
import { EXIT, type ExitCode } from "../kit/exit_code.ts";
import { follow, followedExit, stays, viewFor } from "../follow/follow.ts";
import { elapsedSeconds, failedStep, type JobAnswer } from "./answer.ts";
import { durationText } from "../kit/table.ts";

/** Shows it and stays as the flags say. @returns the exit code of the command */
export async function showNewJob(call: Call, job: JobAnswer): Promise<ExitCode> {
  const { printer } = call;
  if (!stays(call)) {
    if (printer.json) printer.document(job.raw);
    else printer.data(job.uuid);
    printer.next(`job tail ${job.uuid}`, "watch it");
    return EXIT.ok;
  }
  const followed = await follow(call, job.uuid, viewFor(call));
  if (followed.kind === "ended") showEnd(call, followed.job);
  else if (!printer.json) printer.data(job.uuid);
  return followedExit(call, job.uuid, followed);
}

function showEnd({ printer }: Call, job: JobAnswer): void {
  if (printer.json) return printer.document(job.raw);
  const step = failedStep(job);
  const seconds = elapsedSeconds(job);
  printer.pairs([
    ["job", job.uuid],
    ["state", job.execution],
    ...(step === undefined
      ? []
      : [["task", step.name] as const, ["error", step.error ?? ""] as const]),
    ["elapsed", seconds === undefined ? "-" : durationText(seconds)],
  ]);
}

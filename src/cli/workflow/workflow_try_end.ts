// What a trial came to, told at its end: the results of its tasks, the machines that stand in the
// simulated host, and the exit code.

import { unreachable } from "../../domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import { numberIn, objectsIn, textIn } from "../kit/answer.ts";
import { EXIT, type ExitCode } from "../kit/exit_code.ts";
import { elapsedSeconds, endOf, failedStep, type JobAnswer } from "../job/answer.ts";
import type { Printer } from "../kit/printer.ts";
import { durationText } from "../kit/table.ts";
import type { TrialEnd } from "./try_watch.ts";

const PHASES = ["chain", "onerror", "oncancel"] as const;
/** What a task may have said to its callback in the place of an error. */
const WORDS: readonly JsonValue[] = ["queue", "wait", "retry", "cancel"];

/** Prints it, as text or as one JSON document. */
export function showTrial(printer: Printer, end: TrialEnd): void {
  const { kind, job, info, machines } = end;
  if (printer.json) {
    return printer.document({ outcome: kind, job: job.raw, info, machines });
  }
  const seconds = elapsedSeconds(job);
  printer.pairs([
    ["workflow", job.name],
    ["state", job.execution],
    ...(seconds === undefined ? [] : [["elapsed", durationText(seconds)] as const]),
  ]);
  const results = PHASES.flatMap((phase) => resultRows(job, phase));
  if (results.length > 0) {
    printer.data("");
    printer.table(
      [
        { head: "TASK", flexible: true },
        { head: "STATE" },
        { head: "TIME", right: true },
        { head: "TRIES", right: true },
        { head: "RESULT", flexible: true },
      ],
      results,
    );
  }
  if (kind !== "interrupted") showMachines(printer, machines);
}

/** One row for each task that has ended. */
function resultRows({ raw }: JobAnswer, phase: typeof PHASES[number]): string[][] {
  return objectsIn(raw, `${phase}_results`).map((entry) => {
    const { error = "", result = null } = entry;
    const word = WORDS.find((one) => one === error);
    const failed = error !== "" && word === undefined;
    const started = Date.parse(textIn(entry, "started_at") ?? "");
    const finished = Date.parse(textIn(entry, "finished_at") ?? "");
    return [
      textIn(entry, "name") ?? "",
      failed ? "failed" : word === undefined ? "done" : String(word),
      durationText((finished - started) / 1000),
      String(numberIn(entry, "attempts") ?? 1),
      failed ? errorText(error) : JSON.stringify(result),
    ];
  });
}

function errorText(error: JsonValue): string {
  if (typeof error === "string") return error;
  return (isJsonObject(error) ? textIn(error, "message") : undefined) ?? JSON.stringify(error);
}

function showMachines(printer: Printer, machines: readonly JsonObject[]): void {
  printer.data("");
  if (machines.length === 0) return printer.data("no machines stand in the simulated host");
  printer.table(
    [
      { head: "MACHINE" },
      { head: "ALIAS", flexible: true },
      { head: "BRAND" },
      { head: "STATE" },
      { head: "RAM", right: true },
    ],
    machines.map((machine) => [
      textIn(machine, "uuid") ?? "",
      textIn(machine, "alias") ?? "-",
      textIn(machine, "brand") ?? "",
      textIn(machine, "state") ?? "",
      `${numberIn(machine, "ram") ?? "-"} MiB`,
    ]),
  );
}

/** The exit code, as `job run --wait` has it; why it is not 0 is printed here. */
export function trialExit({ note }: Printer, { kind, job }: TrialEnd): ExitCode {
  switch (kind) {
    case "ended":
      return endedExit(job, note);
    case "waiting":
      note("The job waits: POST /jobs/:job_uuid/resume, or zonewright job resume, lets it go on");
      note(`hint: --resume-with '{"result": "OK"}'  to try what follows`);
      return EXIT.ok;
    case "timeout":
      note("zonewright: Gave up the trial: the job has not ended in its time");
      return EXIT.timeout;
    case "interrupted":
      note("zonewright: Gave up the trial: it was interrupted");
      return EXIT.interrupted;
    default:
      return unreachable(kind);
  }
}

function endedExit(job: JobAnswer, note: Printer["note"]): ExitCode {
  const end = endOf(job);
  switch (end) {
    case "success":
    case undefined:
      return EXIT.ok;
    case "canceled":
      note("zonewright: The job was canceled");
      return EXIT.canceled;
    case "retried":
      note("zonewright: The job asked to be made anew, which an agent would do");
      return EXIT.job_failed;
    case "failure": {
      const step = failedStep(job);
      note(
        `zonewright: The job failed${step === undefined ? "" : ` in ${step.name}: ${step.error}`}`,
      );
      return EXIT.job_failed;
    }
    default:
      return unreachable(end);
  }
}

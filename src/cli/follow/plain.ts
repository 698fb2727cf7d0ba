// A followed job where nothing moves: one line per step when it has ended, one per message, and
// one per quarter of what is copied. A log keeps all of it.

import {
  hasEnded,
  type InfoEntry,
  type JobAnswer,
  type Step,
  type StepProgress,
} from "../job/answer.ts";
import { durationText, sizeText } from "../output/printer.ts";
import { printable } from "../output/terminal.ts";

const PROGRESS_PERCENT = 25;

/** Opens the view that prints lines; one about capability calls only when they are asked for. */
export function openPlainView(
  write: (line: string) => void,
  { calls = false }: { readonly calls?: boolean } = {},
): FollowView {
  let endedSteps = 0;
  let state = "";
  let progressKey = "";
  let quarter = 0;
  const printProgress = (progress: StepProgress) => {
    const key = `${progress.task}\n${progress.phase}`;
    if (key !== progressKey) {
      progressKey = key;
      quarter = 0;
    }
    if (progress.total === undefined || progress.total <= 0) return;
    const percent = Math.floor((100 * progress.done) / progress.total);
    const reached = Math.floor(percent / PROGRESS_PERCENT);
    if (reached <= quarter) return;
    quarter = reached;
    write(printable(`${progress.task}: ${progressText(progress)} (${percent} %)`));
  };
  const printEnded = (steps: readonly Step[]) => {
    const ended = steps.filter(hasEnded);
    for (const step of ended.slice(endedSteps)) write(printable(stepText(step)));
    endedSteps = Math.max(endedSteps, ended.length);
  };
  return {
    update(job, news) {
      const text = stateText(job);
      if (text !== state && text !== "") write(text);
      state = text;
      for (const entry of news) {
        if (entry.kind === "call" && !calls) continue;
        const task = entry.kind === "progress" ? entry.progress.task : entry.task;
        const at = job.steps.findIndex((step) => step.name === task);
        // Steps that ended before this message are printed before it.
        if (at > endedSteps) printEnded(job.steps.slice(0, at));
        if (entry.kind === "progress") printProgress(entry.progress);
        else write(printable(messageText(entry.task, entry.text)));
      }
      printEnded(job.steps);
    },
    note: write,
    close: () => {},
  };
}

function messageText(task: string | undefined, text: string): string {
  return task === undefined ? text : `${task}: ${text}`;
}

function stepText(step: Step): string {
  const took = step.seconds === undefined ? "" : ` ${durationText(step.seconds)}`;
  return step.error === undefined
    ? `${step.name} ok${took}`
    : `${step.name} failed${took}: ${step.error}`;
}

// What a view of a followed job must do, and the words that both of them use.

/** Shows a job while it runs. */
export interface FollowView {
  /** What the job looks like now, and the info that came since the last call. */
  update(job: JobAnswer, news: readonly InfoEntry[], nowMs: number): void;
  /** One line about the watching itself. */
  note(line: string): void;
  /** Leaves the terminal as it was found. */
  close(): void;
}

/** Why a job stands still; empty while it runs. */
export function stateText(job: JobAnswer): string {
  if (job.execution === "waiting") return "waiting for zonewright job resume";
  if (job.execution !== "queued") return "";
  if (job.next_run_at !== undefined) return `queued until ${job.next_run_at}`;
  return job.reason === "waiting_for_slot" ? "queued, waiting for a slot" : "queued";
}

/** `copy 158 MiB / 631 MiB`. */
export function progressText({ phase, done, total }: StepProgress): string {
  return `${phase} ${sizeText(done)}${total === undefined ? "" : ` / ${sizeText(total)}`}`;
}

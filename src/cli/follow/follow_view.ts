// What a view of a followed job must do, and the words that both of them use.

import type { InfoEntry, JobAnswer, Progress } from "../job/answer.ts";
import { sizeText } from "../kit/table.ts";

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
export function progressText({ phase, done, total }: Progress): string {
  return `${phase} ${sizeText(done)}${total === undefined ? "" : ` / ${sizeText(total)}`}`;
}

// Watching a trial to its end, with the views of a followed job. Looks often: nothing is asked over
// a network, and the store is in memory.

import type { Resume } from "../../domain/job/request.ts";
import type { JsonObject } from "../../domain/json.ts";
import type { Trial } from "../../trial/trial.ts";
import { textIn } from "../kit/answer.ts";
import type { FollowView } from "../follow/follow_view.ts";
import { type InfoEntry, type JobAnswer, readInfo, readJob } from "../job/answer.ts";

/** Longest wait between two looks: what a task says shows no later. */
const LOOK_MS = 100;

/** How a trial ended, with all that its job and its host had come to. */
export type TrialEnd =
  & {
    readonly job: JobAnswer;
    readonly info: readonly JsonObject[];
    readonly machines: readonly JsonObject[];
  }
  & { readonly kind: "ended" | "waiting" | "timeout" | "interrupted" };

/** What bounds the watching. */
export interface TrialWatch {
  /** Given to one wait of the job after another. */
  readonly resumes: readonly Resume[];
  readonly signal: AbortSignal;
  readonly nowMs: () => number;
  readonly timeoutMs?: number;
}

/** Shows the trial until its job has ended, waits for good, or is given up. */
export async function watchTrial(
  trial: Trial,
  view: FollowView,
  { resumes, signal, nowMs, timeoutMs = Number.POSITIVE_INFINITY }: TrialWatch,
): Promise<TrialEnd> {
  const startMs = nowMs();
  const info: JsonObject[] = [];
  let resumed = 0;
  const news = async () => {
    const entries = await trial.info(info.length);
    info.push(...entries);
    return entries.map(entryOf);
  };
  for (;;) {
    // The job is read after its info, so that no message comes before the step it follows.
    const before = await news();
    const { job: raw, state } = await trial.look();
    const last = state === "under_way" ? [] : await news();
    const job = readJob(raw);
    view.update(goingOn(job), [...before, ...last], nowMs());
    const resume = state === "waiting" ? resumes[resumed] : undefined;
    const given = nowMs() - startMs >= timeoutMs;
    if (signal.aborted) return { kind: "interrupted", job, info, machines: [] };
    if (state === "under_way" && !given) await trial.changed(LOOK_MS, signal);
    else if (resume !== undefined && !given) {
      resumed += 1;
      view.note(resume.kind === "error" ? "resumed with an error" : "resumed");
      await trial.resume(resume);
    } else {
      const kind = state === "under_way" ? "timeout" : state;
      return { kind, job, info, machines: await trial.machines() };
    }
  }
}

/** There is nobody else for whom the job would stand still: why it does is no news here. */
function goingOn(job: JobAnswer): JobAnswer {
  const still = job.execution === "queued" || job.execution === "waiting";
  return still ? { ...job, execution: "running" } : job;
}

/** An entry of the info with all that its author wrote. */
function entryOf(entry: JsonObject): InfoEntry {
  const read = readInfo(entry);
  if (read.kind !== "message") return read;
  const { message, log, fields, ...others } = entry;
  const plain = Object.keys(others).every((key) => key === "task");
  if (typeof message !== "string" || !plain) {
    return { kind: "message", task: undefined, text: JSON.stringify(entry) };
  }
  const level = typeof log === "string" ? `${log}: ` : "";
  const more = fields === undefined ? "" : ` ${JSON.stringify(fields)}`;
  return { kind: "message", task: textIn(entry, "task"), text: `${level}${message}${more}` };
}

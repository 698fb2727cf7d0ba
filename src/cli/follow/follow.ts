// Follows one job to its end: asks for the job and its info, and shows what is new. It is
// shown by one of the two views in views.ts, or not at all while a command only waits. A job goes on when nobody
// watches it.

import { durationSeconds } from "../../domain/instant.ts";
import { AgentError } from "../../domain/error.ts";
import { pause } from "../../program/loop.ts";
import { readObjects } from "../client/api_call.ts";
import { cannot, type Flag } from "../command/arguments.ts";
import type { Client } from "../client/client.ts";
import { EXIT, type ExitCode, type Invocation } from "../command/command.ts";
import { reportOutcome } from "../command/failure.ts";
import { type FollowView, openLiveView, openPlainView } from "./views.ts";
import {
  endOf,
  failedStep,
  type InfoEntry,
  type JobAnswer,
  type JobEnd,
  readInfo,
  readJob,
} from "../job/answer.ts";
import { canMove } from "../output/terminal.ts";

/** Flags of every command that can follow a job. */
export const FOLLOW_FLAGS: readonly Flag[] = [
  { name: "follow", help: "show the steps until the job has ended" },
  { name: "wait", help: "wait silently until the job has ended" },
  { name: "timeout", placeholder: "TIME", help: "give up waiting after 90s, 10m, 2h; exits 124" },
];

const POLL_MS_MIN = 100;
const POLL_MS_MAX = 1000;
/** How long an agent may be away while it is followed: a restart, not a removal. */
const AWAY_MS_MAX = 60_000;
/** Entries of a job's info that are read at once; a job may have a hundred thousand. */
const NEWS_MAX = 1000;

/** Why following stopped. After `timeout` and `interrupted` the job goes on. */
type Followed =
  | { readonly kind: "ended"; readonly job: JobAnswer }
  | { readonly kind: "timeout" }
  | { readonly kind: "interrupted" };

/** The milliseconds that --timeout names, or undefined. @throws {AgentError} `invalid_argument` */
export function timeoutMsOf(call: Invocation): number | undefined {
  const text = call.args.text("timeout");
  if (text === undefined) return undefined;
  const seconds = durationSeconds(text);
  if (seconds === undefined || seconds === 0) {
    throw cannot(`use --timeout ${JSON.stringify(text)}: expected a time such as 90s, 10m or 2h`);
  }
  return seconds * 1000;
}

/** Whether the command is to stay until the job has ended. */
export function stays(call: Invocation): boolean {
  return call.args.has("follow") || call.args.has("wait");
}

/** The view that flags and terminal ask for. */
export function viewFor(call: Invocation): FollowView {
  if (!call.args.has("follow")) return silentView(call);
  return canMove(call.terminal)
    ? openLiveView(call.terminal)
    : openPlainView((line) => call.terminal.err(`${line}\n`));
}

function silentView(call: Invocation): FollowView {
  return { update: () => {}, note: (line) => call.printer.note(line), close: () => {} };
}

/** Follows a job with the view, the deadline and the Ctrl-C of this call. */
export async function follow(
  call: Invocation,
  job_uuid: string,
  view: FollowView,
): Promise<Followed> {
  const timeoutMs = timeoutMsOf(call);
  const stop = new AbortController();
  const takeBack = call.terminal.onInterrupt(() => stop.abort());
  try {
    return await watch(call.client, job_uuid, view, {
      signal: stop.signal,
      nowMs: call.terminal.nowMs,
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    });
  } finally {
    view.close();
    takeBack();
  }
}

interface WatchOptions {
  readonly signal: AbortSignal;
  readonly nowMs: () => number;
  readonly timeoutMs?: number;
}

async function watch(
  client: Client,
  job_uuid: string,
  view: FollowView,
  { signal, nowMs, timeoutMs }: WatchOptions,
): Promise<Followed> {
  const startMs = nowMs();
  let answeredMs = startMs;
  let seen = 0;
  let away = false;
  // Ends with the job, the deadline, Ctrl-C, or an agent that stays away.
  for (let pollMs = POLL_MS_MIN;; pollMs = Math.min(pollMs * 1.5, POLL_MS_MAX)) {
    try {
      // The job is read after its info, so that no message comes before the step it follows.
      const news = await readNews(client, job_uuid, seen, signal);
      const job = readJob(await client.get(`/jobs/${job_uuid}`, signal));
      const ended = endOf(job) !== undefined;
      const last = ended ? await readNews(client, job_uuid, seen + news.length, signal) : [];
      view.update(job, [...news, ...last], nowMs());
      seen += news.length + last.length;
      answeredMs = nowMs();
      away = false;
      const more = (ended ? last : news).length === NEWS_MAX;
      if (ended && !more) return { kind: "ended", job };
      if (more && (timeoutMs === undefined || nowMs() < startMs + timeoutMs)) continue;
    } catch (error) {
      if (signal.aborted) return { kind: "interrupted" };
      const passing = error instanceof AgentError &&
        (error.code === "unreachable" || error.code === "overloaded");
      if (!passing || nowMs() - answeredMs > AWAY_MS_MAX) throw error;
      if (pollMs === POLL_MS_MAX && !away) {
        away = true;
        view.note("the agent does not answer; trying again");
      }
    }
    const leftMs = timeoutMs === undefined ? pollMs : startMs + timeoutMs - nowMs();
    if (leftMs <= 0) return { kind: "timeout" };
    await pause(Math.min(pollMs, leftMs), signal);
    if (signal.aborted) return { kind: "interrupted" };
  }
}

async function readNews(
  client: Client,
  job_uuid: string,
  after: number,
  signal: AbortSignal,
): Promise<InfoEntry[]> {
  const info = await client.get(`/jobs/${job_uuid}/info?after=${after}&limit=${NEWS_MAX}`, signal);
  return readObjects(info, "the info").map(readInfo);
}

/**
 * The exit code of what was followed. The reason of a failure, and how to watch it again, are
 * printed here; what a success yields is the command's own matter.
 */
export function followedExit(call: Invocation, job_uuid: string, followed: Followed): ExitCode {
  const again = [
    `zonewright job tail ${job_uuid}  to watch it again`,
    `zonewright job cancel ${job_uuid}  to stop it`,
  ];
  switch (followed.kind) {
    case "ended":
      return endedExit(call, followed.job, endOf(followed.job));
    case "timeout":
      return reportOutcome(call.terminal, "timeout", {
        message: `Gave up waiting for job ${job_uuid}: it has not ended`,
        hints: again,
        json: call.printer.json,
      });
    case "interrupted":
      return reportOutcome(call.terminal, "interrupted", {
        message: `Stopped watching job ${job_uuid}: it continues`,
        hints: again,
        json: call.printer.json,
      });
  }
}

function endedExit({ terminal, printer }: Invocation, job: JobAnswer, end: JobEnd): ExitCode {
  const { json } = printer;
  const again = `zonewright job retry ${job.uuid}  to create it again`;
  switch (end) {
    case "success":
    case undefined:
      return EXIT.ok;
    case "canceled": {
      const message = `Job ${job.uuid} was canceled`;
      return reportOutcome(terminal, "canceled", { message, hints: [again], json });
    }
    case "retried": {
      const message = `Job ${job.uuid} asked to be created again`;
      const hints = [`zonewright job get ${job.uuid}  names the new one`];
      return reportOutcome(terminal, "job_failed", { message, hints, json });
    }
    case "failure": {
      const step = failedStep(job);
      const why = step === undefined ? "" : ` in ${step.name}: ${step.error}`;
      const message = `Job ${job.uuid} failed${why}`;
      const hints = [`zonewright job get ${job.uuid} --json`, again];
      return reportOutcome(terminal, "job_failed", { message, hints, json });
    }
  }
}

// Follows one job to its end: shows the lines of its log as its events bring them, and asks for the job at
// each of its changes. One of the views in views.ts shows it, or none while a command only waits. A job
// continues without a watcher.

import { durationSeconds } from "../../domain/instant.ts";
import type { JsonObject } from "../../domain/json.ts";
import { pause } from "../../runtime/wait.ts";
import { AWAY_MS_MAX } from "../client/events.ts";
import { cannot, type Flag, usageError } from "../command/arguments.ts";
import type { Client } from "../client/client.ts";
import { EXIT, type ExitCode, FOLLOW_FLAG, type Invocation } from "../command/command.ts";
import { isPassing, textIn } from "../client/answer.ts";
import { reportOutcome } from "../command/failure.ts";
import { followNews, type JobNews } from "./job_changes.ts";
import { type FollowView, openJsonView, openLiveView, openPlainView } from "./views.ts";
import {
  endOf,
  failedStep,
  hasEnded,
  type JobAnswer,
  type JobEnd,
  readJob,
  readLine,
  readSecrets,
} from "../client/job.ts";
import { canMove } from "../output/terminal.ts";

/** The flag that bounds the time of a command that always waits. */
export const TIMEOUT_FLAG: Flag = {
  name: "timeout",
  placeholder: "TIME",
  help: "give up after 90s, 10m, 2h; exits 124",
};

/** Flags of every command that can follow a job. */
export const FOLLOW_FLAGS: readonly Flag[] = [
  FOLLOW_FLAG,
  { name: "wait", help: "wait silently until the job has ended" },
  { name: "timeout", placeholder: "TIME", help: "give up waiting after 90s, 10m, 2h; exits 124" },
];

/** Milliseconds to gather changes before the job is read again. */
const GATHER_MS = 100;
/** Milliseconds before a failed read is repeated. */
const RETRY_LOOK_MS = 1000;

/** Why following stopped. After `timeout` and `interrupted` the job continues. */
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
    throw cannot(`use --timeout ${JSON.stringify(text)}, expected a time such as 90s, 10m or 2h`);
  }
  return seconds * 1000;
}

/**
 * Refuses an unusable --timeout before anything is sent.
 * @throws {AgentError} `invalid_argument`
 */
export function checkTimeout(call: Invocation): void {
  if (timeoutMsOf(call) !== undefined && !stays(call)) {
    throw usageError("--timeout limits --wait or --follow, expected one of them with it");
  }
}

/** Whether the command waits until the job has ended. */
export function stays(call: Invocation): boolean {
  return call.args.has("follow") || call.args.has("wait");
}

/** The view of a job that suits flags and terminal. */
export function viewFor(call: Invocation, job_uuid: string): FollowView {
  const { args, printer, terminal } = call;
  if (!args.has(FOLLOW_FLAG.name)) return silentView(call);
  if (printer.json) return openJsonView(job_uuid, printer.line);
  return canMove(terminal)
    ? openLiveView(terminal, { times: true })
    : openPlainView((line) => terminal.err(`${line}\n`), { times: true });
}

function silentView({ printer }: Invocation): FollowView {
  return { showsLog: false, update: () => {}, note: printer.note, close: () => {} };
}

/** How a job was followed: the exit code for it, and the job if it has ended. */
interface FollowedJob {
  readonly code: ExitCode;
  readonly job?: JobAnswer;
}

/** Follows a job with the deadline of this call, until Ctrl-C. Prints how it went, unless it succeeded. */
export async function follow(
  call: Invocation,
  job_uuid: string,
  view: FollowView = viewFor(call, job_uuid),
): Promise<FollowedJob> {
  const followed = await untilOver(call, job_uuid, view);
  const code = followedExit(call, job_uuid, followed);
  return followed.kind === "ended" ? { code, job: followed.job } : { code };
}

async function untilOver(
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
  const over = new AbortController();
  const stop = () => over.abort();
  signal.addEventListener("abort", stop, { once: true });
  const news = followNews(client, job_uuid, {
    withLog: view.showsLog,
    signal: over.signal,
    nowMs,
    note: (line) => view.note(line),
  });
  const startMs = nowMs();
  let answeredMs = startMs;
  const look = lookOf(client, job_uuid, view, news);
  try {
    // Ends with the job, the deadline or Ctrl-C, or when the agent stays away.
    for (;;) {
      const leftMs = timeoutMs === undefined ? Infinity : startMs + timeoutMs - nowMs();
      if (leftMs <= 0) return { kind: "timeout" };
      await news.next(leftMs);
      if (signal.aborted) return { kind: "interrupted" };
      try {
        const { job, more } = await look(nowMs(), signal);
        answeredMs = nowMs();
        if (more) news.again();
        else if (endOf(job) !== undefined) return { kind: "ended", job };
        else await pause(GATHER_MS, signal);
      } catch (error) {
        if (signal.aborted) return { kind: "interrupted" };
        if (!isPassing(error) || nowMs() - answeredMs > AWAY_MS_MAX) throw error;
        await pause(RETRY_LOOK_MS, signal);
        news.readAgain();
      }
    }
  } finally {
    signal.removeEventListener("abort", stop);
    over.abort();
    await news.ended;
  }
}

/** Shows the next lines and the job. @returns the job, and whether more lines follow */
function lookOf(
  client: Client,
  job_uuid: string,
  view: FollowView,
  news: JobNews,
): (nowMs: number, signal: AbortSignal) => Promise<{ job: JobAnswer; more: boolean }> {
  let secrets: ReadonlySet<string> | undefined;
  let job: JobAnswer | undefined;
  let held: JsonObject | undefined;
  return async (nowMs, signal) => {
    secrets ??= await readSecrets(client, job_uuid, signal);
    if (news.jobChanged() || job === undefined) {
      job = readJob(await client.get(`/jobs/${job_uuid}`, signal), secrets);
      // What a step has written comes before its end, and is in the log by now.
      news.readLog();
    }
    const lines = await news.lines(signal);
    const ahead = firstAhead(job, lines);
    // A line for a later task, which anyone may have written, is held back only once.
    const holds = ahead !== undefined && ahead.sequence !== held?.sequence;
    held = ahead;
    const shown = holds ? lines.slice(0, lines.indexOf(ahead)) : lines;
    const more = news.shown(shown) || holds;
    view.update(job, shown.map(readLine), nowMs, more);
    if (holds) news.readAgain();
    return { job, more };
  };
}

/** The first line of a task that has not begun, as far as we know: it belongs after the end of a step. */
function firstAhead({ steps }: JobAnswer, lines: readonly JsonObject[]): JsonObject | undefined {
  const present = steps.findIndex((step) => !hasEnded(step));
  if (present < 0) return undefined;
  return lines.find(({ task }) => steps.findIndex(({ name }) => name === task) > present);
}

/**
 * The exit code for a followed job. Prints the reason of a failure, and how to watch again; the result of a
 * success is left to the command.
 */
function followedExit(call: Invocation, job_uuid: string, followed: Followed): ExitCode {
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
  const next = textIn(job.raw, "next_attempt");
  // A job is retried once.
  const again = next === undefined
    ? `zonewright job retry ${job.uuid}  to create it again`
    : `zonewright job why ${next}  the job that repeats it`;
  switch (end) {
    case "success":
    case undefined:
      return EXIT.ok;
    case "canceled": {
      const message = `Job ${job.uuid} was canceled`;
      return reportOutcome(terminal, "canceled", { message, hints: [again], json });
    }
    case "retried": {
      const refused = next === undefined ? textIn(job.raw, "next_attempt_refused") : undefined;
      const why = refused === undefined ? "" : `, but was not: ${refused}`;
      const message = `Job ${job.uuid} asked to be created again${why}`;
      return reportOutcome(terminal, "job_failed", { message, hints: [again], json });
    }
    case "failure": {
      const step = failedStep(job);
      const why = step === undefined ? "" : ` in ${step.name}: ${step.error}`;
      const message = `Job ${job.uuid} failed${why}`;
      const hints = [`zonewright job why ${job.uuid}  shows its attempts and log`, again];
      return reportOutcome(terminal, "job_failed", { message, hints, json });
    }
  }
}

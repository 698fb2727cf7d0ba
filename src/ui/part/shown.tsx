// Values that look the same everywhere: states of jobs and machines, times, durations, uuids, progress, short lists
// of jobs, and JavaScript and JSON with syntax colours.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import type { Schemas } from "../client/schema.ts";
import { Copy } from "./controls.tsx";
import { HostBefore } from "./hosts.tsx";

type State = Schemas["JobSummary"]["state"];

/** A state as a word with its colour and form; the colour alone says nothing. */
export function Badge({ state, reason }: { state: State; reason?: string | null }): JSX.Element {
  const title = reason === null || reason === undefined ? undefined : REASONS[reason] ?? reason;
  return <span class={`badge state-${state}`} title={title}>{state}</span>;
}

/** Why an unfinished job does not run, in words. */
export const REASONS: Readonly<Record<string, string>> = {
  scheduled: "scheduled for later",
  waiting_for_slot: "waiting for a slot",
  waiting_for_resume: "waiting for resume",
  waiting_for_retry: "waiting for its next attempt",
  stopping: "its host has not confirmed that its task has ended",
  undoing: "undoing what it did",
};

/** A value of JSON, a text without its quotes. */
export function valueText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

const TICK_MS = 1_000;
/** Milliseconds since 1970, updated every second; no request depends on it. */
export const clock = signal(Date.now());
setInterval(() => {
  if (!document.hidden) clock.value = Date.now();
}, TICK_MS);

const MINUTE_S = 60;
const HOUR_S = 3_600;
const DAY_S = 86_400;

/** A span of time in one or two units: `850 ms`, `3.2 s`, `2 min 5 s`, `3 h 12 min`, `2 d 4 h`. */
export function spanText(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const two = (large: number, first: string, small: number, second: string) => {
    const rest = Math.floor(whole % large / small);
    return `${Math.floor(whole / large)} ${first}${rest === 0 ? "" : ` ${rest} ${second}`}`;
  };
  if (whole < MINUTE_S) return `${whole} s`;
  if (whole < HOUR_S) return two(MINUTE_S, "min", 1, "s");
  if (whole < DAY_S) return two(HOUR_S, "h", MINUTE_S, "min");
  return two(DAY_S, "d", HOUR_S, "h");
}

/** The largest unit of a span. */
function roughText(seconds: number): string {
  if (seconds < MINUTE_S) return `${Math.max(0, Math.floor(seconds))} s`;
  if (seconds < HOUR_S) return `${Math.floor(seconds / MINUTE_S)} min`;
  if (seconds < DAY_S) return `${Math.floor(seconds / HOUR_S)} h`;
  return `${Math.floor(seconds / DAY_S)} d`;
}

/** How long ago an instant was, or how long until it comes; the exact time is its tooltip. */
export function Time({ at }: { at: string }): JSX.Element {
  const seconds = (clock.value - Date.parse(at)) / 1000;
  const text = seconds >= 0 ? `${roughText(seconds)} ago` : `in ${roughText(-seconds)}`;
  return <time dateTime={at} title={exactText(at)}>{text}</time>;
}

/** An instant in the reader's own time zone, to the second. */
export function exactText(at: string): string {
  return new Date(at).toLocaleString("sv", { timeZoneName: "short" });
}

/** The time of day of an instant, with milliseconds. */
export function timeOfDay(at: string): string {
  const date = new Date(at);
  const clockTime = date.toLocaleTimeString("sv");
  return `${clockTime}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

/** How long a job has run since its start, seconds; null before. Grows while the job is unfinished. */
export function durationOf(
  { started_at, finished_at, duration }: Schemas["JobSummary"],
): number | null {
  if (started_at === null || finished_at !== null) return duration;
  return Math.max(0, (clock.value - Date.parse(started_at)) / 1000);
}

/** Characters of a uuid that lists show. */
const SHORT_CHARS = 8;

/** Characters of a digest that are shown; a click copies all of it. */
export const DIGEST_CHARS = 12;

/** The beginning of a uuid. */
export function shortUuid(uuid: string): string {
  return uuid.slice(0, SHORT_CHARS);
}

/** A short uuid; a click copies all of it. */
export function Uuid({ uuid, of }: { uuid: string; of: string }): JSX.Element {
  return (
    <Copy text={uuid} label={`uuid of ${of}`}>
      <code>{shortUuid(uuid)}</code>
    </Copy>
  );
}

const BYTE_UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"] as const;
const UNIT_STEP = 1_024;

/** A size in the largest unit that it reaches, in three digits: `512 bytes`, `1.46 MiB`, `650 MiB`. */
export function bytesText(bytes: number): string {
  const unit = Math.min(
    bytes < 1 ? 0 : Math.floor(Math.log(bytes) / Math.log(UNIT_STEP)),
    BYTE_UNITS.length - 1,
  );
  const value = bytes / UNIT_STEP ** unit;
  const text = unit === 0 || Number.isInteger(value) ? String(value) : value.toPrecision(
    value >= 1_000 ? 4 : 3,
  );
  return `${text} ${BYTE_UNITS[unit]}`;
}

/** Whether there is a value: what the index leaves out is null or missing. */
export function isThere<T>(value: T): value is NonNullable<T> {
  return value !== null && value !== undefined;
}

/** The progress of something. @param total undefined when unknown */
export function Progress(
  { done, total, label }: { done: number; total: number | undefined; label: string },
): JSX.Element {
  return (
    <progress
      class="progress"
      value={total === undefined ? undefined : done}
      max={total ?? 1}
      aria-label={label}
    />
  );
}

/** The look of common states, by the execution of a job; others look like OTHER_KIND. */
const KINDS: Readonly<Record<string, string>> = {
  running: "succeeded",
  stopped: "canceled",
  installed: "canceled",
  absent: "running",
  provisioning: "running",
  stopping: "waiting",
  shutting_down: "waiting",
  failed: "failed",
  incomplete: "failed",
};
const OTHER_KIND = "queued";

/** The text for a state; `absent` is the agent's own word, for a machine that only a job knows. */
export function machineStateText(state: string): string {
  return state === "absent" ? "being made" : state.replaceAll("_", " ");
}

/** A machine's state as a word with its colour and form. */
export function MachineBadge({ state }: { state: string }): JSX.Element {
  return (
    <span class={`badge state-${KINDS[state] ?? OTHER_KIND}`}>
      {machineStateText(state)}
    </span>
  );
}

/**
 * A few jobs, such as the newest about a machine or of a workflow: one line for each, with its
 * error.
 */
export function JobLines({ jobs }: { jobs: readonly Schemas["JobSummary"][] }): JSX.Element {
  return (
    <ul class="job-lines">
      {jobs.map((job) => {
        const seconds = durationOf(job);
        return (
          <li key={job.uuid} class="job-line">
            <Badge state={job.state} reason={job.reason} />
            <span class="wrap">
              <a class="job-link" href={`/ui/jobs/${job.uuid}`}>{job.name}</a>{" "}
              <span class="muted">
                <HostBefore of={job} end="" />
              </span>
            </span>
            <span class="step-error" title={job.error ?? undefined}>{job.error}</span>
            <span class="muted number">{seconds === null ? "" : spanText(seconds)}</span>
            <span class="muted">
              <Time at={job.created_at} />
            </span>
          </li>
        );
      })}
    </ul>
  );
}

/** Comments, texts, numbers, and words, in the order in which they are tried. */
const TOKEN =
  /(\/\/[^\n]*|\/\*[\s\S]*?\*\/)|("(?:[^"\\\n]|\\.)*"(?=\s*:))|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|\b(\d[\w.]*)\b|\b(async|await|break|case|catch|class|const|continue|default|delete|do|else|false|finally|for|function|if|in|instanceof|let|new|null|of|return|switch|this|throw|true|try|typeof|undefined|var|void|while|yield)\b/g;
const TOKEN_KINDS = ["comment", "key", "text", "number", "keyword"] as const;
/** Characters above which a text is not coloured. */
const COLOURED_CHARS_MAX = 200_000;

/** A source to read and copy. @param label what it is, for screen readers */
export function Source({ text, label }: { text: string; label: string }): JSX.Element {
  return (
    <pre class="source" tabIndex={0} role="region" aria-label={label}>
      <code>{text.length > COLOURED_CHARS_MAX ? text : coloured(text)}</code>
    </pre>
  );
}

function coloured(text: string): readonly (string | JSX.Element)[] {
  const parts: (string | JSX.Element)[] = [];
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    const kind = TOKEN_KINDS[match.slice(1).findIndex((group) => group !== undefined)];
    parts.push(text.slice(end, match.index));
    parts.push(<span class={`token-${kind}`}>{match[0]}</span>);
    end = match.index + match[0].length;
  }
  parts.push(text.slice(end));
  return parts;
}

/** A value as JSON, to read and copy. */
export function Json({ value, label }: { value: unknown; label: string }): JSX.Element {
  return <Source text={JSON.stringify(value, null, 2) ?? "null"} label={label} />;
}

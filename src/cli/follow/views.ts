// The views of a followed job. The plain one is for logs: one line per finished step, one per message, and
// one per quarter of a transfer. The JSON view is for programs, the live one for terminals.

import {
  absentHost,
  hasEnded,
  type InfoEntry,
  type JobAnswer,
  type Step,
  type StepProgress,
} from "../client/job.ts";
import { cut, durationText, momentText, sizeOrDash } from "../output/table.ts";
import { textIn } from "../client/answer.ts";
import {
  bar,
  BAR_CHARS,
  CLEAR_LINE,
  COLUMNS_DEFAULT,
  type Paint,
  paintFor,
  printable,
  type Terminal,
} from "../output/terminal.ts";

/** Shows a job while it runs. */
export interface FollowView {
  /** Whether it shows the lines of the log. */
  readonly showsLog: boolean;
  /**
   * Shows the job as it is now, and the lines since the last call.
   * @param more whether further lines of the job's steps follow
   */
  update(job: JobAnswer, news: readonly InfoEntry[], nowMs: number, more?: boolean): void;
  /** One line about the watching itself. */
  note(line: string): void;
  /** Gives the terminal its cursor and line back. */
  close(): void;
}

const PROGRESS_PERCENT = 25;

interface PlainOptions {
  /** Whether lines about capability calls are printed too. */
  readonly calls?: boolean;
  /** Whether each line begins with its time. */
  readonly times?: boolean;
  /** Called with notes about the watching itself, if they should not be among the lines. */
  readonly note?: (line: string) => void;
}

/** Opens the view that prints lines. */
export function openPlainView(
  write: (line: string) => void,
  { calls = false, times = false, note = write }: PlainOptions = {},
): FollowView {
  const steps = new EndedSteps();
  let state = "";
  const quarters = new Quarters();
  const say = (instant: string | undefined, text: string, nowMs: number) =>
    write(printable(times ? `${momentText(instant, nowMs)} ${text}` : text));
  const printEnded = (ended: readonly Step[], nowMs: number) => {
    for (const step of ended) say(step.finished_at, stepText(step), nowMs);
  };
  return {
    showsLog: true,
    update(job, news, nowMs, more = false) {
      for (const entry of news) {
        if (entry.kind === "failure" || (entry.kind === "call" && !calls)) continue;
        const task = entry.kind === "progress" ? entry.progress.task : entry.task;
        printEnded(steps.before(job, task), nowMs);
        const said = entry.kind === "progress"
          ? quarters.textOf(entry.progress)
          : messageText(entry.task, entry.text);
        if (said !== undefined) say(timeOf(entry), said, nowMs);
      }
      if (more) return;
      printEnded(steps.all(job), nowMs);
      const text = stateText(job);
      if (text !== state && text !== "") say(new Date(nowMs).toISOString(), text, nowMs);
      state = text;
    },
    note,
    close: () => {},
  };
}

/** The finished steps of a job, each shown once. */
class EndedSteps {
  #shown = 0;

  /** Those that ended before the task began, to be shown before its lines. */
  before({ steps }: JobAnswer, task: string | undefined): readonly Step[] {
    const at = steps.findIndex((step) => step.name === task);
    return at > this.#shown ? this.#next(steps.slice(0, at)) : [];
  }

  all({ steps }: JobAnswer): readonly Step[] {
    return this.#next(steps);
  }

  /** Whether none was shown yet. */
  get none(): boolean {
    return this.#shown === 0;
  }

  #next(steps: readonly Step[]): readonly Step[] {
    const ended = steps.filter(hasEnded);
    const next = ended.slice(this.#shown);
    this.#shown += next.length;
    return next;
  }
}

function timeOf({ line }: InfoEntry): string | undefined {
  return line === undefined ? undefined : textIn(line, "time");
}

/** Reports the progress of a transfer once per quarter. */
class Quarters {
  #key = "";
  #reached = 0;

  /** `place: copy 26 MiB / 100 MiB (26 %)`; undefined within the same quarter. */
  textOf(progress: StepProgress): string | undefined {
    const { task, phase, done, total } = progress;
    const key = `${task}\n${phase}`;
    if (key !== this.#key) this.#reached = 0;
    this.#key = key;
    if (total === undefined || total <= 0) return undefined;
    const percent = Math.floor((100 * done) / total);
    const reached = Math.floor(percent / PROGRESS_PERCENT);
    if (reached <= this.#reached) return undefined;
    this.#reached = reached;
    return messageText(task, `${progressText(progress)} (${percent} %)`);
  }
}

/**
 * Opens the view for programs: one JSON object a line.
 * @param write takes a line without its end
 */
export function openJsonView(job_uuid: string, write: (line: object) => void): FollowView {
  const steps = new EndedSteps();
  let shown = "";
  const writeEnded = (ended: readonly Step[]) => {
    for (const { name, state, seconds, finished_at, error } of ended) {
      const known = { time: finished_at ?? null, task: name, state, duration: seconds ?? null };
      write({ kind: "task", job_uuid, ...known, error: error ?? null });
    }
  };
  return {
    showsLog: true,
    update(job, news, _nowMs, more = false) {
      for (const { line } of news) {
        if (line === undefined) continue;
        writeEnded(steps.before(job, textIn(line, "task")));
        write({ kind: "log", job_uuid, ...line });
      }
      if (more) return;
      writeEnded(steps.all(job));
      const { execution: state, reason = null, next_run_at = null } = job;
      const text = JSON.stringify({ kind: "job", job_uuid, state, reason, next_run_at });
      if (text !== shown) write(JSON.parse(text));
      shown = text;
    },
    note: (message) => write({ kind: "note", job_uuid, message }),
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

/** Why a job is not running; empty while it runs. */
function stateText(job: JobAnswer): string {
  if (job.execution === "waiting") return "waiting for zonewright job resume";
  if (job.execution !== "queued") return "";
  if (job.next_run_at !== undefined) return `queued until ${job.next_run_at}`;
  if (job.reason !== "waiting_for_slot") return "queued";
  return `queued, waiting for ${absentHost(job.raw) ?? "a slot"}`;
}

/** `copy 158 MiB / 631 MiB`. */
function progressText({ phase, done, total }: StepProgress): string {
  return `${phase} ${sizeOrDash(done)}${total === undefined ? "" : ` / ${sizeOrDash(total)}`}`;
}

const FRAMES = [..."⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"];
const FRAME_MS = 100;
const NAME_CHARS_MIN = 14;
const RATE_WINDOW_MS = 5000;

/** What the moving line shows. */
interface Motion {
  step: Step | undefined;
  state: string;
  /** The progress of the last seconds, newest last, for the rate. */
  samples: { readonly atMs: number; readonly progress: StepProgress }[];
}

/**
 * Opens the view for a terminal, which redraws on a timer until it is closed. Finished steps stay,
 * and one line below them moves: a spinner, the bytes, the rate and the time left. Only that line
 * is ever rewritten, so nothing is lost in a small window, and what has scrolled away stays
 * correct.
 * @param times whether the lines of the log begin with their time
 */
export function openLiveView(
  terminal: Terminal,
  { times = false }: { readonly times?: boolean } = {},
): FollowView {
  const paint = paintFor(terminal, "err");
  const motion: Motion = { step: undefined, state: "starting", samples: [] };
  const steps = new EndedSteps();
  let frame = 0;
  const width = () => (terminal.columns() ?? COLUMNS_DEFAULT) - 1;
  const keep = (line: string) => terminal.err(`${CLEAR_LINE}${line}\n`);
  const draw = () => {
    const line = motionLine(motion, FRAMES[frame % FRAMES.length] ?? "", width());
    terminal.err(CLEAR_LINE + cut(printable(line), width()));
  };
  const timer = setInterval(() => {
    frame += 1;
    draw();
  }, FRAME_MS);
  const keepEnded = (job: JobAnswer, ended: readonly Step[]) => {
    const nameWidth = nameWidthOf(job);
    for (const step of ended) keep(endedLine(step, { nameWidth, width: width(), paint }));
  };
  return {
    showsLog: true,
    update(job, news, nowMs, more = false) {
      for (const entry of news) {
        if (entry.kind === "progress") takeProgress(entry.progress, motion, nowMs);
        // Calls are detail that `job tail` shows.
        if (entry.kind !== "message") continue;
        keepEnded(job, steps.before(job, entry.task));
        const time = times ? `${paint("dim", momentText(timeOf(entry), nowMs))} ` : "";
        keep(`  ${time}${printable(messageText(entry.task, entry.text))}`);
      }
      if (more) return;
      keepEnded(job, steps.all(job));
      motion.step = job.steps.find((step) => step.state === "running");
      motion.state = stateText(job) || (steps.none ? "starting" : "ending");
      draw();
    },
    note: keep,
    close() {
      clearInterval(timer);
      terminal.err(CLEAR_LINE);
    },
  };
}

function takeProgress(progress: StepProgress, motion: Motion, nowMs: number): void {
  const before = motion.samples.at(-1)?.progress;
  const same = before?.task === progress.task && before.phase === progress.phase;
  const recent = same ? motion.samples.filter((one) => nowMs - one.atMs <= RATE_WINDOW_MS) : [];
  motion.samples = [...recent, { atMs: nowMs, progress }];
}

function nameWidthOf(job: JobAnswer): number {
  return Math.max(NAME_CHARS_MIN, ...job.steps.map((step) => [...step.name].length));
}

/** `✗ boot             no such device                            0.4 s` */
function endedLine(
  step: Step,
  { nameWidth, width, paint }: { nameWidth: number; width: number; paint: Paint },
): string {
  const took = step.seconds === undefined ? "" : durationText(step.seconds);
  const name = printable(step.name).padEnd(nameWidth);
  const room = Math.max(0, width - 2 - nameWidth - 2 - 2 - took.length);
  const detail = cut(printable(step.error ?? ""), room);
  const sign = step.error === undefined ? paint("green", "✓") : paint("red", "✗");
  return `${sign} ${name}  ${paint("dim", detail.padEnd(room))}  ${took}`;
}

/** `⠹ place media  ██████░░░░  copy 412 MiB / 631 MiB  65 %  210 MiB/s  eta 1 s` */
function motionLine(motion: Motion, frame: string, width: number): string {
  const { step, state, samples } = motion;
  if (step === undefined) return `${frame} ${state}`;
  const name = `${frame} ${step.name.padEnd(NAME_CHARS_MIN)}`;
  const progress = samples.at(-1)?.progress;
  if (progress === undefined || progress.task !== step.name) return name;
  const { done, total = 0 } = progress;
  const words = [progressText(progress)];
  if (total > 0) words.push(`${Math.floor((100 * done) / total)} %`);
  const rate = bytesPerSecond(samples);
  if (rate !== undefined) words.push(`${sizeOrDash(Math.round(rate))}/s`);
  if (rate !== undefined && done < total) words.push(`eta ${durationText((total - done) / rate)}`);
  const line = [name, ...words].join("  ");
  // The bar repeats the numbers, so it is dropped first.
  const fits = total > 0 && [...line].length + BAR_CHARS + 2 <= width;
  return fits ? [name, bar(done / total), ...words].join("  ") : line;
}

/** The rate over the samples; undefined while there is none. */
function bytesPerSecond(samples: Motion["samples"]): number | undefined {
  const first = samples[0];
  const last = samples.at(-1);
  if (first === undefined || last === undefined || last.atMs <= first.atMs) return undefined;
  const bytes = last.progress.done - first.progress.done;
  return bytes <= 0 ? undefined : (1000 * bytes) / (last.atMs - first.atMs);
}

// The two views of a followed job. The plain one is for logs: one line per step when it has ended, one per
// message, and one per quarter of what is copied. The live one is for terminals.

import {
  hasEnded,
  type InfoEntry,
  type JobAnswer,
  type Step,
  type StepProgress,
} from "../job/answer.ts";
import { cut, durationText, sizeText } from "../output/printer.ts";
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
function stateText(job: JobAnswer): string {
  if (job.execution === "waiting") return "waiting for zonewright job resume";
  if (job.execution !== "queued") return "";
  if (job.next_run_at !== undefined) return `queued until ${job.next_run_at}`;
  return job.reason === "waiting_for_slot" ? "queued, waiting for a slot" : "queued";
}

/** `copy 158 MiB / 631 MiB`. */
function progressText({ phase, done, total }: StepProgress): string {
  return `${phase} ${sizeText(done)}${total === undefined ? "" : ` / ${sizeText(total)}`}`;
}

// A followed job on a terminal: ended steps stay, and one line below them moves: a spinner, the
// bytes, the rate and the time that is left. Only that line is ever written again, so nothing is
// lost when the window is small, and what scrolled away stays true.

const FRAMES = [..."⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"];
const FRAME_MS = 100;
const NAME_CHARS_MIN = 14;
const RATE_WINDOW_MS = 5000;

/** What the moving line shows. */
interface Motion {
  step: Step | undefined;
  state: string;
  /** The newest progress, and those of the last seconds for the rate. */
  samples: { readonly atMs: number; readonly progress: StepProgress }[];
}

/** Opens the view that moves; it draws by a timer until it is closed. */
export function openLiveView(terminal: Terminal): FollowView {
  const paint = paintFor(terminal, "err");
  const motion: Motion = { step: undefined, state: "starting", samples: [] };
  const messages = new Map<string, string>();
  let printed = 0;
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
  return {
    update(job, news, nowMs) {
      for (const entry of news) take(entry, messages, motion, nowMs, keep);
      const ended = job.steps.filter(hasEnded);
      const nameWidth = nameWidthOf(job);
      for (const step of ended.slice(printed)) {
        keep(endedLine(step, messages.get(step.name) ?? "", { nameWidth, width: width(), paint }));
      }
      printed = Math.max(printed, ended.length);
      motion.step = job.steps.find((step) => step.state === "running");
      motion.state = stateText(job) || (printed === 0 ? "starting" : "ending");
      draw();
    },
    note: keep,
    close() {
      clearInterval(timer);
      terminal.err(CLEAR_LINE);
    },
  };
}

function take(
  entry: InfoEntry,
  messages: Map<string, string>,
  motion: Motion,
  nowMs: number,
  keep: (line: string) => void,
): void {
  if (entry.kind === "message") {
    if (entry.task === undefined) keep(`  ${printable(entry.text)}`);
    else messages.set(entry.task, entry.text);
    return;
  }
  // Calls are for those who look closer, with `job tail`.
  if (entry.kind === "call") return;
  const { progress } = entry;
  const before = motion.samples.at(-1)?.progress;
  const same = before?.task === progress.task && before.phase === progress.phase;
  const recent = same ? motion.samples.filter((one) => nowMs - one.atMs <= RATE_WINDOW_MS) : [];
  motion.samples = [...recent, { atMs: nowMs, progress }];
}

function nameWidthOf(job: JobAnswer): number {
  return Math.max(NAME_CHARS_MIN, ...job.steps.map((step) => [...step.name].length));
}

/** `✓ preflight        memory, nic_tag admin, brand kvm          0.4 s` */
function endedLine(
  step: Step,
  message: string,
  { nameWidth, width, paint }: { nameWidth: number; width: number; paint: Paint },
): string {
  const took = step.seconds === undefined ? "" : durationText(step.seconds);
  const name = printable(step.name).padEnd(nameWidth);
  const room = Math.max(0, width - 2 - nameWidth - 2 - 2 - took.length);
  const detail = cut(printable(step.error ?? message), room);
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
  if (rate !== undefined) words.push(`${sizeText(Math.round(rate))}/s`);
  if (rate !== undefined && done < total) words.push(`eta ${durationText((total - done) / rate)}`);
  const line = [name, ...words].join("  ");
  // The bar says nothing that the numbers do not say: it is the first to go.
  const fits = total > 0 && [...line].length + BAR_CHARS + 2 <= width;
  return fits ? [name, bar(done / total), ...words].join("  ") : line;
}

/** The rate over the samples, or undefined while there is none. */
function bytesPerSecond(samples: Motion["samples"]): number | undefined {
  const first = samples[0];
  const last = samples.at(-1);
  if (first === undefined || last === undefined || last.atMs <= first.atMs) return undefined;
  const bytes = last.progress.done - first.progress.done;
  return bytes <= 0 ? undefined : (1000 * bytes) / (last.atMs - first.atMs);
}

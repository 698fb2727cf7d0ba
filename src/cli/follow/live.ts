// A followed job on a terminal: ended steps stay, and one line below them moves: a spinner, the
// bytes, the rate and the time that is left. Only that line is ever written again, so nothing is
// lost when the window is small, and what scrolled away stays true.

import { type FollowView, progressText, stateText } from "./plain.ts";
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

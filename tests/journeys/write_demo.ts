// Writes docs/demo.svg, the recording at the head of README.md, from a real run of what `make run` starts.
// Run it after a change of what the demo shows:
//   deno run -A tests/journeys/write_demo.ts

import { fromFileUrl } from "@std/path";
import { sourceProgram } from "../support/agent_process.ts";

const PAGE = fromFileUrl(new URL("../../docs/demo.svg", import.meta.url));

/** What the demo says last before it waits for Ctrl-C. */
const LAST = "Look around";
const LAST_WORDS = ` ${LAST}:`;
/** Columns of the recorded terminal; longer lines end in an ellipsis. */
const COLUMNS = 104;
/** Pixels of a character and of a line. */
const CHARACTER = 7.9;
const LINE = 18;
const MARGIN = 16;
/** A pause of the run is shown at most so long, seconds. */
const PAUSE_MAX = 0.6;

/** A line, and when it was printed: seconds after the one before. */
interface Line {
  readonly text: string;
  readonly after: number;
}

async function record(): Promise<Line[]> {
  const { program, args, env } = sourceProgram();
  const demo = new Deno.Command(program, {
    args: [...args, "demo"],
    env,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const lines: Line[] = [];
  let before = performance.now();
  const sink = () => {
    let rest = "";
    return new WritableStream<string>({
      write(part) {
        const now = performance.now();
        const ended = (rest + part).split("\n");
        rest = ended.pop() ?? "";
        for (const text of ended) {
          lines.push({ text, after: (now - before) / 1000 });
          before = now;
          if (text.includes(LAST)) demo.kill("SIGINT");
        }
      },
    });
  };
  await Promise.all([
    demo.stdout.pipeThrough(new TextDecoderStream()).pipeTo(sink()),
    demo.stderr.pipeThrough(new TextDecoderStream()).pipeTo(sink()),
  ]);
  const { code } = await demo.status;
  if (code !== 0) throw new Error(`The demo exited with ${code}, expected 0`);
  const last = lines.findIndex(({ text }) => text.includes(LAST));
  return lines.slice(0, last + 1)
    .map(({ text, after }) => ({ text: text.replace(LAST_WORDS, ""), after }));
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** What one kind of line looks like. */
function colorOf(text: string): string {
  if (text.startsWith("$ ")) return "#7ee787";
  if (/^[\d:]+ \w+ +ok /.test(text)) return "#8b949e";
  return /^(?:machine|vnc|see it) {2,}/.test(text) ? "#79c0ff" : "#e6edf3";
}

/** The picture: each line appears when it was printed, or at once where motion is unwelcome. */
function drawing(lines: readonly Line[]): string {
  const width = Math.ceil(COLUMNS * CHARACTER + 2 * MARGIN);
  const height = lines.length * LINE + 2 * MARGIN;
  let at = 0;
  const texts = lines.flatMap(({ text, after }, row) => {
    at += Math.min(after, PAUSE_MAX);
    if (text === "") return [];
    const shown = text.length > COLUMNS ? `${text.slice(0, COLUMNS - 1)}…` : text;
    const length = Math.round(shown.length * CHARACTER);
    const y = MARGIN + LINE * row + 13;
    return [
      `  <text x="${MARGIN}" y="${y}" fill="${colorOf(text)}" textLength="${length}"`,
      `    xml:space="preserve" style="animation-delay:${at.toFixed(1)}s">${escaped(shown)}</text>`,
    ];
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}"`,
    `  font-family="ui-monospace,Menlo,Consolas,monospace" font-size="13">`,
    `  <title>make run: a first machine on the simulated host</title>`,
    `  <style>`,
    `    text { animation: shown 0.1s backwards }`,
    `    @keyframes shown { from { opacity: 0 } }`,
    `    @media (prefers-reduced-motion: reduce) { text { animation: none } }`,
    `  </style>`,
    `  <rect width="${width}" height="${height}" rx="8" fill="#1c2128" />`,
    ...texts,
    `</svg>`,
    ``,
  ].join("\n");
}

const lines = [{ text: "$ make run", after: 0 }, ...await record()];
await Deno.writeTextFile(PAGE, drawing(lines));

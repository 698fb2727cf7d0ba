// Help texts, made from the commands themselves. Examples stand first: they are what is read.

import { type Command, flagsOf, type Noun } from "./command/command.ts";

const PROGRAM = "zonewright";

/** The list of everything. */
export function overview(summaries: readonly (readonly [name: string, summary: string])[]): string {
  return [
    `${PROGRAM} creates machines, runs workflows and mirrors an image index on a SmartOS host.`,
    "",
    "Examples:",
    ...examples([
      ["serve --dev", "start an agent with a simulated host"],
      ["machine create -f vm.json --iso debian.iso --follow", "from an ISO to a VNC address"],
      ["job run hello -p name=world --wait", "run a workflow and wait until it has ended"],
    ]),
    "",
    "Commands:",
    ...aligned(summaries),
    "",
    `Help for a command: ${PROGRAM} help job run, or ${PROGRAM} job run --help.`,
    "Exit codes: 0 ok, 1 failure, 2 usage, 3 agent not reachable, 4 not found, 5 job failed,",
    "6 conflict, 7 canceled, 124 timeout, 130 interrupted.",
    "",
  ].join("\n");
}

/** Help of a noun with its verbs. */
export function nounHelp(name: string, noun: Extract<Noun, { kind: "verbs" }>): string {
  const verbs = Object.entries(noun.verbs);
  return [
    `${PROGRAM} ${name}: ${noun.summary}`,
    "",
    "Examples:",
    ...examples(verbs.flatMap(([, command]) => command.examples.slice(0, 1))),
    "",
    "Commands:",
    ...aligned(
      verbs.map(([verb, command]) =>
        [`${name} ${verb} ${command.operands}`, command.summary] as const
      ),
    ),
    "",
  ].join("\n");
}

/** @param name the command with its noun, such as `job list` */
export function commandHelp(name: string, command: Command): string {
  const flags = flagsOf(command).map((flag) => {
    const short = flag.short === undefined ? "    " : `-${flag.short}, `;
    const value = flag.placeholder === undefined ? "" : ` ${flag.placeholder}`;
    return [`${short}--${flag.name}${value}`, flag.help] as const;
  });
  return [
    `${PROGRAM} ${name}: ${command.summary}`,
    "",
    "Examples:",
    ...examples(command.examples),
    "",
    `Usage: ${PROGRAM} ${[name, command.operands, "[flags]"].filter(Boolean).join(" ")}`,
    "",
    "Flags:",
    ...aligned(flags),
    ...(command.notes ?? []).flatMap((note) => ["", note]),
    "",
  ].join("\n");
}

function examples(lines: readonly (readonly [line: string, does: string])[]): string[] {
  return lines.flatMap(([line, does]) => [`  # ${does}`, `  ${PROGRAM} ${line}`]);
}

const NAME_CHARS_MAX = 34;

function aligned(pairs: readonly (readonly [string, string])[]): string[] {
  const fitting = pairs.map(([name]) => name.length).filter((size) => size <= NAME_CHARS_MAX);
  const width = Math.max(8, ...fitting);
  return pairs.flatMap(([name, text]) =>
    name.length > width
      ? [`  ${name}`, `  ${"".padEnd(width)}  ${text}`]
      : [`  ${name.padEnd(width)}  ${text}`]
  );
}

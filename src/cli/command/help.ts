// Help texts and the manual page, generated from the commands. Examples come first: people read those.

import { type Command, EXIT, flagsOf, type Noun, type Nouns } from "./command.ts";
import { VERSION } from "../../runtime/executable.ts";

const PROGRAM = "zonewright";
/** Columns of help texts, as a terminal has by default. Command lines are not wrapped. */
const COLUMNS_MAX = 80;

/** Lists all commands with a summary of each. */
export function overview(summaries: readonly (readonly [name: string, summary: string])[]): string {
  return [
    ...wrapped(
      `${PROGRAM} creates machines, runs workflows and mirrors an image index on a SmartOS host.`,
      COLUMNS_MAX,
    ),
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
    ...wrapped(
      "Exit codes: 0 ok, 1 failure, 2 usage, 3 agent not reachable, 4 not found, 5 job failed, " +
        "6 conflict, 7 canceled, 124 timeout, 130 interrupted.",
      COLUMNS_MAX,
    ),
    "",
  ].join("\n");
}

/** `zonewright help job`: the verbs with their summaries. */
export function nounHelp(name: string, noun: Extract<Noun, { kind: "verbs" }>): string {
  const verbs = Object.entries(noun.verbs);
  return [
    ...wrapped(`${PROGRAM} ${name}: ${noun.summary}`, COLUMNS_MAX),
    "",
    "Examples:",
    ...examples(verbs.flatMap(([, command]) => command.examples.slice(0, 1))),
    "",
    "Commands:",
    ...aligned(
      verbs.map(([verb, command]) =>
        [[name, verb, command.operands].filter(Boolean).join(" "), command.summary] as const
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
    ...wrapped(`${PROGRAM} ${name}: ${command.summary}`, COLUMNS_MAX),
    "",
    "Examples:",
    ...examples(command.examples),
    "",
    `Usage: ${PROGRAM} ${[name, command.operands, "[flags]"].filter(Boolean).join(" ")}`,
    "",
    "Flags:",
    ...aligned(flags),
    ...(command.notes ?? []).flatMap((note) => [
      "",
      ...wrapped(note.replaceAll("\n", " "), COLUMNS_MAX),
    ]),
    "",
  ].join("\n");
}

function examples(lines: readonly (readonly [line: string, does: string])[]): string[] {
  return lines.flatMap(([line, does]) => [
    ...wrapped(does, COLUMNS_MAX - 4).map((part) => `  # ${part}`),
    `  ${PROGRAM} ${line}`,
  ]);
}

/** Wraps a text between words; a word longer than a line stays whole. */
function wrapped(text: string, charsMax: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > charsMax) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

const NAME_CHARS_MAX = 27;

function aligned(pairs: readonly (readonly [string, string])[]): string[] {
  const fitting = pairs.map(([name]) => name.length).filter((size) => size <= NAME_CHARS_MAX);
  const width = Math.max(8, ...fitting);
  return pairs.flatMap(([name, text]) => {
    const lines = wrapped(text, COLUMNS_MAX - width - 4);
    const named = name.length > width ? [name, ...lines.map(() => "")] : [name];
    const beside = name.length > width ? ["", ...lines] : lines;
    return beside.map((line, at) => `  ${(named[at] ?? "").padEnd(width)}  ${line}`.trimEnd());
  });
}

/**
 * `zonewright man`: the manual page, for `man -l` and for packages.
 * @param nouns all of them, this one included
 */
export function manNoun(nouns: Nouns): Noun {
  return {
    kind: "command",
    command: {
      summary: "print the manual page",
      examples: [["man | man -l -", "read it"], [
        "man > /usr/local/share/man/man8/zonewright.8",
        "install it",
      ]],
      flags: [],
      shared: "help",
      async run({ terminal }) {
        const all = await Promise.all(
          Object.entries(nouns).map(async ([name, load]) => [name, await load()] as const),
        );
        terminal.out(manPage(all, VERSION));
      },
    },
  };
}

/** The meaning of each exit code. */
export const EXIT_WORDS: Readonly<Record<keyof typeof EXIT, string>> = {
  ok: "Done.",
  failure: "Something failed; standard error says what.",
  usage: "Wrong command line, configuration or parameter.",
  unreachable: "The agent does not answer.",
  not_found: "Not found.",
  job_failed: "The job failed.",
  conflict: "The current state does not allow it.",
  canceled: "The job was canceled.",
  other_schema: "The database has tables of a version that this program cannot use.",
  smf_other_schema: "The same, in a service of SMF: it goes to maintenance.",
  timeout: "Timeout.",
  interrupted: "Ended by Ctrl-C.",
};

/**
 * The manual page of section 8, in the macros of man(7).
 * @param nouns every noun by its name, in the order of the help
 */
function manPage(nouns: readonly (readonly [string, Noun])[], version: string): string {
  return [
    `.TH ZONEWRIGHT 8 "" "zonewright ${version}" "System Administration"`,
    ".SH NAME",
    "zonewright \\- host agent for SmartOS: workflows, an image index, machines from media",
    ".SH SYNOPSIS",
    ".B zonewright",
    ".I command",
    "[\\fIoperand\\fR ...] [\\fIflag\\fR ...]",
    ".SH DESCRIPTION",
    "One program: the agent itself (\\fBserve\\fR), and the commands that talk to it over HTTP on the",
    "loopback interface, a unix socket, or over TLS from another host.",
    ".SH COMMANDS",
    ...nouns.flatMap(([name, noun]) => nounLines(name, noun)),
    ".SH EXIT STATUS",
    ...Object.entries(EXIT).flatMap(([name, code]) => [
      ".TP",
      `.B ${code}`,
      text(EXIT_WORDS[name as keyof typeof EXIT]),
    ]),
    ".SH ENVIRONMENT",
    ...pairs([
      ["ZONEWRIGHT_URL", "Address of the agent, http://127.0.0.1:8780 when not set."],
      ["ZONEWRIGHT_SOCKET", "Unix socket of the agent; overrides the address."],
      ["ZONEWRIGHT_TOKEN_FILE", "A file with the token for the agent."],
      ["ZONEWRIGHT_CA", "Certificates (PEM) to trust with https."],
      ["ZONEWRIGHT_CONFIG", "The configuration file of the agent."],
      ["ZONEWRIGHT_<FLAG>", "Any flag of serve: --state-dir is ZONEWRIGHT_STATE_DIR."],
      ["NO_COLOR", "No colors."],
    ]),
    ".SH FILES",
    ...pairs([
      ["/etc/zonewright/zonewright.toml", "Configuration on Linux."],
      ["/opt/custom/etc/zonewright/zonewright.toml", "Configuration on SmartOS."],
      ["/var/lib/zonewright, /opt/custom/zonewright", "Database, cache, lock."],
    ]),
    ".SH SEE ALSO",
    ".BR vmadm (8),",
    ".BR smf (7),",
    ".BR systemd.service (5)",
    "",
  ].join("\n");
}

function nounLines(name: string, noun: Noun): string[] {
  if (noun.kind === "command") return commandLines(name, noun.command);
  return Object.entries(noun.verbs).flatMap(([verb, command]) =>
    commandLines(`${name} ${verb}`, command)
  );
}

function commandLines(name: string, command: Command): string[] {
  return [
    `.SS "zonewright ${escaped([name, command.operands].filter(Boolean).join(" "))}"`,
    text(sentence(command.summary)),
    ...flagsOf(command).flatMap((flag) => [
      ".TP",
      `\\fB\\-\\-${escaped(flag.name)}\\fR` +
      (flag.placeholder === undefined ? "" : ` \\fI${escaped(flag.placeholder)}\\fR`),
      text(sentence(flag.help)),
    ]),
    ...(command.notes ?? []).flatMap((note) => [".PP", ...note.split("\n").map(text)]),
    ...command.examples.flatMap(([line, does]) => [
      ".PP",
      text(sentence(does)),
      ".PP",
      ".nf",
      `.RS 4`,
      text(`zonewright ${line}`),
      ".RE",
      ".fi",
    ]),
  ];
}

function pairs(all: readonly (readonly [string, string])[]): string[] {
  return all.flatMap(([name, about]) => [".TP", `.B ${escaped(name)}`, text(about)]);
}

function sentence(words: string): string {
  const first = (words[0] ?? "").toUpperCase() + words.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}

/** A line of text, escaped: a dot or a quote at its start would make it a request. */
function text(line: string): string {
  const safe = escaped(line);
  return /^[.']/.test(safe) ? `\\&${safe}` : safe;
}

function escaped(words: string): string {
  return words.replaceAll("\\", "\\e").replaceAll("-", "\\-").replaceAll('"', "\\(dq")
    // Formatters differ about encodings beyond ASCII, but all read this form.
    .replaceAll(/[^\x20-\x7e]/gu, (char) => `\\[u${hex(char)}]`);
}

function hex(char: string): string {
  return (char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
}

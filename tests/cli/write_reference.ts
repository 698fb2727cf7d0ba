// Writes docs/cli.md from the commands, and the tables of flags in docs/reference.md and docs/policy.md from the
// settings. Run it after a change of a command or a setting:
//   deno run --allow-read --allow-write --allow-env tests/cli/write_reference.ts

import { fromFileUrl } from "@std/path";
import { NOUNS } from "../../src/cli/cli.ts";
import type { Flag } from "../../src/cli/command/arguments.ts";
import { type Command, EXIT, flagsOf, GLOBAL_FLAGS } from "../../src/cli/command/command.ts";
import { EXIT_WORDS } from "../../src/cli/command/help.ts";
import { configFlags } from "../../src/cli/config/settings.ts";
import { POLICY_TABLE } from "../../src/config/policy.ts";
import { SETTINGS } from "../../src/config/settings.ts";

const PAGE = fromFileUrl(new URL("../../docs/reference.md", import.meta.url));
const POLICY_PAGE = fromFileUrl(new URL("../../docs/policy.md", import.meta.url));
const BEGIN = "<!-- flags -->\n";
const END = "<!-- end of flags -->";

/** One row for each flag of these settings. */
function rows(settings: readonly string[]): string[] {
  const own = new Set(settings.map((key) => key.replaceAll("_", "-")));
  return configFlags().filter(({ name }) => own.has(name)).map(({ name, placeholder, help }) => {
    const flag = placeholder === undefined ? `--${name}` : `--${name} ${placeholder}`;
    return `| \`${flag.replaceAll("|", "\\|")}\` | ${help.replaceAll("|", "\\|")} |`;
  });
}

/** A page as it is, and as the settings require it. */
interface WrittenPage {
  readonly found: string;
  readonly required: string;
}

/** The reference, whose table leaves out settings with a page of their own. */
export async function referencePage(): Promise<WrittenPage> {
  return await pageWith(PAGE, ["config", ...Object.keys(SETTINGS)]);
}

/** The page of the policy. */
export async function policyPage(): Promise<WrittenPage> {
  return await pageWith(POLICY_PAGE, Object.keys(POLICY_TABLE));
}

async function pageWith(page: string, settings: readonly string[]): Promise<WrittenPage> {
  const found = await Deno.readTextFile(page);
  const begin = found.indexOf(BEGIN);
  const end = found.indexOf(END);
  if (begin < 0 || end < begin) throw new Error(`${page} has no ${BEGIN.trim()} ... ${END}`);
  const table = ["| Flag | Meaning [default] |", "|---|---|", ...rows(settings), ""].join("\n");
  const required = found.slice(0, begin + BEGIN.length) + table + found.slice(end);
  return { found, required };
}

const COMMANDS_PAGE = fromFileUrl(new URL("../../docs/cli.md", import.meta.url));

/** The page of all commands as it is, and as the commands require it. */
export async function commandsPage(): Promise<WrittenPage> {
  const found = await Deno.readTextFile(COMMANDS_PAGE).catch(() => "");
  const nouns = await Promise.all(
    Object.entries(NOUNS).map(async ([name, load]) => [name, await load()] as const),
  );
  const shared = sharedFlags(
    nouns.flatMap(([, noun]) =>
      noun.kind === "command" ? [noun.command] : Object.values(noun.verbs)
    ),
  );
  const sections = nouns.flatMap(([name, noun]) =>
    noun.kind === "command" ? ["", `## ${name}`, ...commandLines(name, noun.command, shared)] : [
      "",
      `## ${name}`,
      "",
      sentence(noun.summary),
      ...Object.entries(noun.verbs).flatMap(([verb, command]) => [
        "",
        `### ${name} ${verb}`,
        ...commandLines(`${name} ${verb}`, command, shared),
      ]),
    ]
  );
  const several = [
    "",
    "A command below that names one of these without explaining it takes it in this meaning:",
    "",
    ...flagTable(shared),
  ];
  return { found, required: [...HEAD, ...several, ...EXITS, ...sections, ""].join("\n") };
}

/** Commands from which on a flag is explained once for all. */
const SHARING_MIN = 3;

/** The flags that several commands take with the same meaning; of one name, the most frequent meaning. */
function sharedFlags(commands: readonly Command[]): readonly Flag[] {
  const own = commands.flatMap(ownFlags);
  const uses = (flag: Flag) => own.filter((other) => isSame(other, flag)).length;
  const shared = new Map<string, Flag>();
  for (const flag of own) {
    const known = shared.get(flag.name);
    if (uses(flag) < SHARING_MIN || (known !== undefined && uses(known) >= uses(flag))) continue;
    shared.set(flag.name, flag);
  }
  return [...shared.values()];
}

function isSame(one: Flag, other: Flag): boolean {
  return one.name === other.name && one.help === other.help;
}

/** The flags of a command that are neither settings nor those of all commands. */
function ownFlags(command: Command): readonly Flag[] {
  const others = [...configFlags(), ...GLOBAL_FLAGS];
  return flagsOf(command).filter((flag) =>
    flag.name !== "help" && !others.some((other) => isSame(other, flag))
  );
}

const HEAD: readonly string[] = [
  "# Commands",
  "",
  "Written from the commands by `tests/cli/write_reference.ts`, as `zonewright help` and `zonewright man`",
  "are. Settings have a page of their own: [reference.md](reference.md).",
  "",
  "## All commands",
  "",
  "The flags of an agent may also come before the command: `zonewright --url localhost:8780 job list`.",
  "",
  ...flagTable(GLOBAL_FLAGS),
  "",
  "Data goes to standard output, everything else to standard error. With `--json`, standard output is one JSON",
  "document; with `--follow` or `--watch`, and for `job tail`, it is one object per line ([job tail](#job-tail)). A",
  "command that fails prints no document, or ends its stream, and prints one object on standard error: `code`, `message`,",
  "`hint` (the next command to type), `exit_code`, and `errors` if fields of a request are incorrect. A failed job is a",
  "result: its document goes to standard output. `serve`, `demo`, `man` and `completion` print no data and refuse",
  "`--json`; for a log in JSON, use `serve --log-format json`.",
];

const EXITS: readonly string[] = [
  "",
  "| Exit code | Meaning |",
  "|---|---|",
  ...Object.entries(EXIT).map(([name, code]) =>
    `| ${code} | ${EXIT_WORDS[name as keyof typeof EXIT]} |`
  ),
];

function commandLines(name: string, command: Command, shared: readonly Flag[]): string[] {
  const settings = configFlags();
  const every = ownFlags(command);
  const isShared = (flag: Flag) => shared.some((other) => isSame(other, flag));
  const own = every.filter((flag) => !isShared(flag));
  const taken = command.flags.filter((flag) => settings.some((other) => isSame(other, flag)));
  const namesOf = (flags: readonly Flag[]) => flags.map(({ name }) => `\`--${name}\``).join(", ");
  const also = every.filter(isShared);
  const all = [
    ...(also.length === 0 ? [] : [`It takes ${namesOf(also)}.`]),
    ...(taken.length === settings.length
      ? ["It takes every [setting](reference.md) as a flag."]
      : taken.length > 0
      ? [`Of the [settings](reference.md) it takes ${namesOf(taken)}.`]
      : []),
  ];
  return [
    "",
    sentence(command.summary),
    "",
    "```sh",
    `zonewright ${[name, command.operands, "[flags]"].filter(Boolean).join(" ")}`,
    "",
    ...command.examples.flatMap(([line, does]) => [`# ${does}`, `zonewright ${line}`]),
    "```",
    ...(own.length === 0 ? [] : ["", ...flagTable(own)]),
    ...(all.length === 0 ? [] : ["", all.join(" ")]),
    ...(command.notes ?? []).flatMap((note) => ["", note.replaceAll("\n", " ")]),
  ];
}

function flagTable(flags: readonly Flag[]): string[] {
  return [
    "| Flag | Meaning |",
    "|---|---|",
    ...flags.map(({ name, short, placeholder, help }) => {
      const letter = short === undefined ? "" : `-${short}, `;
      const flag = placeholder === undefined ? `--${name}` : `--${name} ${placeholder}`;
      return `| \`${cell(letter + flag)}\` | ${cell(help)} |`;
    }),
  ];
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|");
}

function sentence(summary: string): string {
  return `${summary.slice(0, 1).toUpperCase()}${summary.slice(1)}.`;
}

if (import.meta.main) await Deno.writeTextFile(COMMANDS_PAGE, (await commandsPage()).required);
if (import.meta.main) await Deno.writeTextFile(PAGE, (await referencePage()).required);
if (import.meta.main) await Deno.writeTextFile(POLICY_PAGE, (await policyPage()).required);

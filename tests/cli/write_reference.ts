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
  const sections = nouns.flatMap(([name, noun]) =>
    noun.kind === "command" ? ["", `## ${name}`, ...commandLines(name, noun.command)] : [
      "",
      `## ${name}`,
      "",
      sentence(noun.summary),
      ...Object.entries(noun.verbs).flatMap(([verb, command]) => [
        "",
        `### ${name} ${verb}`,
        ...commandLines(`${name} ${verb}`, command),
      ]),
    ]
  );
  return { found, required: [...HEAD, ...sections, ""].join("\n") };
}

const HEAD: readonly string[] = [
  "# Commands",
  "",
  "Written from the commands by `tests/cli/write_reference.ts`, as `zonewright help` and `zonewright man`",
  "are. Settings have a page of their own: [reference.md](reference.md).",
  "",
  "## All commands",
  "",
  "The flags of an agent may also stand before the command: `zonewright --url localhost:8780 job list`.",
  "",
  ...flagTable(GLOBAL_FLAGS),
  "",
  "Data goes to standard output, everything else to standard error. With `--json`, standard output is one JSON",
  "document; with `--follow` or `--watch`, and for `job tail`, it is one object per line ([job tail](#job-tail)). A",
  "command that fails prints no document, or ends its stream, and prints one object on standard error: `code`, `message`,",
  "`hint` (the next command to type), `exit_code`, and `errors` if fields of a request are incorrect. A failed job is a",
  "result: its document goes to standard output. `serve`, `demo`, `man` and `completion` print no data and refuse",
  "`--json`; for a log in JSON, use `serve --log-format json`.",
  "",
  "| Exit code | Meaning |",
  "|---|---|",
  ...Object.entries(EXIT).map(([name, code]) =>
    `| ${code} | ${EXIT_WORDS[name as keyof typeof EXIT]} |`
  ),
];

function commandLines(name: string, command: Command): string[] {
  const settings = new Set(configFlags().map((flag) => flag.name));
  const own = flagsOf(command).filter(({ name }) =>
    name !== "help" && !settings.has(name) && !GLOBAL_FLAGS.some((flag) => flag.name === name)
  );
  const taken = command.flags.filter((flag) => settings.has(flag.name));
  const named = taken.map((flag) => `\`--${flag.name}\``).join(", ");
  const all = taken.length === settings.size
    ? ["It takes every [setting](reference.md) as a flag."]
    : taken.length > 0
    ? [`Of the [settings](reference.md) it takes ${named}.`]
    : [];
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
    ...(all.length === 0 ? [] : ["", ...all]),
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

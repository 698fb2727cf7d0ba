// Finds the command of a command line among the nouns, or the help that was asked for. An unknown word is refused with
// the command that was meant: ours for one of another program, or the nearest.

import { nearest, nearestOrAll } from "../../domain/near_word.ts";
import { type Flag, usageError } from "./arguments.ts";
import { type Command, GLOBAL_FLAGS, type Nouns } from "./command.ts";

/** A command with its remaining words, or a requested text such as help. */
type FoundCommand =
  | { readonly kind: "command"; name: string; command: Command; rest: readonly string[] }
  | { readonly kind: "help"; text: string };

/** The words of a command line, split at its command. */
interface SplitWords {
  /** The first words that are not flags: the command, at most two of them. */
  readonly names: readonly string[];
  /** Global flags before those words, with their values. */
  readonly ahead: readonly string[];
  readonly rest: readonly string[];
}

/** Characters of an unknown word that an error repeats. */
const SHOWN_CHARS_MAX = 80;
/** Words of the longest command, such as `job list`. */
export const COMMAND_WORDS_MAX = 2;

/** Finds the command behind global flags: `--url URL job list` is `job list --url URL`. */
export function splitWords(words: readonly string[]): SplitWords {
  const names: string[] = [];
  const ahead: string[] = [];
  let at = 0;
  while (at < words.length && names.length < COMMAND_WORDS_MAX) {
    const word = words[at] as string;
    const flag = globalFlag(word);
    if (flag === undefined && word.startsWith("-")) break;
    at += 1;
    if (flag === undefined) names.push(word);
    else {
      ahead.push(word);
      const value = words[at];
      if (flag.placeholder === undefined || word.includes("=") || value === undefined) continue;
      ahead.push(value);
      at += 1;
    }
  }
  return { names, ahead, rest: words.slice(at) };
}

function globalFlag(word: string): Flag | undefined {
  const [name] = word.split("=", 1);
  return GLOBAL_FLAGS.find((flag) => `--${flag.name}` === name);
}

/**
 * Finds the command, and loads its noun.
 * @throws {AgentError} `invalid_argument` for an unknown word, or none
 */
export async function findCommand(args: readonly string[], nouns: Nouns): Promise<FoundCommand> {
  const asked = args[0] === "help" || args[0] === "--help" || args[0] === "-h";
  const [nounName, ...rest] = asked ? args.slice(1) : args;
  const named = nounName !== undefined && globalFlag(nounName) === undefined;
  if (asked && !named) return { kind: "help", text: await overviewText(nouns) };
  if (nounName === undefined) throw usageError(`expected one of ${Object.keys(nouns).join(", ")}`);
  if (nounName === "--version" || nounName === "-V") {
    return await findCommand(["version", ...rest], nouns);
  }
  const load = Object.hasOwn(nouns, nounName) ? nouns[nounName] : undefined;
  if (load === undefined) {
    const quoted = JSON.stringify(nounName.slice(0, SHOWN_CHARS_MAX));
    if (nounName.startsWith("-")) {
      const near = nearest(nounName, ["--help", "--version"]);
      throw usageError(`expected a command before the flag ${quoted}${near}`);
    }
    throw usageError(`unknown command ${quoted}${meantNoun(nounName, nouns)}`);
  }
  const noun = await load();
  if (noun.kind === "command") return await found(nounName, noun.command, rest, asked);
  const [verb, ...words] = rest;
  if (verb === "--help" || verb === "-h" || (asked && verb === undefined)) {
    const { nounHelp } = await import("./help.ts");
    return { kind: "help", text: nounHelp(nounName, noun) };
  }
  const command = verb !== undefined && Object.hasOwn(noun.verbs, verb)
    ? noun.verbs[verb]
    : undefined;
  if (command === undefined) {
    const full = Object.keys(noun.verbs).map((one) => `${nounName} ${one}`);
    if (verb === undefined || globalFlag(verb) !== undefined) {
      throw usageError(`expected one of ${full.join(", ")}`);
    }
    const typed = `${nounName} ${verb.slice(0, SHOWN_CHARS_MAX)}`;
    const others = Object.hasOwn(MEANT_VERBS, verb) ? MEANT_VERBS[verb] : undefined;
    const meant = others?.find((one) => Object.hasOwn(noun.verbs, one));
    const near = meant === undefined
      ? nearestOrAll(typed, full)
      : `: did you mean ${JSON.stringify(`${nounName} ${meant}`)}?`;
    throw usageError(`unknown command ${JSON.stringify(typed)}${near}`);
  }
  return await found(`${nounName} ${verb}`, command, words, asked);
}

/** Verbs of other programs, with ours; the first one that the noun has is meant. */
const MEANT_VERBS: Readonly<Record<string, readonly string[]>> = {
  start: ["boot", "run"],
  launch: ["boot", "run"],
  restart: ["reboot", "retry"],
  rerun: ["retry"],
  kill: ["cancel", "stop"],
  stop: ["cancel"],
  abort: ["cancel"],
  halt: ["stop"],
  shutdown: ["stop"],
  logs: ["tail"],
  log: ["tail"],
  follow: ["tail"],
  watch: ["tail", "status"],
  status: ["get", "list"],
  describe: ["get", "show"],
  explain: ["why"],
  reason: ["why"],
  info: ["get", "show", "status"],
  show: ["get", "list"],
  get: ["show", "list"],
  cat: ["get", "show"],
  ls: ["list"],
  ps: ["list"],
  search: ["find", "list"],
  rm: ["delete", "revoke"],
  remove: ["delete", "rm", "revoke"],
  delete: ["rm", "revoke", "cancel", "prune"],
  destroy: ["delete", "rm"],
  add: ["create"],
  new: ["create"],
  submit: ["run", "create"],
  create: ["add", "run"],
  edit: ["update", "set"],
  replace: ["update"],
  apply: ["update", "set", "create"],
  continue: ["resume"],
  test: ["try", "check"],
  lint: ["validate", "check"],
  validate: ["check"],
  vnc: ["console"],
  refresh: ["sync"],
  pull: ["sync", "add"],
  import: ["add", "create"],
};

/** Nouns of other programs, with ours. */
const MEANT_NOUNS: Readonly<Record<string, string>> = {
  vm: "machine",
  vms: "machine",
  instance: "machine",
  node: "host",
  nodes: "host",
  iso: "media",
  medium: "media",
  run: "job run",
  logs: "job tail",
  tail: "job tail",
  ps: "job list",
  why: "job why",
  create: "machine create",
  start: "serve",
  agent: "serve",
  daemon: "serve",
  info: "status",
  settings: "config",
  backup: "db backup",
  restore: "db restore",
};

function meantNoun(typed: string, nouns: Nouns): string {
  if (!Object.hasOwn(MEANT_NOUNS, typed)) return nearestOrAll(typed, Object.keys(nouns));
  return `: did you mean ${JSON.stringify(MEANT_NOUNS[typed])}?`;
}

async function found(
  name: string,
  command: Command,
  rest: readonly string[],
  asked: boolean,
): Promise<FoundCommand> {
  const end = rest.indexOf("--");
  const words = end < 0 ? rest : rest.slice(0, end);
  if (!asked && !words.includes("--help") && !words.includes("-h")) {
    return { kind: "command", name, command, rest };
  }
  const { commandHelp } = await import("./help.ts");
  return { kind: "help", text: commandHelp(name, command) };
}

async function overviewText(nouns: Nouns): Promise<string> {
  const { overview } = await import("./help.ts");
  return overview(
    await Promise.all(
      Object.entries(nouns).map(async ([name, load]) => {
        const noun = await load();
        return [name, noun.kind === "command" ? noun.command.summary : noun.summary] as const;
      }),
    ),
  );
}

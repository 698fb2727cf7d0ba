// The command line: finds the command, runs it, and turns whatever goes wrong into one sentence, a hint and
// an exit code. Every noun has a file of its own, loaded on use. Data goes to standard output and everything
// else to standard error; an error begins with `zonewright:` and is followed by the command that helps.

import { resolve } from "@std/path";
import type { AgentError } from "../domain/error.ts";
import { nearest, nearestOrAll } from "../domain/near_word.ts";
import { type AgentAddress, type Credentials, shellQuoted } from "./client/api_call.ts";
import {
  type Arguments,
  cannot,
  type Flag,
  parseArguments,
  usageError,
} from "./command/arguments.ts";
import { CallPrinted, openClient } from "./client/client.ts";
import {
  type Command,
  EXIT,
  type ExitCode,
  flagsOf,
  FOLLOW_FLAG,
  GLOBAL_FLAGS,
  type Invocation,
  type Noun,
  operandCounts,
} from "./command/command.ts";
import { reportFailure } from "./command/failure.ts";
import { openPrinter } from "./output/printer.ts";
import { printable, processTerminal, type Terminal } from "./output/terminal.ts";
import { withoutEndSlashes } from "../config/place_kinds.ts";

/** Every noun by its name, loaded on use. */
export const NOUNS: Readonly<Record<string, () => Promise<Noun>>> = {
  demo: async () => (await import("./demo.ts")).DEMO,
  serve: async () => (await import("./serve.ts")).SERVE,
  machine: async () => (await import("./machine/machine.ts")).MACHINE,
  job: async () => (await import("./job/job.ts")).JOB,
  workflow: async () => (await import("./workflow/workflow.ts")).WORKFLOW,
  media: async () => (await import("./media/media.ts")).MEDIA,
  image: async () => (await import("./image/image.ts")).IMAGE,
  host: async () => (await import("./host.ts")).HOST,
  status: async () => (await import("./status.ts")).STATUS,
  ui: async () => (await import("./ui.ts")).UI,
  api: async () => (await import("./api.ts")).API,
  config: async () => (await import("./config/config.ts")).CONFIG,
  doctor: async () => (await import("./doctor.ts")).DOCTOR,
  db: async () => (await import("./db.ts")).DB,
  token: async () => (await import("./token.ts")).TOKEN,
  install: async () => (await import("./install.ts")).INSTALL,
  upgrade: async () => (await import("./install.ts")).UPGRADE,
  uninstall: async () => (await import("./install.ts")).UNINSTALL,
  completion: async () => (await import("./command/completion_scripts.ts")).COMPLETION,
  man: async () => (await import("./command/help.ts")).manNoun(NOUNS),
  version: async () => (await import("./version.ts")).VERSION_NOUN,
};
const NOUN_NAMES = Object.keys(NOUNS);

const DEFAULT_URL = "http://127.0.0.1:8780";

/** A command with its remaining words, or a requested text such as help. */
type FoundCommand =
  | { readonly kind: "command"; name: string; command: Command; rest: readonly string[] }
  | { readonly kind: "help"; text: string };

/** Runs one command line. @returns the exit code, see command/command.ts */
export async function runCli(
  args: readonly string[],
  terminal: Terminal = processTerminal(),
): Promise<ExitCode> {
  if (args[0] === COMPLETE) return await complete(args.slice(1), terminal);
  const { names, ahead, rest } = splitWords(args);
  try {
    const found = await findCommand([...names, ...ahead, ...rest]);
    if (found.kind === "help") {
      terminal.out(found.text);
      return EXIT.ok;
    }
    return await runCommand(found.name, found.command, found.rest, terminal);
  } catch (error) {
    const [noun = ""] = names;
    const name = Object.hasOwn(NOUNS, noun) ? noun : "";
    return reportFailure(terminal, error, { name, operands: [], json: asksForJson(args) });
  }
}

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
const COMMAND_WORDS_MAX = 2;

/** Finds the command behind global flags: `--url URL job list` is `job list --url URL`. */
function splitWords(words: readonly string[]): SplitWords {
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

/** A value never begins with a dash, so this word is the flag wherever it occurs. */
function asksForJson(args: readonly string[]): boolean {
  const end = args.indexOf("--");
  return (end < 0 ? args : args.slice(0, end)).includes("--json");
}

/** Called by shells, not people, so no list shows it. */
const COMPLETE = "__complete";

async function complete(words: readonly string[], terminal: Terminal): Promise<ExitCode> {
  const { candidates } = await import("./command/completion.ts");
  const clientFor = (flags: ReadonlyMap<string, string>) =>
    openClient({
      address: agentAddress(flags.get("url"), flags.get("socket"), terminal),
      credentials: credentialsOf(flags.get("token-file"), flags.get("ca"), terminal),
    });
  const { names, ahead, rest } = splitWords(words.slice(0, -1));
  // Flags before the command do not matter while it is being typed.
  const flags = names.length < COMMAND_WORDS_MAX ? [] : ahead;
  const ordered = [...names, ...flags, ...rest, ...words.slice(-1)];
  try {
    for (const { value, about } of await candidates(ordered, NOUNS, clientFor)) {
      terminal.out(`${printable(value)}\t${printable(about)}`.trimEnd() + "\n");
    }
  } catch {
    // No suggestions are fine while typing; the command itself reports what is wrong.
  }
  return EXIT.ok;
}

async function findCommand(args: readonly string[]): Promise<FoundCommand> {
  const asked = args[0] === "help" || args[0] === "--help" || args[0] === "-h";
  const [nounName, ...rest] = asked ? args.slice(1) : args;
  const named = nounName !== undefined && globalFlag(nounName) === undefined;
  if (asked && !named) return { kind: "help", text: await overviewText() };
  if (nounName === undefined) throw usageError(`expected one of ${NOUN_NAMES.join(", ")}`);
  if (nounName === "--version" || nounName === "-V") return await findCommand(["version", ...rest]);
  const load = Object.hasOwn(NOUNS, nounName) ? NOUNS[nounName] : undefined;
  if (load === undefined) {
    const quoted = JSON.stringify(nounName.slice(0, SHOWN_CHARS_MAX));
    if (nounName.startsWith("-")) {
      const near = nearest(nounName, ["--help", "--version"]);
      throw usageError(`expected a command before the flag ${quoted}${near}`);
    }
    throw usageError(`unknown command ${quoted}${meantNoun(nounName)}`);
  }
  const noun = await load();
  if (noun.kind === "command") return await found(nounName, noun.command, rest, asked);
  const [verb, ...words] = rest;
  if (verb === "--help" || verb === "-h" || (asked && verb === undefined)) {
    const { nounHelp } = await import("./command/help.ts");
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

function meantNoun(typed: string): string {
  if (!Object.hasOwn(MEANT_NOUNS, typed)) return nearestOrAll(typed, NOUN_NAMES);
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
  const { commandHelp } = await import("./command/help.ts");
  return { kind: "help", text: commandHelp(name, command) };
}

async function overviewText(): Promise<string> {
  const { overview } = await import("./command/help.ts");
  return overview(
    await Promise.all(
      Object.entries(NOUNS).map(async ([name, load]) => {
        const noun = await load();
        return [name, noun.kind === "command" ? noun.command.summary : noun.summary] as const;
      }),
    ),
  );
}

async function runCommand(
  name: string,
  command: Command,
  words: readonly string[],
  terminal: Terminal,
): Promise<ExitCode> {
  const json = asksForJson(words);
  let call: Invocation;
  try {
    call = openCall(name, command, words, terminal);
  } catch (error) {
    return reportFailure(terminal, error, { name, operands: [], json });
  }
  try {
    const code = await command.run(call) ?? EXIT.ok;
    if (code === EXIT.ok) call.printer.end();
    return code;
  } catch (error) {
    if (error instanceof CallPrinted) {
      call.printer.end();
      return EXIT.ok;
    }
    const { args } = call;
    const hint = (failure: AgentError) => command.hint?.(failure, args);
    return reportFailure(terminal, error, { name, operands: args.operands, json, hint });
  } finally {
    call.client.close();
  }
}

function openCall(
  name: string,
  command: Command,
  words: readonly string[],
  terminal: Terminal,
): Invocation {
  const args = parseArguments(words, flagsOf(command));
  const { min, max } = operandCounts(command);
  const usage = [name, command.operands].filter(Boolean).join(" ");
  const extra = args.operands[max];
  if (extra !== undefined) {
    const meant = meantFile(extra, command, args) || `: expected ${usage}`;
    throw usageError(`unexpected operand ${JSON.stringify(extra)}${meant}`);
  }
  if (args.operands.length < min) throw usageError(`an operand is missing: expected ${usage}`);
  const env = args.has("no-color") ? { ...terminal.env, NO_COLOR: "1" } : terminal.env;
  const plain = { ...terminal, env };
  const client = openClient({
    address: agentAddress(args.text("url"), args.text("socket"), terminal),
    credentials: credentialsOf(args.text("token-file"), args.text("ca"), terminal),
    printCurl: args.has("curl") ? (line) => terminal.out(`${line}\n`) : undefined,
  });
  const streams = command.streams === true || args.has(FOLLOW_FLAG.name);
  const printer = openPrinter(plain, { json: args.has("json"), streams });
  return { args, terminal: plain, printer, client };
}

/** A file is often typed as an operand instead of after its flag. */
function meantFile(operand: string, command: Command, args: Arguments): string {
  const named = command.flags.find(({ short, placeholder }) => short === "f" && placeholder);
  const isFile = named !== undefined && !args.has(named.name) && /[./]/.test(operand);
  return isFile ? `: did you mean -f ${shellQuoted(operand)}?` : "";
}

function credentialsOf(tokenFile = "", ca = "", { env, cwd }: Terminal): Credentials {
  const path = (text: string) => text === "" ? undefined : resolve(cwd, text);
  return {
    tokenFile: path(tokenFile) ?? path(env.ZONEWRIGHT_TOKEN_FILE ?? ""),
    caFile: path(ca) ?? path(env.ZONEWRIGHT_CA ?? ""),
  };
}

/** Flags override the environment; in the environment, a socket overrides a URL. */
function agentAddress(
  url: string | undefined,
  socket: string | undefined,
  { env, cwd }: Terminal,
): AgentAddress {
  if (url !== undefined && socket !== undefined) {
    throw usageError("--url and --socket are both given: expected one of them");
  }
  const path = socket ?? (url === undefined ? env.ZONEWRIGHT_SOCKET : undefined) ?? "";
  if (path !== "") return { kind: "socket", path: resolve(cwd, path) };
  const typed = url ?? (env.ZONEWRIGHT_URL || DEFAULT_URL);
  // A port distinguishes a host from a scheme: localhost:8780, [::1]:8780.
  const text = /^[^/?#@]+:\d+(?:\/|$)/.test(typed) ? `http://${typed}` : typed;
  const base = URL.canParse(text) ? new URL(text) : undefined;
  if (
    base === undefined || !/^https?:$/.test(base.protocol) || base.search !== "" ||
    base.hash !== "" || base.username !== "" || base.password !== ""
  ) {
    throw cannot(
      `use ${JSON.stringify(typed)} as the address of an agent: expected one such as ` +
        `${DEFAULT_URL} or ${new URL(DEFAULT_URL).host}`,
    );
  }
  return { kind: "url", base: withoutEndSlashes(base) };
}

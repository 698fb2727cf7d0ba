// What makes up a command: its help, its flags, the function that runs it, the question before it changes much, and
// its exit code. A noun has verbs, or is a command itself (`status`). cli.ts dispatches, help.ts prints, arguments.ts
// parses.

import { AgentError, ERROR_CODES, OTHER_SCHEMA_EXIT } from "../../domain/error.ts";
import { type Arguments, cannot, type Flag, usageError } from "./arguments.ts";
import type { Client } from "../client/client.ts";
import type { Printer } from "../output/printer.ts";
import type { Terminal } from "../output/terminal.ts";

/** What a command runs with. */
export interface Invocation {
  readonly args: Arguments;
  readonly terminal: Terminal;
  readonly printer: Printer;
  /** The agent named by flags or environment; nothing is connected before the first request. */
  readonly client: Client;
}

/** How a command ended: with this exit code, or well where it returns none. */
export type CommandEnd = ExitCode | void;

/** One command: its lines in the help, and what it does. */
export interface Command {
  /** One line for the list of commands. */
  readonly summary: string;
  /** After the name: `WORKFLOW`; `[FILE]` may be left out, `NAME...` may be repeated. None unless given. */
  readonly operands?: string;
  /** The maximum when one may be repeated. */
  readonly operandsMax?: number;
  /** Command lines without the program's name, and what they do; help shows them first. */
  readonly examples: readonly (readonly [line: string, does: string])[];
  readonly flags: readonly Flag[];
  /** Paragraphs that help prints below the flags. */
  readonly notes?: readonly string[];
  /**
   * The shared flags it takes: those that name an agent, those for output, or only help. `either` is a
   * command that looks at this machine, or at a running agent if asksRunning() says so; it has a `--socket`
   * of its own.
   */
  readonly shared: "agent" | "either" | "output" | "help";
  /** Whether its JSON is one object per line, as for every command with --follow. */
  readonly streams?: true;
  run(call: Invocation): Promise<CommandEnd>;
  /** The hint for an error of this command, where it is about nothing else and its code says too little. */
  hint?(error: AgentError, args: Arguments): string | undefined;
}

/** A noun: a command, or verbs. */
export type Noun =
  | { readonly kind: "command"; readonly command: Command }
  | {
    readonly kind: "verbs";
    readonly summary: string;
    readonly verbs: Readonly<Record<string, Command>>;
  };

/** The nouns of the command line by name, loaded on use. */
export type Nouns = Readonly<Record<string, () => Promise<Noun>>>;

const HELP_FLAG: Flag = { name: "help", short: "h", help: "this text" };

const OUTPUT_FLAGS: readonly Flag[] = [
  {
    name: "json",
    help: "JSON on standard output: a document, or one a line; an error is one on standard error",
  },
  { name: "no-color", help: "no colors; NO_COLOR does the same" },
  HELP_FLAG,
];

const AGENT_FLAGS: readonly Flag[] = [
  {
    name: "url",
    placeholder: "URL",
    help: "the agent's address, localhost:8780 is enough (ZONEWRIGHT_URL)",
  },
  { name: "socket", placeholder: "PATH", help: "the agent's unix socket (ZONEWRIGHT_SOCKET)" },
  {
    name: "token-file",
    placeholder: "FILE",
    help: "file with the bearer token (ZONEWRIGHT_TOKEN_FILE)",
  },
  { name: "ca", placeholder: "FILE", help: "certificates to trust with https (ZONEWRIGHT_CA)" },
  { name: "curl", help: "print the curl command instead of calling" },
  ...OUTPUT_FLAGS,
];

/** Flags that may also come before the command. */
export const GLOBAL_FLAGS: readonly Flag[] = AGENT_FLAGS.filter((flag) => flag !== HELP_FLAG);

const SOCKET_FLAG = "socket";
const RUNNING_FLAG: Flag = {
  name: "running",
  help: "ask the running agent; --url, --token-file, --ca and --curl do too",
};
const EITHER_FLAGS: readonly Flag[] = [
  RUNNING_FLAG,
  ...AGENT_FLAGS.filter(({ name }) => name !== SOCKET_FLAG),
];

const SHARED_FLAGS = {
  agent: AGENT_FLAGS,
  either: EITHER_FLAGS,
  output: OUTPUT_FLAGS,
  help: [HELP_FLAG],
} as const;

/** The note of a command that looks at this machine or at a running agent. */
export const RUNNING_NOTE =
  "Without --running or --url it looks at this machine, with the settings that an agent started here\n" +
  "and now would have; --socket is then one of them. With --running, --socket is the socket of the agent\n" +
  "to ask, and no other setting can be given.";

/**
 * Whether an `either` command should ask the running agent.
 * @param taken its own flags that apply to a running agent
 * @throws {AgentError} `invalid_argument` for a flag that only this machine can answer
 */
export function asksRunning({ args }: Invocation, taken: readonly string[]): boolean {
  const given = [...args.given.keys()];
  const quiet: readonly string[] = OUTPUT_FLAGS.map(({ name }) => name);
  const asking = EITHER_FLAGS.map(({ name }) => name).filter((name) => !quiet.includes(name));
  const by = given.find((name) => asking.includes(name));
  if (by === undefined) return false;
  const fitting = [...asking, ...quiet, ...taken, SOCKET_FLAG];
  const other = given.find((name) => !fitting.includes(name));
  if (other === undefined) return true;
  throw usageError(
    `--${other} is about this machine, and --${by} asks the running agent, expected one of them`,
  );
}

/** How many operands a command takes, by its usage. */
export function operandCounts(
  { operands = "", operandsMax }: Command,
): { readonly min: number; readonly max: number } {
  const words = operands.split(" ").filter((word) => word !== "");
  const required = words.filter((word) => !word.startsWith("["));
  return { min: required.length, max: operandsMax ?? words.length };
}

/** Every flag that a command takes. */
export function flagsOf(command: Command): readonly Flag[] {
  return [...command.flags, ...SHARED_FLAGS[command.shared]];
}

/** The flag that turns a command's output into a stream. */
export const FOLLOW_FLAG: Flag = {
  name: "follow",
  help: "show steps and log until the job has ended; with --json one object a line",
};

/** The flag that skips the question. */
export const YES_FLAG: Flag = { name: "yes", short: "y", help: "do not ask" };

/**
 * Asks a person for confirmation, before many things are changed at once. Without a terminal, --yes
 * is required.
 * @param action such as `cancel 12 jobs`
 * @throws {AgentError} `invalid_argument` when nobody can be asked
 */
export async function confirmed(
  { args, terminal, printer }: Invocation,
  action: string,
): Promise<boolean> {
  // Nothing changes where the call is only printed.
  if (args.has(YES_FLAG.name) || args.has("curl")) return true;
  if (!terminal.inIsTerminal || !terminal.errIsTerminal) {
    throw cannot(`${action}: there is no terminal to ask on, expected --yes`);
  }
  printer.ask(`${action[0]?.toUpperCase()}${action.slice(1)}? [y/N] `);
  const answer = (await terminal.readLine()).trim().toLowerCase();
  const isAgreed = answer === "y" || answer === "yes";
  if (!isAgreed) printer.note("nothing changed");
  return isAgreed;
}

/**
 * Every exit code by its meaning; `zonewright --help` prints them. Scripts depend on this closed
 * table: no code changes its meaning.
 */
export const EXIT = {
  ok: 0,
  failure: 1,
  /** Wrong command line, configuration or parameter. */
  usage: 2,
  /** The agent does not answer. */
  unreachable: 3,
  not_found: 4,
  job_failed: 5,
  /** The current state does not allow it. */
  conflict: 6,
  canceled: 7,
  /** The program and the database do not fit together: one of them is to be upgraded. */
  other_schema: OTHER_SCHEMA_EXIT,
  /** The same for SMF, which starts a service again after any other. @see smf_method(7), SMF_EXIT_ERR_CONFIG */
  smf_other_schema: 96,
  /** Gave up waiting, as with timeout(1). */
  timeout: 124,
  /** Ctrl-C; 128 plus the number of SIGINT. */
  interrupted: 130,
} as const;
/** One of the exit codes. */
export type ExitCode = typeof EXIT[keyof typeof EXIT];

/** The exit code for anything thrown. @param env with the name of the service when SMF has started the program */
export function exitCodeOf(error: unknown, { SMF_FMRI }: Terminal["env"] = {}): ExitCode {
  if (!(error instanceof AgentError)) return EXIT.failure;
  const code = EXIT[ERROR_CODES[error.code].exit];
  return code === EXIT.other_schema && SMF_FMRI !== undefined ? EXIT.smf_other_schema : code;
}

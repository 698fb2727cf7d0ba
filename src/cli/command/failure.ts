// How a command fails: one sentence and the next command to type, as text for people or as one JSON object
// for programs. A hint names a command that exists, and never the one that has just failed, unless it is
// changed.

import {
  AgentError,
  type ErrorCode,
  type ErrorSubject,
  messageOf,
  type SubjectKind,
  systemCode,
  systemWords,
} from "../../domain/error.ts";
import { withoutOrders } from "../../domain/json.ts";
import { shellQuoted } from "../client/api_call.ts";
import { EXIT, type ExitCode, exitCodeOf } from "./command.ts";
import { printable, type Terminal } from "../output/terminal.ts";
import { serviceCommand } from "../../service/manager.ts";

interface CommandLine {
  /** The words of the command, such as `job list`; empty when none was found. */
  readonly name: string;
  readonly operands: readonly string[];
}

interface FailedCommand extends CommandLine {
  /** Whether `--json` was given: standard error then holds one JSON object. */
  readonly json: boolean;
  /** What the command itself suggests after an error that is about nothing else. */
  hint?(error: AgentError): string | undefined;
}

/** A bad end that is not an error of the command itself, such as a job that failed. */
interface WatchedEnd {
  readonly message: string;
  /** What to type next; never empty. */
  readonly hints: readonly string[];
  readonly json: boolean;
}

/** Prints such an end in the form of an error. @param code names the exit code */
export function reportOutcome(
  terminal: Terminal,
  code: keyof typeof EXIT,
  { message, hints, json }: WatchedEnd,
): ExitCode {
  const exit_code = EXIT[code];
  if (json) {
    writeObject(terminal, { code, message, hint: hints[0], exit_code });
    return exit_code;
  }
  terminal.err(`zonewright: ${printable(message)}\n`);
  for (const hint of hints) terminal.err(`hint: ${printable(hint)}\n`);
  return exit_code;
}

function writeObject(terminal: Terminal, object: object): void {
  terminal.err(`${withoutOrders(JSON.stringify(object))}\n`);
}

/** Prints what went wrong on standard error. @returns the exit code for it */
export function reportFailure(terminal: Terminal, error: unknown, failed: FailedCommand): ExitCode {
  // The reader of our output, such as `head`, has seen enough.
  if (error instanceof Deno.errors.BrokenPipe) return EXIT.ok;
  const known = error instanceof AgentError ? error : knownError(error, failed.name);
  const hint = hintFor(known, failed);
  const exit_code = exitCodeOf(known, terminal.env);
  const { code, message, errors, about } = known;
  if (failed.json) {
    const listed = errors.length === 0 ? {} : { errors };
    writeObject(terminal, { code, message, hint, exit_code, ...listed, about });
    return exit_code;
  }
  terminal.err(`zonewright: ${printable(message)}\n`);
  // The sentence may already say the first of them.
  for (const one of errors) {
    if (!message.includes(one.message)) terminal.err(`  ${printable(one.message)}\n`);
  }
  terminal.err(`hint: ${printable(hint)}\n`);
  return exit_code;
}

/** An error of the operating system is not a defect of the program, wherever it occurs. */
function knownError(cause: unknown, name: string): AgentError {
  const code = systemCode(cause);
  const message = code === undefined
    ? `Internal error: ${messageOf(cause)}`
    : `Cannot finish ${name}: ${systemWords(cause)}`;
  return new AgentError(code ?? "internal", message, { cause });
}

/** A command line without the program's name, and what it does. */
type NextCommand = readonly [command: string, does: string];

/** Nouns with a command that shows one item, such as `job get JOB`. */
const SHOWN_BY_GET: readonly string[] = ["job", "machine", "workflow"];

/** The command that lists the items of a noun. */
const LISTED_BY = {
  job: ["job list", "shows the jobs"],
  workflow: ["workflow list --all", "shows the workflows"],
  machine: ["machine list", "shows the machines"],
  host: ["host list", "shows the hosts"],
  media: ["media list", "shows the media"],
  image: ["image list", "shows the distros of the index"],
  token: ["token list", "shows the tokens"],
} as const satisfies Readonly<Record<string, NextCommand>>;

/** Commands that examine the environment of an agent, whatever has failed. */
const EXAMINATIONS: readonly NextCommand[] = [
  ["doctor", "examines what the agent needs"],
  ["config check", "examines the settings"],
];

/** What to type after an error with this code, best first. */
const AFTER: Readonly<Partial<Record<ErrorCode, readonly NextCommand[]>>> = {
  method_not_allowed: [["api GET /openapi.json", "describes every call"]],
  not_acceptable_type: [["api GET /openapi.json", "describes every call"]],
  too_large: [["config show", "shows the limits"]],
  head_too_large: [["config show", "shows the limits"]],
  forbidden: [["token list", "shows what each token may do"]],
  timeout: [["status", "shows what the agent does"]],
  aborted: [["status", "shows what the agent does"]],
  storage_full: [["doctor --run disk", "shows what is full"]],
  host_away: [LISTED_BY.host],
  host_refused: [LISTED_BY.host],
  host: [["doctor --run vmadm", "examines the programs of the host"]],
  upstream: [["image status", "shows the last sync of the index"]],
  digest_mismatch: [["media list", "shows the media that are complete"]],
};

const STATE_EXAMINED: readonly NextCommand[] = [
  ["doctor --run state", "examines the state folder"],
  ["config show --origin", "shows where its path comes from"],
];

/** The hint of an error: by what it is about, by the command, by its code. */
export function hintFor(error: AgentError, failed: Omit<FailedCommand, "json">): string {
  const { name } = failed;
  const own = error.about === undefined ? failed.hint?.(error) : aboutHint(error.about, failed);
  return own ?? codeHint(error, failed) ?? helpOf(name);
}

/** Commands that show or name what an error is about. */
const SHOWN_BY: Readonly<Partial<Record<SubjectKind, readonly NextCommand[]>>> = {
  address: [[
    "status",
    "asks the agent that runs; zonewright serve --listen 127.0.0.1:0 takes any free port",
  ]],
  agent: [["status", "asks the agent that runs"]],
  artifact: [LISTED_BY.image],
  certificate: [["doctor --run tls", "examines certificate and key"]],
  host: [LISTED_BY.host],
  index: [["image sync --wait", "fetches the index"]],
  job: [LISTED_BY.job],
  leftover: [["machine leftovers", "lists what there is"]],
  machine: [LISTED_BY.machine],
  medium: [LISTED_BY.media],
  setting: [["config show --running", "shows the settings of the agent"]],
  socket: [["serve --socket PATH", "listens elsewhere"]],
  state_dir: STATE_EXAMINED,
  token: [["token create --name NAME --scope admin", "makes one that may"]],
  upstream: [["config set index URL", "names its upstream: an address, or a folder"]],
  workflow: [LISTED_BY.workflow],
};

/** The hint of an error about something, whatever the command. The name may be anything that an agent has answered. */
function aboutHint(
  { kind, name: subject }: ErrorSubject,
  { name, operands }: CommandLine,
): string | undefined {
  const named = subject === undefined ? undefined : shellQuoted(subject);
  if (kind === "database") return databaseHint(name);
  if (kind === "output") return "send standard output to a file or pipe that can be written";
  // Without a name, several are meant.
  if (named !== undefined && kind === "job") return `zonewright job get ${named}  shows it`;
  if (named !== undefined && kind === "scheme") return `zonewright ${name} --url ${named}`;
  if (named !== undefined && kind === "signer") {
    return `zonewright ${name} --url ${named} --ca FILE`;
  }
  return firstOther([name, ...operands].join(" "), SHOWN_BY[kind] ?? []) ?? helpOf(name);
}

function databaseHint(name: string): string {
  if (name.startsWith("db ")) return `check the server and the address in --store; ${helpOf(name)}`;
  const running = name === "serve" ? "" : "--running ";
  return `zonewright doctor ${running}--run database  examines it`;
}

function codeHint(
  { code, retryAfterSeconds = 1 }: AgentError,
  { name, operands }: CommandLine,
): string | undefined {
  switch (code) {
    case "unreachable":
      return unreachableHint();
    case "unauthorized":
      return "give a token with --token-file or ZONEWRIGHT_TOKEN_FILE; " +
        "zonewright token create --name NAME makes one";
    case "malformed":
    case "invalid_argument":
      return helpOf(name);
    case "overloaded": {
      const [command] = name === "status" ? ["doctor --run agent"] : ["status"];
      return `try again in ${retryAfterSeconds} s; zonewright ${command} shows what it does`;
    }
    case "forbidden":
      if (isOfFiles(name)) return helpOf(name);
      return firstOther(name, isLocal(name) ? STATE_EXAMINED : AFTER.forbidden ?? []);
    case "no_host":
    case "not_found":
    case "already_exists":
    case "conflict":
      return firstOther([name, ...operands].join(" "), lookedAt(code, name, operands));
    default:
      return firstOther(name, [...AFTER[code] ?? [], ...EXAMINATIONS].map(ofAsked(name)));
  }
}

/** Where a service is installed, a development agent beside it would manage no host. */
function unreachableHint(): string {
  const service = serviceCommand();
  return service === undefined
    ? "start an agent with zonewright serve --dev, or give its address with --url or --socket"
    : `${service}  shows the service of this machine; --url or --socket asks another agent`;
}

/** What an agent has answered is about its own machine, which its own doctor examines. */
function ofAsked(name: string): (command: NextCommand) => NextCommand {
  const isHere = isLocal(name) || isOfFiles(name) || name.startsWith("db ");
  return (next) => {
    const [command, does] = next;
    return isHere ? next : [command.replace(/^doctor\b/, "doctor --running"), does];
  };
}

/** Whether a command works on the state folder, not through an agent. */
function isLocal(name: string): boolean {
  return /^(?:serve|doctor|db (?:backup|restore|check)|token .*)$/.test(name);
}

/** Whether a command works on files of the caller or the system, without an agent. */
function isOfFiles(name: string): boolean {
  return /^(?:config .*|install|uninstall|upgrade|media upload|workflow (?:types|try|validate))$/
    .test(name);
}

function helpOf(name: string): string {
  return name === "" ? "zonewright --help" : `zonewright ${name} --help`;
}

/** The command that shows what the failed one is about. */
function lookedAt(
  code: ErrorCode,
  name: string,
  operands: readonly string[],
): NextCommand[] {
  const [noun = ""] = name.split(" ");
  const [operand] = operands;
  const get = code === "conflict" && operand !== undefined && SHOWN_BY_GET.includes(noun)
    ? [[`${noun} get ${shellQuoted(operand)}`, "shows its state"] as const]
    : [];
  const lists: Readonly<Record<string, NextCommand>> = LISTED_BY;
  const list = lists[noun];
  return [...get, ...(list === undefined ? [] : [list])];
}

/** The first that is not the command line that failed. */
function firstOther(failed: string, commands: readonly NextCommand[]): string | undefined {
  const other = commands.find(([command]) => command !== failed);
  return other === undefined ? undefined : `zonewright ${other[0]}  ${other[1]}`;
}

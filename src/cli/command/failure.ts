// How a command fails: one sentence and the next command to type, as text for people or as one JSON object
// for programs. A hint names a command that exists, and never the one that has just failed, unless it is
// changed.

import {
  AgentError,
  type ErrorCode,
  messageOf,
  systemCode,
  systemWords,
} from "../../domain/error.ts";
import { withoutOrders } from "../../domain/json.ts";
import { NOT_AN_AGENT, NOT_HTTP, NOT_HTTPS } from "../client/api_call.ts";
import { shellQuoted } from "../client/client.ts";
import { EXIT, type ExitCode, exitCodeOf } from "./command.ts";
import { printable, type Terminal } from "../output/terminal.ts";

interface FailedCommand {
  /** The words of the command, such as `job list`; empty when none was found. */
  readonly name: string;
  readonly operands: readonly string[];
  /** Whether `--json` was given: standard error then holds one JSON object. */
  readonly json: boolean;
  /** What the command itself suggests. */
  readonly hint?: string | undefined;
}

/** A bad end that is no error of the command itself, such as a job that failed. */
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
  const hint = failed.hint ?? hintFor(known, failed.name, failed.operands);
  const exit_code = exitCodeOf(known, terminal.env);
  const { code, message, errors } = known;
  if (failed.json) {
    // Without errors of the command line itself, which name no field of a request.
    const fields = errors.filter(({ field }) => field !== "arguments");
    const listed = fields.length === 0 ? {} : { errors: fields };
    writeObject(terminal, { code, message, hint, exit_code, ...listed });
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

/** An error of the operating system is no defect of the program, wherever it occurs. */
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
const LISTED_BY: Readonly<Record<string, NextCommand>> = {
  job: ["job list", "shows the jobs"],
  workflow: ["workflow list --all", "shows the workflows"],
  machine: ["machine list", "shows the machines"],
  host: ["host list", "shows the hosts"],
  media: ["media list", "shows the media"],
  image: ["image list", "shows the distros of the index"],
  token: ["token list", "shows the tokens"],
};

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
  host: [["doctor --run vmadm", "examines the programs of the host"]],
  upstream: [["image status", "shows the last sync of the index"]],
  digest_mismatch: [["media list", "shows the media that are complete"]],
};

/**
 * The hint of an error.
 * @param name the command that failed, empty when none was found
 * @param operands of that command
 */
export function hintFor(error: AgentError, name: string, operands: readonly string[] = []): string {
  switch (error.code) {
    case "unreachable":
      return unreachableHint(error.message, name);
    case "unauthorized":
      return "give a token with --token-file or ZONEWRIGHT_TOKEN_FILE; " +
        "zonewright token create --name NAME makes one";
    case "malformed":
      return helpOf(name);
    case "invalid_argument":
      return firstOther(name, listsOfMeant(error)) ?? helpOf(name);
    case "overloaded":
      return overloadedHint(error, name);
    case "forbidden":
      if (error.message.includes(": the scope of token ")) {
        return "zonewright token create --name NAME --scope admin  makes one that may";
      }
      if (isOfFiles(name)) return helpOf(name);
      // A setting forbids it, to every caller.
      if (/\bsetting [a-z_.]+/.test(error.message)) {
        return "zonewright config show --running  shows the settings of the agent";
      }
      return firstOther(name, isLocal(name) ? STATE_EXAMINED : AFTER.forbidden ?? []) ??
        helpOf(name);
    case "no_host":
    case "not_found":
    case "conflict":
      if (/ as the state folder: /.test(error.message)) {
        return firstOther(name, STATE_EXAMINED) ?? helpOf(name);
      }
      // It is about a file of the caller's, not about the agent.
      if (error.message.startsWith("Cannot read ")) return helpOf(name);
      for (const [about, list] of ABOUT_OTHERS) {
        if (about.test(error.message)) return `zonewright ${list[0]}  ${list[1]}`;
      }
      return firstOther([name, ...operands].join(" "), lookedAt(error.code, name, operands)) ??
        helpOf(name);
    default:
      return firstOther(name, [...AFTER[error.code] ?? [], ...EXAMINATIONS]) ?? helpOf(name);
  }
}

/** Messages about something else than the noun of the command, and what lists it. */
const ABOUT_OTHERS: readonly (readonly [RegExp, NextCommand])[] = [
  [/: host "[^"]*" (?:is|was) /, ["host list", "shows the hosts"]],
  [/^Cannot (?:find|drop) leftover /, ["machine leftovers", "lists what there is"]],
  [/^Cannot find (?:distro|release|build) /, ["image list", "shows the distros of the index"]],
];

/** Who keeps a command waiting: the database, another host, or the agent itself. */
function overloadedHint({ message, retryAfterSeconds = 1 }: AgentError, name: string): string {
  if (message.startsWith("Cannot reach the database")) {
    if (name.startsWith("db ")) {
      return `check the server and the address in --store; ${helpOf(name)}`;
    }
    const running = name === "serve" ? "" : "--running ";
    return `zonewright doctor ${running}--run database  examines it`;
  }
  if (message.startsWith("Cannot reach host ")) {
    return "zonewright host list  shows when each host was last heard from";
  }
  const [command] = name === "status" ? ["doctor --run agent"] : ["status"];
  return `try again in ${retryAfterSeconds} s; zonewright ${command} shows what it does`;
}

const STATE_EXAMINED: readonly NextCommand[] = [
  ["doctor --run state", "examines the state folder"],
  ["config show --origin", "shows where its path comes from"],
];

/** Whether a command works on the state folder, not through an agent. */
function isLocal(name: string): boolean {
  return /^(?:serve|doctor|db (?:backup|restore|check)|token .*)$/.test(name);
}

/** Whether a command works on files of the caller or the system, without an agent. */
function isOfFiles(name: string): boolean {
  return /^(?:config .*|install|uninstall|upgrade|media upload|workflow (?:types|try|validate))$/
    .test(name);
}

/** What to do about a failed connection; the message is one of client.ts. */
function unreachableHint(message: string, name: string): string {
  const [, scheme = "", host = "", why = ""] = /at (https?):\/\/(\S+): (.*)$/.exec(message) ?? [];
  if (scheme === "https" && why.startsWith(NOT_HTTPS)) {
    return `zonewright ${name} --url http://${host}`;
  }
  if (scheme === "http" && why.startsWith(NOT_HTTP)) {
    return `zonewright ${name} --url https://${host}`;
  }
  if (why.includes("expected --ca FILE")) {
    return `zonewright ${name} --url https://${host} --ca FILE`;
  }
  if (why.startsWith("its certificate ")) return "zonewright doctor --run tls  examines it there";
  if (message.endsWith(NOT_AN_AGENT)) return helpOf(name);
  return "start an agent with zonewright serve --dev, or give its address with --url or --socket";
}

function helpOf(name: string): string {
  return name === "" ? "zonewright --help" : `zonewright ${name} --help`;
}

/** The command that lists what an ambiguous word may refer to. */
function listsOfMeant({ message, errors: [first] }: AgentError): NextCommand[] {
  const list = message.startsWith("Cannot choose ") ? LISTED_BY[first?.field ?? ""] : undefined;
  return list === undefined ? [] : [list];
}

/** The command that shows what the failed one is about. */
function lookedAt(
  code: "no_host" | "not_found" | "conflict",
  name: string,
  operands: readonly string[],
): NextCommand[] {
  const [noun = ""] = name.split(" ");
  const [operand] = operands;
  const get = code === "conflict" && operand !== undefined && SHOWN_BY_GET.includes(noun)
    ? [[`${noun} get ${shellQuoted(operand)}`, "shows its state"] as const]
    : [];
  const list = LISTED_BY[noun];
  return [...get, ...(list === undefined ? [] : [list])];
}

/** The first that is not the command line that failed. */
function firstOther(failed: string, commands: readonly NextCommand[]): string | undefined {
  const other = commands.find(([command]) => command !== failed);
  return other === undefined ? undefined : `zonewright ${other[0]}  ${other[1]}`;
}

const JOB = /\bjob ([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/gi;

/** If a job is refused because of another one, which the message names: the command that shows that one. */
export function otherJobHint(error: AgentError, known: readonly string[]): string | undefined {
  if (error.code !== "conflict") return undefined;
  const own = known.map((word) => word.toLowerCase());
  const named = Array.from(error.message.matchAll(JOB), ([, uuid = ""]) => uuid.toLowerCase());
  const other = named.find((uuid) => !own.includes(uuid));
  return other === undefined ? undefined : `zonewright job get ${other}  shows it`;
}

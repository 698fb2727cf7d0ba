// The command line: runs the command that was typed, and turns whatever goes wrong into one sentence, a hint and
// an exit code. Every noun has a file of its own, loaded on use. Data goes to standard output and everything
// else to standard error; an error begins with `zonewright:` and is followed by the command that helps.

import { resolve } from "@std/path";
import type { AgentError } from "../domain/error.ts";
import { type AgentAddress, type Credentials, shellQuoted } from "./client/api_call.ts";
import { type Arguments, cannot, parseArguments, usageError } from "./command/arguments.ts";
import { CallPrinted, openClient } from "./client/client.ts";
import {
  type Command,
  EXIT,
  type ExitCode,
  flagsOf,
  FOLLOW_FLAG,
  type Invocation,
  type Nouns,
  operandCounts,
} from "./command/command.ts";
import { COMMAND_WORDS_MAX, findCommand, splitWords } from "./command/find.ts";
import { reportFailure } from "./command/failure.ts";
import { openPrinter } from "./output/printer.ts";
import { printable, processTerminal, type Terminal } from "./output/terminal.ts";
import { withoutEndSlashes } from "../config/place_kinds.ts";

/** Every noun by its name, loaded on use. */
export const NOUNS: Nouns = {
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

const DEFAULT_URL = "http://127.0.0.1:8780";

/** Runs one command line. @returns the exit code, see command/command.ts */
export async function runCli(
  args: readonly string[],
  terminal: Terminal = processTerminal(),
): Promise<ExitCode> {
  if (args[0] === COMPLETE) return await complete(args.slice(1), terminal);
  const { names, ahead, rest } = splitWords(args);
  try {
    const found = await findCommand([...names, ...ahead, ...rest], NOUNS);
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
    const meant = meantFile(extra, command, args) || `, expected ${usage}`;
    throw usageError(`unexpected operand ${JSON.stringify(extra)}${meant}`);
  }
  if (args.operands.length < min) throw usageError(`an operand is missing, expected ${usage}`);
  const env = args.has("no-color") ? { ...terminal.env, NO_COLOR: "1" } : terminal.env;
  const plain = { ...terminal, env };
  const streams = command.streams === true || args.has(FOLLOW_FLAG.name);
  const printer = openPrinter(plain, { json: args.has("json"), streams });
  const client = openClient({
    address: agentAddress(args.text("url"), args.text("socket"), terminal),
    credentials: credentialsOf(args.text("token-file"), args.text("ca"), terminal),
    printCurl: args.has("curl") ? (line) => terminal.out(`${line}\n`) : undefined,
    note: printer.note,
  });
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
    throw usageError("--url and --socket are both given, expected one of them");
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
      `use ${JSON.stringify(typed)} as the address of an agent, expected one such as ` +
        `${DEFAULT_URL} or ${new URL(DEFAULT_URL).host}`,
    );
  }
  return { kind: "url", base: withoutEndSlashes(base) };
}

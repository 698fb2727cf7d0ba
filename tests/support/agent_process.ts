// An agent as a process of its own, as an operator runs it: from source, or the compiled binary.
// Everything about it is asked over HTTP and through the program's other faces.

import { assertEquals } from "@std/assert";
import { fromFileUrl, isAbsolute, join } from "@std/path";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { type SelfCommand, selfCommand, type WalledSelf } from "../../src/runtime/executable.ts";
import { AGENT_HEAP_MIB, WALLED_MEMORY_MIB } from "../../src/sandbox/guest_command.ts";
import { cannotRefuse, majorOf, optionsOf, reservedDataBytes } from "../../vendors/node/options.ts";
import { endOfLog, onFailure } from "./failure.ts";
import { until, withDeadline } from "./until.ts";

/** A way to start the program. */
export interface Program {
  readonly name: "source" | "binary" | "node";
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** How it shuts in what it starts, on Node. */
  readonly walled?: WalledSelf;
}

const BINARY = fromFileUrl(new URL("../../dist/zonewright", import.meta.url));
const NODE_FILE = fromFileUrl(new URL("../../dist/zonewright.mjs", import.meta.url));

export function sourceProgram(): Program {
  return { name: "source", ...selfCommand() };
}

/** With this variable set to `source`, `binary` or the path of a Node, tests show that program alone. */
export const PROGRAM_VARIABLE = "ZONEWRIGHT_TEST_PROGRAM";

/**
 * The program of this run: in `make test` the compiled binary, which starts in half the time; in a file
 * that is run by itself, the program from source, which needs no build.
 */
export function programOfRun(): Program {
  return programNamed(Deno.env.get(PROGRAM_VARIABLE) ?? "source");
}

/** The same as those know it who start it again: for its guests and decoders, and for the simulated host. */
export function selfOfRun(): SelfCommand {
  const program = programOfRun();
  return { ...program, compiled: program.name !== "source" };
}

/** @throws {Error} when there is no such program, or it was not built */
export function programNamed(name: string): Program {
  if (name === "source") return sourceProgram();
  if (name !== "binary" && !isAbsolute(name)) {
    const words = "expected source, binary or the path of a Node";
    throw new Error(`Cannot run ${JSON.stringify(name)}: ${words}`);
  }
  const built = name === "binary" ? binaryProgram() : nodeProgram(name);
  if (built === undefined) throw new Error(`Cannot run ${name}: the program was not built`);
  return built;
}

/** The compiled binary, or undefined when it was not built. */
export function binaryProgram(): Program | undefined {
  return isFile(BINARY) ? { name: "binary", program: BINARY, args: [], env: {} } : undefined;
}

/** The file for Node, run by the Node at this path; undefined when it was not built. */
export function nodeProgram(node: string): Program | undefined {
  if (!isFile(NODE_FILE)) return undefined;
  const major = majorOf(nodeVersion(node));
  const heap = { agent: AGENT_HEAP_MIB, walled: WALLED_MEMORY_MIB };
  const { agent, guest, decoder } = optionsOf(NODE_FILE, major, heap);
  return {
    name: "node",
    program: node,
    args: [...agent, NODE_FILE],
    env: {},
    walled: {
      guest: [...guest, NODE_FILE],
      decoder: [...decoder, NODE_FILE],
      reservedDataBytes: reservedDataBytes(major),
      cannotRefuse: cannotRefuse(major),
    },
  };
}

/** The version of the Node at this path, like 24.18.0. */
export function nodeVersion(node: string): string {
  const { stdout } = new Deno.Command(node, { args: ["--version"] }).outputSync();
  return new TextDecoder().decode(stdout).trim().slice("v".length);
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

/** An answer with its body as JSON; an empty body is null. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: JsonObject;
}

export interface AgentProcess {
  readonly url: string;
  readonly stateDir: string;
  /** Everything the agent has logged so far. */
  log(): string;
  /** Waits for a line of the log with these words: it comes by a pipe, after what it is about. */
  said(words: string): Promise<string>;
  get(path: string): Promise<Answer>;
  post(path: string, body?: JsonObject): Promise<Answer>;
  /** Sends any request; its answer may be anything. */
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** The job when its execution is one of these. */
  job(uuid: string, ...executions: readonly string[]): Promise<JsonObject>;
  /** Runs the simulator on this agent's host. @returns exit code and standard output */
  simulate(...args: readonly string[]): Promise<{ code: number; stdout: string }>;
  /** Ends the process at once, as a crash does. */
  kill(): Promise<void>;
  /** Sends a signal that does not end it. */
  signal(signal: Deno.Signal): void;
  /** Asks the process to end, and answers its exit code. */
  stop(): Promise<number>;
  /** Waits until it has ended by itself. @returns its exit code */
  ended(): Promise<number>;
}

/** Runs one command of the program to its end. */
export async function runProgram(
  program: Program,
  args: readonly string[],
  cwd = "/",
): Promise<{ code: number; stdout: string; stderr: string }> {
  const { code, stdout, stderr } = await new Deno.Command(program.program, {
    args: [...program.args, ...args],
    env: program.env,
    clearEnv: true,
    cwd,
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

/**
 * Starts an agent, on a free port unless the flags name one, and waits until it says where it listens.
 * @param options `detached`: Ctrl-C does not reach it, so that who started it ends it in order; `socket`: the path of
 * a socket by which alone it can be asked, since it is in a network of its own; `cwd`: the folder where it is started
 */
export async function startAgentProcess(
  program: Program,
  stateDir: string,
  flags: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
  { detached = false, socket, cwd = "/" }: {
    readonly detached?: boolean;
    readonly socket?: string;
    readonly cwd?: string;
  } = {},
): Promise<AgentProcess> {
  const process = new Deno.Command(program.program, {
    args: [
      ...program.args,
      "serve",
      ...(flags.includes("--listen") ? [] : ["--listen", "127.0.0.1:0"]),
      "--state-dir",
      stateDir,
      "--log-format",
      "json",
      ...(socket === undefined ? [] : ["--socket", socket]),
      ...flags,
    ],
    env: { ...program.env, ...env },
    clearEnv: true,
    detached,
    cwd,
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  let logged = "";
  const reading = process.stderr.pipeThrough(new TextDecoderStream()).pipeTo(
    new WritableStream({ write: (text) => void (logged += text) }),
  );
  let exited = false;
  let isClosed = false;
  onFailure(() => `The agent at ${stateDir} logged at last:\n${endOfLog(logged)}`);
  const ended = process.status.then(async ({ code }) => {
    await reading;
    exited = true;
    return code;
  });
  const url = await until("the agent to listen", () => {
    if (exited) throw new Error(`The agent ended before it listened:\n${logged}`);
    return /"agent started".*"urls":"(https?:[^" ]+)/.exec(logged)?.[1];
  });
  const client = socket === undefined
    ? undefined
    : Deno.createHttpClient({ proxy: { transport: "unix", path: socket } });
  const ask: Ask = (path, init = {}) =>
    fetch(url + path, { ...init, ...(client === undefined ? {} : { client }) });
  const end = async (signal?: Deno.Signal) => {
    if (!exited && signal !== undefined) process.kill(signal);
    if (!isClosed) client?.close();
    isClosed = true;
    try {
      const code = await withDeadline(ended, END_DEADLINE_MS, () => `the agent to end:\n${logged}`);
      // Hardly ever; then whoever runs the tests should see why, also where no test compares the code.
      const strange = /"part not closed"|"runtime stalled"|panicked/.test(logged);
      if (strange || (signal === "SIGTERM" && code !== 0)) {
        console.log(`The agent ended with code ${code}:\n${logged.slice(-LOG_SHOWN)}`);
      }
      return code;
    } catch (error) {
      process.kill("SIGKILL");
      throw error;
    }
  };
  return {
    url,
    stateDir,
    log: () => logged,
    said: (words) =>
      until(
        `the log to say ${words}`,
        // What follows the last line feed is no whole line yet.
        () => logged.split("\n").slice(0, -1).find((line) => line.includes(words)),
      ),
    get: (path) => call(ask, "GET", path),
    post: (path, body = {}) => call(ask, "POST", path, body),
    fetch: ask,
    job: (uuid, ...executions) => jobWhen(ask, uuid, executions),
    simulate: (...args) =>
      runProgram(program, ["simulate", "--state", join(stateDir, "simulator"), ...args]),
    kill: async () => void await end("SIGKILL"),
    signal: (signal) => process.kill(signal),
    stop: () => end("SIGTERM"),
    ended: () => end(),
  };
}

/** Longer than an agent takes to end on any machine. */
const END_DEADLINE_MS = 180_000;
/** Characters of a log that are printed. */
const LOG_SHOWN = 4_000;
/** Longer than any answer may take; a request that hangs is reported by its path. */
const ANSWER_DEADLINE_MS = 180_000;

type Ask = AgentProcess["fetch"];

async function call(
  ask: Ask,
  method: string,
  path: string,
  body?: JsonObject,
): Promise<Answer> {
  const late = new AbortController();
  const reported = new Error(`No answer to ${method} ${path} in ${ANSWER_DEADLINE_MS} ms`);
  const timer = setTimeout(() => late.abort(reported), ANSWER_DEADLINE_MS);
  try {
    const response = await ask(path, {
      method,
      signal: late.signal,
      ...(body === undefined
        ? {}
        : { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const parsed: unknown = text === "" ? {} : JSON.parse(text);
    return {
      status: response.status,
      headers: response.headers,
      body: isJsonObject(parsed) ? parsed : { items: parsed as JsonObject[] },
    };
  } finally {
    clearTimeout(timer);
  }
}

async function jobWhen(
  ask: Ask,
  uuid: string,
  executions: readonly string[],
): Promise<JsonObject> {
  let last: unknown;
  const words = () => `job ${uuid} to be ${executions.join(" or ")}, and it is ${last}`;
  return await until(words, async () => {
    const { body } = await call(ask, "GET", `/jobs/${uuid}`);
    last = body.execution;
    return executions.includes(String(last)) ? body : undefined;
  });
}

/** Fails when the simulated host holds anything that belongs to no finished machine. */
export async function assertNothingLeft(agent: AgentProcess): Promise<void> {
  const { code, stdout } = await agent.simulate("audit");
  assertEquals(code, 0, `the host has leftovers: ${stdout}`);
}

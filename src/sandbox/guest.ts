// A guest: the process in which task bodies run, on the far side of the wall. It loads nothing of
// the agent but the protocol, gives up all its permissions before it takes the first task, and runs
// every execution in a fresh realm (realm.ts). It ends when its socket closes.

import { createContext, Script } from "node:vm";
import { readLines, writeAll } from "./lines.ts";
import { ignoreSignals, lockDown } from "./lockdown.ts";
import * as protocol from "./protocol.ts";
import type { AgentMessage, ReplyMessage, RunMessage } from "./protocol.ts";
import { realmSource } from "./realm_source.ts";
import type { HostOp, RealmPort, RealmSettings, RealmTask } from "./realm_state.ts";

/** Longest delay that timers of the platform take, milliseconds; longer ones would fire at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;
/** The source stands behind this text in the script; columns are counted without it. */
const SCRIPT_HEAD = "(() => (";

const SETTINGS: RealmSettings = {
  capabilities: protocol.CAPABILITIES,
  signals: protocol.SIGNALS,
  resultCharsMax: protocol.RESULT_CHARS_MAX,
  jobCharsMax: protocol.JOB_CHARS_MAX,
  errorCharsMax: protocol.ERROR_CHARS_MAX,
  argsCharsMax: protocol.ARGS_CHARS_MAX,
  argsMax: protocol.ARGS_MAX,
  callsInFlightMax: protocol.CALLS_IN_FLIGHT_MAX,
  logLinesMax: protocol.LOG_LINES_MAX,
  logCharsMax: protocol.LOG_CHARS_MAX,
  timersMax: protocol.TIMERS_MAX,
};

/** What a guest keeps of its platform after the lockdown. */
interface Platform {
  readonly setTimeout: typeof setTimeout;
  readonly clearTimeout: typeof clearTimeout;
  readonly encoder: TextEncoder;
  readonly socket: Deno.Conn;
}

type Timers = Map<number, ReturnType<typeof setTimeout>>;

/** The execution under way. */
interface Run {
  readonly id: number;
  readonly port: RealmPort;
  /** Platform timers by the realm's own numbers. */
  readonly timers: Timers;
}

/**
 * Runs this process as a guest of the agent that listens at the unix socket `args[0]`. The token by
 * which the agent knows the guest comes as the first line of standard input. Never returns.
 */
export async function runGuest(args: readonly string[]): Promise<void> {
  const { exit } = Deno;
  const [path = ""] = args;
  const token = await readToken();
  const socket = await Deno.connect({ transport: "unix", path });
  ignoreSignals();
  const platform: Platform = {
    setTimeout,
    clearTimeout,
    encoder: new TextEncoder(),
    socket,
  };
  const guest = openGuest(platform);
  await writeAll(socket, platform.encoder.encode(`${token}\n`));
  const lines = readLines(socket, protocol.MESSAGE_BYTES_MAX);
  const problems = await lockDown({ importInTask, frozen: [Script] });
  guest.write(JSON.stringify({ type: "ready", problems }));
  try {
    for await (const line of lines) guest.take(JSON.parse(line));
  } finally {
    exit(0);
  }
}

async function readToken(): Promise<string> {
  for await (const line of readLines(Deno.stdin, protocol.TOKEN_BYTES_MAX)) return line;
  throw new Error("Cannot start as a guest: there is no token on standard input");
}

/** Tries what no task may succeed in. */
function importInTask(): Promise<unknown> {
  const context = createContext(Object.create(null));
  return new Script(`import("node:fs")`, { filename: fileOf("probe") }).runInContext(context);
}

/** The name of a task's source in stacks: no URL, so that nothing is imported relative to it. */
function fileOf(taskName: string): string {
  return `task://[${taskName.replace(/[^\w.-]/g, "_").slice(0, 100)}]`;
}

function openGuest(platform: Platform) {
  const { clearTimeout } = platform;
  const boot = new Script(realmSource(), { filename: "realm" });
  const scripts = new Map<string, Script>();
  const settingsText = JSON.stringify(SETTINGS);
  const write = openWriter(platform);
  let current: Run | undefined;

  addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    enter(() => current?.port.rejected(event.reason));
  });

  const start = (message: RunMessage) => {
    const context = createContext(Object.create(null), {
      codeGeneration: { strings: false, wasm: false },
    });
    const timers: Timers = new Map();
    const openRealm = boot.runInContext(context);
    const host = hostOf(platform, write, message.run, timers, () => current);
    const port: RealmPort = openRealm(host, settingsText);
    current = { id: message.run, port, timers };
    const task: RealmTask = {
      kind: message.kind,
      name: message.task_name,
      file: fileOf(message.task_name),
      job: message.job,
      error: message.error,
    };
    const taskText = JSON.stringify(task);
    const script = compile(scripts, task.file, message.source);
    if (typeof script === "string") write(failureLine(message.run, script));
    else enter(() => port.start(script.runInContext(context), taskText));
  };

  const close = (run: number) => {
    for (const timer of current?.timers.values() ?? []) clearTimeout(timer);
    current = undefined;
    write(`{"type":"closed","run":${run}}`);
  };

  const take = (message: AgentMessage) => {
    if (message.type === "run") start(message);
    else if (message.type === "close") close(message.run);
    else if (message.run === current?.id) enter(() => reply(current, message));
  };
  return { take, write };
}

function reply(run: Run | undefined, message: ReplyMessage): void {
  const text = message.ok ? JSON.stringify(message.value) : message.message;
  run?.port.reply(message.call, message.ok, text, message.ok ? "" : message.code);
}

/** Calls into a realm. What comes out as an exception is an object of that realm: not looked at. */
function enter(call: () => void): void {
  try {
    call();
  } catch {
    // Only a stack overflow gets here; the task waits for its timeout then.
  }
}

/** Does what a realm asks for. Short, since the realm may call it with its stack nearly used up. */
function hostOf(
  platform: Platform,
  write: (line: string) => void,
  id: number,
  timers: Timers,
  running: () => Run | undefined,
): (op: HostOp, number: number, name: string, text: string) => void {
  // Called without an object: older platforms refuse them as methods of another one.
  const { setTimeout, clearTimeout } = platform;
  const fire = (timer: number) => {
    timers.delete(timer);
    enter(() => running()?.port.fire(timer));
  };
  return (op, number, name, text) => {
    if (running()?.id !== id) return;
    switch (op) {
      case "call":
        return write(
          `{"type":"call","run":${id},"call":${number},"name":"${name}","args":${text}}`,
        );
      case "log":
        return write(`{"type":"log","run":${id},"level":"${name}",${text}}`);
      case "end":
        return write(`{"type":"end","run":${id},"outcome":${text}}`);
      case "timer":
        if (timers.size > protocol.TIMERS_MAX) return;
        timers.set(number, setTimeout(fire, Math.min(+text, TIMER_MS_MAX), number));
        return;
      case "untimer":
        clearTimeout(timers.get(number));
        timers.delete(number);
        return;
      case "quiet":
        setTimeout(() => enter(() => running()?.port.settle()), 0);
        return;
    }
  };
}

/** Queues lines for the socket; one write is under way at a time. */
function openWriter(platform: Platform): (line: string) => void {
  let queued = "";
  let writing = false;
  const flush = async () => {
    // Later, so that a realm that calls with its stack nearly used up starts nothing here.
    await null;
    while (queued !== "") {
      const text = queued;
      queued = "";
      // A socket that cannot be written to has closed: the reader ends the process.
      await writeAll(platform.socket, platform.encoder.encode(text)).catch(() => {});
    }
    writing = false;
  };
  return (line) => {
    queued += `${line}\n`;
    if (writing) return;
    flush();
    writing = true;
  };
}

/**
 * The script of a source, compiled once and kept while it is among the last ones used; or the words
 * of the compiler.
 */
function compile(scripts: Map<string, Script>, file: string, source: string): Script | string {
  const key = `${file}\n${source}`;
  let script = scripts.get(key);
  try {
    script ??= new Script(`${SCRIPT_HEAD}${source}\n))`, {
      filename: file,
      columnOffset: -SCRIPT_HEAD.length,
    });
  } catch (error) {
    return `Cannot compile the source: ${error instanceof Error ? error.message : "no reason"}`;
  }
  scripts.delete(key);
  scripts.set(key, script);
  if (scripts.size > protocol.SCRIPTS_MAX) scripts.delete(scripts.keys().next().value ?? "");
  return script;
}

function failureLine(run: number, error: string): string {
  return JSON.stringify({ type: "end", run, outcome: { kind: "failure", error, job: null } });
}

// A guest: the process in which task bodies run, on the far side of the wall. It loads nothing of
// the agent but the protocol, gives up all its permissions before it takes the first task, and runs
// every execution in a fresh realm (realm.ts). It ends when its socket closes.

import { createContext, Script } from "node:vm";
import { openLineWriter, readLines } from "./lines.ts";
import { ignoreSignals, lockDown } from "./lockdown.ts";
import * as protocol from "./protocol.ts";
import type { AgentMessage, ReplyMessage, RunMessage } from "./protocol.ts";
import { openRealmMaker, type RealmMaker } from "./realm_context.ts";
import { endBroken, enter, openRealmHost, type Platform, type Run } from "./realm_host.ts";
import type { RealmPort } from "./realm_state.ts";
import { agentMessageBytesMax, readTaskLimitsWord } from "./task_limits.ts";

/** The source stands behind this text in the script; columns are counted without it. */
const SCRIPT_HEAD = "(() => (";

/**
 * Runs this process as a guest of the agent that listens at the unix socket `args[0]`, with the limits
 * of its tasks in `args[1]`. The token by which the agent knows the guest comes as the first line of
 * standard input. Never returns.
 */
export async function runGuest(args: readonly string[]): Promise<void> {
  const { exit, memoryUsage } = Deno;
  const [path = "", limitsWord = ""] = args;
  const limits = readTaskLimitsWord(limitsWord);
  const token = await readToken();
  const socket = await Deno.connect({ transport: "unix", path });
  ignoreSignals();
  const write = openLineWriter(socket);
  const realms = openRealmMaker(limits);
  const rss = () => memoryUsage().rss;
  const guest = new Guest({ setTimeout, clearTimeout, write }, setImmediate, realms, rss);
  write(token);
  const lines = readLines(socket, agentMessageBytesMax(limits));
  const checks = await lockDown({ importInTask, frozen: [Script] });
  realms.makeAhead();
  write(JSON.stringify({ type: "ready", checks }));
  try {
    for await (const line of lines) guest.take(protocol.readAgentLine(line));
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

/** Runs executions, one at a time: opened by a run message, closed when the realm has told an end. */
class Guest {
  readonly #platform: Platform;
  readonly #setImmediate: typeof setImmediate;
  readonly #realms: RealmMaker;
  readonly #scripts = new Map<string, Script>();
  readonly #done = Promise.resolve();
  /** Resident memory of the process, bytes. */
  readonly #rss: () => number;
  #current: Run | undefined;

  constructor(
    platform: Platform,
    laterOn: typeof setImmediate,
    realms: RealmMaker,
    rss: () => number,
  ) {
    this.#platform = platform;
    this.#setImmediate = laterOn;
    this.#realms = realms;
    this.#rss = rss;
    addEventListener("unhandledrejection", (event) => {
      const run = this.#current;
      enter(() => {
        // One of the guest's own is a defect, which ends the process and stands in its output.
        if (event.promise instanceof Promise) return;
        event.preventDefault();
        run?.port.rejected(event.reason);
      }, () => this.#broken(run));
    });
  }

  take(message: AgentMessage): void {
    if (message.type === "run") return this.#start(message);
    const run = this.#current;
    if (message.run !== run?.id) return;
    enter(() => reply(run.port, message), () => this.#broken(run));
  }

  #start(message: RunMessage): void {
    const { kind, task_name, engine_fields, job, error } = message;
    const { context, port, connect } = this.#realms.take();
    const run: Run = { id: message.run, port, timers: new Map(), outcome: undefined };
    const isCurrent = () => run === this.#current;
    connect(openRealmHost(this.#platform, run, isCurrent, (outcome) => this.#end(run, outcome)));
    this.#current = run;
    const file = fileOf(task_name);
    const script = compile(this.#scripts, file, message.source);
    if (typeof script === "string") return this.#end(run, failure(script));
    enter(() => {
      const define = script.runInContext(context);
      port.start(define, kind, task_name, file, engine_fields, job, error);
    }, () => this.#broken(run));
  }

  #broken(run: Run | undefined): void {
    if (run === this.#current && run !== undefined) {
      endBroken(run, (outcome) => this.#end(run, outcome));
    }
  }

  /** Ends the run once its turn is over, so that what follows the callback in it is still logged. */
  #end(run: Run, outcome: string): void {
    // Not an async function: without stack left this throws and leaves nothing behind.
    this.#done.then(() => this.#close(run));
    run.outcome = outcome;
  }

  #close(run: Run): void {
    if (run !== this.#current) return;
    const { clearTimeout, write } = this.#platform;
    const { id, timers, outcome } = run;
    for (const timer of timers.values()) clearTimeout(timer);
    this.#current = undefined;
    write(`{"outcome":${outcome},"type":"end","run":${id}}`);
    const later = this.#setImmediate;
    // By then the loop has turned: nothing of the task is running.
    later(() => {
      const spent = this.#rss() > protocol.SPENT_BYTES;
      write(`{"type":"closed","run":${id},"spent":${spent}}`);
      if (!spent) this.#realms.makeAhead();
    });
  }
}

function reply(port: RealmPort, message: ReplyMessage): void {
  if (message.ok) port.reply(message.call, true, message.value, "");
  else port.reply(message.call, false, message.message, message.code);
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

function failure(error: string): string {
  return JSON.stringify({ kind: "failure", error, job: null });
}

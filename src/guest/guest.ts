// A guest: the process in which task bodies run, behind the wall. It loads only the protocol from the
// agent, gives up all permissions before the first task, and runs every execution in a realm
// (realm/context.ts). It ends when its socket closes.

import { Script } from "node:vm";
import { fixPromises, type Language, takeLanguage } from "../wall/language.ts";
import { openLineBuffer, openLineWriter, readLines } from "../wall/lines.ts";
import { ignoreSignals, revokePermissions } from "../wall/lockdown.ts";
import { languageCheck, languageValues, leaveLanguageOnly } from "./primordials.ts";
import * as protocol from "../wall/protocol.ts";
import type { AgentMessage, GuestCheck, ReplyMessage, RunMessage } from "../wall/protocol.ts";
import { openRealmMaker, type RealmMaker } from "./realm/context.ts";
import { endBroken, enter, openRealmHost, type Platform, type RealmRun } from "./realm/host.ts";
import { realmCheck } from "./realm/probe.ts";
import { type Compiler, fileOf, openCompiler } from "./realm/script.ts";
import type { RealmPort } from "./realm/execution.ts";
import {
  AGENT_MESSAGE_BYTES_MAX,
  FRESH_REALM_WORD,
  readTaskLimitsWord,
} from "../wall/task_limits.ts";

/**
 * Runs this process as a guest of the agent that listens on the unix socket `args[0]`; `args[1]` holds
 * the limits of its tasks. Words that open layers or ask for fresh realms may precede both. The first
 * line of standard input is the token that identifies the guest. Never returns.
 */
export async function runGuest(args: readonly string[]): Promise<void> {
  const { exit, memoryUsage } = Deno;
  const nowMs = performance.now.bind(performance);
  const { open, fresh, rest: [path = "", limitsWord = ""] } = readGuestWords(args);
  const limits = readTaskLimitsWord(limitsWord);
  const token = await readToken();
  const socket = await Deno.connect({ transport: "unix", path });
  ignoreSignals();
  const language = takeLanguage(open.has("protocol"));
  const write = openLineWriter(socket, undefined, language);
  const realms = openRealmMaker({ limits, language, fresh, foreign: foreignObject(open) });
  const { sharedNames } = realms;
  const compiler = openCompiler(language, { imports: open.has("realm"), sharedNames });
  const platform = { setTimeout, clearTimeout, write, language };
  const isSpent = openSpentCheck(nowMs, () => memoryUsage().rss);
  const guest = new Guest(platform, setImmediate, realms, compiler, isSpent);
  const lines = openLineBuffer(AGENT_MESSAGE_BYTES_MAX, language);
  const read = socket.read.bind(socket);
  write(token);
  const checks = await revokePermissions(open.has("permissions"));
  if (!open.has("primordials")) leaveLanguageOnly([Script]);
  if (!open.has("protocol")) fixPromises();
  checks.push(...await proofs(open, { realms, compiler, language }));
  realms.makeAhead();
  write(JSON.stringify({ type: "ready", checks }));
  try {
    // Ends with the connection. No array and no generator: their iterators could be replaced.
    for (let count = await read(lines.buffer); count !== null; count = await read(lines.buffer)) {
      lines.fill(count);
      for (let line = lines.next(); line !== undefined; line = lines.next()) {
        guest.take(protocol.readAgentLine(line, language));
      }
    }
  } finally {
    exit(0);
  }
}

/** The checks besides permissions. A layer that is open is reported as missing. */
async function proofs(
  open: ReadonlySet<GuestLayer>,
  proof: Parameters<typeof realmCheck>[0],
): Promise<GuestCheck[]> {
  const layers = [...open].join(", ");
  return [
    ...(open.has("realm") ? [] : [await realmCheck(proof)]),
    ...(open.has("primordials") ? [] : [languageCheck()]),
    ...(open.size === 0
      ? []
      : [{ check: "layers", ok: false, detail: `has open layers: ${layers}` }]),
  ];
}

/**
 * The object that a realm without rules gets: the language of the guest's realm, and the whole
 * platform unless the permissions are open.
 */
function foreignObject(open: ReadonlySet<GuestLayer>): object | undefined {
  if (!open.has("realm")) return undefined;
  const language = languageValues();
  return open.has("permissions") ? { language } : { language, outside: globalThis };
}

async function readToken(): Promise<string> {
  for await (const line of readLines(Deno.stdin, protocol.TOKEN_BYTES_MAX)) return line;
  throw new Error("Cannot start as a guest: there is no token on standard input");
}

/** Runs one execution at a time, from the run message until the realm reports the end. */
class Guest {
  readonly #platform: Platform;
  readonly #setImmediate: typeof setImmediate;
  readonly #realms: RealmMaker;
  readonly #compiler: Compiler;
  readonly #done = Promise.resolve();
  readonly #spent: SpentCheck;
  #current: RealmRun | undefined;

  constructor(
    platform: Platform,
    laterOn: typeof setImmediate,
    realms: RealmMaker,
    compiler: Compiler,
    spent: SpentCheck,
  ) {
    this.#platform = platform;
    this.#setImmediate = laterOn;
    this.#realms = realms;
    this.#compiler = compiler;
    this.#spent = spent;
    const { isBelow } = platform.language;
    const ownPromise = Promise.prototype;
    addEventListener("unhandledrejection", (event) => {
      const run = this.#current;
      enter(() => {
        // A rejection in the guest's own code is a defect: it ends the process and appears in its output.
        if (isBelow(event.promise, ownPromise)) return;
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
    const { language } = this.#platform;
    const file = fileOf(language, task_name);
    const script = this.#compiler.compile(file, message.source);
    const shared = typeof script !== "string" && script.names !== undefined;
    const { port, connect, define } = this.#realms.take(shared);
    const { run: id } = message;
    const run: RealmRun = { id, port, timers: new Map(), outcome: undefined, whole: true };
    const isCurrent = () => run === this.#current;
    connect(openRealmHost(this.#platform, run, isCurrent, (outcome) => this.#end(run, outcome)));
    this.#current = run;
    this.#spent.begin();
    if (typeof script === "string") return this.#end(run, failure(language, script));
    const { names = "" } = script;
    enter(
      () => port.start(define(script), names, kind, task_name, file, engine_fields, job, error),
      () => this.#broken(run),
    );
  }

  #broken(run: RealmRun | undefined): void {
    if (run === this.#current && run !== undefined) {
      run.whole = false;
      endBroken(run, (outcome) => this.#end(run, outcome));
    }
  }

  /** Ends the run after the current turn, so that what the task logs after the callback is kept. */
  #end(run: RealmRun, outcome: string): void {
    // Not async: when no stack is left, this throws and leaves nothing behind.
    this.#platform.language.then(this.#done, () => this.#close(run));
    run.outcome = outcome;
  }

  #close(run: RealmRun): void {
    if (run !== this.#current) return;
    const { clearTimeout, write, language } = this.#platform;
    const { id, timers, outcome } = run;
    language.mapEach(timers, (timer) => clearTimeout(timer));
    this.#current = undefined;
    write(`{"outcome":${outcome},"type":"end","run":${id}}`);
    const later = this.#setImmediate;
    // A turn has passed, so nothing of the task is running.
    later(() => {
      this.#realms.leave(run.whole);
      const spent = this.#spent.end();
      write(`{"type":"closed","run":${id},"spent":${spent}}`);
      if (!spent) this.#realms.makeAhead();
    });
  }
}

interface SpentCheck {
  begin(): void;
  end(): boolean;
}

/** A task of up to this many milliseconds cannot touch much memory; so many of them in a row may go unchecked. */
const SHORT_MS = 2;
const UNCHECKED_MAX = 8;

/** Asking the system for the resident memory takes as long as a short task. */
function openSpentCheck(nowMs: () => number, residentBytes: () => number): SpentCheck {
  let beganMs = 0;
  let unchecked = 0;
  return {
    begin() {
      beganMs = nowMs();
    },
    end() {
      unchecked += 1;
      if (nowMs() - beganMs < SHORT_MS && unchecked < UNCHECKED_MAX) return false;
      unchecked = 0;
      return residentBytes() > protocol.SPENT_BYTES;
    },
  };
}

function reply(port: RealmPort, message: ReplyMessage): void {
  if (message.ok) port.reply(message.call, true, message.value, "");
  else port.reply(message.call, false, message.message, message.code);
}

function failure({ quote }: Language, error: string): string {
  return `{"kind":"failure","error":${quote(error)},"job":null}`;
}

/**
 * The layers of the sandbox that a guest can be asked to leave open. Each must hold alone, so tests try each with the
 * others open. A word on the command line opens them; no pool ever passes it, and a guest with an open layer reports it.
 *
 * permissions: Deno's own. realm: what a realm refuses, and what keeps its objects apart from the
 * guest's. primordials: only the language is left in the guest's own realm, and it is frozen.
 * protocol: the guest's own code calls nothing that a task could have replaced.
 */
export const GUEST_LAYERS = ["permissions", "realm", "primordials", "protocol"] as const;
/** One layer that a test leaves open. */
export type GuestLayer = typeof GUEST_LAYERS[number];

/** Begins the word on the command line that leaves layers open; their names follow, with commas between. */
const OPEN_MARK = "open:";

/**
 * What the first words of a guest's command line ask for, and the words after them.
 * @throws {Error} when an unknown layer is named
 */
function readGuestWords(args: readonly string[]): {
  open: ReadonlySet<GuestLayer>;
  fresh: boolean;
  rest: readonly string[];
} {
  const fresh = args[0] === FRESH_REALM_WORD;
  const words = fresh ? args.slice(1) : args;
  const [first = "", ...rest] = words;
  if (!first.startsWith(OPEN_MARK)) return { open: new Set(), fresh, rest: words };
  const open = first.slice(OPEN_MARK.length).split(",").map((word) => {
    const layer = GUEST_LAYERS.find((known) => known === word);
    if (layer === undefined) throw new Error(`Cannot start as a guest: no layer is named ${word}`);
    return layer;
  });
  return { open: new Set(open), fresh, rest };
}

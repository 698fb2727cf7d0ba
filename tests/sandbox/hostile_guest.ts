// A program that knocks like a guest and then breaks the protocol in the way its first argument
// names. The pool adds `guest` and the path of the socket to its arguments.

import { readLines, writeAll } from "../../src/wall/lines.ts";
import { GUEST_CHECKS, readAgentLine } from "../../src/wall/protocol.ts";

const [way, , path = ""] = Deno.args;
const lines = readLines(Deno.stdin, 1000);
const token = (await lines.next()).value;
const socket = await Deno.connect({ transport: "unix", path });
const say = (text: string) => writeAll(socket, new TextEncoder().encode(text));

const WAYS: Record<string, () => Promise<void>> = {
  // Sent before the guest is ready.
  token: () => say(`not-the-token\n`),
  open: () => say(`${token}\n${ready({ read: "can read a file" })}\n`),
  untried: () => say(`${token}\n{"type":"ready","checks":[]}\n`),
  early: () => say(`${token}\n{"type":"closed","run":1,"spent":false}\n`),
  // While a task is under way.
  garbage: () => say("garbage\n"),
  bytes: () => writeAll(socket, new Uint8Array([0xff, 0xfe, 10])),
  flood: () => say("x".repeat(17 * 1024 * 1024)),
  // Begins a message, and never ends it.
  half: () => say("x".repeat(200 * 1024)),
  other_run: () => say(`{"type":"end","run":7,"outcome":{"kind":"failure","error":"","job":{}}}\n`),
  unknown_call: () => say(`{"type":"call","run":1,"call":1,"name":"vmadm.destroy","args":[]}\n`),
  same_call: () => say(call(1) + call(1)),
  many_calls: () => say(Array.from({ length: 40 }, (_, index) => call(index)).join("")),
  many_logs: () => say(LOG_LINE.repeat(3000)),
  // Asks on and on, and never reads an answer.
  deaf: async () => {
    for (let id = 0;; id++) await say(call(id));
  },
  closed_first: () => say(`{"type":"closed","run":1,"spent":false}\n`),
  call_after_end: () => say(END + call(1)),
  end_twice: () => say(END + END),
  // Never says that nothing of the task runs any more.
  end_open: () => say(END),
  output: () => flood(Deno.stdout),
  errors: () => flood(Deno.stderr),
  ready_again: () => say(`${ready({})}\n`),
  gone: () => Promise.resolve(Deno.exit(3)),
  // Taken over: keeps every source that it is given, and answers each task with all of them.
  keeps: async () => {
    const kept: string[] = [];
    for await (const line of readLines(socket, 1_000_000)) {
      const message = readAgentLine(line);
      if (message.type !== "run") continue;
      kept.push(message.source);
      const result = JSON.stringify({ pid: Deno.pid, kept });
      const outcome = `{"kind":"success","result":${result},"job":{}}`;
      await say(`{"type":"end","run":${message.run},"outcome":${outcome}}\n`);
      await say(`{"type":"closed","run":${message.run},"spent":false}\n`);
    }
  },
  hangs_up: () => Promise.resolve(socket.close()),
};

const END = `{"type":"end","run":1,"outcome":{"kind":"success","result":1,"job":{}}}\n`;
const LOG_LINE = `{"type":"log","run":1,"level":"info","message":"x","fields":{}}\n`;

function flood(output: { write(bytes: Uint8Array): Promise<number> }): Promise<void> {
  return writeAll(output, new Uint8Array(2 * 1024 * 1024).fill(46));
}

/** The report of a sound guest, but for what is named. */
function ready(open: Readonly<Record<string, string>>): string {
  const checks = GUEST_CHECKS.map((name) => (
    { check: name, ok: open[name] === undefined, detail: open[name] ?? "refused" }
  ));
  return JSON.stringify({ type: "ready", checks });
}

function call(id: number): string {
  return `{"type":"call","run":1,"call":${id},"name":"vnc.wait","args":[]}\n`;
}

const act = WAYS[way ?? ""];
if (act === undefined) throw new Error(`Cannot misbehave: there is no way named ${way}`);
if (!["token", "open", "untried", "early"].includes(way ?? "")) {
  await say(`${token}\n${ready({})}\n`);
  if (way !== "keeps") await readLines(socket, 1_000_000).next();
}
await act();
// Lives on until it is killed: stopping what misbehaves is the pool's task.
setInterval(() => {}, 1000);

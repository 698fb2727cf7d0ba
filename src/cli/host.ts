// `zonewright host`: the hosts of the store. What this agent says of its own host is in `zonewright status`.

import { AgentError } from "../domain/error.ts";
import type { HostState } from "../domain/host.ts";
import type { JsonObject } from "../domain/json.ts";
import { pause } from "../runtime/wait.ts";
import type { ApiCall } from "./client/api_call.ts";
import {
  isPassing,
  numberCell,
  numberIn,
  readObject,
  readObjects,
  textCell,
  textIn,
} from "./client/answer.ts";
import { AWAY_MS_MAX } from "./client/events.ts";
import { isSure, namedHost, uuidColumn } from "./command/named.ts";
import {
  type Command,
  type CommandEnd,
  EXIT,
  type ExitCode,
  type Invocation,
  type Noun,
  YES_FLAG,
} from "./command/command.ts";
import { reportOutcome } from "./command/failure.ts";
import { TIMEOUT_FLAG, timeoutMsOf } from "./follow/follow.ts";
import { msText } from "./output/table.ts";
import { canMove, CLEAR_LINE, printable, stateStyle } from "./output/terminal.ts";

const PATH = "/agent/v1/hosts";
/** Milliseconds between two looks at a host that is drained. */
const LOOK_MS = 1_000;

/** When the agent was heard last, whatever the clock here says. */
function heardText(host: JsonObject): string {
  return msText((numberIn(host, "age_seconds") ?? 0) * 1000);
}

const LIST: Command = {
  summary: "list the hosts of the store, with their states and jobs",
  examples: [
    ["host list", "with SQLite there is one"],
    ["host list --json", "whole, for scripts"],
  ],
  flags: [],
  notes: [
    "connected: its last heartbeat is within its lease; away: it is not, and its jobs wait for it; cordoned:\n" +
    "claims nothing new; forgotten: given up, does nothing.",
  ],
  shared: "agent",
  async run({ client, printer }) {
    const sent = await client.send({ method: "GET", path: PATH });
    const hosts = readObjects(sent.body, "the hosts");
    if (printer.json) return printer.document(hosts);
    printer.table([
      uuidColumn("UUID", hosts),
      { head: "NAME", flexible: true, cell: textCell("name") },
      { head: "STATE", styleOf: stateStyle, cell: textCell("state") },
      { head: "HEARD", right: true, cell: heardText },
      { head: "RUNNING", right: true, cell: numberCell("running") },
      { head: "QUEUED", right: true, cell: numberCell("queued") },
      { head: "SLOTS", right: true, cell: numberCell("slots") },
      { head: "VERSION", wide: true, cell: textCell("version") },
      { head: "THIS", wide: true, cell: ({ this_host }) => this_host === true ? "yes" : "-" },
    ], hosts);
  },
};

const SHOW: Command = {
  summary: "show one host",
  operands: "HOST",
  examples: [["host show gz01", "state, jobs, slots, version, brands, what it runs"]],
  flags: [],
  shared: "agent",
  async run(call) {
    const { args, client, printer } = call;
    const { uuid } = await namedHost(call, args.operand);
    const sent = await client.send({ method: "GET", path: `${PATH}/${uuid}` });
    const host = readObject(sent.body, "the host");
    if (printer.json) return printer.document(host);
    const words = (name: string, none = "-") =>
      Array.isArray(host[name]) ? host[name].join(", ") || none : none;
    const text = (name: string): [string, string] => [name, textIn(host, name) ?? "-"];
    const count = (name: string): [string, string] => [name, String(numberIn(host, name) ?? "-")];
    printer.pairs([
      text("uuid"),
      text("name"),
      text("state"),
      ["heard", `${heardText(host)} ago`],
      ["this host", host.this_host === true ? "yes" : "no"],
      count("running"),
      count("queued"),
      count("slots"),
      ["brands", words("brands")],
      ["workflows", words("allow_workflow", "all")],
      ["callers", words("allow_caller", "all")],
      ["capabilities", words("capabilities")],
      text("address"),
      text("version"),
      ["starts", String(numberIn(host, "generation") ?? "-")],
    ]);
  },
};

/** A command that changes whether a host claims jobs. */
function admission(
  verb: "cordon" | "uncordon",
  rest: Pick<Command, "summary" | "examples" | "notes">,
): Command {
  return {
    ...rest,
    operands: "HOST",
    flags: [],
    shared: "agent",
    async run(call) {
      const { uuid } = await namedHost(call, call.args.operand);
      const sent = await call.client.send(changeCall(uuid, verb));
      showChanged(call, readObject(sent.body, "the host"));
    },
  };
}

function changeCall(uuid: string, verb: "cordon" | "uncordon"): ApiCall {
  return { method: "POST", path: `${PATH}/${uuid}/${verb}`, body: {} };
}

function showChanged({ printer }: Invocation, host: JsonObject): void {
  printer.result(host, `${nameOf(host)} ${textIn(host, "state") ?? "-"}`);
}

function nameOf(host: JsonObject): string {
  return textIn(host, "name") ?? textIn(host, "uuid") ?? "-";
}

const CORDON = admission("cordon", {
  summary: "let a host claim no new jobs; running jobs continue",
  examples: [["host cordon gz01", "before maintenance; its queued jobs wait for it"]],
});

const UNCORDON = admission("uncordon", {
  summary: "let a cordoned or forgotten host claim jobs again",
  examples: [["host uncordon gz01", "after maintenance"]],
});

const DRAIN: Command = {
  summary: "cordon a host and wait until nothing runs there",
  operands: "HOST",
  examples: [
    ["host drain gz01", "shows how many jobs still run"],
    ["host drain gz01 --timeout 10m", "exits 124 after ten minutes; jobs still running continue"],
  ],
  flags: [TIMEOUT_FLAG],
  notes: [
    "No job is stopped. Queued and waiting jobs do not count. The host stays cordoned, even after a timeout\n" +
    "or Ctrl-C.",
  ],
  shared: "agent",
  async run(call) {
    const untilMs = call.terminal.nowMs() + (timeoutMsOf(call) ?? Number.POSITIVE_INFINITY);
    const { uuid } = await namedHost(call, call.args.operand);
    const sent = await call.client.send(changeCall(uuid, "cordon"));
    return await drained(call, readObject(sent.body, "the host"), untilMs);
  },
};

/** Waits until nothing runs on a cordoned host. @throws {AgentError} `conflict` when it was uncordoned */
async function drained(
  call: Invocation,
  cordoned: JsonObject,
  untilMs: number,
): Promise<CommandEnd> {
  const { client, terminal, printer } = call;
  const stop = new AbortController();
  const takeBack = terminal.onInterrupt(() => stop.abort());
  const view = drainView(call);
  let [host, answeredMs] = [cordoned, terminal.nowMs()];
  try {
    // Ends with the last job, the deadline or Ctrl-C, or when the agent stays away.
    for (;;) {
      if (host.cordoned !== true) throw uncordoned(host);
      const running = numberIn(host, "running") ?? 0;
      if (running === 0) break;
      view.show(host, running);
      const leftMs = untilMs - terminal.nowMs();
      if (leftMs <= 0) return leftRunning(call, "timeout", host, running);
      await pause(Math.min(leftMs, LOOK_MS), stop.signal);
      if (stop.signal.aborted) return leftRunning(call, "interrupted", host, running);
      try {
        host = readObject(await client.get(`${PATH}/${textIn(host, "uuid")}`), "the host");
        answeredMs = terminal.nowMs();
      } catch (error) {
        if (!isPassing(error) || terminal.nowMs() - answeredMs > AWAY_MS_MAX) throw error;
      }
    }
  } finally {
    view.close();
    takeBack();
  }
  printer.result(host, `${nameOf(host)} drained`);
  printer.next(`host uncordon ${nameOf(host)}`, "let it claim jobs again");
}

function uncordoned(host: JsonObject): AgentError {
  const message = `Cannot drain host ${nameOf(host)}: it was uncordoned in the meantime`;
  return new AgentError("conflict", message);
}

/** The end of a wait while jobs still run. */
function leftRunning(
  { terminal, printer }: Invocation,
  code: "timeout" | "interrupted",
  host: JsonObject,
  running: number,
): ExitCode {
  const name = nameOf(host);
  const how = code === "timeout" ? "Gave up waiting for" : "Stopped waiting for";
  return reportOutcome(terminal, code, {
    message: `${how} host ${name}: ${jobsText(host, running)}; it stays cordoned`,
    hints: [
      `zonewright host drain ${name}  to wait on`,
      `zonewright host uncordon ${name}  to let it claim jobs again`,
    ],
    json: printer.json,
  });
}

/** `3 jobs run`. A host that is away says nothing of its jobs. */
function jobsText(host: JsonObject, running: number): string {
  const away: HostState = "away";
  const jobs = `${running} ${running === 1 ? "job runs" : "jobs run"}`;
  return textIn(host, "state") === away ? `it is away, and ${jobs} there` : jobs;
}

/** Shows how many jobs run: in one line of a terminal, or a line for each change. */
function drainView(
  { terminal, printer }: Invocation,
): { show(host: JsonObject, running: number): void; close(): void } {
  let shown = "";
  const moves = canMove(terminal);
  return {
    show(host, running) {
      const line = printable(`${nameOf(host)}: ${jobsText(host, running)}`);
      if (printer.json || line === shown) return;
      shown = line;
      terminal.err(moves ? CLEAR_LINE + line : `${line}\n`);
    },
    close() {
      if (moves && shown !== "") terminal.err(CLEAR_LINE);
    },
  };
}

const FORGET: Command = {
  summary: "give up a host that will not come back",
  operands: "HOST",
  examples: [
    ["host forget gz01", "asks first"],
    ["host forget gz01 --yes --json", "in scripts"],
  ],
  flags: [YES_FLAG],
  notes: [
    "Its unfinished jobs fail as host_lost, which frees their targets and machines. A connected host is\n" +
    "refused: cordon it instead. If a forgotten host returns, it does nothing until `host uncordon`.",
  ],
  shared: "agent",
  async run(call) {
    const { args, client, printer } = call;
    const host = await namedHost(call, args.operand);
    const action = (thing: string) => `forget ${thing} and fail its jobs`;
    if (!await isSure(call, "host", "forget", action, host)) return EXIT.failure;
    const sent = await client.send({ method: "DELETE", path: `${PATH}/${host.uuid}` });
    const answer = readObject(sent.body, "what was given up");
    if (printer.json) return printer.document(answer);
    const failed = numberIn(answer, "failed_jobs") ?? 0;
    const jobs = `${failed} ${failed === 1 ? "job" : "jobs"} failed`;
    printer.data(`${nameOf(readObject(answer.host, "the host"))} forgotten, ${jobs}`);
  },
  hint: ({ code }) =>
    code === "conflict"
      ? "zonewright host list  shows when each host was last heard from"
      : undefined,
};

/** The commands about the hosts of the store. @see docs/scale.md, Hosts */
export const HOST: Noun = {
  kind: "verbs",
  summary: "list, cordon, drain and forget the hosts that share the store",
  verbs: {
    list: LIST,
    show: SHOW,
    cordon: CORDON,
    drain: DRAIN,
    uncordon: UNCORDON,
    forget: FORGET,
  },
};

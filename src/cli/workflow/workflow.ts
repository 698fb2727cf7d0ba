// `zonewright workflow`: the workflows that jobs run.

import type { JsonObject } from "../../domain/json.ts";
import {
  numberIn,
  objectsAt,
  readObject,
  readObjects,
  textCell,
  textIn,
} from "../client/answer.ts";
import { shellQuoted } from "../client/api_call.ts";
import { usageError } from "../command/arguments.ts";
import {
  type Command,
  type CommandEnd,
  EXIT,
  type ExitCode,
  type Invocation,
  type Noun,
  YES_FLAG,
} from "../command/command.ts";
import { isMeant, uuidColumn } from "../command/named.ts";
import { durationText } from "../output/table.ts";
import { PARAM_FLAG, parseJsonText, readJsonFile, readParams } from "../command/typed_value.ts";
import { canMove, type Terminal } from "../output/terminal.ts";
import { fileFlag, readWorkflowFiles, workflowNamed, workflowUuid } from "./file.ts";
import { APPLY, CREATE, findingLines, UPDATE, VALIDATE } from "./write.ts";
import { resolve } from "@std/path";
import { systemNow } from "../../domain/instant.ts";
import { parseResume, type Resume } from "../../domain/job/request.ts";
import { tasksDigest } from "../../domain/taking.ts";
import type { Workflow } from "../../domain/job/workflow.ts";
import { openLog } from "../../metrics/log.ts";
import { TIMEOUT_FLAG, timeoutMsOf } from "../follow/follow.ts";
import { type FollowView, openLiveView, openPlainView } from "../follow/views.ts";
import { configFlags, configSources } from "../config/settings.ts";
import { showTrial, type TrialEnd, trialExit, watchTrial } from "./try_watch.ts";
import { PHASES } from "../../domain/job/state.ts";

const LIST: Command = {
  summary: "list workflows",
  examples: [["workflow list --all", "include the built-in ones"]],
  flags: [{ name: "all", help: "include the built-in ones" }],
  shared: "agent",
  async run({ args, client, printer }) {
    const path = `/workflows${args.has("all") ? "?builtin=true" : ""}`;
    const sent = await client.send({ method: "GET", path });
    const workflows = readObjects(sent.body, "the workflows");
    if (printer.json) return printer.document(workflows);
    printer.table([
      uuidColumn("UUID", workflows),
      { head: "NAME", flexible: true, cell: textCell("name") },
      { head: "TASKS", right: true, cell: (one) => String(objectsAt(one, "chain").length) },
      { head: "ON ERROR", right: true, cell: (one) => String(objectsAt(one, "onerror").length) },
      { head: "TIMEOUT", right: true, cell: timeoutText },
    ], workflows);
    if (workflows.length === 0) {
      printer.note("there are no workflows yet");
      printer.note("hint: zonewright workflow list --all  shows the built-in ones");
    }
  },
};

function timeoutText(object: JsonObject): string {
  const seconds = numberIn(object, "timeout");
  return seconds === undefined ? "-" : durationText(seconds);
}

const GET: Command = {
  summary: "show one workflow with its tasks",
  operands: "WORKFLOW",
  examples: [["workflow get hello", "by name or uuid"], [
    "workflow get hello --json > hello.json",
    "to change it",
  ]],
  flags: [],
  shared: "agent",
  async run(call) {
    const { args, client, printer } = call;
    const uuid = await workflowUuid(call, args.operand);
    const sent = await client.send({ method: "GET", path: `/workflows/${uuid}` });
    const workflow = readObject(sent.body, "the workflow");
    if (printer.json) return printer.document(workflow);
    printer.pairs([
      ["workflow", textIn(workflow, "uuid") ?? ""],
      ["name", textIn(workflow, "name") ?? ""],
      ["timeout", timeoutText(workflow)],
      ["digest", await digestOf(workflow)],
    ]);
    const tasks = PHASES.flatMap((phase) =>
      objectsAt(workflow, phase).map((task) => ({ phase, task }))
    );
    if (tasks.length === 0) return;
    printer.data("");
    printer.table([
      { head: "CHAIN", cell: ({ phase }) => phase },
      {
        head: "TASK",
        flexible: true,
        cell: ({ task }) => textIn(task, "name") ?? textIn(task, "uuid") ?? "",
      },
      { head: "RETRY", right: true, cell: ({ task }) => String(numberIn(task, "retry") ?? 0) },
      { head: "TIMEOUT", right: true, cell: ({ task }) => timeoutText(task) },
      {
        head: "FALLBACK",
        cell: ({ task }) => textIn(task, "fallback") === undefined ? "-" : "yes",
      },
    ], tasks);
  },
};

/** The digest of the tasks, by which the policy of a host may name them. */
function digestOf(workflow: JsonObject): Promise<string> {
  const [chain = [], onerror = [], oncancel = []] = PHASES.map((phase) =>
    objectsAt(workflow, phase)
  );
  return tasksDigest({ chain, onerror, oncancel });
}

const DELETE: Command = {
  summary: "delete a workflow; its jobs stay",
  operands: "WORKFLOW",
  examples: [["workflow delete hello", "by name or uuid"]],
  flags: [YES_FLAG],
  notes: [
    "It asks only when fewer than 8 characters of a uuid name the workflow, which --yes does not\n" +
    "accept.",
  ],
  shared: "agent",
  async run(call): Promise<CommandEnd> {
    const { args, client, printer } = call;
    const workflow = await workflowNamed(call, args.operand);
    const { uuid } = workflow;
    if (!await isMeant(call, "workflow", "delete", workflow)) return EXIT.failure;
    await client.send({ method: "DELETE", path: `/workflows/${uuid}` });
    if (printer.json) printer.document({ uuid, deleted: true });
    else printer.note(`deleted workflow ${uuid}`);
  },
};

/** Name of the file of types beside the workflows. */
const FILE_NAME = "zonewright.d.ts";

/** `zonewright workflow types`: the text of docs/zonewright.d.ts, which is part of the program. */
const TYPES: Command = {
  summary: "print the types of task bodies, for an editor",
  examples: [[
    `workflow types > ${FILE_NAME}`,
    "next to your workflow sources; see docs/tasks.md",
  ]],
  flags: [],
  shared: "output",
  async run({ printer, terminal }) {
    const { WORKFLOW_TYPES } = await import("./type_text.ts");
    if (printer.json) printer.document({ file: FILE_NAME, text: WORKFLOW_TYPES });
    // Not escaped: every line of it is ours.
    else terminal.out(WORKFLOW_TYPES);
  },
};

/** Settings of an agent that a trial takes too, and changes to their help. */
const SETTINGS: Readonly<Record<string, { readonly help?: string }>> = {
  "media-dir": {},
  index: { help: "image index, synced when a task asks for it [the sample index]" },
  "allow-http-index": {},
};

const TRY: Command = {
  summary: "run a workflow once on a simulated host, without an agent",
  examples: [
    ["workflow try -f hello.json -p whom=world", "real guests and capabilities; nothing is stored"],
    ["workflow try -f boot.json --params params.json --media-dir .", "with your own medium"],
    ['workflow try -f eject.json --resume-with \'{"result": "done"}\'', "with a task that waits"],
  ],
  flags: [
    fileFlag(),
    PARAM_FLAG,
    {
      name: "params",
      placeholder: "FILE",
      help: "parameters as a JSON object; --param overrides them",
    },
    { name: "target", placeholder: "TEXT", help: "the target of the job" },
    {
      name: "resume-with",
      placeholder: "JSON",
      many: true,
      help: "the body of the resume when a task waits (repeatable, for later waits)",
    },
    {
      name: "host-state",
      placeholder: "DIR",
      help: "keep the simulated host in this folder, with its machines",
    },
    TIMEOUT_FLAG,
    ...configFlags().filter(({ name }) => Object.hasOwn(SETTINGS, name))
      .map((flag) => ({ ...flag, ...SETTINGS[flag.name] })),
  ],
  notes: [
    "The workflow runs with an agent's guests and capabilities on a simulated host. Everything is removed\n" +
    "at the end, also on Ctrl-C. The exit code is that of job run --wait; a job that waits and is not\n" +
    "resumed is not a failure.",
  ],
  shared: "output",
  async run(call) {
    const files = await readWorkflowFiles(call.args, call.terminal);
    const { withWorkflowCheck } = await import("./check.ts");
    const checked = await withWorkflowCheck((check) => check(files[0]?.text ?? ""));
    findingLines(files[0]?.name ?? "", checked).forEach(call.printer.note);
    if (checked.workflow === undefined) return EXIT.usage;
    const code = await tryWorkflow(call, checked.workflow);
    const file = call.args.text("file") ?? "-";
    if (code === EXIT.ok && file !== "-") {
      call.printer.next(`workflow create -f ${shellQuoted(file)}`, "store it");
    }
    return code;
  },
  hint: () => "zonewright workflow try --help",
};

/**
 * Runs a workflow once on a simulated host, without an agent. That needs everything that an agent
 * consists of, which is loaded only on use.
 */
async function tryWorkflow(call: Invocation, workflow: Workflow): Promise<ExitCode> {
  const { args, terminal } = call;
  const timeoutMs = timeoutMsOf(call);
  const resumes = args.texts("resume-with").map(readResume);
  const hostState = args.text("host-state");
  const { flags, cwd } = configSources(call);
  const params = await paramsOf(call);
  const view = viewOf(terminal);
  const log = openLog({
    level: "error",
    format: "text",
    write: (line) => view.note(line),
    now: systemNow,
  });
  const stop = listenForStop(terminal);
  let end: TrialEnd;
  try {
    const { withTrial } = await import("../../trial/trial.ts");
    end = await withTrial({
      workflow,
      params,
      target: args.text("target") ?? null,
      flags,
      cwd,
      hostState: hostState === undefined ? null : resolve(terminal.cwd, hostState),
      log,
    }, (trial) =>
      watchTrial(trial, view, {
        secrets: new Set(workflow.secret_params),
        resumes,
        signal: stop.signal,
        nowMs: terminal.nowMs,
        ...(timeoutMs === undefined ? {} : { timeoutMs }),
      }));
  } finally {
    view.close();
    stop.close();
  }
  showTrial(call.printer, end);
  return trialExit(call, end);
}

function readResume(text: string): Resume {
  return parseResume(parseJsonText(text, "--resume-with"));
}

/** @throws {AgentError} `invalid_argument`; `not_found` when it does not exist */
async function paramsOf({ args, terminal }: Invocation): Promise<JsonObject> {
  const file = args.text("params");
  if (file === "-" && args.text("file") === "-") {
    throw usageError("standard input is given twice, expected it once");
  }
  const ofFile = file === undefined ? {} : await readJsonFile(file, terminal);
  // Entries, not a spread: a key named __proto__ must stay a key.
  return Object.fromEntries([
    ...Object.entries(ofFile),
    ...Object.entries(readParams(args.texts("param"))),
  ]);
}

function viewOf(terminal: Terminal): FollowView {
  return canMove(terminal)
    ? openLiveView(terminal)
    : openPlainView((line) => terminal.err(`${line}\n`));
}

const STOP_SIGNALS = ["SIGTERM", "SIGHUP"] as const;

/** SIGINT and the like end the trial in order, no matter how often they come. */
function listenForStop(terminal: Terminal): { readonly signal: AbortSignal; close(): void } {
  const stop = new AbortController();
  const abort = () => stop.abort();
  const takeBack = terminal.onInterrupt(abort);
  for (const signal of STOP_SIGNALS) Deno.addSignalListener(signal, abort);
  return {
    signal: stop.signal,
    close() {
      takeBack();
      for (const signal of STOP_SIGNALS) Deno.removeSignalListener(signal, abort);
    },
  };
}

/** The commands about workflows. @see document 2 */
export const WORKFLOW: Noun = {
  kind: "verbs",
  summary: "manage workflows, the chains of tasks that jobs run",
  verbs: {
    list: LIST,
    get: GET,
    create: CREATE,
    apply: APPLY,
    update: UPDATE,
    delete: DELETE,
    validate: VALIDATE,
    try: TRY,
    types: TYPES,
  },
};

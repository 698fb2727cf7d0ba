// `zonewright workflow`: the workflows that jobs are made of.

import type { JsonObject } from "../../domain/json.ts";
import { numberIn, objectsIn, readObject, readObjects, textIn } from "../kit/answer.ts";
import { usageError } from "../kit/arguments.ts";
import type { Call, Command, Noun } from "../kit/command.ts";
import { EXIT, type ExitCode } from "../kit/exit_code.ts";
import { readJsonFile } from "../kit/printer.ts";
import { durationText } from "../kit/table.ts";
import { printable } from "../kit/terminal.ts";
import { fileFlag, TYPES, workflowUuid } from "./file.ts";
import { TRY } from "./try.ts";
import { VALIDATE } from "./validate.ts";

const LIST: Command = {
  summary: "list workflows",
  operands: "",
  operandsMin: 0,
  operandsMax: 0,
  examples: [["workflow list --all", "also those that are part of the agent"]],
  flags: [{ name: "all", help: "also those that are part of the agent" }],
  shared: "agent",
  async run({ args, client, printer }) {
    const path = `/workflows${args.has("all") ? "?builtin=true" : ""}`;
    const sent = await client.send({ method: "GET", path });
    if (sent.kind === "printed") return EXIT.ok;
    const workflows = readObjects(sent.body, "the workflows");
    if (printer.json) printer.document(workflows);
    else {
      printer.table(
        [
          { head: "UUID" },
          { head: "NAME", flexible: true },
          { head: "TASKS", right: true },
          { head: "ON ERROR", right: true },
          { head: "TIMEOUT", right: true },
        ],
        workflows.map((workflow) => [
          textIn(workflow, "uuid") ?? "",
          textIn(workflow, "name") ?? "",
          String(objectsIn(workflow, "chain").length),
          String(objectsIn(workflow, "onerror").length),
          timeoutText(workflow),
        ]),
      );
    }
    return EXIT.ok;
  },
};

function timeoutText(object: JsonObject): string {
  const seconds = numberIn(object, "timeout");
  return seconds === undefined ? "-" : durationText(seconds);
}

const GET: Command = {
  summary: "show one workflow with its tasks",
  operands: "WORKFLOW",
  operandsMin: 1,
  operandsMax: 1,
  examples: [["workflow get hello", "by name or uuid"], [
    "workflow get hello --json > hello.json",
    "to change it",
  ]],
  flags: [],
  shared: "agent",
  async run({ args, client, printer }) {
    const uuid = await workflowUuid(client, args.operands[0] ?? "");
    const sent = await client.send({ method: "GET", path: `/workflows/${uuid}` });
    if (sent.kind === "printed") return EXIT.ok;
    const workflow = readObject(sent.body, "the workflow");
    if (printer.json) {
      printer.document(workflow);
      return EXIT.ok;
    }
    printer.pairs([
      ["workflow", textIn(workflow, "uuid") ?? ""],
      ["name", printable(textIn(workflow, "name") ?? "")],
      ["timeout", timeoutText(workflow)],
    ]);
    const rows = (["chain", "onerror", "oncancel"] as const).flatMap((phase) =>
      objectsIn(workflow, phase).map((task) => [
        phase,
        textIn(task, "name") ?? textIn(task, "uuid") ?? "",
        String(numberIn(task, "retry") ?? 0),
        timeoutText(task),
        textIn(task, "fallback") === undefined ? "-" : "yes",
      ])
    );
    if (rows.length === 0) return EXIT.ok;
    printer.data("");
    printer.table(
      [
        { head: "CHAIN" },
        { head: "TASK", flexible: true },
        { head: "RETRY", right: true },
        { head: "TIMEOUT", right: true },
        { head: "FALLBACK" },
      ],
      rows,
    );
    return EXIT.ok;
  },
};

async function fileOf(call: Call): Promise<JsonObject> {
  const file = call.args.text("file");
  if (file === undefined) throw usageError("-f FILE is missing: expected a workflow as JSON");
  return await readJsonFile(file, call.terminal);
}

function written(call: Call, body: unknown): ExitCode {
  const workflow = readObject(body, "the workflow");
  if (call.printer.json) call.printer.document(workflow);
  else call.printer.data(textIn(workflow, "uuid") ?? "");
  return EXIT.ok;
}

const CREATE: Command = {
  summary: "create a workflow from a file",
  operands: "",
  operandsMin: 0,
  operandsMax: 0,
  examples: [["workflow create -f hello.json", "prints its uuid"]],
  flags: [fileFlag()],
  shared: "agent",
  async run(call) {
    const body = await fileOf(call);
    const sent = await call.client.send({ method: "POST", path: "/workflows", body });
    if (sent.kind === "printed") return EXIT.ok;
    const code = written(call, sent.body);
    call.printer.next(`job run ${textIn(body, "name") ?? ""} --follow`, "run it");
    return code;
  },
};

const UPDATE: Command = {
  summary: "replace a workflow; its jobs keep the chain they have",
  operands: "WORKFLOW",
  operandsMin: 1,
  operandsMax: 1,
  examples: [["workflow update hello -f hello.json", "by name or uuid"]],
  flags: [fileFlag()],
  shared: "agent",
  async run(call) {
    const body = await fileOf(call);
    const uuid = await workflowUuid(call.client, call.args.operands[0] ?? "");
    const sent = await call.client.send({ method: "PUT", path: `/workflows/${uuid}`, body });
    return sent.kind === "printed" ? EXIT.ok : written(call, sent.body);
  },
};

const DELETE: Command = {
  summary: "delete a workflow; its jobs stay",
  operands: "WORKFLOW",
  operandsMin: 1,
  operandsMax: 1,
  examples: [["workflow delete hello", "by name or uuid"]],
  flags: [],
  shared: "agent",
  async run({ args, client, printer }) {
    const uuid = await workflowUuid(client, args.operands[0] ?? "");
    const sent = await client.send({ method: "DELETE", path: `/workflows/${uuid}` });
    if (sent.kind === "printed") return EXIT.ok;
    if (printer.json) printer.document({ uuid, deleted: true });
    else printer.note(`deleted workflow ${uuid}`);
    return EXIT.ok;
  },
};

/** @see document 2 */
export const WORKFLOW: Noun = {
  kind: "verbs",
  summary: "store the chains of tasks that jobs run",
  verbs: {
    list: LIST,
    get: GET,
    create: CREATE,
    update: UPDATE,
    delete: DELETE,
    validate: VALIDATE,
    try: TRY,
    types: TYPES,
  },
};

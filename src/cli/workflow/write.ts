// `zonewright workflow create`, `apply` and `update`: send a workflow from a file to the agent.

import type { JsonObject } from "../../domain/json.ts";
import { readObject, textIn } from "../client/api_call.ts";
import { type Command, EXIT, type ExitCode, type Invocation } from "../command/command.ts";
import { readJsonFile } from "../output/printer.ts";
import { fileFlag, missingFile, workflowUuid } from "./file.ts";
import { workflowsNamed } from "../client/named.ts";
import { AgentError } from "../../domain/error.ts";

async function fileOf(call: Invocation): Promise<JsonObject> {
  const file = call.args.text("file");
  if (file === undefined) throw missingFile();
  return await readJsonFile(file, call.terminal);
}

function written(call: Invocation, body: unknown): ExitCode {
  const workflow = readObject(body, "the workflow");
  if (call.printer.json) call.printer.document(workflow);
  else call.printer.data(textIn(workflow, "uuid") ?? "");
  return EXIT.ok;
}

/** `zonewright workflow create`. */
export const CREATE: Command = {
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

/** `zonewright workflow apply`. */
export const APPLY: Command = {
  summary: "create a workflow from a file, or replace the one of its name",
  operands: "",
  operandsMin: 0,
  operandsMax: 0,
  examples: [
    ["workflow apply -f hello.json", "says which it was; existing jobs keep their chain"],
    ["workflow apply -f hello.json --json", '{"applied": "created" or "replaced", "workflow": …}'],
  ],
  flags: [fileFlag()],
  notes: [
    "Where several workflows have the name, none is replaced and the command exits 6: workflow update\n" +
    "takes a uuid.",
  ],
  shared: "agent",
  async run(call) {
    const { client, printer } = call;
    const body = await fileOf(call);
    const name = textIn(body, "name");
    // Without a name, the agent says what is missing.
    const found = name === undefined ? [] : await workflowsNamed(client, name);
    if (name !== undefined && found.length > 1) throw severalOfName(name, found);
    const uuid = found.map((workflow) => textIn(workflow, "uuid")).at(0);
    const sent = await client.send(
      uuid === undefined
        ? { method: "POST", path: "/workflows", body }
        : { method: "PUT", path: `/workflows/${uuid}`, body },
    );
    if (sent.kind === "printed") return EXIT.ok;
    const workflow = readObject(sent.body, "the workflow");
    const applied = uuid === undefined ? "created" : "replaced";
    if (printer.json) printer.document({ applied, workflow });
    else printer.data(`${applied} ${textIn(workflow, "uuid") ?? ""} ${name ?? ""}`);
    printer.next(`job run ${name ?? ""} --follow`, "run it");
    return EXIT.ok;
  },
};

/** The error when a name does not say which workflow to replace. */
function severalOfName(name: string, found: readonly JsonObject[]): AgentError {
  const uuids = found.map((workflow) => textIn(workflow, "uuid")).join(", ");
  const message =
    `Cannot replace workflow ${JSON.stringify(name)}: ${found.length} have that name: ` +
    `expected one of the uuids ${uuids}`;
  return new AgentError("conflict", message);
}

/** `zonewright workflow update`. */
export const UPDATE: Command = {
  summary: "replace a workflow; existing jobs keep their chain",
  operands: "WORKFLOW",
  operandsMin: 1,
  operandsMax: 1,
  examples: [["workflow update hello -f hello.json", "by name or uuid"]],
  flags: [fileFlag()],
  shared: "agent",
  async run(call) {
    const body = await fileOf(call);
    const uuid = await workflowUuid(call, call.args.operands[0] ?? "");
    const sent = await call.client.send({ method: "PUT", path: `/workflows/${uuid}`, body });
    return sent.kind === "printed" ? EXIT.ok : written(call, sent.body);
  },
};

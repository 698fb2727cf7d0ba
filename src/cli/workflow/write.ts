// `zonewright workflow create`, `apply` and `update` send a workflow from a file to the agent; `validate` checks
// it as an agent would, without one.

import type { JsonObject } from "../../domain/json.ts";
import { readObject, textIn } from "../client/answer.ts";
import { shellQuoted } from "../client/api_call.ts";
import { type Command, EXIT, type Invocation } from "../command/command.ts";
import type { Printer } from "../output/printer.ts";
import { readJsonFile } from "../command/typed_value.ts";
import {
  fileFlag,
  missingFile,
  readWorkflowFiles,
  type WorkflowFile,
  workflowUuid,
} from "./file.ts";
import { workflowsNamed } from "../command/named.ts";
import { AgentError } from "../../domain/error.ts";
import { tasksDigest } from "../../domain/taking.ts";
import type { CheckedWorkflow, WorkflowFinding } from "./check.ts";

async function fileOf(call: Invocation): Promise<JsonObject> {
  const file = call.args.text("file");
  if (file === undefined) throw missingFile();
  return await readJsonFile(file, call.terminal);
}

function written(call: Invocation, body: unknown): void {
  const workflow = readObject(body, "the workflow");
  call.printer.result(workflow, textIn(workflow, "uuid") ?? "");
}

/** `zonewright workflow create`: POST /workflows with a file. */
export const CREATE: Command = {
  summary: "create a workflow from a file",
  examples: [["workflow create -f hello.json", "prints its uuid"]],
  flags: [fileFlag()],
  shared: "agent",
  async run(call) {
    const body = await fileOf(call);
    const sent = await call.client.send({ method: "POST", path: "/workflows", body });
    const code = written(call, sent.body);
    call.printer.next(`job run ${shellQuoted(textIn(body, "name") ?? "")} --follow`, "run it");
    return code;
  },
};

/** `zonewright workflow apply`: PUT when exactly one workflow has the name, else POST. May be repeated. */
export const APPLY: Command = {
  summary: "create a workflow from a file, or replace the one of its name",
  examples: [
    ["workflow apply -f hello.json", "prints which; existing jobs keep their chain"],
    ["workflow apply -f hello.json --json", '{"applied": "created" or "replaced", "workflow": …}'],
  ],
  flags: [fileFlag()],
  notes: [
    "If several workflows have the name, none is replaced and the command exits 6: use workflow update with\n" +
    "a uuid.",
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
    const workflow = readObject(sent.body, "the workflow");
    const applied = uuid === undefined ? "created" : "replaced";
    printer.result(
      { applied, workflow },
      `${applied} ${textIn(workflow, "uuid") ?? ""} ${name ?? ""}`,
    );
    printer.next(`job run ${shellQuoted(name ?? "")} --follow`, "run it");
  },
};

/** The error when a name does not say which workflow to replace. */
function severalOfName(name: string, found: readonly JsonObject[]): AgentError {
  const uuids = found.map((workflow) => textIn(workflow, "uuid")).join(", ");
  const message =
    `Cannot replace workflow ${JSON.stringify(name)}: ${found.length} have that name, ` +
    `expected one of the uuids ${uuids}`;
  return new AgentError("conflict", message);
}

/** `zonewright workflow update WORKFLOW`: PUT /workflows/UUID with a file. */
export const UPDATE: Command = {
  summary: "replace a workflow; existing jobs keep their chain",
  operands: "WORKFLOW",
  examples: [["workflow update hello -f hello.json", "by name or uuid"]],
  flags: [fileFlag()],
  shared: "agent",
  async run(call) {
    const body = await fileOf(call);
    const uuid = await workflowUuid(call, call.args.operand);
    const sent = await call.client.send({ method: "PUT", path: `/workflows/${uuid}`, body });
    return written(call, sent.body);
  },
};

/** Most operands, which are further files. */
const OPERANDS_MAX = 1000;

/** `zonewright workflow validate`: the checks of POST /workflows and further warnings, in this process. */
export const VALIDATE: Command = {
  summary: "check workflow files without an agent; exits 2 when one is wrong",
  operands: "[FILE]...",
  operandsMax: OPERANDS_MAX,
  examples: [
    ["workflow validate -f hello.json", "every incorrect field, and likely mistakes"],
    ["workflow validate workflows/*.json --json", "for scripts"],
    ["workflow get hello --json | zonewright workflow validate -f -", "a stored one"],
  ],
  flags: [fileFlag(true)],
  notes: [
    "Errors are those of POST /workflows with an agent's default limits. Warnings are likely mistakes;\n" +
    "they do not change the exit code.",
  ],
  shared: "output",
  async run({ args, terminal, printer }) {
    const { withWorkflowCheck } = await import("./check.ts");
    const files = await readWorkflowFiles(args, terminal);
    const checked = await withWorkflowCheck((check) =>
      Promise.all(files.map(async (file) => ({ file, ...await check(file.text) })))
    );
    const ok = checked.every(({ errors }) => errors.length === 0);
    if (printer.json) {
      printer.document({ ok, files: await Promise.all(checked.map(fileDocument)) });
    } else for (const one of checked) showChecked(printer, one);
    const [path] = [...args.texts("file"), ...args.operands];
    if (ok && files.length === 1 && path !== undefined && path !== "-") {
      printer.next(`workflow try -f ${shellQuoted(path)}`, "run it on a simulated host");
    }
    return ok ? EXIT.ok : EXIT.usage;
  },
  hint: () => "zonewright workflow validate --help",
};

type CheckedFile = CheckedWorkflow & { readonly file: WorkflowFile };

async function fileDocument({ file, errors, warnings, workflow }: CheckedFile) {
  const { name, chain = [] } = workflow ?? {};
  return {
    file: file.name,
    ok: errors.length === 0,
    ...(workflow === undefined
      ? {}
      : { name, tasks: chain.length, digest: await tasksDigest(workflow) }),
    errors: errors.map(findingDocument),
    warnings: warnings.map(findingDocument),
  };
}

function findingDocument(
  { excerpt: _, ...finding }: WorkflowFinding,
): Omit<WorkflowFinding, "excerpt"> {
  return finding;
}

function showChecked(printer: Printer, checked: CheckedFile): void {
  const { file, errors, workflow } = checked;
  findingLines(file.name, checked).forEach(printer.data);
  if (errors.length > 0 || workflow === undefined) return;
  const count = workflow.chain.length;
  const tasks = `${count} task${count === 1 ? "" : "s"}`;
  printer.data(`${file.name}: ok: workflow ${JSON.stringify(workflow.name)} with ${tasks}`);
}

/** The findings of a file as lines; errors come first. */
export function findingLines(
  file: string,
  { errors, warnings }: Pick<CheckedWorkflow, "errors" | "warnings">,
): string[] {
  const lines = (word: string, findings: readonly WorkflowFinding[]) =>
    findings.flatMap((finding) => [
      `${file}: ${word}: ${findingText(finding)}`,
      ...(finding.excerpt ?? []).map((line) => `    ${line}`),
    ]);
  return [...lines("error", errors), ...lines("warning", warnings)];
}

/** `chain[0].body (task "greet") is not a function definition: ...`. */
function findingText({ field, message, task }: WorkflowFinding): string {
  if (task === undefined || !message.startsWith(field)) return message;
  return `${field} (task ${JSON.stringify(task)})${message.slice(field.length)}`;
}

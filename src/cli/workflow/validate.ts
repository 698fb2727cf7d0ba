// `zonewright workflow validate`: checks workflows as an agent would, without one.

import { type Command, EXIT } from "../command/command.ts";
import type { Printer } from "../output/printer.ts";
import type { CheckedWorkflow, WorkflowFinding } from "./check.ts";
import { fileFlag, readWorkflowFiles, type WorkflowFile } from "./file.ts";

/** Most operands, which are further files. */
const OPERANDS_MAX = 1000;

/** `zonewright workflow validate`. */
export const VALIDATE: Command = {
  summary: "check workflow files without an agent; exits 2 when one is wrong",
  operands: "[FILE]...",
  operandsMin: 0,
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
    const { withWorkflowCheck } = await import("./decoder.ts");
    const files = await readWorkflowFiles(args, terminal);
    const checked = await withWorkflowCheck((check) =>
      Promise.all(files.map(async (file) => ({ file, ...await check(file.text) })))
    );
    const ok = checked.every(({ errors }) => errors.length === 0);
    if (printer.json) printer.document({ ok, files: checked.map(fileDocument) });
    else for (const one of checked) showChecked(printer, one);
    const [path] = [...args.texts("file"), ...args.operands];
    if (ok && files.length === 1 && path !== undefined && path !== "-") {
      printer.next(`workflow try -f ${path}`, "run it on a simulated host");
    }
    return ok ? EXIT.ok : EXIT.usage;
  },
  hint: () => "zonewright workflow validate --help",
};

type CheckedFile = CheckedWorkflow & { readonly file: WorkflowFile };

function fileDocument({ file, errors, warnings, workflow }: CheckedFile) {
  return {
    file: file.name,
    ok: errors.length === 0,
    ...(workflow === undefined ? {} : { name: workflow.name, tasks: workflow.chain.length }),
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

// How commands name workflows: files for `workflow validate` and `workflow try`, in which a mistake is a finding to
// report, not a failure of the command; and stored workflows, by uuid or by name, though the HTTP interface only
// takes uuids.

import { AgentError } from "../../domain/error.ts";
import { type Arguments, cannot, type Flag, usageError } from "../command/arguments.ts";
import { readText } from "../command/typed_value.ts";
import type { Terminal } from "../output/terminal.ts";
import { isUuid } from "../../domain/id.ts";
import type { JsonObject } from "../../domain/json.ts";
import { nearest } from "../../domain/near_word.ts";
import { readObjects, textIn } from "../client/answer.ts";
import type { Client } from "../client/client.ts";
import { type NamedThing, workflowKnown, workflowsNamed } from "../command/named.ts";
import type { Invocation } from "../command/command.ts";

/** Most files that one command reads. */
const FILES_MAX = 1000;
/** The name of standard input on the command line. */
const STANDARD_INPUT = "-";

/** A workflow file, not parsed yet. */
export interface WorkflowFile {
  /** As the command line names it; `standard input` for `-`. */
  readonly name: string;
  readonly text: string;
}

/** `-f FILE` for one workflow or several. */
export function fileFlag(many?: true): Flag {
  return {
    name: "file",
    short: "f",
    placeholder: "FILE",
    help: "the workflow as JSON; - is standard input" + (many === true ? " (repeatable)" : ""),
    ...(many === true ? { many } : {}),
  };
}

/** The error for a command without `-f FILE`. */
export function missingFile(): Error {
  return usageError("-f FILE is missing, expected a workflow as JSON");
}

/**
 * Reads every file that `-f` and the operands name.
 * @throws {AgentError} `invalid_argument` when none is named or one cannot be read; `not_found`
 */
export async function readWorkflowFiles(
  { texts, operands }: Arguments,
  terminal: Terminal,
): Promise<WorkflowFile[]> {
  const paths = [...texts("file"), ...operands];
  if (paths.length === 0) throw missingFile();
  if (paths.length > FILES_MAX) {
    throw cannot(`check ${paths.length} files, expected ${FILES_MAX} at most`);
  }
  if (paths.filter((path) => path === STANDARD_INPUT).length > 1) {
    throw usageError("standard input is given twice, expected it once");
  }
  const files: WorkflowFile[] = [];
  for (const path of paths) {
    const name = path === STANDARD_INPUT ? "standard input" : path;
    files.push({ name, text: await readText(path, terminal) });
  }
  return files;
}

/** The uuid of a workflow. @throws {AgentError} as workflowNamed() */
export async function workflowUuid(call: Invocation, nameOrUuid: string): Promise<string> {
  return (await workflowNamed(call, nameOrUuid)).uuid;
}

/**
 * The workflow that a word names: its uuid, its name or the beginning of its uuid.
 * @throws {AgentError} `not_found`; `invalid_argument` for several
 */
export async function workflowNamed(call: Invocation, word: string): Promise<NamedThing> {
  return await workflowKnown(call, word) ?? await refuseUnknown(call.client, word);
}

/**
 * The uuid of the workflow that a job will run. If several have that name and do the same, it is the newest.
 * @throws {AgentError} `not_found`; `invalid_argument` when several of that name differ
 */
export async function workflowToRun(call: Invocation, nameOrUuid: string): Promise<string> {
  const folded = nameOrUuid.toLowerCase();
  if (isUuid(folded)) return folded;
  const found = await workflowsNamed(call.client, nameOrUuid);
  const newest = found.at(-1);
  if (newest === undefined || new Set(found.map(withoutUuids)).size > 1) {
    return await workflowUuid(call, nameOrUuid);
  }
  return textIn(newest, "uuid") ?? "";
}

/** What a workflow does, as text, without the uuids that the agent gave to it and its tasks. */
function withoutUuids(workflow: JsonObject): string {
  return JSON.stringify(workflow, (key, value) => key === "uuid" ? undefined : value);
}

async function refuseUnknown(client: Client, name: string): Promise<never> {
  const all = readObjects(await client.get("/workflows?builtin=true"), "the workflows");
  const names = all.flatMap((workflow) => textIn(workflow, "name") ?? []);
  const why = nearest(name, names) || ": none has that name, or a uuid that begins with it";
  const message = `Cannot find workflow ${JSON.stringify(name)}${why}`;
  throw new AgentError("not_found", message, { about: { kind: "workflow" } });
}

// Files of workflows as `workflow validate` and `workflow try` take them: texts that may be wrong in
// any way, which is then something to tell and no failure of the command.

import { resolve } from "@std/path";
import { AgentError, messageOf } from "../../domain/error.ts";
import { type Arguments, type Flag, usageError } from "../kit/arguments.ts";
import type { Terminal } from "../kit/terminal.ts";

/** Files that one command reads. */
const FILES_MAX = 1000;
/** The name of standard input on the command line. */
const STANDARD_INPUT = "-";

/** A file of a workflow, not looked at yet. */
export interface WorkflowFile {
  /** As the command line names it; `standard input` for `-`. */
  readonly name: string;
  readonly text: string;
}

/** `-f FILE` of a command that takes one workflow or several. */
export function fileFlag(many?: true): Flag {
  return {
    name: "file",
    short: "f",
    placeholder: "FILE",
    help: "the workflow as JSON; - is standard input" + (many === true ? " (repeatable)" : ""),
    ...(many === true ? { many } : {}),
  };
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
  if (paths.length === 0) throw usageError("-f FILE is missing: expected a workflow as JSON");
  if (paths.length > FILES_MAX) throw usageError(`over ${FILES_MAX} files are named`);
  if (paths.filter((path) => path === STANDARD_INPUT).length > 1) {
    throw usageError("standard input is named twice");
  }
  const files: WorkflowFile[] = [];
  for (const path of paths) files.push(await readFile(path, terminal));
  return files;
}

async function readFile(path: string, terminal: Terminal): Promise<WorkflowFile> {
  if (path === STANDARD_INPUT) return { name: "standard input", text: await terminal.readIn() };
  try {
    return { name: path, text: await Deno.readTextFile(resolve(terminal.cwd, path)) };
  } catch (error) {
    const missing = error instanceof Deno.errors.NotFound;
    const why = missing ? "there is no such file" : messageOf(error);
    const message = `Cannot read ${JSON.stringify(path)}: ${why}`;
    const code = missing ? "not_found" : "invalid_argument";
    throw new AgentError(code, message, { cause: error });
  }
}

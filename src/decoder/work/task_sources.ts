// Parses task sources. The parser recurses, and the text decides its time and memory.

import { AgentError } from "../../domain/error.ts";
import { functionProblem } from "../../domain/job/task_source.ts";
import type { DecoderWork } from "./work.ts";

/** Characters of one problem; it may quote names from the source. */
const PROBLEM_CHARS_MAX = 500;

/**
 * Checks a JSON list of sources. Returns for each the reason why it cannot be a task, worded to follow the
 * name of its field, or null.
 */
export const taskSourcesWork: DecoderWork = async (_, input) => {
  const sources: unknown = JSON.parse(await textOf(input));
  if (!Array.isArray(sources)) throw new AgentError("malformed", "Cannot parse: expected a list");
  return sources.map((source: unknown) => cut(functionProblem(String(source))));
};

async function textOf(input: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const part of input) text += decoder.decode(part, { stream: true });
  return text + decoder.decode();
}

function cut(problem: string | undefined): string | null {
  if (problem === undefined) return null;
  return problem.length <= PROBLEM_CHARS_MAX ? problem : `${problem.slice(0, PROBLEM_CHARS_MAX)}…`;
}

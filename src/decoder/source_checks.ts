// The check of task sources on the agent's side: a decoder parses them, and what it said of a source
// is remembered, so that the runs of a known task ask nobody.

import { AgentError, invalidArgument } from "../domain/error.ts";
import type { JsonValue } from "../domain/json.ts";
import type { CheckSources } from "../domain/job/workflow.ts";
import type { DecoderOptions, Decoders } from "./pool.ts";

/** Sources whose problems are remembered, and characters of all of them. */
const REMEMBERED_MAX = 1024;
const REMEMBERED_CHARS_MAX = 4 * 1024 * 1024;
/**
 * One origin for the sources of all callers: a parser that was taken over could let through what the
 * walls around the guest stop all the same.
 */
const ORIGIN = "tasks";

/** The questions that are asked about sources. */
export interface SourceChecks {
  /** Why sources are not accepted: see CheckSources. */
  readonly acceptable: CheckSources;
  /**
   * What keeps a source from being run, in words that follow the name of the task, or undefined.
   * @throws {AgentError} as Decoders.ask()
   */
  readonly runnable: (source: string, signal: AbortSignal) => Promise<string | undefined>;
}

export function openSourceChecks(decoders: Pick<Decoders, "ask">): SourceChecks {
  const remembered = new RememberedProblems();
  const ask = async (
    sources: readonly string[],
    asked: Pick<DecoderOptions, "what" | "signal" | "ahead">,
  ) => {
    const unknown = [...new Set(sources)].filter((source) => !remembered.has(source));
    const found = new Map<string, string | undefined>();
    if (unknown.length > 0) {
      const input = new TextEncoder().encode(JSON.stringify(unknown));
      const options = { ...asked, code: "invalid_argument", origin: ORIGIN } as const;
      const answer = await decoders.ask("task_sources", {}, input, options);
      const problems = parseProblems(answer, unknown.length);
      for (const [at, source] of unknown.entries()) found.set(source, problems[at]);
    }
    const problems = sources.map((source) => found.get(source) ?? remembered.get(source));
    for (const [source, problem] of found) remembered.add(source, problem);
    return problems;
  };
  return {
    acceptable: async (sources, signal) =>
      await ask(sources, { what: "read the sources of the workflow", signal }).catch(refuseChain),
    async runnable(source, signal) {
      const [problem] = await ask([source], {
        what: "read the source of the task",
        signal,
        ahead: true,
      });
      return problem;
    },
  };
}

/** What takes more than it may is a mistake of the one who sent it, and has a field. */
function refuseChain(error: unknown): never {
  if (!(error instanceof AgentError) || error.code !== "invalid_argument") throw error;
  throw invalidArgument("chain", error.message, "TooLarge");
}

function parseProblems(answer: JsonValue, count: number): (string | undefined)[] {
  if (!Array.isArray(answer) || answer.length !== count) throw brokenAnswer();
  return answer.map((problem) => {
    if (problem === null || typeof problem === "string") return problem ?? undefined;
    throw brokenAnswer();
  });
}

function brokenAnswer(): AgentError {
  return new AgentError("internal", "Cannot read the sources: the decoder answered something else");
}

/** What is known of sources: the oldest is forgotten first. */
class RememberedProblems {
  readonly #problems = new Map<string, string | undefined>();
  #chars = 0;

  has(source: string): boolean {
    return this.#problems.has(source);
  }

  get(source: string): string | undefined {
    return this.#problems.get(source);
  }

  add(source: string, problem: string | undefined): void {
    if (source.length > REMEMBERED_CHARS_MAX || this.#problems.has(source)) return;
    this.#problems.set(source, problem);
    this.#chars += source.length;
    for (const oldest of this.#problems.keys()) {
      if (this.#problems.size <= REMEMBERED_MAX && this.#chars <= REMEMBERED_CHARS_MAX) return;
      this.#problems.delete(oldest);
      this.#chars -= oldest.length;
    }
  }
}

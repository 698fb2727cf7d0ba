// The agent's check of task sources: a decoder parses them, and its findings are cached, so that
// known tasks need no decoder.

import { AgentError, invalidArgument } from "../domain/error.ts";
import type { JsonValue } from "../domain/json.ts";
import type { CheckSources } from "../domain/job/workflow.ts";
import type { DecoderOptions } from "./work_order.ts";
import type { Decoders } from "./pool.ts";

/** Sources whose findings are cached, and their total characters. */
const REMEMBERED_MAX = 1024;
const REMEMBERED_CHARS_MAX = 4 * 1024 * 1024;
/**
 * One origin for the sources of all callers: what a parser taken over by one of them could let
 * through, the walls of the guest still stop.
 */
const ORIGIN = "tasks";

/** Checks of task sources. They are parsed in a decoder, never in the agent. */
export interface SourceChecks {
  /** Why sources are not accepted: see CheckSources. */
  readonly acceptable: CheckSources;
  /**
   * Why a source may not run, worded to follow the name of the task, or undefined.
   * @throws {AgentError} as Decoders.ask()
   */
  readonly runnable: (source: string, signal: AbortSignal) => Promise<string | undefined>;
}

/** Remembers what it found of `REMEMBERED_CHARS_MAX` characters of sources. */
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
      if (remembered.has(source)) return remembered.get(source);
      const [problem] = await ask([source], {
        what: "read the source of the task",
        signal,
        ahead: true,
      });
      return problem;
    },
  };
}

/** A source beyond the limits is the caller's mistake, in a named field. */
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
  return new AgentError(
    "internal",
    "Cannot read the sources: the answer of the decoder is not a list of problems",
  );
}

/** Cached findings; the oldest is dropped first. */
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

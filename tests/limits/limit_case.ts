// What a limit needs to be shown: an agent that is configured with small ones, and a way to meet one
// that tells what lies within it from what lies beyond.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import type { LIMITS } from "../../src/config/limits.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import {
  type AgentProcess,
  type Answer,
  programOfRun,
  startAgentProcess,
} from "../support/agent_process.ts";
import { withFolder } from "../support/until.ts";

export type LimitName = keyof typeof LIMITS;

/** Meets one limit of an agent that has it at `value`. */
export type Reach = (agent: AgentProcess, value: number) => Promise<void>;

/** Limits that one agent has at the same time, each with the way to meet it. */
export interface LimitGroup {
  readonly name: string;
  /** Flags besides those of the limits. */
  readonly flags?: readonly string[];
  readonly cases: { readonly [Name in LimitName]?: readonly [value: number, reach: Reach] };
  /** Limits that are no settings, by their meaning. */
  readonly fixed?: Readonly<Record<string, readonly [value: number, reach: Reach]>>;
}

/** The flags that set these limits. */
export function limitFlags(values: { readonly [Name in LimitName]?: number }): string[] {
  return Object.entries(values)
    .flatMap(([name, value]) => [`--${name.replaceAll("_", "-")}`, String(value)]);
}

/** Starts an agent with the limits of a group, and meets each. */
export function limitTest({ name, flags = [], cases, fixed = {} }: LimitGroup): void {
  Deno.test(`the limits of ${name} hold`, async (t) => {
    await withFolder(async (folder) => {
      const values = Object.fromEntries(
        Object.entries(cases).map(([limit, [value]]) => [limit, value]),
      );
      const agent = await startAgentProcess(
        programOfRun(),
        join(folder, "state"),
        ["--dev", ...limitFlags(values), ...flags],
      );
      try {
        for (const [limit, [value, reach]] of Object.entries({ ...cases, ...fixed })) {
          await t.step(limit, () => reach(agent, value));
        }
      } finally {
        assertEquals(await agent.stop(), 0, agent.log());
      }
    });
  });
}

/** Fails unless the answer refuses with this status, in words that name the limit. */
export function assertOver(answer: Answer, status: number, words: string): void {
  const text = JSON.stringify(answer.body);
  assertEquals(answer.status, status, text);
  assertStringIncludes(text, words);
}

/** Fails unless the answer is a success. */
export function assertTaken(answer: Answer): void {
  assert(answer.status < 300, `${answer.status} ${JSON.stringify(answer.body)}`);
}

export const BODY = "(job, cb) => cb()";

/** A workflow of one task, or of these. */
export function workflow(name: string, ...bodies: readonly string[]): JsonObject {
  const chain = (bodies.length === 0 ? [BODY] : bodies)
    .map((body, at) => ({ name: `task ${at}`, body }));
  return { name, chain };
}

/** Makes a workflow of these bodies. @returns its uuid */
export async function madeWorkflow(
  agent: AgentProcess,
  name: string,
  ...bodies: readonly string[]
): Promise<string> {
  const made = await agent.post("/workflows", workflow(name, ...bodies));
  assertTaken(made);
  return String(made.body.uuid);
}

/** Runs a workflow of these bodies to its end. */
export async function ran(
  agent: AgentProcess,
  bodies: readonly string[],
  params: JsonObject = {},
): Promise<JsonObject> {
  const uuid = await madeWorkflow(agent, crypto.randomUUID(), ...bodies);
  const posted = await agent.post("/jobs", { workflow: uuid, ...params });
  assertTaken(posted);
  return await agent.job(String(posted.body.uuid), "success", "failure");
}

/** The results of the chain of a job. */
export function resultsOf(job: JsonObject): JsonObject[] {
  return job.chain_results as JsonObject[];
}

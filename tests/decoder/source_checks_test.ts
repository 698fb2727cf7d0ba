// The check of sources: what it asks a decoder, what it remembers, and that what a stranger sends as a
// task ends no more than its own piece of work.

import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import type { DecoderOptions } from "../../src/decoder/work_order.ts";
import { openDecoders } from "../../src/decoder/pool.ts";
import { openSourceChecks } from "../../src/decoder/source_checks.ts";
import { AgentError } from "../../src/domain/error.ts";
import { randomUuid } from "../../src/domain/id.ts";
import type { JsonValue } from "../../src/domain/json.ts";
import { functionProblem } from "../../src/decoder/work/task_sources.ts";
import { readWorkflow } from "../../src/domain/job/workflow.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { ACTION_WORKFLOWS, MACHINE_LIFE } from "../../src/machines/workflows/machine_life.ts";
import { FETCH_MEDIUM_WORKFLOW } from "../../src/machines/media_jobs.ts";
import { PROVISION_MACHINE } from "../../src/machines/workflows/provision_machine.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { eachProgram } from "../support/each_program.ts";
import { sourceChecksHere } from "../support/parsed_workflow.ts";

const { signal } = new AbortController();

/** Checks whose decoder answers with what `answer` makes of the sources; it counts its questions. */
function answering(answer: (sources: string[], options: DecoderOptions) => JsonValue) {
  const asked: string[][] = [];
  const checks = openSourceChecks({
    ask: (_work, _request, input, options) => {
      assert(input instanceof Uint8Array);
      const sources: string[] = JSON.parse(new TextDecoder().decode(input));
      asked.push(sources);
      return Promise.resolve().then(() => answer(sources, options));
    },
  });
  return { asked, checks };
}

eachProgram("a decoder says why sources are not accepted, and may not run", async (program) => {
  const self = { ...program, compiled: program.name !== "source" };
  const decoders = openDecoders({ self, log: silentLog });
  try {
    const { acceptable, runnable } = openSourceChecks(decoders);
    const sources = ["() => {}", "1 + 1", "() => import('x')", "function (\ud800) {", "() => {}"];
    const problems = await acceptable(sources, signal);
    assertEquals(problems, sources.map(functionProblem));
    assertEquals(await runnable("() => {}", signal), undefined);
    assertMatch(await runnable("() => import('x')", signal) ?? "", /^may use import as code/);
    assertMatch(await runnable("1 + 1", signal) ?? "", /^is not a function definition/);
  } finally {
    await decoders.close();
  }
});

Deno.test("all sources of a workflow are one piece of work, and known ones need none", async () => {
  const { asked, checks } = answering((sources) =>
    sources.map((source) => source === "b" ? "is bad" : null)
  );
  await checks.acceptable(["a", "b", "a"], signal);
  assertEquals(await checks.runnable("b", signal), "is bad");
  assertEquals(await checks.acceptable(["b", "c"], signal), ["is bad", undefined]);
  assertEquals(asked, [["a", "b"], ["c"]]);
});

Deno.test("the cache of findings is limited by sources and by their characters", async () => {
  const { asked, checks } = answering((sources) => sources.map(() => null));
  for (let count = 0; count <= 1024; count++) await checks.runnable(`${count}`, signal);
  await checks.runnable("1", signal);
  assertEquals(asked.length, 1025);
  await checks.runnable("0", signal);
  assertEquals(asked.length, 1026);
  const long = (letter: string) => letter.repeat(3 * 1024 * 1024);
  for (const letter of ["x", "y", "x"]) await checks.runnable(long(letter), signal);
  assertEquals(asked.length, 1029);
  await checks.runnable(long("x"), signal);
  assertEquals(asked.length, 1029);
});

Deno.test("an answer that is not a list of problems is a bug, not a finding", async () => {
  for (const answer of [null, [], "x", [3], [[null]], [null, null]]) {
    const { checks } = answering(() => answer);
    const error = await assertRejects(() => checks.runnable("() => {}", signal), AgentError);
    assertEquals(error.code, "internal");
  }
});

Deno.test("sources that take too much are an error in the chain, and are checked again next time", async () => {
  const { asked, checks } = answering((_, { code, what }) => {
    throw new AgentError(code ?? "internal", `Cannot ${what} within 256 MiB and 10 s`);
  });
  for (let attempt = 1; attempt <= 2; attempt++) {
    const error = await assertRejects(() => checks.acceptable(["a"], signal), AgentError);
    assertEquals(error.code, "invalid_argument");
    assertEquals(error.errors.map(({ field, code }) => [field, code]), [["chain", "TooLarge"]]);
    assertEquals(asked.length, attempt);
  }
});

Deno.test("the sources of the built-in workflows, which no start checks, are valid", async () => {
  const { acceptable, runnable } = sourceChecksHere();
  assertEquals(Object.keys(MACHINE_LIFE).length, Object.keys(ACTION_WORKFLOWS).length);
  const all = [PROVISION_MACHINE, FETCH_MEDIUM_WORKFLOW, ...Object.values(MACHINE_LIFE)];
  for (const { uuid, definition } of all) {
    const { sources } = readWorkflow(definition, uuid, randomUuid, DEFAULT_HTTP_LIMITS);
    assert(sources.length > 0);
    assertEquals((await acceptable(sources, signal)).filter((problem) => problem), []);
    for (const source of sources) assertEquals(await runnable(source, signal), undefined);
  }
});

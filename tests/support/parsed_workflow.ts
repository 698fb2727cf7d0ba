// What tests of the parts behind the decoders need of them: workflows and checks of sources, with the
// parser in the test's own process.

import { openSourceChecks, type SourceChecks } from "../../src/decoder/source_checks.ts";
import { functionProblem, taskSourcesWork } from "../../src/decoder/work/task_sources.ts";
import type { NewUuid, WorkflowUuid } from "../../src/domain/id.ts";
import { readWorkflow, type Workflow, type WorkflowLimits } from "../../src/domain/job/workflow.ts";

/** A body of POST /workflows as the workflow that it becomes. @throws {AgentError} as the route does */
export function parseWorkflow(
  body: unknown,
  uuid: WorkflowUuid,
  newUuid: NewUuid,
  limits: WorkflowLimits,
): Workflow {
  const read = readWorkflow(body, uuid, newUuid, limits);
  return read.accept(read.sources.map(functionProblem));
}

/** The checks of sources, whose work is done here instead of in a decoder. */
export function sourceChecksHere(): SourceChecks {
  return openSourceChecks({
    ask: (_, request, input) =>
      taskSourcesWork(
        request,
        input instanceof Uint8Array ? partsOf(input) : input,
        () => Promise.resolve(),
      ),
  });
}

async function* partsOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(bytes);
}

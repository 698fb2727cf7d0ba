// The built-in workflow that brings a medium into the cache, or reads one again. Its task is a body
// like anyone's, run behind the same walls; it is a text here, and not a function, since a compiled
// program would hold the function rewritten and shortened.
//
// Params: `media`, as media.find() takes it. The result of the task is the medium.

import type { WorkflowUuid } from "../../../domain/id.ts";
import { FETCH } from "./fetch.ts";

const HOUR_SECONDS = 3600;

/**
 * The workflow and its constant uuid, which is the same in every agent; `definition` is a body of
 * POST /workflows.
 * @see document 2, Workflow
 */
export const FETCH_MEDIUM_WORKFLOW = {
  // The text has the form of a uuid, which is what the brand stands for.
  uuid: "b7c1a5d2-3e4f-4a6b-8c90-1d2e3f4a5b6c" as WorkflowUuid,
  definition: {
    name: "fetch-medium",
    chain: [{ name: "fetch", body: FETCH, timeout: 12 * HOUR_SECONDS }],
    timeout: 13 * HOUR_SECONDS,
  },
};

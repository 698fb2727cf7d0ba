// The differences between node-workflow, the software behind document 2, and that document, as one table.
// Programs written for that software need its column; all others get the document's. The words of
// `execution` are chosen in domain/job/wire.ts by the same name.

import { DOCUMENT_RESUME, type ResumeRules } from "../../domain/job/request.ts";
import type { Wording } from "../../domain/job/wire.ts";

/** How the routes of document 2 behave where the two differ. */
export interface Conventions {
  /** Status of a successful PUT of a workflow. */
  readonly putStatus: 200 | 201;
  /** Whether a PUT is answered with `Location` too. */
  readonly putLocation: boolean;
  /** Whether the uuid in the body of POST /workflows becomes the workflow's. */
  readonly clientUuid: boolean;
  /** Whether a second workflow of the same name is refused. */
  readonly uniqueNames: boolean;
  /** Whether a job may be made of a workflow without tasks; it succeeds at once. */
  readonly emptyChain: boolean;
  readonly resume: ResumeRules;
  /** Whether a task's `retry` counts its first execution too. */
  readonly retryCountsFirst: boolean;
  /** Whether `request-id` of an answer is the uuid of the resource. */
  readonly namesAnswers: boolean;
}

/** The two columns of the table. */
export const CONVENTIONS: Readonly<Record<Wording, Conventions>> = {
  document: {
    putStatus: 201,
    putLocation: true,
    clientUuid: false,
    uniqueNames: false,
    emptyChain: true,
    resume: DOCUMENT_RESUME,
    retryCountsFirst: false,
    namesAnswers: false,
  },
  "node-workflow": {
    putStatus: 200,
    putLocation: false,
    clientUuid: true,
    uniqueNames: true,
    emptyChain: false,
    resume: { defaultResult: "External task: OK", falsyErrorFails: false },
    retryCountsFirst: true,
    namesAnswers: true,
  },
};

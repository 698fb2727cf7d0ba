// The differences between document 2 and node-workflow, the software it describes, in one table. Programs
// written for node-workflow need its column; all others get the document's. The words of `execution` and the
// fields of a job differ too; see domain/job/wire.ts.

import { AgentError, type NamedRefusal } from "../../domain/error.ts";
import { DOCUMENT_RESUME, type ResumeRules } from "../../domain/job/request.ts";
import type { Wording } from "../../domain/job/wire.ts";

/** How the routes of document 2 behave where it and node-workflow differ. */
interface Conventions {
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
  /** Whether a workflow has the MD5 of each of its chains. */
  readonly digests: boolean;
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
    digests: false,
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
    digests: true,
  },
};

/** A refusal as clients of node-workflow know it; without a message, the agent's own is kept. */
interface Rewording {
  readonly code: "conflict" | "invalid_argument" | "not_found";
  readonly message?: string;
}

const REWORDINGS: Readonly<Record<NamedRefusal | FieldRefusal, Rewording>> = {
  equal_job: {
    code: "invalid_argument",
    message: "Another job with the same target and params is already queued",
  },
  not_waiting: { code: "conflict", message: "Only waiting jobs can be resumed" },
  info_of_no_job: { code: "not_found", message: "Job does not exist. Cannot get info." },
  entry_of_no_job: { code: "not_found", message: "Job does not exist. Cannot Update." },
  no_body: { code: "conflict", message: "Task body is required" },
  no_workflow: { code: "conflict", message: '"j.workflow" is required' },
  execution: { code: "conflict" },
};

/** Refusals that are recognized by the field they name. */
type FieldRefusal = "no_body" | "no_workflow" | "execution";

const TASK_BODY = /^(?:chain|onerror|oncancel)(?:\[\])?\[\d+\]\.body$/;

function refusalOf({ code, errors, refusal }: AgentError): NamedRefusal | FieldRefusal | undefined {
  if (refusal !== undefined || code !== "invalid_argument") return refusal;
  const missing = errors.filter((error) => error.code === "Missing");
  if (missing.some(({ field }) => TASK_BODY.test(field))) return "no_body";
  if (missing.some(({ field }) => field === "workflow")) return "no_workflow";
  return errors.some(({ field }) => field === "execution") ? "execution" : undefined;
}

/** An error as the caller gets it. The log has the agent's own words. */
export function reworded(error: unknown, wording: Wording): unknown {
  if (wording === "document" || !(error instanceof AgentError)) return error;
  const refusal = refusalOf(error);
  if (refusal === undefined) return error;
  const { code, message = error.message } = REWORDINGS[refusal];
  return new AgentError(code, message, { errors: error.errors, about: error.about });
}

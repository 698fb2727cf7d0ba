// The dry run of a request for a machine: makes every check that is possible now, and changes nothing. No job
// is created, no idempotency key is used up, and the host is only queried.

import {
  always,
  ANY_OBJECT,
  COUNT,
  FLAG,
  listOf,
  NULLABLE_COUNT,
  NULLABLE_UUID,
  orNull,
  type ShapeOf,
  shapeRef,
  TEXT,
  whole,
  wordOf,
} from "../domain/description/answer.ts";
import { FIELD_ERROR } from "../domain/description/description.ts";
import { AgentError, ERROR_CODES, type ErrorCode } from "../domain/error.ts";
import { type JobUuid, type MachineUuid, randomUuid } from "../domain/id.ts";
import type { JsonObject, JsonValue } from "../domain/json.ts";
import type { MachineRequest } from "../domain/machine/machine.ts";
import type { ExpectedMedium } from "../domain/machine/media.ts";
import { maskedJson } from "../domain/masking.ts";
import { jobToJoin, paramsOf, type RequestChecks, requireMedium } from "./provision_job.ts";

/**
 * Asks the host whether it can run a machine: vmadm's own validation, the networks, and the free space.
 * @returns a sentence for each check that could not be made and is left to vmadm
 * @throws {AgentError} `invalid_argument`, `storage_full`; `host`, `timeout`
 */
export type PayloadCheck = (payload: JsonObject) => Promise<string[]>;

/** The answer to a dry run. */
export const DRY_RUN = whole("What a request would do.", {
  dry_run: always(true),
  possible: { ...FLAG, description: "Whether the request would be accepted now." },
  uuid: { ...NULLABLE_UUID, description: "As requested; null if the agent would choose one." },
  job_uuid: {
    ...NULLABLE_UUID,
    description: "The job of an equal request, which would be joined.",
  },
  machine: { ...ANY_OBJECT, description: "As vmadm would get it, with secrets masked." },
  media: shapeRef("Media", ANY_OBJECT),
  boot: wordOf(["cd", "disk"]),
  medium: {
    ...orNull(
      whole("A medium.", {
        name: TEXT,
        size: { ...NULLABLE_COUNT, description: "Bytes; null if unknown." },
      }),
    ),
    description: "The expected medium; null if it could not be determined.",
  },
  problems: {
    ...listOf(
      whole("A refusal.", {
        error_code: TEXT,
        status: { ...COUNT, description: "The status that the request itself would get." },
        message: TEXT,
        errors: listOf(shapeRef("FieldError", FIELD_ERROR)),
      }),
    ),
    description: "Every reason why the request would be refused now.",
  },
  unchecked: {
    ...listOf(TEXT),
    description: "What the host could not answer; only vmadm will check it.",
  },
});

type DryRun = ShapeOf<typeof DRY_RUN>;

interface DryRunChecks extends Omit<RequestChecks, "now"> {
  readonly payloadChecks: readonly PayloadCheck[];
}

/** Errors that say nothing about the request. */
const NOT_OF_THE_REQUEST: readonly ErrorCode[] = ["aborted", "internal", "overloaded"];

/**
 * Makes every check of a request, however many of them fail.
 * @returns the answer, without the secrets of the description
 * @throws {AgentError} `aborted`, `internal`
 */
export async function dryRun(
  request: MachineRequest,
  checks: DryRunChecks,
): Promise<DryRun> {
  const problems: DryRun["problems"][number][] = [];
  const tried = async <T>(run: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await run();
    } catch (error) {
      if (!(error instanceof AgentError) || NOT_OF_THE_REQUEST.includes(error.code)) throw error;
      const { code: error_code, message, errors } = error;
      problems.push({ error_code, status: ERROR_CODES[error_code].status, message, errors });
      return undefined;
    }
  };
  const joined = await tried(() => joinedJob(request, checks));
  let medium: ExpectedMedium | undefined;
  const unchecked: string[] = [];
  // The job of an equal request already has its medium and its space.
  if (joined === undefined) {
    medium = await tried(() => requireMedium(request, checks));
    const payload = { ...request.machine, uuid: request.uuid ?? randomUuid<MachineUuid>() };
    for (const check of checks.payloadChecks) {
      unchecked.push(...await tried(() => check(payload)) ?? []);
    }
  }
  return {
    dry_run: true,
    possible: problems.length === 0,
    uuid: request.uuid ?? null,
    job_uuid: joined ?? null,
    machine: masked(request.machine),
    media: masked(request.media),
    boot: request.boot,
    medium: medium === undefined ? null : { name: medium.name, size: medium.size },
    problems,
    unchecked,
  };
}

/** Through JSON, so that optional keys are absent rather than undefined. */
function masked(value: unknown): JsonObject {
  return maskedJson(JSON.parse(JSON.stringify(value)) as JsonValue) as JsonObject;
}

async function joinedJob(
  request: MachineRequest,
  checks: DryRunChecks,
): Promise<JobUuid | undefined> {
  const { uuid } = request;
  if (uuid === undefined) return undefined;
  return (await jobToJoin(uuid, paramsOf(request, uuid), false, checks))?.uuid;
}

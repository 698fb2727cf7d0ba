// The dry run of a request for a machine: makes every check that is possible now, and changes nothing. No job
// is created, no idempotency key is used up, and the host is only queried.

import { AgentError, ERROR_CODES, type ErrorCode, type FieldError } from "../domain/error.ts";
import { type JobUuid, type MachineUuid, randomUuid } from "../domain/id.ts";
import type { JsonObject } from "../domain/json.ts";
import type { MachineRequest } from "../domain/machine/machine.ts";
import type { ExpectedMedium } from "../domain/machine/media.ts";
import {
  holderOfUuid,
  jobToJoin,
  paramsOf,
  type RequestChecks,
  requireMedium,
} from "./provision_job.ts";

/**
 * Asks the host whether it can run a machine: vmadm's own validation, the networks, and the free space.
 * @returns a sentence for each check that could not be made and is left to vmadm
 * @throws {AgentError} `invalid_argument`, `storage_full`; `host`, `timeout`
 */
export type PayloadCheck = (payload: JsonObject) => Promise<string[]>;

/** What a dry run needs. */
interface DryRunChecks extends Omit<RequestChecks, "now"> {
  readonly payloadChecks: readonly PayloadCheck[];
}

/** Why a request would be refused. */
interface Problem {
  readonly code: ErrorCode;
  /** The status that the request itself would get. */
  readonly status: number;
  readonly message: string;
  readonly errors: readonly FieldError[];
}

/** The result of a dry run. */
interface DryRun {
  /** The job of an earlier equal request, which this one would join. */
  readonly job_uuid: JobUuid | null;
  readonly medium: ExpectedMedium | null;
  readonly problems: readonly Problem[];
  /** The checks that the host could not make. */
  readonly unchecked: readonly string[];
}

/** Errors that are not about the request. */
const NOT_OF_THE_REQUEST: readonly ErrorCode[] = ["aborted", "internal", "overloaded"];

/** Makes every check of a request, however many of them fail. @throws {AgentError} `aborted`, `internal` */
export async function dryRun(request: MachineRequest, checks: DryRunChecks): Promise<DryRun> {
  const problems: Problem[] = [];
  const tried = async <T>(run: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await run();
    } catch (error) {
      if (!(error instanceof AgentError) || NOT_OF_THE_REQUEST.includes(error.code)) throw error;
      const { code, message, errors } = error;
      problems.push({ code, status: ERROR_CODES[code].status, message, errors });
      return undefined;
    }
  };
  const joined = await tried(() => joinedJob(request, checks));
  // The job of an equal request already has its medium and its space.
  if (joined !== undefined) return { job_uuid: joined, medium: null, problems, unchecked: [] };
  const medium = await tried(() => requireMedium(request, checks));
  const payload = { ...request.machine, uuid: request.uuid ?? randomUuid<MachineUuid>() };
  const unchecked: string[] = [];
  for (const check of checks.payloadChecks) {
    unchecked.push(...await tried(() => check(payload)) ?? []);
  }
  return { job_uuid: null, medium: medium ?? null, problems, unchecked };
}

async function joinedJob(
  request: MachineRequest,
  checks: DryRunChecks,
): Promise<JobUuid | undefined> {
  const { uuid } = request;
  if (uuid === undefined) return undefined;
  const holder = await holderOfUuid(uuid, checks);
  return (await jobToJoin(uuid, paramsOf(request, uuid), holder, checks.store))?.uuid;
}

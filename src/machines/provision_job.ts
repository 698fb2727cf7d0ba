// Jobs of the provisioning workflow: their params, and whether an existing job already does what a
// request asks for.

import { AgentError, invalidArgument } from "../domain/error.ts";
import {
  type HostUuid,
  type JobUuid,
  type MachineUuid,
  type NewUuid,
  parseUuid,
} from "../domain/id.ts";
import type { Now } from "../domain/instant.ts";
import { type Job, type JobFields, placeOf, SERVER_PARAM } from "../domain/job/job.ts";
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from "../domain/json.ts";
import {
  MACHINE_REQUEST_KEYS,
  type MachineRequest,
  parseMachineBody,
  parseMachineRequest,
  requireJobParams,
} from "../domain/machine/machine.ts";
import {
  BHYVE_BOOTS,
  type ExpectedMedium,
  mediaKind,
  type MediaRequest,
} from "../domain/machine/media.ts";
import { type Policy, QUOTA_GIB_USUAL, quotaToRaise, WIDEST_POLICY } from "../domain/policy.ts";
import { hostOf, type HostStore, type ListedHost } from "../store/host_store.ts";
import {
  holderOf,
  isProvisioning,
  jobsOf,
  type JobsOnly,
  type JoinOrFree,
  otherJob,
} from "./history.ts";
import { MACHINE_TARGET, machineTarget } from "../domain/job/summary.ts";

/**
 * Reads the body of a request for a machine. A request for another host is checked by that host, whose policy, media
 * and space differ.
 * @returns as parseMachineBody(), and the other host if there is one
 * @throws {AgentError} as parseMachineBody(); `no_host`
 */
export async function readMachineBody(
  body: unknown,
  { store, policy, hostUuid }: {
    readonly store: { readonly hosts: Pick<HostStore, "find"> };
    readonly policy: Policy;
    /** The uuid under which this host is registered in the store. */
    readonly hostUuid: HostUuid;
  },
): Promise<ReturnType<typeof parseMachineBody> & { readonly other: ListedHost | undefined }> {
  const { server } = placeOf(isJsonObject(body) ? body : {});
  const action = "Cannot create a machine";
  const host = server === undefined ? undefined : await hostOf(server, store, action, SERVER_PARAM);
  const other = host?.uuid === hostUuid ? undefined : host;
  return { ...parseMachineBody(body, other === undefined ? policy : WIDEST_POLICY), other };
}

/** Looks up a machine; null when there is none. */
export interface MachineLookup {
  get(uuid: MachineUuid): Promise<JsonObject | null>;
}

/** Looks up a medium; see Mirror.expect(). */
export interface MediumLookup {
  expect(media: MediaRequest): Promise<ExpectedMedium>;
}

/** What a request for a machine is checked against before a job exists. */
export interface RequestChecks {
  readonly store: JobsOnly;
  readonly vmadm: MachineLookup;
  readonly media: MediumLookup;
  readonly policy: Policy;
  readonly now: Now;
}

/** @throws {AgentError} `conflict` naming the machine that has the uuid */
function requireFree(uuid: MachineUuid, machine: JsonObject | null): void {
  if (machine === null) return;
  const { alias, brand, state } = machine;
  const name = typeof alias === "string" && alias !== "" ? ` ${JSON.stringify(alias)}` : "";
  const message =
    `Cannot make machine ${uuid}: machine${name} (${brand}, ${state}) has this uuid; ` +
    "leave the uuid out, or delete that machine first";
  throw new AgentError("conflict", message);
}

/**
 * Refuses a medium that cannot be obtained or cannot boot the machine, before it is fetched.
 * @returns the expected medium
 * @throws {AgentError} see Mirror.expect(); `invalid_argument` for a disk image and a bhyve machine;
 *   `forbidden` for a medium that would not fit into the quota
 */
export async function requireMedium(
  { machine, media }: Pick<MachineRequest, "machine" | "media">,
  { media: lookup, policy }: Pick<RequestChecks, "media" | "policy">,
): Promise<ExpectedMedium> {
  const medium = await lookup.expect(media);
  const { name, size } = medium;
  if (machine.brand === "bhyve" && mediaKind(name) !== "cd") {
    const message = `Cannot boot a bhyve machine from ${name}: ${BHYVE_BOOTS}`;
    throw invalidArgument("media", message);
  }
  if (size === null) return medium;
  const quota = machine.brand === "bhyve" ? QUOTA_GIB_USUAL.bhyve : QUOTA_GIB_USUAL.kvm;
  quotaToRaise(policy, { quota, ...machine }, size, "the machine");
  return medium;
}

/** A request for a machine that was read, and is to become a job. */
interface StartRequest {
  readonly request: MachineRequest;
  /** Of the machine: that of the request, or a new one. */
  readonly uuid: MachineUuid;
  /** Of the job. */
  readonly params: JsonObject;
  /** Whether another host is to have the machine, which alone can answer for uuid and medium. */
  readonly elsewhere: boolean;
}

/**
 * Reads the body of a request for a machine, which looks at nothing else yet.
 * @throws {AgentError} as readMachineBody()
 */
export async function readStart(
  body: unknown,
  context: Parameters<typeof readMachineBody>[1] & { readonly newUuid: NewUuid },
): Promise<StartRequest> {
  const { request, server, other } = await readMachineBody(body, context);
  const uuid = request.uuid ?? context.newUuid<MachineUuid>();
  return { request, uuid, params: paramsOf(request, uuid, server), elsewhere: other !== undefined };
}

/** The params of a job that carries out the request. @param server the host that the request names */
export function paramsOf(
  { machine, media, boot }: MachineRequest,
  uuid: MachineUuid,
  server?: string,
): JsonObject {
  // Through JSON, so that optional keys are absent rather than undefined.
  const described = { uuid, machine, media: JSON.parse(JSON.stringify(media)) as JsonObject, boot };
  return server === undefined ? described : { ...described, [SERVER_PARAM]: server };
}

/**
 * Gives a job the machine of the request, or finds the job to join. Whatever can be refused without a job is refused.
 * The medium is looked for last: the job of an equal request is joined even if it is gone by now.
 * @param job has the params of the request
 * @throws {AgentError} as jobToJoin() and requireMedium()
 */
export async function claimStart(
  { request, elsewhere }: StartRequest,
  job: JobFields,
  checks: RequestChecks,
): Promise<JoinOrFree> {
  const { uuid } = request;
  const joined = uuid && await jobToJoin(uuid, job.params, elsewhere, checks);
  if (joined) return { kind: "duplicate", job_uuid: joined.uuid };
  if (!elsewhere) await requireMedium(request, checks);
  return { kind: "free", job };
}

/**
 * The job of an earlier equal request, unless its machine no longer exists.
 * @param elsewhere whether another host is to have the machine, which alone knows whether it exists
 * @throws {AgentError} `conflict` naming another unfinished job of the machine, or the machine
 */
export async function jobToJoin(
  uuid: MachineUuid,
  params: JsonObject,
  elsewhere: boolean,
  { store, vmadm }: Pick<RequestChecks, "store" | "vmadm">,
): Promise<Job | undefined> {
  const target = machineTarget(uuid);
  const { holder, newest } = await holderOf(target, store);
  if (holder !== undefined) {
    if (mayJoin(holder, params)) return holder;
    throw otherJob(holder, target);
  }
  const made = (await jobsOf(target, newest, store)).find(hasMade);
  const same = made !== undefined && sameRequest(made.requested_params, params);
  if (elsewhere) return same ? made : undefined;
  const machine = await vmadm.get(uuid);
  if (same && machine !== null) return made;
  requireFree(uuid, machine);
  return undefined;
}

/** Whether the job made its machine. A later one that failed because the machine exists changes nothing. */
function hasMade(job: Job): boolean {
  return job.execution === "succeeded" && isProvisioning(job);
}

/**
 * Gives a job of POST /jobs, or one that retries another, the target of the machine that it creates. It is checked as
 * a request for a machine. A job that is to run later is checked by its own first tasks: by then a machine may be
 * gone, or a medium have arrived.
 * @param elsewhere whether the job will run on another host, which then checks it
 * @param replaces the finished job that it retries
 * @throws {AgentError} as parseMachineRequest(), requireFree() and requireMedium(); `invalid_argument`; `conflict`
 *   naming another unfinished job
 */
export async function claimMake(
  given: JobFields,
  elsewhere: boolean,
  checks: RequestChecks,
  replaces: JobUuid | undefined,
): Promise<JoinOrFree> {
  requireJobParams(given.params);
  // If the machine is named after the finished job, the new one is named after the new job.
  const unnamed = replaces !== undefined && given.params.uuid === undefined &&
    given.target === machineTarget(replaces);
  const job = unnamed ? { ...given, target: null } : given;
  const request = parseMachineRequest(requestOf(job.params), checks.policy);
  const { uuid } = request;
  const target = targetOf(job, uuid);
  const holder = uuid && (await holderOf(target, checks.store)).holder;
  if (holder) {
    if (!mayJoin(holder, { ...job.params, uuid })) throw otherJob(holder, target);
    return { kind: "duplicate", job_uuid: holder.uuid };
  }
  const later = job.exec_after !== undefined && job.exec_after > checks.now();
  if (!elsewhere && !later) {
    if (uuid !== undefined) requireFree(uuid, await checks.vmadm.get(uuid));
    await requireMedium(request, checks);
  }
  // Without a uuid in the params, the machine is named after its job.
  const machine_uuid = uuid ?? parseUuid<MachineUuid>(job.uuid, "uuid");
  const params = uuid === undefined ? job.params : { ...job.params, uuid };
  return { kind: "free", job: { ...job, target, machine_uuid, params } };
}

/**
 * The target of a job that creates a machine.
 * @param uuid of the machine; without it, the job may have any target except that of a machine that it does not create
 * @throws {AgentError} `invalid_argument`
 */
function targetOf({ uuid: job_uuid, target: given }: JobFields, uuid?: MachineUuid): string {
  const target = machineTarget(uuid ?? job_uuid);
  const claims = uuid !== undefined || given?.startsWith(MACHINE_TARGET);
  if (claims && given !== null && given !== target) {
    throw otherTarget(given, uuid === undefined ? "its uuid in params.uuid as well" : target);
  }
  return given ?? target;
}

/** The error for a job of a machine whose request names the target of something else. */
export function otherTarget(given: string, expected: string): AgentError {
  const message = `Cannot accept target ${JSON.stringify(given)}, expected ${expected}`;
  return invalidArgument("target", message);
}

/** Whether an unfinished job does what a request asks for. */
function mayJoin(job: Job, params: JsonObject): boolean {
  return isProvisioning(job) && sameRequest(job.requested_params, params);
}

/** The params that describe the machine; others are the caller's own. */
function requestOf(params: JsonObject): JsonObject {
  const entries = MACHINE_REQUEST_KEYS
    .map((key): [string, JsonValue | undefined] => [key, params[key]])
    .filter((entry): entry is [string, JsonValue] => entry[1] !== undefined);
  return Object.fromEntries(entries);
}

/** Whether two requests mean the same: a number may be written as digits, and true as 1. */
function sameRequest(one: JsonObject, other: JsonObject): boolean {
  const [first, second] = [one, other].map((params) =>
    canonicalJson(keptRequest(requestOf(params)))
  );
  return first === second;
}

/** A request in its stored form, regardless of the policy when it was accepted. */
function keptRequest(request: JsonObject): JsonObject {
  try {
    return JSON.parse(JSON.stringify(parseMachineRequest(request, WIDEST_POLICY)));
  } catch (error) {
    // Another version of the agent accepted it: this one compares it as it is.
    if (error instanceof AgentError) return request;
    throw error;
  }
}

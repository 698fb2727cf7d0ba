// A machine as responses show it: what vmadm says of it, beside what its jobs tell.

import { invalidArgument } from "../../domain/error.ts";
import { isUuid } from "../../domain/id.ts";
import type { Job } from "../../domain/job/job.ts";
import { executionOnWire, type Wording } from "../../domain/job/wire.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import { BRANDS } from "../../domain/policy.ts";
import { MASK } from "../../domain/json_masking.ts";
import { MACHINE_TARGET, type MachineHistory } from "../../machines/history.ts";

/** The state of a machine that only a job knows of. */
const ABSENT = "absent";

/** A field of the machine, or else what a job was asked for. */
function fieldOf(machine: JsonObject | null, job: Job | undefined, name: string): JsonValue {
  const asked = isJsonObject(job?.params.machine) ? job.params.machine : {};
  return machine?.[name] ?? asked[name] ?? null;
}

/** `state` is vmadm's word, or `absent` while there is only a job. */
export function machineOnWire(
  uuid: string,
  machine: JsonObject | null,
  { job, media }: MachineHistory,
  wording: Wording,
): JsonObject {
  const field = (name: string) => fieldOf(machine, job, name);
  return {
    uuid,
    alias: field("alias"),
    brand: field("brand"),
    state: machine?.state ?? ABSENT,
    zone_state: machine?.zone_state ?? null,
    ram: field("ram"),
    vcpus: field("vcpus"),
    media: job?.params.media ?? null,
    medium: media[0] ?? null,
    job_uuid: job?.uuid ?? null,
    job_execution: job === undefined ? null : executionOnWire(job.execution, wording),
  };
}

/** The machine for who is shown no params: where its medium came from may hold a password. */
export function withoutParams(machine: JsonObject): JsonObject {
  const { media = null } = machine;
  const masked = isJsonObject(media)
    ? Object.fromEntries(Object.keys(media).map((name) => [name, MASK]))
    : media;
  return { ...machine, media: masked };
}

/** Only hardware virtual machines have a console of this kind. */
export function isRunningHvm({ brand, state }: JsonObject): boolean {
  return state === "running" && BRANDS.some((known) => known === brand);
}

/** The path of a machine's console. */
export function consolePath(uuid: string): string {
  return `/agent/v1/machines/${uuid}/console`;
}

/** The machine that a provisioning job makes. */
export function machineUuidOf({ target }: Job): string | undefined {
  const uuid = target?.startsWith(MACHINE_TARGET) ? target.slice(MACHINE_TARGET.length) : undefined;
  return isUuid(uuid) ? uuid : undefined;
}

/** Keys of a query by which machines are chosen. */
export const MACHINE_FILTER_KEYS = ["state", "brand", "alias"] as const;

/** A state is a word of vmadm's, which has more of them than are listed anywhere. */
const WORD = /^[a-z_]{1,32}$/;

/**
 * Whether a machine fits every key of a query.
 * @throws {AgentError} `invalid_argument` for a value that no machine can have
 */
export function filterOf(
  query: ReadonlyMap<string, string>,
): (machine: JsonObject | null, job: Job | undefined) => boolean {
  for (const name of ["state", "brand"]) {
    const value = query.get(name);
    if (value !== undefined && !WORD.test(value)) {
      throw invalidArgument(name, `Cannot filter by ${name}: expected a word such as running`);
    }
  }
  const wanted = MACHINE_FILTER_KEYS.flatMap((name) => {
    const value = query.get(name);
    return value === undefined ? [] : [[name, value] as const];
  });
  return (machine, job) =>
    wanted.every(([name, value]) =>
      (name === "state" ? machine?.state ?? ABSENT : fieldOf(machine, job, name)) === value
    );
}

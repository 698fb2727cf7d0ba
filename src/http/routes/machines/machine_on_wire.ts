// A machine in answers: what vmadm reports, and what its jobs add.

import type { Context } from "hono";
import { executionOnWire, type Wording } from "../../../domain/job/wire.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../../domain/json.ts";
import { type ShownMachine, shownProperties, textOrNull } from "../../../domain/machine/shown.ts";
import { MASK } from "../../../domain/masking.ts";
import { ABSENT, type ListedMachine } from "../../../machines/listing.ts";
import type { MachineJob } from "../../../store/machine_store.ts";
import { seesSecrets } from "../../caller.ts";
import type { HttpEnv, ServedAgent } from "../../served_agent.ts";

/** A field of the machine, or else of its job's request. */
function fieldOf(machine: JsonObject | null, job: MachineJob | undefined, name: string): JsonValue {
  const asked = isJsonObject(job?.asked.machine) ? job.asked.machine : {};
  return machine?.[name] ?? asked[name] ?? null;
}

/** `state` is vmadm's, or `absent` while there is only a job. */
export function machineOnWire(
  { uuid, machine, place, history: { job, media } }: ListedMachine,
  wording: Wording,
): ShownMachine {
  const { media: asked } = job?.asked ?? {};
  return {
    uuid,
    host: place?.name ?? null,
    host_uuid: place?.host ?? null,
    age_seconds: typeof place?.ageMs === "number" ? Math.round(place.ageMs / 1000) : null,
    state: textOrNull(machine?.state) ?? ABSENT,
    zone_state: textOrNull(machine?.zone_state),
    ...shownProperties((name) => fieldOf(machine, job, name)),
    media: isJsonObject(asked) ? asked : null,
    medium: media[0] ?? null,
    job_uuid: job?.uuid ?? null,
    job_execution: job === undefined ? null : executionOnWire(job.execution, wording),
  };
}

/** Masks `media` for callers that may not see params: its URL may contain a password. */
function withoutParams({ media, ...machine }: ShownMachine): ShownMachine {
  const masked = Object.keys(media ?? {}).map((name) => [name, MASK]);
  return { ...machine, media: media === null ? null : Object.fromEntries(masked) };
}

/** A machine as the caller may see it. Its `media` is a param of its job. */
export function shownMachine(c: Context<HttpEnv>, machine: ShownMachine): ShownMachine {
  return seesSecrets(c.get("caller")) ? machine : withoutParams(machine);
}

/** The host of this agent. */
export function here(
  { machines: { host: name }, hostUuid: host }: Pick<ServedAgent, "machines" | "hostUuid">,
) {
  return { host, name };
}

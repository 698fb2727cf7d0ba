// What tasks may do with installation media: find one, put it into the root of a zone, take it away.

import { parseDigest } from "../domain/digest.ts";
import { AgentError } from "../domain/error.ts";
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from "../domain/json.ts";
import { type MediaRequest, parseMediaName, parseMediaRequest } from "../domain/media.ts";
import type { Policy } from "../domain/policy.ts";
import type { Transport } from "../host/transport.ts";
import type { Vmadm } from "../host/vmadm.ts";
import { placeFile, removeFile } from "../host/zone_root.ts";
import type { Medium, Mirror } from "../mirror/mirror.ts";
import { parseZoneFile } from "./boot_arguments.ts";
import type { Call, CapabilitiesOf } from "./capability.ts";
import type { FoundMedia } from "./found_media.ts";
import { downloadArtifact, mediumJson } from "./images.ts";
import { findFile } from "./media_folder.ts";
import { raiseQuota } from "./quota.ts";
import { existingMachine, machineUuid } from "./vmadm.ts";

const HOUR_MS = 3_600_000;
/** A download has no largest time of its own, only a least speed. */
const FIND_DEADLINE_MS = 12 * HOUR_MS;
const PLACE_DEADLINE_MS = 2 * HOUR_MS;
const REMOVE_DEADLINE_MS = 60_000;

/** What the media capabilities work with. */
export interface MediaDeps {
  readonly vmadm: Vmadm;
  readonly transport: Transport;
  readonly mirror: Mirror;
  readonly policy: Policy;
  /** Folders from which media may be taken by path. */
  readonly mediaDirs: readonly string[];
  readonly found: FoundMedia;
}

/** The capabilities `media.*`. */
export function mediaCapabilities(deps: MediaDeps): CapabilitiesOf<"media"> {
  return {
    "media.find": {
      deadlineMs: FIND_DEADLINE_MS,
      perform: async (call, [request]) => mediumJson(await find(deps, call, request)),
    },
    "media.place": {
      deadlineMs: PLACE_DEADLINE_MS,
      perform: (call, [uuid, medium]) => place(deps, call, uuid, medium),
    },
    "media.remove": {
      deadlineMs: REMOVE_DEADLINE_MS,
      perform: (call, [uuid, file]) => remove(deps, call, uuid, file),
    },
  };
}

async function find(deps: MediaDeps, call: Call, value: JsonValue | undefined): Promise<Medium> {
  const request = parseMediaRequest(value);
  const key = canonicalJson(value ?? null);
  const known = await deps.found.recall(call.job_uuid, key);
  if (known !== undefined) return known;
  const medium = await findAnew(deps, call, request);
  parseMediaName(medium.name, "media");
  await deps.found.remember(call.job_uuid, key, medium);
  return medium;
}

async function findAnew(deps: MediaDeps, call: Call, request: MediaRequest): Promise<Medium> {
  const { mirror } = deps;
  const { signal } = call;
  if ("url" in request) {
    const digest = parseDigest(request.digest, "media.digest");
    const onProgress = (done: number, total: number | null) =>
      call.progress("download", done, total);
    return await mirror.downloadUrl(request.url, digest, { signal, onProgress });
  }
  const digest = request.digest === undefined
    ? undefined
    : parseDigest(request.digest, "media.digest");
  if ("artifact" in request) {
    const found = await mirror.findArtifact(request.artifact);
    // The name tells already that this can be no medium; better now than after gigabytes.
    parseMediaName(found.name, "media.artifact");
    return await downloadArtifact(mirror, found, call, digest);
  }
  const onProgress = (done: number, total: number) => call.progress("verify", done, total);
  const path = { path: request.path, ...(digest === undefined ? {} : { digest }) };
  return await findFile(deps.mediaDirs, path, { signal, onProgress });
}

async function place(
  { vmadm, transport, policy, found, mirror }: MediaDeps,
  call: Call,
  uuidValue: JsonValue | undefined,
  value: JsonValue | undefined,
): Promise<JsonObject> {
  const uuid = machineUuid(uuidValue);
  const medium = found.claim(call.job_uuid, value);
  const { path, name, size, sha256 } = medium;
  const machine = await existingMachine(vmadm, uuid, call.signal);
  // While it runs, the machine's own hypervisor may exchange what is in its root.
  if (machine.state !== "stopped") {
    const state = JSON.stringify(machine.state ?? null);
    const message = `Cannot place a medium in machine ${uuid}: its state is ${state}, ` +
      'expected "stopped"';
    throw new AgentError("conflict", message);
  }
  await raiseQuota(vmadm, policy, uuid, { machine, bytes: size, signal: call.signal });
  const placed = await placeFile(transport, {
    zonepath: zonepathOf(machine),
    name: parseMediaName(name, "medium.name"),
    source: path,
    size,
    sha256,
    onProgress: (done, total) => call.progress("copy", done, total),
    signal: call.signal,
  }).catch(async (error: unknown) => {
    // The cache knows its files by size only: a damaged one would fail every later machine too.
    if (error instanceof AgentError && error.code === "digest_mismatch") {
      await mirror.discard(medium);
    }
    throw error;
  });
  return { ...placed };
}

async function remove(
  { vmadm, transport }: MediaDeps,
  { signal }: Call,
  uuidValue: JsonValue | undefined,
  file: JsonValue | undefined,
): Promise<boolean> {
  const name = parseZoneFile(file, "file");
  const machine = await existingMachine(vmadm, machineUuid(uuidValue), signal);
  return await removeFile(transport, { zonepath: zonepathOf(machine), name });
}

function zonepathOf(machine: JsonObject): string {
  if (isJsonObject(machine) && typeof machine.zonepath === "string") return machine.zonepath;
  throw new AgentError("host", "Cannot find the zone's folder: vmadm tells no zonepath");
}

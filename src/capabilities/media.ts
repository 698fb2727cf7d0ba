// Installation media for tasks: find one, place it in the root of a zone, remove it.

import { parseDigest } from "../domain/digest.ts";
import { AgentError, invalidArgument } from "../domain/error.ts";
import {
  canonicalJson,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  kindOf,
} from "../domain/json.ts";
import { type MediaRequest, parseMediaName, parseMediaRequest } from "../domain/machine/media.ts";
import { type Policy, quotaToRaise } from "../domain/policy.ts";
import type { Transport } from "../host/transport.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";
import { placeFile, removeFile } from "../host/zone/root.ts";
import { findFile } from "../mirror/media/folders.ts";
import { requireBootableAt, warningOf } from "../mirror/media/file_format.ts";
import type { Medium } from "../mirror/media/wanted_file.ts";
import type { Mirror } from "../mirror/mirror.ts";
import { existingMachine, machineUuid, parseZoneFile } from "./vmadm.ts";
import type { Call, CapabilitiesOf } from "./capability.ts";
import { downloadOptions, mediumJson } from "./images.ts";
import type { FoundMedia } from "./found_media.ts";
import type { MachineUuid } from "../domain/id.ts";
import { HOUR_MS } from "../domain/instant.ts";

/** A download has a minimum speed instead of a time limit. */
const FIND_DEADLINE_MS = 12 * HOUR_MS;
const PLACE_DEADLINE_MS = 2 * HOUR_MS;
const REMOVE_DEADLINE_MS = 60_000;

/** Where media come from, where they are placed, and by which rules. */
interface MediaDeps {
  readonly vmadm: Vmadm;
  readonly transport: Transport;
  readonly mirror: Mirror;
  readonly policy: Policy;
  /** Folders from which tasks may take media by path. */
  readonly mediaDirs: readonly string[];
  readonly found: FoundMedia;
  readonly mediaCounts?: { placed: number } | undefined;
}

/** Finds media in the index or the media folders, places them in a zone and removes them. */
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
  if (isJsonObject(value) && Object.hasOwn(value, "known")) {
    return await findKnown(deps, call, value);
  }
  const { any, media } = parseFind(value);
  const key = canonicalJson(value ?? null);
  const known = await deps.found.recall(call.job_uuid, key);
  if (known !== undefined) return known;
  const medium = await search(deps, call, media, any);
  if (!any) await requireMedium(deps, call, medium);
  await deps.found.remember(call.job_uuid, key, medium);
  return medium;
}

/** Refuses a file that no machine boots, and warns about one that may not boot. */
async function requireMedium({ mirror }: MediaDeps, call: Call, medium: Medium): Promise<void> {
  const { note, task_name, signal } = call;
  const { source, path, name, label, sha256 } = medium;
  parseMediaName(name, "media");
  const look = await requireBootableAt(path, name, label).catch(async (error: unknown) => {
    // A file of the cache may be damaged: then it goes, and is downloaded again for the next job.
    if (source !== "path") await mirror.files.verify(sha256, { signal });
    throw error;
  });
  const message = warningOf(name, look);
  if (message !== undefined) await note({ task: task_name, message: `Warning: ${message}` });
}

/** `any_format` also accepts what no machine boots; such media can be found but not placed. */
function parseFind(value: JsonValue | undefined): { any: boolean; media: MediaRequest } {
  if (!isJsonObject(value)) return { any: false, media: parseMediaRequest(value) };
  const { any_format = false, ...media } = value;
  if (typeof any_format !== "boolean") {
    throw invalidArgument(
      "media.any_format",
      `Cannot find the medium: any_format is ${kindOf(any_format)}, expected true or false`,
    );
  }
  return {
    any: any_format,
    media: parseMediaRequest(media, "media", any_format ? "kept" : "booted"),
  };
}

/** Reads a file known by its digest again. */
async function findKnown(
  { mirror, found }: MediaDeps,
  { signal, progress, job_uuid }: Call,
  { known, ...others }: JsonObject,
): Promise<Medium> {
  const { algorithm, value } = parseDigest(known, "media.known");
  const [other] = Object.keys(others);
  if (other !== undefined || algorithm !== "sha256") {
    const what = other === undefined
      ? "known is not a sha256"
      : `${JSON.stringify(other)} is unknown`;
    throw invalidArgument("media", `Cannot find the medium: ${what} besides known`);
  }
  const medium = await mirror.files.verify(value, {
    signal,
    job: job_uuid,
    onProgress: (done, total) => progress("verify", done, total),
  });
  await found.remember(job_uuid, canonicalJson({ known: known ?? null }), medium);
  return medium;
}

async function search(
  deps: MediaDeps,
  call: Call,
  request: MediaRequest,
  any: boolean,
): Promise<Medium> {
  const { mirror } = deps;
  const { signal, job_uuid } = call;
  if ("url" in request) {
    const { url, digest, compression, ...checks } = request;
    const options = {
      ...downloadOptions(call, checks),
      booted: !any,
      ...(compression === undefined ? {} : { compression }),
    };
    const wanted = digest === undefined ? undefined : parseDigest(digest, "media.digest");
    return await mirror.downloadUrl(url, wanted, options);
  }
  if ("artifact" in request) {
    const { artifact, ...options } = request;
    const found = await mirror.findArtifact(artifact, { signal, ahead: true });
    // The name already rules it out; better refused now than after gigabytes.
    if (!any) parseMediaName(found.name, "media.artifact");
    return await mirror.download(found, { ...downloadOptions(call, options), booted: !any });
  }
  const onProgress = (done: number, total: number) => call.progress("verify", done, total);
  const digest = request.digest === undefined
    ? {}
    : { digest: parseDigest(request.digest, "media.digest") };
  const path = { path: request.path, any, ...digest };
  const { files } = mirror;
  // Protects the file from being replaced while it is read; later its recorded use does.
  const opened: Disposable[] = [];
  const onOpen = (path: string) => void opened.push(files.reading(path, job_uuid));
  try {
    const reads = { signal, onProgress, onOpen, hash: files.hash };
    const medium = await findFile(deps.mediaDirs, path, reads);
    await files.note(medium, job_uuid);
    return medium;
  } finally {
    for (const one of opened) one[Symbol.dispose]();
  }
}

async function place(
  { vmadm, transport, policy, found, mirror, mediaCounts }: MediaDeps,
  call: Call,
  uuidValue: JsonValue | undefined,
  value: JsonValue | undefined,
): Promise<JsonObject> {
  const uuid = machineUuid(uuidValue);
  const medium = found.claim(call.job_uuid, value);
  const { path, name, size, sha256 } = medium;
  const machine = await existingMachine(vmadm, uuid, call.signal);
  // The hypervisor of a running machine may replace files in its root.
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
    // The cache checks its files by size only: a damaged one would also fail every later machine.
    if (error instanceof AgentError && error.code === "digest_mismatch") {
      await mirror.discard(medium);
    }
    throw error;
  });
  if (mediaCounts !== undefined) mediaCounts.placed += size;
  return { ...placed };
}

async function remove(
  { vmadm, transport }: MediaDeps,
  { signal }: Call,
  uuidValue: JsonValue | undefined,
  file: JsonValue | undefined,
): Promise<boolean> {
  const name = parseZoneFile(file);
  const machine = await existingMachine(vmadm, machineUuid(uuidValue), signal);
  return await removeFile(transport, { zonepath: zonepathOf(machine), name });
}

function zonepathOf(machine: JsonObject): string {
  if (isJsonObject(machine) && typeof machine.zonepath === "string") return machine.zonepath;
  throw new AgentError("host", "Cannot find the zone's folder: vmadm reports no zonepath");
}

/**
 * Raises the quota of a machine when a medium would not fit; never lowers it.
 * @throws {AgentError} `forbidden` when the policy does not allow it
 * @see vmadm(8), quota
 */
async function raiseQuota(
  vmadm: Vmadm,
  policy: Policy,
  uuid: MachineUuid,
  { machine, bytes, signal }: { machine: JsonObject; bytes: number; signal: AbortSignal },
): Promise<void> {
  const quota = quotaToRaise(policy, machine, bytes, `machine ${uuid}`);
  if (quota !== undefined) await vmadm.update(uuid, { quota }, { signal });
}

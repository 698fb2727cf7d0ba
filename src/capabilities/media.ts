// What tasks may do with installation media: find one, put it into the root of a zone, take it away.

import { parseDigest } from "../domain/digest.ts";
import { AgentError, invalidArgument } from "../domain/error.ts";
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from "../domain/json.ts";
import { type MediaRequest, parseMediaName, parseMediaRequest } from "../domain/machine/media.ts";
import type { Policy } from "../domain/policy.ts";
import type { Transport } from "../host/transport.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";
import { placeFile, removeFile } from "../host/zone/root.ts";
import type { Medium } from "../mirror/media/medium.ts";
import type { Mirror } from "../mirror/mirror.ts";
import { parseZoneFile } from "./boot_arguments.ts";
import type { Call, CapabilitiesOf } from "./capability.ts";
import type { FoundMedia } from "./found_media.ts";
import { downloadArtifact, downloadOptions, mediumJson } from "./images.ts";
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
  if (isJsonObject(value) && Object.hasOwn(value, "known")) {
    return await findKnown(deps, call, value);
  }
  const { any, media } = parseFind(value);
  const key = canonicalJson(value ?? null);
  const known = await deps.found.recall(call.job_uuid, key);
  if (known !== undefined) return known;
  const medium = await findAnew(deps, call, media, any);
  if (!any) parseMediaName(medium.name, "media");
  await deps.found.remember(call.job_uuid, key, medium);
  return medium;
}

/** With `any_format`, also what no machine boots; it can then be found, and not be placed. */
function parseFind(value: JsonValue | undefined): { any: boolean; media: MediaRequest } {
  if (!isJsonObject(value)) return { any: false, media: parseMediaRequest(value) };
  const { any_format = false, ...media } = value;
  if (typeof any_format !== "boolean") {
    throw invalidArgument(
      "media.any_format",
      "Cannot find the medium: any_format is true or false",
    );
  }
  return { any: any_format, media: parseMediaRequest(media, "media", any_format) };
}

/** A file that is known by its digest, read again. */
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
    throw invalidArgument("media", `Cannot find the medium: ${what} beside known`);
  }
  const medium = await mirror.files.verify(value, {
    signal,
    job: job_uuid,
    onProgress: (done, total) => progress("verify", done, total),
  });
  await found.remember(job_uuid, canonicalJson({ known: known ?? null }), medium);
  return medium;
}

async function findAnew(
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
      ...(compression === undefined ? {} : { compression }),
    };
    const wanted = digest === undefined ? undefined : parseDigest(digest, "media.digest");
    return await mirror.downloadUrl(url, wanted, options);
  }
  if ("artifact" in request) {
    const { artifact, ...wishes } = request;
    const found = await mirror.findArtifact(artifact);
    // The name tells already that this can be no medium; better now than after gigabytes.
    if (!any) parseMediaName(found.name, "media.artifact");
    return await downloadArtifact(mirror, found, call, wishes);
  }
  const onProgress = (done: number, total: number) => call.progress("verify", done, total);
  const digest = request.digest === undefined
    ? {}
    : { digest: parseDigest(request.digest, "media.digest") };
  const path = { path: request.path, any, ...digest };
  const { hash } = mirror.files;
  const medium = await findFile(deps.mediaDirs, path, { signal, onProgress, hash });
  await mirror.files.note(medium, job_uuid);
  return medium;
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

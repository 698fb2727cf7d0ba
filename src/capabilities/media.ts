// Installation media for tasks: find one, place it in the root of a zone, remove it.

import { type Digest, parseDigest, requireDigest } from "../domain/digest.ts";
import { AgentError, invalidArgument, messageOf } from "../domain/error.ts";
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from "../domain/json.ts";
import {
  type MediaRequest,
  parseMediaName,
  parseMediaRequest,
  safeMediaName,
} from "../domain/machine/media.ts";
import { type Policy, POLICY_SETTINGS } from "../domain/policy.ts";
import type { Transport } from "../host/transport.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";
import { placeFile, removeFile } from "../host/zone/root.ts";
import type { Medium } from "../mirror/media/wanted_file.ts";
import type { Mirror } from "../mirror/mirror.ts";
import { existingMachine, machineUuid, parseZoneFile } from "./vmadm.ts";
import type { Call, CapabilitiesOf } from "./capability.ts";
import { downloadArtifact, downloadOptions, type FoundMedia, mediumJson } from "./images.ts";
import type { MachineUuid } from "../domain/id.ts";
import { join } from "@std/path";
import { openRegularFile, type RegularFile } from "../host/regular_file.ts";
import type { Hashes } from "../mirror/media/hash.ts";
import type { KnownFiles } from "../mirror/media/known_files.ts";
import { HOUR_MS } from "../domain/instant.ts";

/** A download has a minimum speed instead of a time limit. */
const FIND_DEADLINE_MS = 12 * HOUR_MS;
const PLACE_DEADLINE_MS = 2 * HOUR_MS;
const REMOVE_DEADLINE_MS = 60_000;

/** Where media come from, where they are placed, and by which rules. */
export interface MediaDeps {
  readonly vmadm: Vmadm;
  readonly transport: Transport;
  readonly mirror: Mirror;
  readonly policy: Policy;
  /** Folders from which tasks may take media by path. */
  readonly mediaDirs: readonly string[];
  readonly found: FoundMedia;
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
  if (!any) parseMediaName(medium.name, "media");
  await deps.found.remember(call.job_uuid, key, medium);
  return medium;
}

/** `any_format` also accepts what no machine boots; such media can be found but not placed. */
function parseFind(value: JsonValue | undefined): { any: boolean; media: MediaRequest } {
  if (!isJsonObject(value)) return { any: false, media: parseMediaRequest(value) };
  const { any_format = false, ...media } = value;
  if (typeof any_format !== "boolean") {
    throw invalidArgument(
      "media.any_format",
      "Cannot find the medium: any_format is true or false",
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
    return await downloadArtifact(mirror, found, call, options);
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
  throw new AgentError("host", "Cannot find the zone's folder: vmadm reports no zonepath");
}

// Room for a medium in the root of a zone. The default quota is 10 GiB for kvm and 1 GiB for bhyve:
// most media would not fit.

const GIB = 1024 ** 3;
/** GiB besides the medium: the zone's own files, and the temporary name of a copy. */
const ROOM_GIB = 1;

/** GiB of quota that a zone needs for a medium of this size. */
function quotaFor(bytes: number): number {
  return Math.ceil(bytes / GIB) + ROOM_GIB;
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
  const wanted = quotaFor(bytes);
  const quota = typeof machine.quota === "number" ? machine.quota : 0;
  // 0 means no quota for kvm; bhyve reads it as its minimum, 1 GiB.
  if (quota >= wanted || (quota === 0 && machine.brand === "kvm")) return;
  if (wanted > policy.quotaGiBMax) {
    const message =
      `Cannot place the medium: machine ${uuid} would need a quota of ${wanted} GiB, ` +
      `the policy allows ${policy.quotaGiBMax} (setting ${POLICY_SETTINGS.quotaGiBMax})`;
    throw new AgentError("forbidden", message);
  }
  await vmadm.update(uuid, { quota: wanted }, { signal });
}

// Media that are files of the agent's host: taken from one of the operator's folders, read whole,
// and from then on known by their digest.

/** Options of a read; progress counts bytes done and total bytes. */
export interface ReadOptions {
  readonly hash: KnownFiles["hash"];
  readonly signal: AbortSignal;
  readonly onProgress: (done: number, total: number) => void;
}

/**
 * Finds a file by path and hashes it.
 * @throws {AgentError} `forbidden` when it lies outside the folders, links followed; `not_found`;
 *   `invalid_argument` when it is not a regular file; `digest_mismatch`; `aborted`
 */
async function findFile(
  mediaDirs: readonly string[],
  request: { readonly path: string; readonly digest?: Digest; readonly any?: boolean },
  options: ReadOptions,
): Promise<Medium> {
  const path = await resolvedPath(mediaDirs, request.path);
  const file = await open(path, request.path);
  try {
    const found = await hash(file, request, options);
    if (request.digest !== undefined) {
      requireDigest(JSON.stringify(request.path), found, request.digest);
    }
    // The requested name, not that of a link's target.
    const safe = safeMediaName(request.path);
    const name = request.any === true ? safe : parseMediaName(safe, "media.path");
    const label = `file ${request.path}`;
    // The operator put the file there; only a digest says what it should be.
    const level = request.digest === undefined ? "none" : "index";
    return { source: "path", path, name, size: file.size, sha256: found.sha256, label, level };
  } finally {
    await file.close();
  }
}

/**
 * Follows every link of a path, which must end inside one of the folders. A name without a slash is
 * searched in the folders, in order.
 */
async function resolvedPath(mediaDirs: readonly string[], path: string): Promise<string> {
  if (path.includes("/")) return await pathWithin(mediaDirs, path);
  for (const folder of mediaDirs) {
    if (await realPath(join(folder, path)) !== undefined) {
      return await pathWithin(mediaDirs, join(folder, path));
    }
  }
  const message = `Cannot use medium ${JSON.stringify(path)}: it is in no media folder: ` +
    expectedFolders(mediaDirs);
  throw new AgentError("not_found", message);
}

/** Where a medium may lie, and how an operator adds a place. */
function expectedFolders(mediaDirs: readonly string[]): string {
  return mediaDirs.length === 0
    ? "expected one, and the agent has none: start it with --media-dir DIR"
    : `expected ${mediaDirs.join(" or ")}; --media-dir of the agent adds one`;
}

async function pathWithin(mediaDirs: readonly string[], asked: string): Promise<string> {
  const cannot = `Cannot use medium ${JSON.stringify(asked)}`;
  // Outside files get the same answer whether they exist or not: tasks must not learn what else is
  // on the host.
  const outside = new AgentError(
    "forbidden",
    `${cannot}: it is not in a media folder: ${expectedFolders(mediaDirs)}`,
  );
  const folders = await Promise.all(mediaDirs.map(realPath));
  const known = folders.filter((folder) => folder !== undefined);
  if (![...mediaDirs, ...known].some((folder) => isWithin(folder, asked))) throw outside;
  const path = await realPath(asked);
  if (path === undefined) throw new AgentError("not_found", `${cannot}: it does not exist`);
  if (!known.some((folder) => isWithin(folder, path))) throw outside;
  return path;
}

function isWithin(folder: string, path: string): boolean {
  return path.startsWith(join(folder, "/")) && path.length > folder.length + 1;
}

async function realPath(path: string): Promise<string | undefined> {
  try {
    return await Deno.realPath(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    const message = `Cannot use medium ${JSON.stringify(path)}: ${messageOf(error)}`;
    throw new AgentError("invalid_argument", message, { cause: error });
  }
}

async function open(path: string, asked: string): Promise<RegularFile> {
  const cannot = `Cannot use medium ${JSON.stringify(asked)}`;
  let file: RegularFile | null;
  try {
    file = await openRegularFile(path);
  } catch (error) {
    throw new AgentError("not_found", `${cannot}: ${messageOf(error)}`, { cause: error });
  }
  if (file === null) {
    throw new AgentError("invalid_argument", `${cannot}: it is not a regular file`);
  }
  if (file.size > 0) return file;
  await file.close();
  throw new AgentError("invalid_argument", `${cannot}: it is empty`);
}

async function hash(
  file: RegularFile,
  { path, digest }: { readonly path: string; readonly digest?: Digest },
  { signal, onProgress, hash }: ReadOptions,
): Promise<Hashes> {
  let done = 0;
  const read = async function* () {
    for await (const part of file.parts()) {
      if (signal.aborted) {
        throw new AgentError(
          "aborted",
          `Cannot read medium ${JSON.stringify(path)}: the task was aborted`,
        );
      }
      yield part;
      done += part.length;
      onProgress(done, file.size);
    }
  };
  // SHA-512 costs five times as much, so it is computed only for a comparison.
  const hashes = await hash(read(), digest === undefined ? [] : [digest.algorithm]);
  if (done !== file.size) {
    const message = `Cannot use medium ${JSON.stringify(path)}: it changed while it was read`;
    throw new AgentError("conflict", message);
  }
  return hashes;
}

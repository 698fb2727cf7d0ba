// Files of a simulated host: those of the agent's own machine, with the quota that zfs would hold each
// zone to. What a zone has is counted anew now and then, by the sizes of the files below its zonepath:
// a file with holes counts as if it had none. The record of a machine is read as the simulator writes
// it, so that a quota which `vmadm update` raises or lowers holds at once.

import { join } from "@std/path";
import { AgentError } from "../domain/error.ts";
import { isUuid } from "../domain/id.ts";
import { isJsonObject } from "../domain/json.ts";
import type { HostFiles, NewFile } from "./host_files.ts";

const GIB = 1024 ** 3;
/** Bytes that one file may grow by before its zone is counted again. */
const RECOUNT_BYTES = 16 << 20;

/**
 * Adds the quotas of zones to files.
 * @param stateDir the folder of the simulated host
 */
export function withQuotas(files: HostFiles, stateDir: string): HostFiles {
  const roomOf = (path: string) => roomAt(stateDir, path);
  return {
    ...files,
    freeBytes: async (folder) => {
      const [free, room] = await Promise.all([files.freeBytes(folder), roomOf(folder)]);
      return Math.min(free, Math.max(0, room));
    },
    create: async (path) => {
      // Even a name takes a block.
      if (await roomOf(path) <= 0) throw quotaExceeded("create", path);
      return withQuota(await files.create(path), path, roomOf);
    },
  };
}

/** A file that stops growing where its zone has no room left. */
function withQuota(
  file: NewFile,
  path: string,
  roomOf: (path: string) => Promise<number>,
): NewFile {
  let allowed = 0;
  return {
    ...file,
    write: async (bytes) => {
      if (bytes.length > allowed) {
        const room = await roomOf(path);
        if (bytes.length > room) throw quotaExceeded("write", path);
        allowed = Math.max(bytes.length, Math.min(room, RECOUNT_BYTES));
      }
      allowed -= bytes.length;
      await file.write(bytes);
    },
    finish: async (mode) => {
      const status = await file.finish(mode);
      if (await roomOf(path) < 0) throw quotaExceeded("write", path);
      return status;
    },
  };
}

function quotaExceeded(verb: "create" | "write", path: string): AgentError {
  const message = `Cannot ${verb} ${JSON.stringify(path)}: Disk quota exceeded (EDQUOT)`;
  return new AgentError("storage_full", message);
}

/** Bytes that the zone of a path may still take: below 0 when it has too many, Infinity without quota. */
async function roomAt(stateDir: string, path: string): Promise<number> {
  const zones = join(stateDir, "zones") + "/";
  const uuid = path.startsWith(zones) ? path.slice(zones.length).split("/")[0] : undefined;
  if (!isUuid(uuid)) return Infinity;
  const quota = await quotaOf(join(stateDir, "machines", `${uuid}.json`));
  // To kvm 0 is none; the simulator keeps at least 1 for bhyve.
  return quota === 0 ? Infinity : quota * GIB - await bytesBelow(zones + uuid);
}

/** GiB; 0 for a machine without quota, or one that is not there. */
async function quotaOf(file: string): Promise<number> {
  try {
    const record: unknown = JSON.parse(await Deno.readTextFile(file));
    const vm = isJsonObject(record) ? record.vm : undefined;
    return isJsonObject(vm) && typeof vm.quota === "number" ? vm.quota : 0;
  } catch (error) {
    if (isGone(error)) return 0;
    throw error;
  }
}

/** Bytes of all plain files; what vanishes meanwhile counts as gone. */
async function bytesBelow(folder: string): Promise<number> {
  let bytes = 0;
  try {
    for await (const { name, isDirectory, isFile } of Deno.readDir(folder)) {
      const path = `${folder}/${name}`;
      if (isDirectory) bytes += await bytesBelow(path);
      else if (isFile) bytes += await sizeOf(path);
    }
  } catch (error) {
    if (!isGone(error)) throw error;
  }
  return bytes;
}

async function sizeOf(file: string): Promise<number> {
  try {
    return (await Deno.lstat(file)).size;
  } catch (error) {
    if (isGone(error)) return 0;
    throw error;
  }
}

/** Whoever is in the zone may remove, and exchange, what is there. */
function isGone(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory;
}

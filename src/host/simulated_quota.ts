// The quotas of a simulated host: zfs would enforce them on a real one.

import { join } from "@std/path";
import { AgentError } from "../domain/error.ts";
import { isUuid } from "../domain/id.ts";
import { isJsonObject } from "../domain/json.ts";
import type { HostFiles, HostFileWriter } from "./host_files.ts";

const GIB = 1024 ** 3;
/** Bytes that a file may grow before its zone is recounted. */
const RECOUNT_BYTES = 16 << 20;

/**
 * Adds the quotas that zfs would enforce to the files of this machine. A zone's use is recounted from time to time as the
 * sizes of the files below its zonepath, holes included. The quota is read from the simulator's record of the machine, so
 * a change by `vmadm update` applies at once.
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
      // Even an empty file takes a block.
      if (await roomOf(path) <= 0) throw quotaExceeded("create", path);
      return withQuota(await files.create(path), path, roomOf);
    },
  };
}

/** A file that cannot grow beyond the quota of its zone. */
function withQuota(
  file: HostFileWriter,
  path: string,
  roomOf: (path: string) => Promise<number>,
): HostFileWriter {
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

/** Bytes left to the zone of a path: negative when over quota, Infinity without one. */
async function roomAt(stateDir: string, path: string): Promise<number> {
  const zones = join(stateDir, "zones") + "/";
  const uuid = path.startsWith(zones) ? path.slice(zones.length).split("/")[0] : undefined;
  if (!isUuid(uuid)) return Infinity;
  const quota = await quotaOf(join(stateDir, "machines", `${uuid}.json`));
  // 0 means none for kvm; the simulator keeps at least 1 for bhyve.
  return quota === 0 ? Infinity : quota * GIB - await bytesBelow(zones + uuid);
}

/** GiB; 0 without a quota or without a machine. */
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

/** Bytes of all regular files; those that vanish meanwhile do not count. */
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

/** Processes in the zone may remove and replace its files. */
function isGone(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory;
}

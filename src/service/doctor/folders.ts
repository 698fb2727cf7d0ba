// Checks of the agent's folders: they exist, belong to it, have free space, and are closed to others.

import { basename, dirname, join } from "@std/path";
import { FREE_BYTES_MIN, type FreeBytes } from "../../mirror/media/disk.ts";
import { lookAtKeys, readKeyFolder } from "../../mirror/media/openpgp_check.ts";
import { messageOf } from "../../domain/error.ts";
import { sizeText } from "../../domain/host.ts";
import { absent, OTHERS, OWNER_ONLY_MODE, STICKY } from "../../runtime/regular_file.ts";
import { type HealthCheck, type HealthFinding, ok, skipped } from "./check.ts";

/** The right of every user of the host to write. */
const ANYONE_WRITES = 0o002;
const FOLDER_MODE = 0o700;
/** All that chmod(2) sets. */
const MODE_BITS = 0o7777;
/** Most names that a finding lists. */
const NAMES_MAX = 5;
/** With less free space, downloads and machines will soon be refused. */
const FREE_BYTES_FINE = 4 * FREE_BYTES_MIN;

/**
 * The state folder: it must be closed to others, since its database holds what jobs know.
 * @param isOurs whether the folder is an agent's: one like /etc must not be closed to others
 */
export function stateFolderCheck(
  path: string,
  isOurs: (path: string) => Promise<boolean>,
): HealthCheck {
  return {
    name: "state",
    about: "the state folder is there, a folder, and closed to others",
    async examine() {
      const found = await statOf(path);
      if (found === undefined) return skipped(`${path} is created at the first start`);
      if (!found.isDirectory) return { outcome: "fail", detail: `${path} is not a folder` };
      const mode = (found.mode ?? 0) & 0o777;
      const owner = Deno.uid();
      if (owner !== null && found.uid !== owner && owner !== 0) {
        return { outcome: "fail", detail: `${path} belongs to user ${found.uid}, not to ${owner}` };
      }
      if (await isReadOnly(path, found)) {
        const detail = `${path} is on a read-only file system: no agent can start there`;
        return {
          outcome: "fail",
          detail,
          fix: "look into the system's log, then mount it writable",
        };
      }
      if ((mode & OTHERS) === 0) return await ownFiles(path);
      if (!await isOurs(path)) {
        const detail = `${path} holds files other than an agent's state`;
        return {
          outcome: "fail",
          detail,
          fix: "set state_dir to a folder used by the agent alone",
        };
      }
      return {
        outcome: "fail",
        detail: `${path} has mode ${mode.toString(8)}, expected 700: others can read the database`,
        fix: `chmod 700 ${path}`,
        repair: () => Deno.chmod(path, FOLDER_MODE),
      };
    },
  };
}

/**
 * Whether the system has made the file system read-only, as it does after errors. Only a change shows that: the folder
 * gets the mode that it has.
 */
async function isReadOnly(path: string, { mode }: Deno.FileInfo): Promise<boolean> {
  if (mode === null) return false;
  try {
    await Deno.chmod(path, mode & MODE_BITS);
    return false;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EROFS";
  }
}

/** The files in the state folder, which others could read if the folder were opened, moved or copied. */
async function ownFiles(folder: string): Promise<HealthFinding> {
  const open: string[] = [];
  for await (const { name, isFile } of Deno.readDir(folder)) {
    if (!isFile) continue;
    const found = await statOf(join(folder, name));
    if (((found?.mode ?? 0) & OTHERS) !== 0) open.push(join(folder, name));
  }
  if (open.length === 0) return ok(folder);
  const names = open.slice(0, NAMES_MAX).map((path) => JSON.stringify(basename(path))).join(", ");
  const more = open.length > NAMES_MAX ? ` and ${open.length - NAMES_MAX} more` : "";
  return {
    outcome: "warn",
    detail: `others may read or write ${names}${more} in ${folder}`,
    // No command contains these names: others may have chosen them.
    fix: "zonewright doctor --run state --fix",
    repair: async () => {
      for (const path of open) await closeFile(path);
    },
  };
}

/** Room on the disk of the state folder. */
export function diskCheck(path: string, freeBytes: FreeBytes): HealthCheck {
  return {
    name: "disk",
    about: "the disk of the state folder has room for the database and downloads",
    async examine() {
      if (await statOf(path) === undefined) return skipped(`${path} is not there yet`);
      const free = await freeBytes(path);
      const detail = `${sizeText(free)} free below ${path}`;
      if (free >= FREE_BYTES_FINE) return ok(detail);
      const own = await largestIn(path);
      return {
        outcome: free < FREE_BYTES_MIN ? "fail" : "warn",
        detail: own.length === 0 ? detail : `${detail}, which holds ${own.join(", ")}`,
        fix: "zonewright media list, zonewright db prune --older-than 30d; " +
          `du -x shows what else is on the disk`,
      };
    },
  };
}

/** The largest files and folders in a folder with their sizes, largest first. */
async function largestIn(folder: string): Promise<string[]> {
  const found: { name: string; bytes: number }[] = [];
  for (const name of await namesIn(folder)) {
    found.push({ name, bytes: await bytesIn(join(folder, name)) });
  }
  return found.sort((one, other) => other.bytes - one.bytes).slice(0, NAMES_MAX)
    .map(({ name, bytes }) => `${name} (${sizeText(bytes)})`);
}

/** Bytes that a file, or everything below a folder, takes. Links are not followed. */
async function bytesIn(path: string): Promise<number> {
  const found = await lstatOf(path);
  if (found === undefined) return 0;
  // Sparse files take less than their size.
  let bytes = found.blocks === null ? found.size : 512 * found.blocks;
  if (!found.isDirectory) return bytes;
  for (const name of await namesIn(path)) bytes += await bytesIn(join(path, name));
  return bytes;
}

/** What is in a folder; nothing where it was removed meanwhile, or is closed to this user. */
async function namesIn(folder: string): Promise<string[]> {
  try {
    return await Array.fromAsync(Deno.readDir(folder), ({ name }) => name);
  } catch {
    return [];
  }
}

/** The folders from which media may be taken. */
export function mediaFoldersCheck(folders: readonly string[]): HealthCheck {
  return {
    name: "media",
    about: "the media folders are there, and only their owners can change them",
    async examine() {
      if (folders.length === 0) return skipped("no media_dir is configured");
      const wrong: string[] = [];
      for (const folder of folders) {
        const found = await statOf(folder);
        if (found === undefined) wrong.push(`${folder} is missing`);
        else if (!found.isDirectory) wrong.push(`${folder} is not a folder`);
        else if (!await canList(folder)) wrong.push(`${folder} cannot be read`);
        else if (((found.mode ?? 0) & ANYONE_WRITES) !== 0) {
          wrong.push(`anyone may write in ${folder}`);
        }
      }
      if (wrong.length === 0) return ok(folders.join(", "));
      return { outcome: "warn", detail: wrong.join("; "), fix: "mkdir -p, chmod o-w" };
    },
  };
}

/** The trusted keys for vendor signatures, read as a download reads them. */
export function keysCheck(folder: string | null): HealthCheck {
  return {
    name: "keys",
    about: "the folder of keys can be read, and only its owner can change it",
    async examine() {
      if (folder === null) return skipped("no key_dir is configured");
      const found: string[] = [];
      try {
        const { distros } = await lookAtKeys(folder);
        for (const distro of [null, ...distros]) {
          const keys = await readKeyFolder(folder, distro);
          const whose = distro ?? (distros.length === 0 ? "all distros" : "other distros");
          found.push(`${keys.length} ${keys.length === 1 ? "file" : "files"} for ${whose}`);
        }
      } catch (error) {
        return { outcome: "fail", detail: messageOf(error) };
      }
      if ((((await statOf(folder))?.mode ?? 0) & ANYONE_WRITES) !== 0) {
        const detail = `anyone may write in ${folder}, and so be trusted`;
        return { outcome: "fail", detail, fix: `chmod o-w ${folder}` };
      }
      return ok(`${folder}: ${found.join(", ")}`);
    },
  };
}

async function canList(folder: string): Promise<boolean> {
  try {
    for await (const _ of Deno.readDir(folder)) break;
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) return false;
    throw error;
  }
}

/** The configuration file decides what the agent runs: only root and the agent's user may change it. */
export function configFileCheck(path: string, named: boolean): HealthCheck {
  return {
    name: "config",
    about: "the configuration can be read, and only its owner can change it",
    async examine(): Promise<HealthFinding> {
      const found = await statOf(path);
      if (found === undefined) {
        return named
          ? { outcome: "fail", detail: `${path} is missing` }
          : ok("defaults: there is no file");
      }
      if (found.uid !== null && ![0, Deno.uid()].includes(found.uid)) {
        const detail = `${path} belongs to user ${found.uid}, who decides what the agent runs`;
        return { outcome: "fail", detail, fix: `chown root ${path}` };
      }
      const folder = dirname(path);
      const around = (await statOf(folder))?.mode ?? 0;
      if ((around & ANYONE_WRITES) !== 0 && (around & STICKY) === 0) {
        const detail = `anyone may replace ${path}`;
        return { outcome: "fail", detail, fix: `chmod o-w ${folder}` };
      }
      if (((found.mode ?? 0) & 0o022) === 0) return ok(path);
      return {
        outcome: "fail",
        detail: `users other than its owner may write ${path} and decide what the agent runs`,
        fix: `chmod go-w ${path}`,
        repair: () => Deno.chmod(path, (found.mode ?? OWNER_ONLY_MODE) & 0o755),
      };
    },
  };
}

/** The mode of a file in octal digits. */
export function modeOf({ mode }: Deno.FileInfo): string {
  return ((mode ?? 0) & 0o777).toString(8);
}

/**
 * Closes one of the agent's files to others. A file with a second name may be one that others must read: anyone who can
 * write to the folder could have linked it there.
 * @throws {Error} for a link, or a file with two names
 */
export async function closeFile(path: string): Promise<void> {
  const { isFile, nlink } = await Deno.lstat(path);
  if (!isFile || (nlink ?? 1) > 1) throw new Error(`${path} is a link, or has another name`);
  await Deno.chmod(path, OWNER_ONLY_MODE);
}

/** @returns undefined when there is nothing */
export async function statOf(path: string): Promise<Deno.FileInfo | undefined> {
  return await Deno.stat(path).catch(absentThere);
}

/** The same, without following a link. */
export async function lstatOf(path: string): Promise<Deno.FileInfo | undefined> {
  return await Deno.lstat(path).catch(absentThere);
}

/** Undefined as well when a folder on the path is a file. */
function absentThere(error: unknown): undefined {
  if (!(error instanceof Deno.errors.NotADirectory)) return absent(error);
}

// The folders of the agent: there, its own, with room, and closed to others.

import { FREE_BYTES_MIN, type FreeBytes } from "../mirror/free_space.ts";
import { type Check, type Finding, ok, skipped } from "./check.ts";

const GROUP_AND_OTHERS = 0o077;
const OTHERS_WRITE = 0o002;
const FOLDER_MODE = 0o700;
/** Below it downloads and machines will soon be refused. */
const FREE_BYTES_FINE = 4 * FREE_BYTES_MIN;

/** The state folder: closed to others, as the database in it holds what jobs know. */
export function stateFolderCheck(path: string): Check {
  return {
    name: "state",
    about: "the state folder is there, a folder, and closed to others",
    async examine() {
      const found = await statOf(path);
      if (found === undefined) return skipped(`${path} is made by the first start`);
      if (!found.isDirectory) return { outcome: "fail", detail: `${path} is no folder` };
      const mode = (found.mode ?? 0) & 0o777;
      const owner = Deno.uid();
      if (owner !== null && found.uid !== owner && owner !== 0) {
        return { outcome: "fail", detail: `${path} belongs to user ${found.uid}, not to ${owner}` };
      }
      if ((mode & GROUP_AND_OTHERS) === 0) return ok(path);
      return {
        outcome: "fail",
        detail: `${path} has mode ${mode.toString(8)}, expected 700: others can read the database`,
        fix: `chmod 700 ${path}`,
        repair: () => Deno.chmod(path, FOLDER_MODE),
      };
    },
  };
}

/** Room on the disk of the state folder. */
export function diskCheck(path: string, freeBytes: FreeBytes): Check {
  return {
    name: "disk",
    about: "the disk of the state folder has room for the database and downloads",
    async examine() {
      if (await statOf(path) === undefined) return skipped(`${path} is not there yet`);
      const free = await freeBytes(path);
      const detail = `${(free / 1e9).toFixed(1)} GB free below ${path}`;
      if (free >= FREE_BYTES_FINE) return ok(detail);
      const fix = "zonewright media list, zonewright db prune --older-than 30d";
      return { outcome: free < FREE_BYTES_MIN ? "fail" : "warn", detail, fix };
    },
  };
}

/** The folders from which media may be taken. */
export function mediaFoldersCheck(folders: readonly string[]): Check {
  return {
    name: "media",
    about: "the media folders are there, and only their owners can change them",
    async examine() {
      if (folders.length === 0) return skipped("no media_dir is configured");
      const wrong: string[] = [];
      for (const folder of folders) {
        const found = await statOf(folder);
        if (found === undefined) wrong.push(`${folder} is missing`);
        else if (!found.isDirectory) wrong.push(`${folder} is no folder`);
        else if (((found.mode ?? 0) & OTHERS_WRITE) !== 0) {
          wrong.push(`anybody may write in ${folder}`);
        }
      }
      if (wrong.length === 0) return ok(folders.join(", "));
      return { outcome: "warn", detail: wrong.join("; "), fix: "mkdir -p, chmod o-w" };
    },
  };
}

/** The configuration file may name secrets: only its owner may change it. */
export function configFileCheck(path: string, named: boolean): Check {
  return {
    name: "config",
    about: "the configuration can be read, and only its owner can change it",
    async examine(): Promise<Finding> {
      const found = await statOf(path);
      if (found === undefined) {
        return named
          ? { outcome: "fail", detail: `${path} is missing` }
          : ok("defaults: there is no file");
      }
      if (((found.mode ?? 0) & 0o022) === 0) return ok(path);
      return {
        outcome: "fail",
        detail: `others than its owner may write ${path}, and so decide what the agent runs`,
        fix: `chmod go-w ${path}`,
        repair: () => Deno.chmod(path, (found.mode ?? 0o600) & 0o755),
      };
    },
  };
}

/** @returns undefined when there is nothing */
export async function statOf(path: string): Promise<Deno.FileInfo | undefined> {
  try {
    return await Deno.stat(path);
  } catch (error) {
    const absent = error instanceof Deno.errors.NotFound ||
      error instanceof Deno.errors.NotADirectory;
    if (absent) return undefined;
    throw error;
  }
}

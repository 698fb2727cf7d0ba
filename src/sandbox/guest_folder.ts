// The folder that holds the socket of the guests: where it is made, who may enter it, and that the
// folders of agents which were killed do not pile up.

import { join } from "@std/path";
import type { GuestUser } from "./command.ts";

/** Bytes of sun_path, its closing zero included. @see unix(7) */
const SOCKET_PATH_BYTES_MAX = 108;
/** File in the runtime folder that tells where the folder of the socket is. */
const FOLDER_NOTE = "guests.folder";
const PREFIX = "guests-";
/** In the temporary folder, which others use too. */
const TEMPORARY_PREFIX = "zonewright-guests-";
const SOCKET_NAME = "s";
/**
 * How much older than a new folder one without a listener must be to count as left, milliseconds.
 * A younger one may be that of an agent which is about to listen.
 */
const LEFT_AGE_MS = 60_000;

/** A folder with room for one socket. */
export interface GuestFolder {
  /** Where the socket is to be. */
  readonly socketPath: string;
  /** Removes it with what is in it. */
  remove(): Promise<void>;
}

/**
 * Makes a folder that only the agent and the group of the guests may enter. It lies in the runtime
 * folder, unless the path of the socket would be too long or another user could not get there: then
 * in the system's temporary folder, which everybody may pass through. What killed agents have left
 * is removed on the way.
 */
export async function makeGuestFolder(
  { runtimeDir, user, temporaryDir }: {
    runtimeDir: string;
    user?: GuestUser;
    /** The system's own when absent. */
    temporaryDir?: string;
  },
): Promise<GuestFolder> {
  const note = join(runtimeDir, FOLDER_NOTE);
  await removeNoted(note);
  // makeTempDir() adds eight characters or fewer.
  const longest = join(runtimeDir, `${PREFIX}12345678`, SOCKET_NAME);
  const fits = new TextEncoder().encode(longest).length < SOCKET_PATH_BYTES_MAX;
  const folder = fits && user === undefined
    ? await Deno.makeTempDir({ prefix: PREFIX, dir: runtimeDir })
    : await Deno.makeTempDir({
      prefix: TEMPORARY_PREFIX,
      ...(temporaryDir === undefined ? {} : { dir: temporaryDir }),
    });
  await Deno.writeTextFile(note, folder);
  if (user !== undefined) {
    await Deno.chown(folder, null, user.gid);
    await Deno.chmod(folder, 0o710);
  }
  if (!folder.startsWith(runtimeDir)) await removeLeft(folder);
  return {
    socketPath: join(folder, SOCKET_NAME),
    async remove() {
      await Deno.remove(folder, { recursive: true });
      await Deno.remove(note);
    },
  };
}

/** Removes the folder that the last agent in this runtime folder had, if it was killed. */
async function removeNoted(note: string): Promise<void> {
  try {
    const folder = await Deno.readTextFile(note);
    // Not recursively: meanwhile the folder's name may have come to mean another folder.
    await Deno.remove(join(folder, SOCKET_NAME)).catch(() => {});
    await Deno.remove(folder);
  } catch {
    // There was none, it is gone, or it is no longer ours: the new folder has another name.
  }
}

/**
 * Removes the folders beside a new one that agents with other runtime folders have left. A trial
 * that is killed never comes back to its runtime folder, so nothing else would.
 */
async function removeLeft(ours: string): Promise<void> {
  const beside = ours.slice(0, ours.lastIndexOf("/"));
  const { mtime, uid } = await Deno.lstat(ours);
  const born = mtime?.getTime() ?? 0;
  for await (const { name, isDirectory } of Deno.readDir(beside)) {
    const folder = join(beside, name);
    if (!isDirectory || !name.startsWith(TEMPORARY_PREFIX) || folder === ours) continue;
    try {
      const found = await Deno.lstat(folder);
      const old = born - (found.mtime?.getTime() ?? born) >= LEFT_AGE_MS;
      if (!found.isDirectory || found.uid !== uid || !old) continue;
      if (await isListening(join(folder, SOCKET_NAME))) continue;
      await Deno.remove(join(folder, SOCKET_NAME)).catch(() => {});
      // Not recursively: a folder with anything else in it was not made here.
      await Deno.remove(folder);
    } catch {
      // It went meanwhile, or holds something else: then it stays.
    }
  }
}

async function isListening(path: string): Promise<boolean> {
  try {
    const socket = await Deno.connect({ transport: "unix", path });
    socket.close();
    return true;
  } catch (error) {
    const absent = error instanceof Deno.errors.ConnectionRefused ||
      error instanceof Deno.errors.NotFound;
    // Anything else, such as a full queue of a busy agent, is no proof of death.
    return !absent;
  }
}

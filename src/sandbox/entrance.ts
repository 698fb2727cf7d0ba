// The unix socket at which guests knock. The token that a guest shows first tells which of the
// started processes it is; a connection that shows none, or an unknown one, is closed.

import { pause } from "../program/loop.ts";
import type { GuestUser } from "./command.ts";
import type { GuestProcess } from "./process.ts";
import { readLines } from "./lines.ts";
import { TOKEN_BYTES_MAX } from "./protocol.ts";
import { join } from "@std/path";

/** Time for a connection to show its token, milliseconds. */
const TOKEN_DEADLINE_MS = 10_000;
/** Connections that have shown no token yet; twice what the largest pool starts at a time. */
const UNKNOWN_MAX = 128;
/** Time until the next attempt after a connection could not be accepted, milliseconds. */
const ACCEPT_AGAIN_MS = 100;

/** The socket, and the guests that are expected at it. */
export interface GuestEntrance {
  readonly path: string;
  /** The guest that will show this token. */
  expect(token: string, guest: GuestProcess): void;
  forget(token: string): void;
  /** Stops listening and removes the socket with its folder. */
  close(): Promise<void>;
}

/** Opens the socket in a new folder. */
export async function openGuestEntrance(
  { runtimeDir, user }: { runtimeDir: string; user?: GuestUser },
): Promise<GuestEntrance> {
  const folder = await makeGuestFolder({ runtimeDir, ...(user === undefined ? {} : { user }) });
  const path = folder.socketPath;
  const listener = Deno.listen({ transport: "unix", path });
  await Deno.chmod(path, user === undefined ? 0o600 : 0o660);
  if (user !== undefined) await Deno.chown(path, null, user.gid);

  const expected = new Map<string, GuestProcess>();
  const unknown = new Set<Deno.Conn>();
  const admit = async (socket: Deno.Conn) => {
    // Any process of the guests' user may connect: that must not cost the agent its memory.
    if (unknown.size >= UNKNOWN_MAX) return socket.close();
    unknown.add(socket);
    const late = setTimeout(() => turnAway(unknown, socket), TOKEN_DEADLINE_MS);
    let bytesMax = TOKEN_BYTES_MAX;
    let known: GuestProcess | undefined = undefined;
    const lines = readLines(socket, () => bytesMax, (bytes) => known?.hold(bytes));
    const token = await firstLine(lines);
    clearTimeout(late);
    if (!unknown.delete(socket)) return;
    const guest = token === undefined ? undefined : expected.get(token);
    if (token === undefined || guest === undefined) return socket.close();
    expected.delete(token);
    bytesMax = guest.messageBytesMax;
    known = guest;
    guest.connect(socket, lines);
  };
  const closing = new AbortController();
  const listening = listen(listener, admit, closing.signal);
  return {
    path,
    expect: (token, guest) => void expected.set(token, guest),
    forget: (token) => void expected.delete(token),
    async close() {
      closing.abort();
      listener.close();
      for (const socket of unknown) turnAway(unknown, socket);
      await listening;
      await folder.remove();
    },
  };
}

/** Admits those who knock until the listener is closed. Never rejects. */
async function listen(
  listener: Deno.Listener,
  admit: (socket: Deno.Conn) => Promise<void>,
  closing: AbortSignal,
): Promise<void> {
  while (!closing.aborted) {
    try {
      for await (const socket of listener) admit(socket);
      return;
    } catch {
      // Out of file descriptors: new connections wait in the backlog until one is free.
      await pause(ACCEPT_AGAIN_MS, closing);
    }
  }
}

async function firstLine(lines: AsyncGenerator<string>): Promise<string | undefined> {
  try {
    const { value, done } = await lines.next();
    return done === true || value.length > TOKEN_BYTES_MAX ? undefined : value;
  } catch {
    return undefined; // Closed, or no text at all.
  }
}

function turnAway(unknown: Set<Deno.Conn>, socket: Deno.Conn): void {
  if (unknown.delete(socket)) socket.close();
}

// The folder that holds the socket of the guests: where it is made, who may enter it, and that the
// folders of agents which were killed do not pile up.

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
interface GuestFolder {
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

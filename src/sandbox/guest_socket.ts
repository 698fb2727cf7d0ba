// The unix socket for guests, and the folder that it is in. A guest first sends a token, which identifies its process; a
// connection without a token, or with an unknown one, is closed.

import { absent, fileInfo, SOCKET_PATH_BYTES_MAX } from "../runtime/regular_file.ts";
import { pause } from "../runtime/wait.ts";
import type { GuestUser } from "./guest_command.ts";
import type { GuestProcess } from "./process.ts";
import { readLines } from "../wall/lines.ts";
import { TOKEN_BYTES_MAX } from "../wall/protocol.ts";
import { join } from "@std/path";

/** Milliseconds for a connection to send its token. */
const TOKEN_DEADLINE_MS = 10_000;
/** Connections without a token yet; twice what the largest pool starts at a time. */
const UNKNOWN_MAX = 128;
/** Pause after a failed accept, milliseconds. */
const ACCEPT_AGAIN_MS = 100;

/** The socket, and the expected guests. */
export interface GuestSocket {
  readonly path: string;
  /** Opens another socket if this one was removed, as by a program that empties /tmp. */
  renew(): Promise<void>;
  /** Registers the guest of a token. */
  expect(token: string, guest: GuestProcess): void;
  forget(token: string): void;
  /** Stops listening and removes the socket with its folder. */
  close(): Promise<void>;
}

/** Opens the socket in a new folder. */
export async function openGuestSocket(
  { runtimeDir, user }: { runtimeDir: string; user?: GuestUser },
): Promise<GuestSocket> {
  const expected = new Map<string, GuestProcess>();
  const unknown = new Set<Deno.Conn>();
  const admit = async (socket: Deno.Conn) => {
    // Any process of the guests' user may connect, so unidentified connections are bounded: they must not use up the
    // agent's memory.
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
  const open = async () => {
    const bound = await bind(runtimeDir, user);
    return { ...bound, listening: listen(bound.listener, admit, closing.signal) };
  };
  let place = await open();
  const close = async ({ listener, listening }: typeof place) => {
    listener.close();
    await listening;
  };
  const renew = async () => {
    const found = await fileInfo(place.folder.socketPath);
    if (closing.signal.aborted || (found?.ino === place.ino && found.dev === place.dev)) return;
    const removed = place;
    place = await open();
    await close(removed);
  };
  let renewing = Promise.resolve();
  return {
    get path() {
      return place.folder.socketPath;
    },
    renew: () => renewing = renewing.catch(() => {}).then(renew),
    expect: (token, guest) => void expected.set(token, guest),
    forget: (token) => void expected.delete(token),
    async close() {
      closing.abort();
      await renewing.catch(() => {});
      for (const socket of unknown) turnAway(unknown, socket);
      await close(place);
      await place.folder.remove();
    },
  };
}

/** Binds a socket in a new folder. */
async function bind(runtimeDir: string, user: GuestUser | undefined) {
  const folder = await makeGuestFolder({ runtimeDir, ...(user === undefined ? {} : { user }) });
  const path = folder.socketPath;
  const listener = Deno.listen({ transport: "unix", path });
  await Deno.chmod(path, user === undefined ? 0o600 : 0o660);
  if (user !== undefined) await Deno.chown(path, null, user.gid);
  const { dev, ino } = await Deno.lstat(path);
  return { folder, dev, ino, listener };
}

/** Accepts connections until the listener is closed. Never rejects. */
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

/** File in the runtime folder with the path of the socket's folder. */
const FOLDER_NOTE = "guests.folder";
const PREFIX = "guests-";
/** In the shared temporary folder. */
const TEMPORARY_PREFIX = "zonewright-guests-";
const SOCKET_NAME = "s";
/**
 * How much older than a new folder a folder without a listener must be to count as abandoned,
 * milliseconds. A younger one may belong to an agent that is about to listen.
 */
const LEFT_AGE_MS = 60_000;

/** A folder with room for one socket. */
interface GuestFolder {
  readonly socketPath: string;
  /** Removes the folder with its contents. */
  remove(): Promise<void>;
}

/**
 * Makes a folder that only the agent and the guests' group may enter. It is in the runtime folder,
 * unless the socket's path would be too long or another user could not reach it: then in the
 * system's temporary folder. Folders of killed agents are removed on the way.
 */
export async function makeGuestFolder(
  { runtimeDir, user }: { runtimeDir: string; user?: GuestUser },
): Promise<GuestFolder> {
  const note = join(runtimeDir, FOLDER_NOTE);
  await removeNoted(note);
  // makeTempDir() adds eight characters or fewer.
  const longest = join(runtimeDir, `${PREFIX}12345678`, SOCKET_NAME);
  const fits = new TextEncoder().encode(longest).length <= SOCKET_PATH_BYTES_MAX;
  const folder = fits && user === undefined
    ? await Deno.makeTempDir({ prefix: PREFIX, dir: runtimeDir })
    : await Deno.makeTempDir({ prefix: TEMPORARY_PREFIX });
  await Deno.writeTextFile(note, folder);
  if (user !== undefined) {
    await Deno.chown(folder, null, user.gid);
    await Deno.chmod(folder, 0o710);
  }
  if (!folder.startsWith(runtimeDir)) await removeLeft(folder);
  return {
    socketPath: join(folder, SOCKET_NAME),
    async remove() {
      await Deno.remove(folder, { recursive: true }).catch(absent);
      await Deno.remove(note).catch(absent);
    },
  };
}

/** Removes the last agent's folder of this runtime folder, if that agent was killed. */
async function removeNoted(note: string): Promise<void> {
  try {
    const folder = await Deno.readTextFile(note);
    // Not recursively, because the name may belong to another folder by now.
    await Deno.remove(join(folder, SOCKET_NAME)).catch(() => {});
    await Deno.remove(folder);
  } catch {
    // Missing or no longer ours: the new folder has another name.
  }
}

/**
 * Removes abandoned folders of other runtime folders. A killed trial never returns to its runtime
 * folder, so nothing else would.
 */
async function removeLeft(ours: string): Promise<void> {
  const beside = ours.slice(0, ours.lastIndexOf("/"));
  const { mtime, uid } = await Deno.lstat(ours);
  const born = mtime?.getTime() ?? 0;
  for await (const { name, isDirectory } of Deno.readDir(beside)) {
    // First, because there may be thousands of them.
    if (!isDirectory || !name.startsWith(TEMPORARY_PREFIX)) continue;
    const folder = join(beside, name);
    if (folder === ours) continue;
    try {
      const found = await Deno.lstat(folder);
      const old = born - (found.mtime?.getTime() ?? born) >= LEFT_AGE_MS;
      if (!found.isDirectory || found.uid !== uid || !old) continue;
      if (await isListening(join(folder, SOCKET_NAME))) continue;
      await Deno.remove(join(folder, SOCKET_NAME)).catch(() => {});
      // Not recursively: a folder with other contents was not made here.
      await Deno.remove(folder);
    } catch {
      // Gone by now, or with other contents, in which case it stays.
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
    // Anything else, such as a full backlog of a busy agent, does not prove that it is gone.
    return !absent;
  }
}

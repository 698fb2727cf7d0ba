// The unix socket at which guests knock. The token that a guest shows first tells which of the
// started processes it is; whoever shows none, or an unknown one, is turned away.

import { join } from "@std/path";
import { pause } from "../loop.ts";
import type { GuestUser } from "./guest_command.ts";
import type { GuestProcess } from "./guest_process.ts";
import { readLines } from "./lines.ts";
import { MESSAGE_BYTES_MAX, TOKEN_BYTES_MAX } from "./protocol.ts";

/** Bytes of sun_path, its closing zero included. @see unix(7) */
const SOCKET_PATH_BYTES_MAX = 108;
/** Time for a connection to show its token, milliseconds. */
const TOKEN_DEADLINE_MS = 10_000;
/** Time until the next attempt after a connection could not be accepted, milliseconds. */
const ACCEPT_AGAIN_MS = 100;

/** File in the runtime folder that tells where the folder of the socket is. */
const FOLDER_NOTE = "guests.folder";
const SOCKET_NAME = "s";

/** The socket, and the guests that are expected at it. */
export interface GuestDoor {
  readonly path: string;
  /** The guest that will show this token. */
  expect(token: string, guest: GuestProcess): void;
  forget(token: string): void;
  /** Stops listening and removes the socket with its folder. */
  close(): Promise<void>;
}

/**
 * Opens the socket in a new folder of its own, which only the agent and the group of the guests may
 * enter. A folder for another user is made in the system's temporary folder, which everybody may
 * pass through.
 */
export async function openGuestDoor(
  { runtimeDir, user }: { runtimeDir: string; user?: GuestUser },
): Promise<GuestDoor> {
  const note = join(runtimeDir, FOLDER_NOTE);
  await removeLeftFolder(note);
  const folder = await makeFolder(runtimeDir, user);
  await Deno.writeTextFile(note, folder);
  const path = join(folder, SOCKET_NAME);
  const listener = Deno.listen({ transport: "unix", path });
  await Deno.chmod(path, user === undefined ? 0o600 : 0o660);
  if (user !== undefined) await Deno.chown(path, null, user.gid);

  const expected = new Map<string, GuestProcess>();
  const unknown = new Set<Deno.Conn>();
  const admit = async (socket: Deno.Conn) => {
    unknown.add(socket);
    const late = setTimeout(() => turnAway(unknown, socket), TOKEN_DEADLINE_MS);
    const lines = readLines(socket, MESSAGE_BYTES_MAX);
    const token = await firstLine(lines);
    clearTimeout(late);
    if (!unknown.delete(socket)) return;
    const guest = token === undefined ? undefined : expected.get(token);
    if (token === undefined || guest === undefined) return socket.close();
    expected.delete(token);
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
      await Deno.remove(folder, { recursive: true });
      await Deno.remove(note);
    },
  };
}

/** Removes the folder of an agent that was killed: nothing else would, since its name is random. */
async function removeLeftFolder(note: string): Promise<void> {
  try {
    const folder = await Deno.readTextFile(note);
    // Not recursively: meanwhile the folder's name may have come to mean another folder.
    await Deno.remove(join(folder, SOCKET_NAME)).catch(() => {});
    await Deno.remove(folder);
  } catch {
    // There was none, it is gone, or it is no longer ours: the new folder has another name.
  }
}

async function makeFolder(runtimeDir: string, user: GuestUser | undefined): Promise<string> {
  const prefix = "guests-";
  // makeTempDir() adds eight characters or fewer.
  const path = join(runtimeDir, `${prefix}12345678`, SOCKET_NAME);
  const fits = new TextEncoder().encode(path).length < SOCKET_PATH_BYTES_MAX;
  const inside = fits && user === undefined;
  const folder = await Deno.makeTempDir({ prefix, ...(inside ? { dir: runtimeDir } : {}) });
  if (user !== undefined) {
    await Deno.chown(folder, null, user.gid);
    await Deno.chmod(folder, 0o710);
  }
  return folder;
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
      // Out of file descriptors: whoever knocks waits in line until one is free.
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

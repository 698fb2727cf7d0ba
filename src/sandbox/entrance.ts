// The unix socket at which guests knock. The token that a guest shows first tells which of the
// started processes it is; whoever shows none, or an unknown one, is turned away.

import { pause } from "../program/loop.ts";
import type { GuestUser } from "./command.ts";
import { makeGuestFolder } from "./guest_folder.ts";
import type { GuestProcess } from "./process.ts";
import { readLines } from "./lines.ts";
import { TOKEN_BYTES_MAX } from "./protocol.ts";

/** Time for a connection to show its token, milliseconds. */
const TOKEN_DEADLINE_MS = 10_000;
/** Connections that have shown no token yet; twice what the largest pool starts at a time. */
const UNKNOWN_MAX = 128;
/** Time until the next attempt after a connection could not be accepted, milliseconds. */
const ACCEPT_AGAIN_MS = 100;

/** The socket, and the guests that are expected at it. */
export interface GuestDoor {
  readonly path: string;
  /** The guest that will show this token. */
  expect(token: string, guest: GuestProcess): void;
  forget(token: string): void;
  /** Stops listening and removes the socket with its folder. */
  close(): Promise<void>;
}

/** Opens the socket in a new folder of its own, see guest_folder.ts. */
export async function openGuestDoor(
  { runtimeDir, user }: { runtimeDir: string; user?: GuestUser },
): Promise<GuestDoor> {
  const folder = await makeGuestFolder({ runtimeDir, ...(user === undefined ? {} : { user }) });
  const path = folder.socketPath;
  const listener = Deno.listen({ transport: "unix", path });
  await Deno.chmod(path, user === undefined ? 0o600 : 0o660);
  if (user !== undefined) await Deno.chown(path, null, user.gid);

  const expected = new Map<string, GuestProcess>();
  const unknown = new Set<Deno.Conn>();
  const admit = async (socket: Deno.Conn) => {
    // Whoever shares the user of the guests may knock: that must not cost the agent its memory.
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

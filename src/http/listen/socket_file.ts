// The socket file. It is bound in a private folder, gets its group and mode there, and is then renamed to its place,
// so that its rights are set before anyone can open it.

import { dirname, join } from "@std/path";
import { AgentError, systemReason } from "../../domain/error.ts";
import { fileInfo, SOCKET_PATH_BYTES_MAX } from "../../runtime/regular_file.ts";

/** Who may open the socket besides root. */
export interface SocketRights {
  /** Permission bits of the socket file. */
  readonly mode: number;
  /** Group id; undefined for the agent's own. */
  readonly gid?: number | undefined;
}

/** Removes all rights of group and others while the socket file is made. */
const OWNER_ONLY_UMASK = 0o177;
const GROUP_FILE = "/etc/group";

/**
 * Binds a unix socket, replacing the file of a killed agent.
 * @param bind listens on its path before it returns
 * @throws {AgentError} `conflict` when another agent answers there, or another file is in the way
 */
export async function bindSocket<T>(
  path: string,
  { mode, gid }: SocketRights,
  bind: (path: string) => T,
  unbind: (bound: T) => unknown,
): Promise<T> {
  const bytes = new TextEncoder().encode(path).length;
  // It can be bound, under a shorter name, and nobody could connect.
  if (bytes > SOCKET_PATH_BYTES_MAX) {
    const found = `its path has ${bytes} bytes, expected at most ${SOCKET_PATH_BYTES_MAX}`;
    throw cannotBind(path, found);
  }
  await refuseTaken(path);
  let folder: string | undefined;
  let bound: T | undefined;
  try {
    // makeTempDir() uses mode 0700. Its name is short, since the limit holds for what is bound too.
    folder = await Deno.makeTempDir({ dir: dirname(path), prefix: ".zw" });
    const made = join(folder, "s");
    const before = Deno.umask(OWNER_ONLY_UMASK);
    try {
      bound = bind(made);
    } finally {
      Deno.umask(before);
    }
    if (gid !== undefined) await Deno.chown(made, null, gid);
    await Deno.chmod(made, mode);
    await Deno.rename(made, path);
    return bound;
  } catch (error) {
    if (bound !== undefined) await unbind(bound);
    throw cannotBind(path, systemReason(error), error);
  } finally {
    if (folder !== undefined) await Deno.remove(folder, { recursive: true });
  }
}

/** A link counts as another file: it is not followed. */
async function refuseTaken(path: string): Promise<void> {
  const found = await fileInfo(path);
  if (found === undefined) return;
  if (!found.isSocket) {
    throw cannotBind(path, "it is a file, expected a free name, or a socket that is left over");
  }
  let connection: Deno.Conn;
  try {
    connection = await Deno.connect({ transport: "unix", path });
  } catch (error) {
    if (error instanceof Deno.errors.ConnectionRefused) return;
    throw cannotBind(path, systemReason(error), error);
  }
  connection.close();
  throw cannotBind(path, "another agent answers there, expected a socket of its own");
}

function cannotBind(path: string, why: string, cause?: unknown): AgentError {
  const about = { kind: "socket", name: path } as const;
  return new AgentError("conflict", `Cannot listen on ${path}: ${why}`, { cause, about });
}

/**
 * The id of a group, given its name or number.
 * @throws {AgentError} `invalid_argument` for an unknown name
 * @see group(5)
 */
export async function groupNumber(group: string, file = GROUP_FILE): Promise<number> {
  if (/^\d+$/.test(group)) return Number(group);
  for (const line of (await Deno.readTextFile(file)).split("\n")) {
    const [name, , gid = ""] = line.split(":");
    if (name === group && /^\d+$/.test(gid)) return Number(gid);
  }
  const message = `Cannot give the socket to group ${group}: ${file} does not name it, ` +
    "expected the name or the number of a group";
  throw new AgentError("invalid_argument", message);
}

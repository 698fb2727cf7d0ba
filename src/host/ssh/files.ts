// Files of a host that is reached by ssh, through sshd's own sftp server: its calls are those of the
// system there (open without following and only where nothing is, changes and syncs by handle), which
// no shell command offers everywhere. Digests are computed by a program at the far end, so that they
// are about the bytes that arrived.

import { AgentError } from "../../domain/error.ts";
import type { HostFiles } from "../host_files.ts";
import { moveWithin, removeWithin, type RunProgram } from "../folder_script.ts";
import { farDigests } from "./remote_digest.ts";
import { createFarFile } from "./remote_new_file.ts";
import { OPEN, PACKET } from "./packet.ts";
import { askIn, closeHandle, freeBytesOf, open, statusOf, syncHandle } from "./remote_request.ts";
import type { RemoteSession } from "./session.ts";

const EXTENSIONS = ["statvfs@openssh.com", "fsync@openssh.com"];

/** What is needed of the way to the host. */
export interface RemoteDeps {
  /** Opens a session, or returns the one that is open. */
  session(): Promise<RemoteSession>;
  /** Runs a program there, as runCommand(). */
  readonly run: RunProgram;
}

/** The files of the host. */
export function remoteFiles(deps: RemoteDeps): HostFiles {
  const ask = async () => askIn(await openedSession(deps));
  return {
    rereadsCopies: true,
    status: async (path) => await statusOf(await ask(), path),
    freeBytes: async (folder) => await freeBytesOf(await ask(), folder),
    create: async (path) => await createFarFile(await openedSession(deps), path),
    digests: async (path, algorithms, signal) => {
      if ((await statusOf(await ask(), path))?.kind !== "file") return null;
      return await farDigests(deps.run, path, algorithms, signal);
    },
    moveWithin: (move) => moveWithin(deps.run, move),
    removeWithin: (removal) => removeWithin(deps.run, removal),
    remove: async (path) => {
      const here = await ask();
      const status = await statusOf(here, path);
      if (status === null) return false;
      if (status.kind === "folder") {
        throw new AgentError("conflict", `Cannot remove ${JSON.stringify(path)}: it is a folder`);
      }
      return await here({ verb: "remove", path, kind: PACKET.remove, fields: [path] }) !== null;
    },
    sync: async (path) => {
      const here = await ask();
      const handle = await open(here, { verb: "open", path, flags: OPEN.read });
      try {
        await syncHandle(here, path, handle);
      } finally {
        await closeHandle(here, path, handle);
      }
    },
  };
}

async function openedSession({ session }: RemoteDeps): Promise<RemoteSession> {
  const opened = await session();
  const missing = EXTENSIONS.filter((name) => !opened.extensions.has(name));
  if (missing.length === 0) return opened;
  const message = `Cannot use the sftp server of the host: it lacks ${missing.join(", ")}`;
  throw new AgentError("host", message);
}

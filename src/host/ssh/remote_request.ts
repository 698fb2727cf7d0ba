// Requests about files over an sftp session: what they ask, and what their answers mean.

import { AgentError } from "../../domain/error.ts";
import type { FileStatus } from "../host_files.ts";
import {
  ATTRIBUTE,
  type Attributes,
  attributesOf,
  type Field,
  type Fields,
  PACKET,
  STATUS,
} from "./packet.ts";
import type { Answer, RemoteSession } from "./session.ts";

/** A file's type in its mode, and what it is called here. */
const TYPE_BITS = 0o170000;
const FILE_KINDS: Readonly<Record<number, FileStatus["kind"]>> = {
  0o100000: "file",
  0o040000: "folder",
  0o120000: "link",
};
/** Mode of a file that is still being written. */
const FIRST_MODE = 0o400;

/** One request: what it does, for errors, and what its answer is besides a status. */
export interface Request {
  readonly verb: string;
  readonly path: string;
  readonly kind: number;
  readonly fields: readonly Field[];
  readonly answer?: number;
}

/** Null when nothing has that name. */
export type Ask = (request: Request) => Promise<Fields | null>;

/** Requests of one session; a handle belongs to its own. */
export function askIn(session: RemoteSession): Ask {
  return async (request) => {
    const { answer } = await session.send(request.kind, request.fields);
    return answered(request, await answer);
  };
}

/**
 * The answer's own fields, or null when nothing has that name.
 * @throws {AgentError} `host` when the server refused, or answered something else
 */
export function answered({ verb, path, answer }: Request, { kind, fields }: Answer): Fields | null {
  const action = `Cannot ${verb} ${JSON.stringify(path)} on the host`;
  if (kind !== PACKET.status) {
    if (kind === answer) return fields;
    throw new AgentError("host", `${action}: the sftp server answered with packet ${kind}`);
  }
  const code = fields.u32();
  if (code === STATUS.no_such_file) return null;
  if (code === STATUS.ok && answer === undefined) return fields;
  const why = code === STATUS.permission_denied ? "permission denied" : fields.text();
  throw new AgentError("host", `${action}: ${why || `the sftp server said ${code}`}`);
}

/** Asks about what must be there. @throws {AgentError} `host` when it is not */
export async function there(request: Request, ask: Ask): Promise<Fields> {
  const fields = await ask(request);
  if (fields !== null) return fields;
  const { verb, path } = request;
  throw new AgentError("host", `Cannot ${verb} ${JSON.stringify(path)} on the host: not found`);
}

/** What stands at a path; null when nothing does. */
export async function statusOf(ask: Ask, path: string): Promise<FileStatus | null> {
  const request = { verb: "look at", path, kind: PACKET.lstat, fields: [path] };
  const fields = await ask({ ...request, answer: PACKET.attributes });
  return fields === null ? null : fileStatus(attributesOf(fields));
}

/**
 * The protocol tells neither device and inode nor how many names a file has. So two files of one
 * kind and owner look the same here, and zone_copy.ts relies on where a name lies instead.
 */
export function fileStatus({ size, owner, mode }: Attributes): FileStatus {
  const kind = FILE_KINDS[mode & TYPE_BITS] ?? "other";
  return { kind, identity: `${kind} of ${owner}`, size, links: 1, mode: mode & 0o7777, owner };
}

/** Bytes that may still be written below a folder. @throws {AgentError} `host` */
export async function freeBytesOf(ask: Ask, path: string): Promise<number> {
  const request = { verb: "ask for the free space of", path, kind: PACKET.extended };
  const fields = ["statvfs@openssh.com", path];
  const found = await there({ ...request, fields, answer: PACKET.extended_reply }, ask);
  found.u64(); // block size
  const unit = found.u64();
  found.u64(); // blocks in all
  found.u64(); // free ones
  return Number(unit * found.u64()); // those that are free for a quota's owner
}

/**
 * Opens a file or a folder; a new file is readable for its owner alone.
 * @returns its handle, which belongs to the session
 * @throws {AgentError} `host`
 */
export async function open(
  ask: Ask,
  { verb, path, flags }: { verb: string; path: string; flags: number },
): Promise<Uint8Array> {
  const fields = [path, flags, ATTRIBUTE.permissions, FIRST_MODE];
  const request = { verb, path, kind: PACKET.open, fields, answer: PACKET.handle };
  return (await there(request, ask)).bytes();
}

/** Waits until what was opened is on the disk. @throws {AgentError} `host` */
export async function syncHandle(ask: Ask, path: string, handle: Uint8Array): Promise<void> {
  const fields = ["fsync@openssh.com", handle];
  await there({ verb: "sync", path, kind: PACKET.extended, fields }, ask);
}

/** Gives a handle back. @throws {AgentError} `host` */
export async function closeHandle(ask: Ask, path: string, handle: Uint8Array): Promise<void> {
  await there({ verb: "close", path, kind: PACKET.close, fields: [handle] }, ask);
}

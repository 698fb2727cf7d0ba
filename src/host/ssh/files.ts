// Files of a host behind ssh, through sshd's sftp server: it offers the system calls of that host (opening
// only new files without following links, changes and syncs by handle), which no shell command offers
// everywhere. Digests are computed by a remote program from the bytes that arrived.

import { AgentError } from "../../domain/error.ts";
import { sizeText } from "../../domain/host.ts";
import type { Digests, FileStatus, HostFiles, HostFileWriter } from "../host_files.ts";
import { describeResult } from "../program_output.ts";
import { moveWithin, removeWithin, type RunProgram, tailWithin } from "../folder_script.ts";
import type { RemoteSession, SftpAnswer } from "./session.ts";
import {
  ATTRIBUTE,
  attributesOf,
  type Field,
  type FileAttributes,
  OPEN,
  PACKET,
  type PacketFields,
  STATUS,
} from "./packet.ts";
import type { DigestAlgorithm } from "../../domain/digest.ts";

const EXTENSIONS = ["statvfs@openssh.com", "fsync@openssh.com"];

/** What the files need of the connection. */
interface RemoteDeps {
  /** Returns the open session, or opens one. */
  session(): Promise<RemoteSession>;
  /** Runs a remote program like runCommand(). */
  readonly run: RunProgram;
}

/** Works over sftp, and by programs on the host for what sftp cannot do. */
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
    tailWithin: (request) => tailWithin(deps.run, request),
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

/** Milliseconds; enough for an image of many gigabytes on a slow disk. */
const DIGEST_MS_MAX = 2 * 3_600_000;

/** Exit code of DIGEST_SCRIPT for anything but a regular file. */
const NO_FILE_CODE = 4;

/**
 * Prints digests of one regular file with one hard link, in the requested order. It enters the folder and
 * checks that no link led elsewhere, so only the name is left to check.
 */
const DIGEST_SCRIPT = `
cd -P -- "$1" && [ "$(pwd -P)" = "$1" ] || exit 3
[ -n "$(find "./$2" -prune -type f -links 1 2>/dev/null)" ] || exit 4
name=$2
shift 2
for algorithm; do
  if command -v "\${algorithm}sum" >/dev/null; then "\${algorithm}sum" <"./$name"
  else digest -a "$algorithm" <"./$name"
  fi || exit 5
done
`;

/**
 * Digests of a regular file with one hard link; null for anything else.
 * @throws {AgentError} `host` when they could not be computed; `aborted`
 */
async function farDigests(
  run: RunProgram,
  path: string,
  algorithms: readonly DigestAlgorithm[],
  signal: AbortSignal | undefined,
): Promise<Digests | null> {
  const slash = path.lastIndexOf("/");
  const args = ["-c", DIGEST_SCRIPT, "zonewright", path.slice(0, slash), path.slice(slash + 1)];
  const result = await run("/bin/sh", [...args, ...algorithms], {
    deadlineMs: DIGEST_MS_MAX,
    ...(signal === undefined ? {} : { signal }),
  });
  const { code, stdout } = result;
  if (code === NO_FILE_CODE) return null;
  const found = stdout.split("\n").map((line) => /^[0-9a-f]{64,128}(?=\s|$)/.exec(line)?.[0]);
  const digests = algorithms.map((algorithm, at) => [algorithm, found[at]] as const);
  if (code === 0 && digests.every(([, digest]) => digest !== undefined)) {
    return Object.fromEntries(digests);
  }
  const message = `Cannot digest ${JSON.stringify(path)} on the host: "/bin/sh" ${
    describeResult(result)
  }`;
  throw new AgentError("host", message);
}

/** Bytes of one write; every sftp server accepts packets up to 256 KiB. */
const WRITE_BYTES = 128 * 1024;
/** Concurrent writes, so that latency does not slow a copy down. */
const WRITES_MAX = 16;
/** With fewer free bytes than this, a failed write means a full disk. */
const FULL_BYTES = 1024 * 1024;

/**
 * Creates a new file.
 * @throws {AgentError} `conflict` when the path exists
 */
async function createFarFile(session: RemoteSession, path: string): Promise<HostFileWriter> {
  const flags = OPEN.write | OPEN.create | OPEN.exclusive;
  const here = askIn(session);
  const handle = await open(here, { verb: "create", path, flags }).catch(async (cause) => {
    if (session.ended || await statusOf(here, path) === null) throw cause;
    const message = `Cannot create ${JSON.stringify(path)}: it already exists`;
    throw new AgentError("conflict", message, { cause });
  });
  const stat = { verb: "look at", path, kind: PACKET.fstat, fields: [handle] };
  const status = async () =>
    fileStatus(attributesOf(await there({ ...stat, answer: PACKET.attributes }, here)));
  const underWay: Promise<void>[] = [];
  let written = 0n;
  const settleOne = async () => {
    try {
      await underWay.shift();
    } catch (cause) {
      throw session.ended ? cause : await fullOr(here, path, cause);
    }
  };
  return {
    status: await status(),
    async write(bytes) {
      for (let at = 0; at < bytes.length; at += WRITE_BYTES) {
        if (underWay.length >= WRITES_MAX) await settleOne();
        const part = bytes.subarray(at, at + WRITE_BYTES);
        const request = {
          verb: "write",
          path,
          kind: PACKET.write,
          fields: [handle, written, part],
        };
        const { answer } = await session.send(request.kind, request.fields);
        const write = answer.then((one) => void answered(request, one));
        write.catch(() => {});
        underWay.push(write);
        written += BigInt(part.length);
      }
    },
    async finish(mode) {
      while (underWay.length > 0) await settleOne();
      const fields = [handle, ATTRIBUTE.permissions, mode];
      await there({ verb: "write", path, kind: PACKET.fsetstat, fields }, here);
      await syncHandle(here, path, handle);
      return await status();
    },
    async close() {
      // The end of a session closes its files.
      if (!session.ended) await closeHandle(here, path, handle);
    },
  };
}

/** The error of a failed write. The protocol has no code for a full disk, so the free space decides. */
async function fullOr(ask: SftpCall, path: string, cause: unknown): Promise<unknown> {
  const folder = path.slice(0, path.lastIndexOf("/")) || "/";
  // Where that is unknown, the failed write is its own reason.
  const free = await freeBytesOf(ask, folder).catch(() => FULL_BYTES);
  if (free >= FULL_BYTES) return cause;
  const message = `Cannot write ${JSON.stringify(path)} on the host: ${
    sizeText(free)
  } are free there`;
  return new AgentError("storage_full", message, { cause });
}

/** File types by the bits of the mode. */
const TYPE_BITS = 0o170000;
const FILE_KINDS: Readonly<Record<number, FileStatus["kind"]>> = {
  0o100000: "file",
  0o040000: "folder",
  0o120000: "link",
};
/** Mode of a file that is still being written. */
const FIRST_MODE = 0o400;

/** One request: its action, for errors, and the kind of answer it expects besides a status. */
interface Request {
  readonly verb: string;
  readonly path: string;
  readonly kind: number;
  readonly fields: readonly Field[];
  readonly answer?: number;
}

/** Sends a request; null when the name does not exist. */
type SftpCall = (request: Request) => Promise<PacketFields | null>;

/** Sends requests in one session; handles are valid only in it. */
function askIn(session: RemoteSession): SftpCall {
  return async (request) => {
    const { answer } = await session.send(request.kind, request.fields);
    return answered(request, await answer);
  };
}

/**
 * The fields of an answer; null when the name does not exist.
 * @throws {AgentError} `host` when the server refused or sent another kind of answer
 */
function answered(
  { verb, path, answer }: Request,
  { kind, fields }: SftpAnswer,
): PacketFields | null {
  const action = `Cannot ${verb} ${JSON.stringify(path)} on the host`;
  if (kind !== PACKET.status) {
    if (kind === answer) return fields;
    throw new AgentError("host", `${action}: the sftp server answered with packet ${kind}`);
  }
  const code = fields.u32();
  if (code === STATUS.no_such_file) return null;
  if (code === STATUS.ok && answer === undefined) return fields;
  const why = code === STATUS.permission_denied ? "permission denied" : fields.text();
  throw new AgentError(
    "host",
    `${action}: ${why || `the sftp server answered with status ${code}`}`,
  );
}

/** Sends a request about a file that must exist. @throws {AgentError} `host` when it does not */
async function there(request: Request, ask: SftpCall): Promise<PacketFields> {
  const fields = await ask(request);
  if (fields !== null) return fields;
  const { verb, path } = request;
  throw new AgentError("host", `Cannot ${verb} ${JSON.stringify(path)} on the host: not found`);
}

/** The status of a path; null when it does not exist. */
async function statusOf(ask: SftpCall, path: string): Promise<FileStatus | null> {
  const request = { verb: "look at", path, kind: PACKET.lstat, fields: [path] };
  const fields = await ask({ ...request, answer: PACKET.attributes });
  return fields === null ? null : fileStatus(attributesOf(fields));
}

/**
 * The protocol has neither device and inode nor the number of hard links. So two files of one kind and owner
 * look the same here, and zone/copy.ts relies on where a name is instead.
 */
function fileStatus({ size, owner, mode }: FileAttributes): FileStatus {
  const kind = FILE_KINDS[mode & TYPE_BITS] ?? "other";
  return { kind, identity: `${kind} of ${owner}`, size, links: 1, mode: mode & 0o7777, owner };
}

/** Bytes that may still be written below a folder. @throws {AgentError} `host` */
async function freeBytesOf(ask: SftpCall, path: string): Promise<number> {
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
 * Opens a file or a folder; a new file is readable only by its owner.
 * @returns its handle, valid in this session
 * @throws {AgentError} `host`
 */
async function open(
  ask: SftpCall,
  { verb, path, flags }: { verb: string; path: string; flags: number },
): Promise<Uint8Array> {
  const fields = [path, flags, ATTRIBUTE.permissions, FIRST_MODE];
  const request = { verb, path, kind: PACKET.open, fields, answer: PACKET.handle };
  return (await there(request, ask)).bytes();
}

/** Syncs an open file or folder. @throws {AgentError} `host` */
async function syncHandle(ask: SftpCall, path: string, handle: Uint8Array): Promise<void> {
  const fields = ["fsync@openssh.com", handle];
  await there({ verb: "sync", path, kind: PACKET.extended, fields }, ask);
}

/** Closes a handle. @throws {AgentError} `host` */
async function closeHandle(ask: SftpCall, path: string, handle: Uint8Array): Promise<void> {
  await there({ verb: "close", path, kind: PACKET.close, fields: [handle] }, ask);
}

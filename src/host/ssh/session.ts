// One session of the sftp subsystem: requests are numbered, answers come in any order. When the session
// ends, all pending requests fail with the reason.

import { AgentError } from "../../domain/error.ts";
import { killGroup } from "../command.ts";
import {
  ATTRIBUTE,
  attributesOf,
  type Field,
  fieldsOf,
  type FileAttributes,
  PACKET,
  packet,
  type PacketFields,
  STATUS,
} from "./packet.ts";
import type { FileStatus } from "../host_files.ts";

/** Bytes of one answer; those to our requests are far shorter. */
const ANSWER_BYTES_MAX = 256 * 1024;

/** How long the server may be silent while requests are pending; a sync of gigabytes is slow. */
const SILENCE_MS_MAX = 120_000;

const PROTOCOL_VERSION = 3;

/** The answer to one request: the type of its packet, and a reader of its fields. */
interface SftpAnswer {
  readonly kind: number;
  readonly fields: PacketFields;
}

/** An open session. Requests may overlap; each answer finds its request by number. */
export interface RemoteSession {
  /** Names of the extensions that the server offers. */
  readonly extensions: ReadonlySet<string>;
  /** Whether it has ended; further requests fail. */
  readonly ended: boolean;
  /**
   * Sends a request; its number is put before the fields.
   * @returns once sent, with its answer pending
   */
  send(kind: number, fields: readonly Field[]): Promise<{ readonly answer: Promise<SftpAnswer> }>;
  close(): Promise<void>;
}

/**
 * Opens a session with a server on the standard streams of a process.
 * @param failure makes the error of a session that ended from what the process printed
 * @throws {AgentError} the error of `failure` when the session ends before it is open
 */
export async function openRemoteSession(
  child: Deno.ChildProcess,
  failure: (words: string) => AgentError,
): Promise<RemoteSession> {
  const waiting = new Map<number, PromiseWithResolvers<SftpAnswer>>();
  const writer = child.stdin.getWriter();
  const hello = Promise.withResolvers<SftpAnswer>();
  const silence = watchSilence(() => end("it did not answer in time"));
  let error: AgentError | undefined;
  let last = 0;
  const end = (words: string) => {
    if (error !== undefined) return;
    error = failure(words);
    silence.stop();
    killGroup(child);
    hello.reject(error);
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
    writer.close().catch(() => {});
  };
  const reading = readAnswers(child.stdout, (kind, fields) => {
    if (kind === PACKET.version) return hello.resolve({ kind, fields });
    const number = fields.u32();
    waiting.get(number)?.resolve({ kind, fields });
    waiting.delete(number);
    silence.heard(waiting.size);
  });
  const words = new Response(child.stderr).text();
  reading.then(
    async () => end(await words || "the sftp server ended"),
    (cause: Error) => end(cause.message),
  );
  silence.asked();
  await writer.write(packet(PACKET.init, [PROTOCOL_VERSION])).catch(() => {});
  const extensions = namesOf((await hello.promise).fields);
  silence.heard(0);
  return {
    extensions,
    get ended() {
      return error !== undefined;
    },
    async send(kind, fields) {
      if (error !== undefined) throw error;
      const answer = Promise.withResolvers<SftpAnswer>();
      // A caller may await the answer long after it sent the request.
      answer.promise.catch(() => {});
      last = (last + 1) % 2 ** 32;
      waiting.set(last, answer);
      silence.asked();
      // The reason is known when the session ends; then all pending requests fail with it.
      await writer.write(packet(kind, [last, ...fields])).catch(() => {});
      return { answer: answer.promise };
    },
    async close() {
      end("the agent closed it");
      await Promise.all([child.status, reading.catch(() => {}), words]);
    },
  };
}

function namesOf(fields: PacketFields): ReadonlySet<string> {
  const version = fields.u32();
  if (version !== PROTOCOL_VERSION) {
    const message = `Cannot speak with the sftp server: its version is ${version}, expected 3`;
    throw new AgentError("host", message);
  }
  const names = new Set<string>();
  while (!fields.done) {
    names.add(fields.text());
    fields.text(); // its version
  }
  return names;
}

/** Reads packets to the end of the stream. @throws {AgentError} `host` for a malformed one */
async function readAnswers(
  stream: ReadableStream<Uint8Array>,
  take: (kind: number, fields: PacketFields) => void,
): Promise<void> {
  let held = new Uint8Array();
  for await (const part of stream) {
    const bytes = new Uint8Array(held.length + part.length);
    bytes.set(held);
    bytes.set(part, held.length);
    let at = 0;
    while (bytes.length - at >= 5) {
      const size = new DataView(bytes.buffer).getUint32(at);
      if (size < 1 || size > ANSWER_BYTES_MAX) {
        throw new AgentError("host", `received an answer of ${size} bytes, which is not sftp`);
      }
      if (bytes.length - at < 4 + size) break;
      take(bytes[at + 4] ?? 0, fieldsOf(bytes.subarray(at + 5, at + 4 + size)));
      at += 4 + size;
    }
    held = bytes.slice(at);
  }
}

/** Ends a session whose server is silent while requests are pending. */
function watchSilence(tooLong: () => void) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const stop = () => {
    clearTimeout(timer);
    timer = undefined;
  };
  return {
    asked: () => timer ??= setTimeout(tooLong, SILENCE_MS_MAX),
    heard: (left: number) => {
      stop();
      if (left > 0) timer = setTimeout(tooLong, SILENCE_MS_MAX);
    },
    stop,
  };
}

// Requests about files over an sftp session, and the meaning of their answers.

/** File types by the bits of the mode. */
const TYPE_BITS = 0o170000;
const FILE_KINDS: Readonly<Record<number, FileStatus["kind"]>> = {
  0o100000: "file",
  0o040000: "folder",
  0o120000: "link",
};
/** Mode of a file that is still being written. */
const FIRST_MODE = 0o400;

/** One request: what it does, for errors, and the answer it expects besides a status. */
interface Request {
  readonly verb: string;
  readonly path: string;
  readonly kind: number;
  readonly fields: readonly Field[];
  readonly answer?: number;
}

/** Null when the name does not exist. */
export type SftpCall = (request: Request) => Promise<PacketFields | null>;

/** The requests of one session; a handle is valid in its session only. */
export function askIn(session: RemoteSession): SftpCall {
  return async (request) => {
    const { answer } = await session.send(request.kind, request.fields);
    return answered(request, await answer);
  };
}

/**
 * The fields of an answer; null when the name does not exist.
 * @throws {AgentError} `host` when the server refused or sent another kind of answer
 */
export function answered(
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
  throw new AgentError("host", `${action}: ${why || `the sftp server said ${code}`}`);
}

/** Sends a request about a file that must exist. @throws {AgentError} `host` when it does not */
export async function there(request: Request, ask: SftpCall): Promise<PacketFields> {
  const fields = await ask(request);
  if (fields !== null) return fields;
  const { verb, path } = request;
  throw new AgentError("host", `Cannot ${verb} ${JSON.stringify(path)} on the host: not found`);
}

/** The status of a path; null when it does not exist. */
export async function statusOf(ask: SftpCall, path: string): Promise<FileStatus | null> {
  const request = { verb: "look at", path, kind: PACKET.lstat, fields: [path] };
  const fields = await ask({ ...request, answer: PACKET.attributes });
  return fields === null ? null : fileStatus(attributesOf(fields));
}

/**
 * The protocol has neither device and inode nor the number of hard links. So two files of one kind and
 * owner look the same here, and zone/copy.ts relies on the place of a name instead.
 */
export function fileStatus({ size, owner, mode }: FileAttributes): FileStatus {
  const kind = FILE_KINDS[mode & TYPE_BITS] ?? "other";
  return { kind, identity: `${kind} of ${owner}`, size, links: 1, mode: mode & 0o7777, owner };
}

/** Bytes that may still be written below a folder. @throws {AgentError} `host` */
export async function freeBytesOf(ask: SftpCall, path: string): Promise<number> {
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
 * @returns its handle, valid in this session
 * @throws {AgentError} `host`
 */
export async function open(
  ask: SftpCall,
  { verb, path, flags }: { verb: string; path: string; flags: number },
): Promise<Uint8Array> {
  const fields = [path, flags, ATTRIBUTE.permissions, FIRST_MODE];
  const request = { verb, path, kind: PACKET.open, fields, answer: PACKET.handle };
  return (await there(request, ask)).bytes();
}

/** Syncs an open file or folder. @throws {AgentError} `host` */
export async function syncHandle(ask: SftpCall, path: string, handle: Uint8Array): Promise<void> {
  const fields = ["fsync@openssh.com", handle];
  await there({ verb: "sync", path, kind: PACKET.extended, fields }, ask);
}

/** Closes a handle. @throws {AgentError} `host` */
export async function closeHandle(ask: SftpCall, path: string, handle: Uint8Array): Promise<void> {
  await there({ verb: "close", path, kind: PACKET.close, fields: [handle] }, ask);
}

// One session of the sftp subsystem: requests are numbered, answers come in any order. When the session ends, all pending
// requests fail with the reason. Packets are those of version 3 with OpenSSH's extensions; every number is big-endian.
// @see draft-ietf-secsh-filexfer-02, and the file PROTOCOL of OpenSSH

import { AgentError } from "../../domain/error.ts";
import { killGroup } from "../program.ts";

/** Most bytes of one answer; those to our requests are far shorter. */
const ANSWER_BYTES_MAX = 256 * 1024;

/**
 * How long the server may be silent while requests are pending, milliseconds; a sync of gigabytes is slow.
 */
const SILENCE_MS_MAX = 120_000;

const PROTOCOL_VERSION = 3;

/** The answer to one request: the type of its packet, and a reader of its fields. */
export interface SftpAnswer {
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
      // A caller may await the answer long after sending the request.
      answer.promise.catch(() => {});
      last = (last + 1) % 2 ** 32;
      waiting.set(last, answer);
      silence.asked();
      // The reason is known once the session ends; all pending requests then fail with it.
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

/** Numbers of the kinds of SFTP packets. */
export const PACKET = {
  init: 1,
  version: 2,
  open: 3,
  close: 4,
  write: 6,
  lstat: 7,
  fstat: 8,
  fsetstat: 10,
  remove: 13,
  status: 101,
  handle: 102,
  attributes: 105,
  extended: 200,
  extended_reply: 201,
} as const;

/** Codes of a status packet. */
export const STATUS = { ok: 0, no_such_file: 2, permission_denied: 3, unsupported: 8 } as const;

/** Flags of open(): read, write, create, and fail if anything exists. */
export const OPEN = { read: 0x1, write: 0x2, create: 0x8, exclusive: 0x20 } as const;

/** Flags for the attributes that are present; the upper bits of the permissions are the file's type. */
export const ATTRIBUTE = { size: 0x1, owner: 0x2, permissions: 0x4, times: 0x8 } as const;

/** One field: a number of 32 or 64 bits, or text or bytes preceded by their length. */
export type Field = number | bigint | string | Uint8Array;

/** A packet preceded by its length. */
export function packet(kind: number, fields: readonly Field[]): Uint8Array<ArrayBuffer> {
  const parts = fields.map((field) =>
    typeof field === "string" ? new TextEncoder().encode(field) : field
  );
  const size = parts.reduce<number>((sum, part) => sum + sizeOf(part), 1);
  const bytes = new Uint8Array(4 + size);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, size);
  view.setUint8(4, kind);
  let at = 5;
  for (const part of parts) {
    if (typeof part === "number") view.setUint32(at, part);
    else if (typeof part === "bigint") view.setBigUint64(at, part);
    else {
      view.setUint32(at, part.length);
      bytes.set(part, at + 4);
    }
    at += sizeOf(part);
  }
  return bytes;
}

function sizeOf(part: number | bigint | Uint8Array): number {
  if (typeof part === "number") return 4;
  return typeof part === "bigint" ? 8 : 4 + part.length;
}

/** Reads the fields of one packet in order. */
export interface PacketFields {
  u32(): number;
  u64(): bigint;
  bytes(): Uint8Array;
  text(): string;
  /** Whether all of them have been read. */
  readonly done: boolean;
}

/** @throws {AgentError} `host`, by its methods, when the packet ends before the field does */
export function fieldsOf(bytes: Uint8Array): PacketFields {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const take = (size: number): number => {
    if (at + size > bytes.length) {
      throw new AgentError("host", "Cannot read an answer of the sftp server: it is cut short");
    }
    at += size;
    return at - size;
  };
  const fields = {
    u32: () => view.getUint32(take(4)),
    u64: () => view.getBigUint64(take(8)),
    bytes: () => {
      const size = fields.u32();
      const from = take(size);
      return bytes.slice(from, from + size);
    },
    text: () => new TextDecoder().decode(fields.bytes()),
    get done() {
      return at === bytes.length;
    },
  };
  return fields;
}

/** The attributes that the server reported of a file. */
export interface FileAttributes {
  readonly size: number;
  readonly owner: number;
  /** Type and permission bits, as in `st_mode`. */
  readonly mode: number;
}

/** @throws {AgentError} `host` when size, owner or permissions are missing */
export function attributesOf(fields: PacketFields): FileAttributes {
  const flags = fields.u32();
  const wanted = ATTRIBUTE.size | ATTRIBUTE.owner | ATTRIBUTE.permissions;
  if ((flags & wanted) !== wanted) {
    throw new AgentError(
      "host",
      `Cannot read an answer of the sftp server: its attributes are ${flags}, expected size, ` +
        "owner and permissions",
    );
  }
  const size = Number(fields.u64());
  const owner = fields.u32();
  fields.u32(); // the group
  return { size, owner, mode: fields.u32() };
}

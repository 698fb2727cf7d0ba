// Packets of the sftp protocol, version 3: their kinds, and their fields in order; every number is big-endian.
// @see draft-ietf-secsh-filexfer-02

import { AgentError } from "../../domain/error.ts";

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

// The first part of an RFB connection: version, security and initialisation.
//
//   server: RFB 003.008   client: its version
//   3.3:        server names one security type
//   3.7, 3.8:   server lists types, client chooses one
//   type 2:     challenge and answer
//   result:     always after type 2, after type 1 only in 3.8; a reason for failure only in 3.8
//
// @see RFC 6143, 7.1 to 7.3

import { type ByteReader, writeAll } from "./byte_reader.ts";
import { PIXEL_FORMAT_BYTES, pixelFormatBytes, SERVER_FORMAT } from "./pixel_format.ts";
import { CHALLENGE_BYTES, sameAnswer, vncAnswer } from "./auth.ts";
import { SCREEN_HEIGHT, SCREEN_WIDTH } from "./screen.ts";

const VERSION_BYTES = 12;
const SECURITY_NONE = 1;
const SECURITY_VNC = 2;
const FAILED = 1;

type Minor = 3 | 7 | 8;

/** What a server says of itself. */
export interface ServerIdentity {
  readonly name: string;
  /** Empty for none. */
  readonly password: string;
  /** Speaks version 3.3 only. */
  readonly old: boolean;
}

/** Brings a connection to the point where messages flow. False when it ends before that. */
export async function handshake(
  conn: Deno.Conn,
  reader: ByteReader,
  identity: ServerIdentity,
): Promise<boolean> {
  const minor = await agreeOnVersion(conn, reader, identity.old);
  if (minor === null) return false;
  const security = identity.password === "" ? SECURITY_NONE : SECURITY_VNC;
  if (!await agreeOnSecurity(conn, reader, minor, security)) return false;
  const admitted = security === SECURITY_NONE ||
    await isAnswered(conn, reader, identity.password);
  if (security === SECURITY_VNC || minor === 8) {
    await writeAll(conn, securityResult(admitted, minor));
  }
  // The byte of ClientInit says whether others may stay; here they always may.
  if (!admitted || await reader.byte() === null) return false;
  await writeAll(conn, serverInit(identity.name));
  return true;
}

async function agreeOnVersion(
  conn: Deno.Conn,
  reader: ByteReader,
  old: boolean,
): Promise<Minor | null> {
  await writeAll(conn, new TextEncoder().encode(old ? "RFB 003.003\n" : "RFB 003.008\n"));
  const answer = await reader.read(VERSION_BYTES);
  const match = /^RFB 003\.(\d{3})\n$/.exec(new TextDecoder().decode(answer ?? undefined));
  if (match === null) return null;
  const minor = Number(match[1]);
  if (old || minor < 7) return 3;
  return minor === 7 ? 7 : 8;
}

async function agreeOnSecurity(
  conn: Deno.Conn,
  reader: ByteReader,
  minor: Minor,
  security: number,
): Promise<boolean> {
  if (minor === 3) {
    await writeAll(conn, new Uint8Array([0, 0, 0, security]));
    return true;
  }
  await writeAll(conn, new Uint8Array([1, security]));
  return await reader.byte() === security;
}

async function isAnswered(
  conn: Deno.Conn,
  reader: ByteReader,
  password: string,
): Promise<boolean> {
  const challenge = crypto.getRandomValues(new Uint8Array(CHALLENGE_BYTES));
  await writeAll(conn, challenge);
  const answer = await reader.read(CHALLENGE_BYTES);
  return answer !== null && sameAnswer(answer, vncAnswer(password, challenge));
}

function securityResult(admitted: boolean, minor: Minor): Uint8Array {
  if (admitted) return new Uint8Array(4);
  const head = [0, 0, 0, FAILED];
  if (minor !== 8) return new Uint8Array(head);
  const reason = new TextEncoder().encode("Authentication failed");
  return new Uint8Array([...head, 0, 0, 0, reason.length, ...reason]);
}

function serverInit(name: string): Uint8Array {
  const title = new TextEncoder().encode(name);
  const bytes = new Uint8Array(4 + PIXEL_FORMAT_BYTES + 4 + title.length);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, SCREEN_WIDTH);
  view.setUint16(2, SCREEN_HEIGHT);
  bytes.set(pixelFormatBytes(SERVER_FORMAT), 4);
  view.setUint32(4 + PIXEL_FORMAT_BYTES, title.length);
  bytes.set(title, 8 + PIXEL_FORMAT_BYTES);
  return bytes;
}

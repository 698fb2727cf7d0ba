// The VNC console of a machine: its address, a connection to it, and its password. vmadm's relay accepts
// connections before qemu answers behind it, so only a server that has sent its banner counts as a console.

import { writeAll } from "../../domain/bytes.ts";
import { abortedError, AgentError, messageOf } from "../../domain/error.ts";
import type { MachineUuid } from "../../domain/id.ts";
import { isIpv4, isIpv6 } from "../../domain/ip_address.ts";
import type { JsonObject } from "../../domain/json.ts";
import { SYSTEM_TIMERS, type Timers } from "../../runtime/timers.ts";
import { waitOrAbort } from "../../runtime/wait.ts";
import type { Transport } from "../transport.ts";

/** Where a VNC client connects to. vmadm chooses a new port at each start of the machine. */
export interface VncAddress {
  /** Address of the host's global zone. */
  host: string;
  port: number;
  /** `port` minus 5900, if vmadm reports it. */
  display?: number;
}

/** The console with its password, for callers that may use it. */
export interface VncConsole extends VncAddress {
  /** In clear text, if the machine has one. */
  password?: string;
}

/** Begins the first twelve bytes of every RFB server (RFC 6143, section 7.1.1). */
const BANNER = "RFB 003.";

/** A connection over which an RFB server has sent its banner. */
export interface VncConnection {
  /** What the server has sent so far, for the client. */
  readonly greeting: Uint8Array<ArrayBuffer>;
  /** Reads more; null at the end of the connection. */
  read(buffer: Uint8Array): Promise<number | null>;
  /** Writes all of it; waits until the server has room. */
  write(bytes: Uint8Array): Promise<void>;
  /** May be called more than once. */
  close(): void;
}

/** Whether addresses of the managed host are this host's, or beyond an ssh channel. */
type ConsoleTransport = Pick<Transport, "dial" | "kind">;

/** Multicast and reserved IPv4 addresses begin with this byte or a higher one. */
const MULTICAST = 224;
/** How long a console may take to open and send its banner, milliseconds. */
const BANNER_MS = 5_000;
/** Lower ports belong to services of the host. */
export const PORT_MIN = 1024;

/**
 * Connects to a console from the managed host. On the agent's own host, only addresses of that host are
 * accepted, whatever vmadm reports, so that no caller is connected to another machine. Over ssh, where the
 * remote addresses are unknown, it must be an IP address, since a resolver could redirect a name.
 * @throws {AgentError} `host` saying why it is not a console; `timeout`; `aborted`
 */
export async function connectVnc(
  transport: ConsoleTransport,
  { host, port }: VncAddress,
  { signal, timers = SYSTEM_TIMERS }: {
    signal?: AbortSignal | undefined;
    timers?: Timers;
  } = {},
): Promise<VncConnection> {
  const action = `Cannot connect to the console at ${host}:${port}`;
  if (transport.kind === "ssh" ? !isAddress(host) : !isOwnAddress(host)) {
    const of = transport.kind === "ssh" ? "" : " of this host";
    throw new AgentError("host", `${action}: it is not an address${of}`);
  }
  if (port < PORT_MIN) {
    const message =
      `${action}: ports below ${PORT_MIN} are reserved for services, expected ${PORT_MIN} or above`;
    throw new AgentError("host", message);
  }
  const limit = new AbortController();
  const stopTimer = timers.start(BANNER_MS, () => limit.abort());
  const either = AbortSignal.any([limit.signal, ...(signal === undefined ? [] : [signal])]);
  try {
    return await greeted(transport, { host, port }, either);
  } catch (cause) {
    if (signal?.aborted) {
      const message = `${action}: it was canceled before the console sent its RFB version`;
      throw new AgentError("aborted", message, { cause });
    }
    if (limit.signal.aborted) {
      const message = `${action}: it sent no RFB version within ${BANNER_MS / 1000} s`;
      throw new AgentError("timeout", message, { cause });
    }
    const reason = cause instanceof NoConsole
      ? cause.message
      : `cannot be reached: ${
        messageOf(cause instanceof AgentError ? cause.cause ?? cause : cause)
      }`;
    throw new AgentError("host", `${action}: it ${reason}`, { cause });
  } finally {
    stopTimer();
  }
}

/** Whether a text is the IP address of a single host, neither unspecified nor multicast. */
function isAddress(host: string): boolean {
  if (isIpv4(host)) return !host.startsWith("0.") && Number(host.split(".")[0]) < MULTICAST;
  return isIpv6(host) && /[1-9a-f]/i.test(host) && !/^ff/i.test(host);
}

function isOwnAddress(host: string): boolean {
  if (!isAddress(host)) return false;
  const text = host.toLowerCase();
  return text.startsWith("127.") || text === "::1" ||
    Deno.networkInterfaces().some(({ address }) => address.toLowerCase() === text);
}

/** The error for an answer that is not an RFB server's. */
class NoConsole extends Error {}

async function greeted(
  transport: Pick<Transport, "dial">,
  { host, port }: VncAddress,
  signal: AbortSignal,
): Promise<VncConnection> {
  const connection = await transport.dial(host, port, signal);
  let open = true;
  const close = () => {
    if (open) connection.close();
    open = false;
  };
  // Only closing ends a pending read.
  signal.addEventListener("abort", close, { once: true });
  try {
    signal.throwIfAborted();
    const greeting = await readGreeting(connection);
    signal.throwIfAborted();
    return {
      greeting,
      read: (buffer) => connection.read(buffer),
      write: (bytes) => writeAll(connection, bytes),
      close,
    };
  } catch (error) {
    close();
    throw error;
  } finally {
    signal.removeEventListener("abort", close);
  }
}

async function readGreeting(
  connection: Pick<Deno.Conn, "read">,
): Promise<Uint8Array<ArrayBuffer>> {
  const decoder = new TextDecoder();
  const buffer = new Uint8Array(BANNER.length);
  let size = 0;
  while (size < BANNER.length) {
    const bytes = await connection.read(buffer.subarray(size));
    if (bytes === null) throw new NoConsole("closed the connection");
    size += bytes;
    const text = decoder.decode(buffer.subarray(0, size));
    if (!BANNER.startsWith(text)) {
      throw new NoConsole(`is not an RFB server: it sent ${JSON.stringify(text)}`);
    }
  }
  return buffer;
}

/** What is asked while a console is waited for: see Vmadm. */
interface ConsoleHost {
  infoVnc(uuid: MachineUuid, o: { signal: AbortSignal }): Promise<VncAddress | null>;
  endOfLog(uuid: MachineUuid, o: { signal?: AbortSignal }): Promise<string>;
  connectVnc(address: VncAddress, o: { signal: AbortSignal }): Promise<VncConnection>;
}

/** Milliseconds between two calls of vmadm; each starts an interpreter on the host. */
const POLL_MS = 1_000;

/**
 * Waits until vmadm names a console address and an RFB server answers there. vmadm reports a port before a console answers,
 * and chooses another at each start of the machine or of its own daemon, so it is asked again before every attempt.
 * @param o `deadlineMs`: how long to wait in all; `wait`: as that of VmadmHost
 * @throws {AgentError} `timeout` saying what was seen last; `aborted`; `not_found` when there is no such
 * machine; `conflict` when it is not running, with the end of its log
 */
export async function waitForVnc(
  vmadm: ConsoleHost,
  uuid: MachineUuid,
  o: { deadlineMs: number; wait?: typeof waitOrAbort; signal?: AbortSignal },
): Promise<VncAddress> {
  const action = `Cannot reach the VNC console of machine ${uuid}`;
  const { wait = waitOrAbort } = o;
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(), o.deadlineMs);
  const either = AbortSignal.any([deadline.signal, ...(o.signal === undefined ? [] : [o.signal])]);
  let seen: string | undefined;
  try {
    // Ends with an answer, or when a signal makes a wait throw.
    while (true) {
      const attempt = await attemptVnc(vmadm, uuid, either);
      if (attempt.kind === "answered") return attempt.address;
      // An attempt cut short by the deadline has seen less than the one before it.
      if (seen === undefined || !either.aborted) seen = attempt.seen;
      await wait(action, POLL_MS, either);
    }
  } catch (cause) {
    if (o.signal?.aborted) throw abortedError(action, o.signal);
    if (!deadline.signal.aborted) throw await withLog(vmadm, uuid, cause, o.signal);
    const words = seen ?? "vmadm has not answered";
    const message = `${action}: no answer within ${o.deadlineMs / 1000} s, last seen: ${words}`;
    throw new AgentError("timeout", message, { cause });
  } finally {
    clearTimeout(timer);
  }
}

/** Adds the log of a machine that ended while its console was waited for. */
async function withLog(
  vmadm: ConsoleHost,
  uuid: MachineUuid,
  cause: unknown,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  if (!(cause instanceof AgentError) || cause.code !== "conflict") return cause;
  const log = await vmadm.endOfLog(uuid, signal === undefined ? {} : { signal });
  return new AgentError("conflict", `${cause.message}; ${log}`, { cause });
}

type BannerRead =
  | { readonly kind: "answered"; readonly address: VncAddress }
  | { readonly kind: "not_yet"; readonly seen: string };

async function attemptVnc(
  vmadm: ConsoleHost,
  uuid: MachineUuid,
  signal: AbortSignal,
): Promise<BannerRead> {
  let address: VncAddress | null;
  try {
    address = await vmadm.infoVnc(uuid, { signal });
  } catch (error) {
    // The daemon is restarting, or an answer was cut short: the console may still come.
    const passing = error instanceof AgentError &&
      (error.code === "host" || error.code === "timeout");
    if (!passing) throw error;
    return { kind: "not_yet", seen: error.message };
  }
  if (address === null) return { kind: "not_yet", seen: "vmadm reports no address" };
  const silence = await silenceOf(vmadm, address, signal);
  if (silence === null) return { kind: "answered", address };
  return { kind: "not_yet", seen: silence };
}

/** Why the server does not count as a console; null if it sent its banner. */
async function silenceOf(
  vmadm: ConsoleHost,
  address: VncAddress,
  signal: AbortSignal,
): Promise<string | null> {
  try {
    (await vmadm.connectVnc(address, { signal })).close();
    return null;
  } catch (error) {
    return messageOf(error);
  }
}

/** VNC authentication uses no more characters, and vmadm refuses more. */
const PASSWORD_CHARS = 8;
/** Letters and digits that cannot be mistaken for each other. */
const ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789";

/**
 * A random password. It is generated on the way to vmadm, so that no request, job or log ever contains one; a caller that
 * may see it reads it back from vmadm.
 * @see RFC 6143, 7.2.2
 */
export function randomPassword(): string {
  let password = "";
  // Bytes beyond the last multiple of the alphabet's length would favor its first letters.
  const limit = 256 - 256 % ALPHABET.length;
  while (password.length < PASSWORD_CHARS) {
    for (const byte of crypto.getRandomValues(new Uint8Array(PASSWORD_CHARS * 2))) {
      if (byte < limit && password.length < PASSWORD_CHARS) {
        password += ALPHABET[byte % ALPHABET.length];
      }
    }
  }
  return password;
}

/**
 * The payload for vmadm: `vnc_password` true becomes a password, false none. A string, which only the agent's
 * own code can set, is kept.
 */
export function withPassword(payload: JsonObject): JsonObject {
  const { vnc_password, ...rest } = payload;
  if (vnc_password === true) return { ...rest, vnc_password: randomPassword() };
  return vnc_password === undefined || vnc_password === false ? rest : payload;
}

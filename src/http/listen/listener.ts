// Listeners: their addresses, the handler of their requests, their certificate, and a loop that keeps accepting
// whatever happens.

import { AgentError, messageOf, systemReason } from "../../domain/error.ts";
import { ipv6Groups } from "../../domain/ip_address.ts";
import type { Log } from "../../metrics/log.ts";
import { OTHERS } from "../../runtime/regular_file.ts";
import { pause } from "../../runtime/wait.ts";
import { closeConnection } from "./connection_relay.ts";
import type { RawBytes } from "./runtime_connection.ts";
import type { SocketRights } from "./socket_file.ts";

/** Status of an answer that turns the connection into a WebSocket. */
export const SWITCHING = 101;

/** A port or a socket file to listen on. */
export type ListenPlace =
  | {
    readonly kind: "tcp";
    readonly hostname: string;
    /** 0 lets the system choose. */
    readonly port: number;
    readonly tls: TlsIdentity | undefined;
  }
  | { readonly kind: "socket"; readonly path: string; readonly rights: SocketRights };

/** The connection that a request came on. */
export interface ConnectionOrigin {
  readonly remote: Deno.Addr;
  /** Whether it uses TLS; request.url does not always say so. */
  readonly secure: boolean;
  /** Takes the connection from HTTP; see RequestInfo. */
  readonly takeOver: () => RawBytes;
  /** The caller has taken part of an endless answer. */
  readonly moved: () => void;
}

/** The handlers of requests: the application, and the fallback when it fails. */
export interface Answering {
  answer(request: Request, origin: ConnectionOrigin): Response | Promise<Response>;
  failed(error: unknown): Response;
}

/** A listener that accepts requests, on a TCP port or a unix socket. */
export interface OpenListener {
  /** The TCP port; undefined for a socket. */
  readonly port: number | undefined;
  /** Uses another certificate for new connections; does nothing without TLS. */
  replaceTls(identity: TlsIdentity): void;
  /** Accepts no more requests, and waits at most this long for those in progress. */
  close(graceMs: number): Promise<void>;
}

/** Connections that may wait to be accepted; the system may have a lower limit. */
export const BACKLOG = 511;

/**
 * What identifies one remote caller: an IPv4 address, or a whole IPv6 network, since each of its connections
 * can come from another address (RFC 7421).
 */
export function peerNetwork(address: string): string {
  const groups = ipv6Groups(address);
  if (groups === undefined) return address;
  // Mapped IPv4 addresses, as on a dual-stack socket, all share one such network.
  const mapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
  const own = mapped ? groups.slice(6) : groups.slice(0, 4);
  return own.map((group) => group.toString(16)).join(":");
}

/** The name of a listener in messages and the log. */
export function placeText(place: ListenPlace): string {
  if (place.kind === "socket") return `unix:${place.path}`;
  const { hostname, port, tls } = place;
  const scheme = tls === undefined ? "http" : "https";
  return `${scheme}://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}

/** The error when listening on an address failed; it names the process that has the port. */
export async function cannotListen(place: ListenPlace, error: unknown): Promise<AgentError> {
  const message = `Cannot listen on ${placeText(place)}: ${await whyNot(place, error)}`;
  const denied = error instanceof Deno.errors.PermissionDenied;
  const about = place.kind === "socket"
    ? { kind: "socket", name: place.path } as const
    : { kind: "address", name: placeText(place) } as const;
  return new AgentError(denied ? "forbidden" : "conflict", message, { cause: error, about });
}

async function whyNot(place: ListenPlace, error: unknown): Promise<string> {
  if (place.kind === "socket") return systemReason(error);
  if (error instanceof Deno.errors.AddrInUse) {
    return `${await portHolder(place.port) ?? "another process"} listens there, expected a free ` +
      "port; --listen HOST:PORT names another";
  }
  if (error instanceof Deno.errors.PermissionDenied) {
    return `user ${Deno.uid()} may not use port ${place.port}, expected a port from ` +
      `${OPEN_PORT_MIN} on; --listen HOST:PORT names another`;
  }
  return `${
    systemReason(error)
  }, expected an address of this host; --listen HOST:PORT names another`;
}

/** Only root may use ports below this one, unless the system is configured otherwise. */
const OPEN_PORT_MIN = 1024;
/** The state of a listening socket in the kernel's tables. @see proc_net_tcp in the kernel's docs */
const LISTENING_STATE = "0A";
/** Milliseconds for each of the programs that look for the holder of a port. */
const LOOK_MS = 5_000;
/** Most sockets of one port that are examined. */
const SOCKETS_MAX = 16;

/**
 * `process 4711 (nginx)`: who listens on a port, if the system lets this process see it. Other programs are
 * asked, since the runtime hides /proc from a binary that lacks any permission.
 */
async function portHolder(port: number): Promise<string | undefined> {
  if (Deno.build.os !== "linux") return undefined;
  try {
    const tables = await written("/bin/cat", ["/proc/net/tcp", "/proc/net/tcp6"]);
    const links = tables.split("\n").flatMap((line) => {
      const [, local = "", , state, , , , , , inode = ""] = line.trim().split(/\s+/);
      const here = Number.parseInt(local.split(":")[1] ?? "", 16) === port;
      return state === LISTENING_STATE && here ? [`socket:\\[${inode}\\]`] : [];
    });
    if (links.length === 0) return undefined;
    const tests = links.slice(0, SOCKETS_MAX).flatMap((link) => ["-o", "-lname", link]).slice(1);
    const depth = ["-mindepth", "3", "-maxdepth", "3"];
    const open = ["-path", "/proc/[0-9]*/fd/*", "(", ...tests, ")"];
    const held = await written("/usr/bin/find", ["/proc", ...depth, ...open]);
    const [, pid] = /^\/proc\/(\d+)\//.exec(held) ?? [];
    if (pid === undefined) return undefined;
    const name = (await written("/bin/cat", [`/proc/${pid}/comm`])).trim();
    return `process ${pid} (${name})`;
  } catch {
    // Without these programs the error just names no process.
    return undefined;
  }
}

/** The output of a program, which is killed when it takes too long. */
async function written(program: string, args: string[]): Promise<string> {
  const command = new Deno.Command(program, {
    args,
    clearEnv: true,
    cwd: "/",
    stdin: "null",
    stderr: "null",
    signal: AbortSignal.timeout(LOOK_MS),
  });
  return new TextDecoder().decode((await command.output()).stdout);
}

/** Milliseconds between two log lines about connections that fail. */
const LOG_EVERY_MS = 10_000;
/** Milliseconds between attempts; descriptors may become free between them. */
const ACCEPT_AGAIN_MS = 250;

/**
 * Whether accepting failed because the caller reset its connection: the listener is fine, and the next
 * connection may be waiting.
 */
export function isCallerGone(error: unknown): boolean {
  const { ConnectionAborted, ConnectionReset, NotConnected } = Deno.errors;
  return [ConnectionAborted, ConnectionReset, NotConnected].some((gone) => error instanceof gone);
}

/**
 * Logs connections that fail, at most every ten seconds: without descriptors, all of them may fail for a long
 * time.
 */
export function openConnectionLog(
  log: Pick<Log, "error">,
  message: string,
  nowMs: () => number = () => performance.now(),
): (error: unknown) => void {
  let loggedAtMs = Number.NEGATIVE_INFINITY;
  return (error) => {
    if (nowMs() - loggedAtMs < LOG_EVERY_MS) return;
    loggedAtMs = nowMs();
    log.error(message, { error });
  };
}

/** A running loop. Only close() ends it: failures are logged and retried. */
interface AcceptLoop {
  close(): Promise<void>;
}

/**
 * Accepts connections until it is closed. That fails while file descriptors have run out, which any
 * program on the host can cause.
 * @param take gets each connection, and closes it in the end
 */
export function keepAccepting(
  listener: Deno.Listener,
  take: (connection: Deno.Conn) => void,
  log: Log,
): AcceptLoop {
  const closing = new AbortController();
  const { signal } = closing;
  const logFailure = openConnectionLog(log, "connections not accepted");
  const watch = async () => {
    while (!signal.aborted) {
      try {
        take(await listener.accept());
      } catch (error) {
        if (signal.aborted) return;
        if (isCallerGone(error)) continue;
        logFailure(error);
        await pause(ACCEPT_AGAIN_MS, signal);
      }
    }
  };
  const watching = watch();
  return {
    async close() {
      closing.abort();
      closeConnection(listener);
      await watching;
    },
  };
}

/**
 * Paths of the certificate chain and its key, both PEM, as certbot writes them. They are read again
 * to renew the certificate.
 */
interface TlsFiles {
  readonly certPath: string;
  readonly keyPath: string;
}

/** A certificate and its matching key. */
export interface TlsIdentity {
  readonly cert: string;
  readonly key: string;
}

/**
 * Reads both files, and checks that TLS can be served with them.
 * @throws {AgentError} `invalid_argument` for files that cannot be read, or do not match;
 * `forbidden` for a key that others may read
 */
export async function readTlsIdentity({ certPath, keyPath }: TlsFiles): Promise<TlsIdentity> {
  const identity = { cert: await read(certPath), key: await read(keyPath) };
  const { mode } = await Deno.stat(keyPath);
  if (((mode ?? 0) & OTHERS) !== 0) {
    const shown = ((mode ?? 0) & 0o777).toString(8).padStart(4, "0");
    const message = `Cannot use the key ${keyPath}: its mode is ${shown}, expected 0600: ` +
      `chmod 600 ${keyPath}`;
    throw new AgentError("forbidden", message, { about: { kind: "certificate", name: keyPath } });
  }
  try {
    // Opened only to check that TLS works with them.
    Deno.listenTls({ hostname: "127.0.0.1", port: 0, ...identity }).close();
  } catch (error) {
    const message = `Cannot serve TLS with ${certPath} and ${keyPath}: ${messageOf(error)}, ` +
      "expected a certificate and its own key, both PEM";
    const about = { kind: "certificate", name: certPath } as const;
    throw new AgentError("invalid_argument", message, { cause: error, about });
  }
  return identity;
}

async function read(path: string): Promise<string> {
  try {
    // Opening a pipe would wait for a writer.
    if (!(await Deno.stat(path)).isFile) throw new Error("it is not a regular file");
    return await Deno.readTextFile(path);
  } catch (error) {
    const message = `Cannot read ${path}: ${systemReason(error)}, expected a PEM file`;
    const about = { kind: "certificate", name: path } as const;
    throw new AgentError("invalid_argument", message, { cause: error, about });
  }
}

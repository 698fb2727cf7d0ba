// Every kind of listener, so that all of them are held to the same promises: connections that the
// runtime serves itself or that are relayed to a separate server, in plain HTTP or over TLS.

import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { messageOf } from "../../src/domain/error.ts";
import type { ConnectionLimits } from "../../src/http/listen/connection_watch.ts";
import { type App, listen, type Server } from "../../src/http/server.ts";
import { readTlsIdentity } from "../../src/http/listen/listener.ts";
import { LISTENING } from "../support/listening.ts";
import { programTest } from "../support/program.ts";
import { withFolder } from "../support/until.ts";
import { makeCertificate } from "./tls_files.ts";

/** How a listener serves its connections. */
export interface ListenerKind {
  readonly name: string;
  readonly relayed: boolean;
  readonly secure: boolean;
}

/** An open listener with its server. */
export interface OpenedListener {
  readonly port: number;
  readonly server: Server;
  /** A connection on which nothing has been sent, not even a TLS handshake. */
  connect(): Promise<Deno.TcpConn>;
  /** A connection ready for HTTP. */
  converse(): Promise<Deno.TcpConn | Deno.TlsConn>;
  /** The certificate to trust, where there is one. */
  readonly caCerts: string[];
}

export const PLAIN_LISTENERS: readonly ListenerKind[] = [
  { name: "plain", relayed: false, secure: false },
  { name: "plain, relayed", relayed: true, secure: false },
];
export const TLS_LISTENERS: readonly ListenerKind[] = [
  { name: "TLS", relayed: false, secure: true },
  { name: "TLS, relayed", relayed: true, secure: true },
];
export const LISTENERS: readonly ListenerKind[] = [...PLAIN_LISTENERS, ...TLS_LISTENERS];

/** Limits that a test can wait for, and within which a busy machine still ends a hundred handshakes. */
export const SHORT_LIMITS: ConnectionLimits = {
  connectionsMax: 1024,
  headSeconds: 3,
  idleSeconds: 3,
  answerSeconds: 3,
};

export const HELLO: App = { fetch: () => new Response("hello") };

/** Registers a test that runs on several kinds of listener at the same time. */
export function listenerTest(
  kinds: readonly ListenerKind[],
  name: string,
  run: (kind: ListenerKind) => Promise<void>,
): void {
  registerFor(kinds, name, async (some) => {
    await Promise.all(some.map((kind) => named(kind, run)));
  });
}

/** Registers a test for some ways, which are tried one after the other, so that it can count. */
export function listenerTestInTurn(
  kinds: readonly ListenerKind[],
  name: string,
  run: (kind: ListenerKind) => Promise<void>,
): void {
  registerFor(kinds, name, async (some) => {
    for (const kind of some) await named(kind, run);
  });
}

function registerFor(
  kinds: readonly ListenerKind[],
  name: string,
  run: (kinds: readonly ListenerKind[]) => Promise<void>,
): void {
  const plain = kinds.filter(({ secure }) => !secure);
  const secure = kinds.filter(({ secure }) => secure);
  if (plain.length > 0) Deno.test(name, () => run(plain));
  if (secure.length > 0) programTest("openssl", `${name}, over TLS`, () => run(secure));
}

/** Says of a failure in which way it came about. */
async function named(
  kind: ListenerKind,
  run: (kind: ListenerKind) => Promise<void>,
): Promise<void> {
  try {
    await run(kind);
  } catch (cause) {
    throw new Error(`In the way "${kind.name}": ${messageOf(cause)}`, { cause });
  }
}

/** Runs a function with a server, and closes it whatever happens. */
export async function withListener(
  { relayed, secure }: ListenerKind,
  { app = HELLO, connections = DEFAULT_LIMITS }: {
    readonly app?: App;
    readonly connections?: ConnectionLimits;
  },
  run: (listener: OpenedListener) => Promise<void>,
): Promise<void> {
  await withFolder(async (folder) => {
    const tls = secure
      ? await readTlsIdentity(await makeCertificate(folder, "listener"))
      : undefined;
    const tcp = { hostname: "127.0.0.1", port: 0 };
    const options = { ...LISTENING, tcp, connections, relayed, tls };
    const server = await listen(app, options);
    const port = server.port ?? 0;
    const caCerts = tls === undefined ? [] : [tls.cert];
    const connect = () => Deno.connect({ hostname: "127.0.0.1", port });
    const converse = () =>
      secure ? Deno.connectTls({ hostname: "127.0.0.1", port, caCerts }) : connect();
    try {
      await run({ port, server, connect, converse, caCerts });
    } finally {
      await server.shutdown(100);
    }
  });
}

/**
 * Descriptors that the test files beside this one may open meanwhile: `--parallel` runs them in the same
 * process. A test opens many more, so that a leak of them shows.
 */
export const OTHER_DESCRIPTORS = 50;

/** Descriptors that this process has open. */
export function openDescriptors(): number {
  return Array.from(Deno.readDirSync("/proc/self/fd")).length;
}

/** Opens connections one after the other: so many handshakes at once may last longer than the limits. */
export async function openInTurn(
  count: number,
  open: (at: number) => Promise<Deno.Conn>,
): Promise<Deno.Conn[]> {
  const opened: Deno.Conn[] = [];
  while (opened.length < count) opened.push(await open(opened.length));
  return opened;
}

/** Writes all of a text, or what the agent takes of it. */
export async function send(connection: Deno.Conn, text: string | Uint8Array): Promise<void> {
  const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
  for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
}

/** Reads until the agent closes, and closes too. @returns what it has sent */
export async function ended(connection: Deno.Conn): Promise<string> {
  const buffer = new Uint8Array(64 * 1024);
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const size = await connection.read(buffer);
      if (size === null) return text;
      text += decoder.decode(buffer.subarray(0, size), { stream: true });
    }
  } catch {
    return text; // Cut, with bytes of ours that it has not read.
  } finally {
    connection.close();
  }
}

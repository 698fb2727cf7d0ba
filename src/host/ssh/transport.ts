// A host managed from another machine: its global zone, over one ssh connection. See docs/ssh.md for what
// must be there.

import { abortedError, AgentError } from "../../domain/error.ts";
import { killGroup, startProgram } from "../program.ts";
import { runFarCommand } from "./command.ts";
import { remoteFiles } from "./files.ts";
import { openRemoteSession, type RemoteSession } from "./session.ts";
import {
  addressOf,
  openSshConnection,
  SSH,
  type SshConnection,
  type SshHost,
  sshWords,
} from "./connection.ts";
import {
  absoluteFolder,
  DLADM,
  type HostConnection,
  NICTAGADM,
  SYSINFO,
  type Transport,
  ZFS,
} from "../transport.ts";
import { openLocks } from "../locks.ts";
import { checkAborted } from "../../runtime/wait.ts";

interface SshTransportOptions {
  readonly host: SshHost;
  /** Absolute path of vmadm there. */
  readonly vmadm: string;
  /** Absolute folder of the zones there. */
  readonly zonesRoot: string;
  /** Makes unguessable texts of letters and digits. */
  readonly newMark: () => string;
}

/** A transport with a connection of its own. */
export interface SshTransport extends Transport {
  /**
   * Connects now.
   * @throws {AgentError} `host` with the reason; `aborted`
   */
  connect(signal?: AbortSignal): Promise<void>;
  /** Ends the connection; programs that must not be cut off continue there. */
  close(): Promise<void>;
}

/**
 * Prepares the connection; nothing is sent before the first call.
 * @throws {AgentError} `invalid_argument` when a folder is not absolute
 */
export function sshTransport(options: SshTransportOptions): SshTransport {
  const { newMark } = options;
  const connection = openSshConnection(options.host, newMark);
  const sessions = openFileSessions(connection);
  return {
    kind: "ssh",
    host: `ssh ${addressOf(options.host)}`,
    vmadm: (args, o) => runFarCommand(connection, newMark, options.vmadm, args, o),
    zfs: (args, o) => runFarCommand(connection, newMark, ZFS, args, o),
    nictagadm: (args, o) => runFarCommand(connection, newMark, NICTAGADM, args, o),
    dladm: (args, o) => runFarCommand(connection, newMark, DLADM, args, o),
    sysinfo: (args, o) => runFarCommand(connection, newMark, SYSINFO, args, o),
    zonesRoot: absoluteFolder(options.zonesRoot),
    files: remoteFiles({
      session: sessions.current,
      run: (program, args, o) => runFarCommand(connection, newMark, program, args, o),
    }),
    locks: openLocks(),
    dial: (hostname, port, signal) => dialOverSsh(connection, { hostname, port, signal }),
    connect: async (signal) => void await connection.options(signal),
    async close() {
      await sessions.close();
      await connection.close();
    },
  };
}

/** The one session for files, opened on first use and again after it ends. */
function openFileSessions(connection: SshConnection) {
  let opening: Promise<RemoteSession> | undefined;
  let opened: RemoteSession | undefined;
  const reopen = async (): Promise<RemoteSession> => {
    try {
      opened = await openFileSession(connection);
    } catch (error) {
      // The connection broke while idle, and this is the first call to notice.
      if (await connection.isUp()) throw error;
      opened = await openFileSession(connection);
    }
    return opened;
  };
  return {
    async current(): Promise<RemoteSession> {
      if (opened !== undefined && !opened.ended) return opened;
      opening ??= reopen().finally(() => opening = undefined);
      return await opening;
    },
    async close() {
      await opening?.catch(() => {});
      await opened?.close();
    },
  };
}

async function openFileSession(connection: SshConnection): Promise<RemoteSession> {
  const { host } = connection;
  const options = await connection.options(undefined);
  const args = [...options, "-T", "-s", "--", host.destination, "sftp"];
  const child = startProgram(SSH, args, { cwd: host.folder, stdin: "" });
  const failure = (words: string) =>
    new AgentError("host", `Cannot reach the files of ${addressOf(host)}: ${sshWords(words)}`);
  return await openRemoteSession(child, failure);
}

/**
 * Connects from the remote host to a TCP port: by a channel of the ssh connection, with an ssh process at this end. sshd
 * must allow it (AllowTcpForwarding). The first read throws `host` if nothing answers at the other end.
 * @throws {AgentError} `host` when there is no connection to the host; `aborted`
 */
async function dialOverSsh(
  connection: SshConnection,
  { hostname, port, signal }: { hostname: string; port: number; signal: AbortSignal | undefined },
): Promise<HostConnection> {
  const { host } = connection;
  const target = hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;
  const action = `Cannot connect to ${target} by ssh to ${addressOf(host)}`;
  checkAborted(action, signal);
  const options = await connection.options(signal);
  if (signal?.aborted) throw abortedError(action, signal);
  const args = [...options, "-W", target, "--", host.destination];
  const child = startProgram(SSH, args, { cwd: host.folder, stdin: "" });
  return channelOf(
    child,
    (words) => new AgentError("host", `${action}: ${words}`, { cause: new Error(words) }),
  );
}

function channelOf(
  child: Deno.ChildProcess,
  failure: (words: string) => AgentError,
): HostConnection {
  const words = new Response(child.stderr).text().catch(() => "");
  let reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>> | undefined;
  let writer: WritableStreamDefaultWriter<Uint8Array<ArrayBufferLike>> | undefined;
  let held: Uint8Array = new Uint8Array();
  let heard = false;
  let closed = false;
  return {
    readable: child.stdout,
    writable: child.stdin,
    async read(into) {
      reader ??= child.stdout.getReader();
      while (held.length === 0) {
        const part = await reader.read();
        if (part.done) {
          const { success } = await child.status;
          if (heard || success || closed) return null;
          throw failure(sshWords(await words));
        }
        heard = true;
        held = part.value;
      }
      const taken = held.subarray(0, into.length);
      into.set(taken);
      held = held.subarray(taken.length);
      return taken.length;
    },
    async write(bytes) {
      writer ??= child.stdin.getWriter();
      await writer.write(bytes);
      return bytes.length;
    },
    close() {
      closed = true;
      killGroup(child);
      const ignore = () => {};
      // Streams that were taken are ended by their takers; the others must not stay open.
      if (reader !== undefined) reader.cancel().catch(ignore);
      else if (!child.stdout.locked) child.stdout.cancel().catch(ignore);
      if (writer !== undefined) writer.close().catch(ignore);
      else if (!child.stdin.locked) child.stdin.close().catch(ignore);
    },
  };
}

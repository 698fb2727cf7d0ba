// The host that an agent on another machine manages: its global zone, over one ssh connection.
// docs/ssh.md tells what must be there.

import { AgentError } from "../../domain/error.ts";
import { startProgram } from "../program.ts";
import { openLocks } from "../locks.ts";
import { remoteFiles } from "./files.ts";
import { openRemoteSession, type RemoteSession } from "./session.ts";
import { addressOf, SSH, type SshHost, sshWords } from "./client.ts";
import { runFarCommand } from "./command.ts";
import { openSshConnection, type SshConnection } from "./connection.ts";
import { dialOverSsh } from "./ssh_dial.ts";
import { absoluteFolder, NICTAGADM, type Transport, ZFS } from "../transport.ts";

/** A host, and what is where on it. */
export interface SshTransportOptions {
  readonly host: SshHost;
  /** Absolute path of vmadm there. */
  readonly vmadm: string;
  /** Absolute folder of the zones there. */
  readonly zonesRoot: string;
  /** Makes texts of letters and digits that nobody guesses. */
  readonly newMark: () => string;
}

/** A transport that holds a connection. */
export interface SshTransport extends Transport {
  /**
   * Connects, for those who want to know now whether that is possible.
   * @throws {AgentError} `host` saying why it is not; `aborted`
   */
  connect(signal?: AbortSignal): Promise<void>;
  /** Ends the connection; programs that may not be cut off go on at the far end. */
  close(): Promise<void>;
}

/**
 * Opens the way to the host; nothing is sent before the first call.
 * @throws {AgentError} `invalid_argument` when a folder is not absolute
 */
export function sshTransport(options: SshTransportOptions): SshTransport {
  const { newMark } = options;
  const connection = openSshConnection(options.host, newMark);
  const sessions = openFileSessions(connection);
  return {
    kind: "ssh",
    vmadm: (args, o) => runFarCommand(connection, newMark, options.vmadm, args, o),
    zfs: (args, o) => runFarCommand(connection, newMark, ZFS, args, o),
    nictagadm: (args, o) => runFarCommand(connection, newMark, NICTAGADM, args, o),
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

/** The one session for files, opened when it is needed and opened anew when it has ended. */
function openFileSessions(connection: SshConnection) {
  let opening: Promise<RemoteSession> | undefined;
  let opened: RemoteSession | undefined;
  const openAnew = async (): Promise<RemoteSession> => {
    try {
      opened = await openFileSession(connection);
    } catch (error) {
      // The connection broke while nobody used it, and this is the first call that notices.
      if (await connection.isUp()) throw error;
      opened = await openFileSession(connection);
    }
    return opened;
  };
  return {
    async current(): Promise<RemoteSession> {
      if (opened !== undefined && !opened.ended) return opened;
      opening ??= openAnew().finally(() => opening = undefined);
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

// The one connection to a host that is reached by ssh, over which all sessions run. It is made when
// it is first needed, and made anew when it has broken.
//
// Its process is ours and holds a session whose program at the far end, `cat`, ends when our end of
// its input closes. So the connection ends with the agent, however that ends; a master that ssh had
// put into the background by itself would not.

import { join } from "@std/path";
import { AgentError } from "../../domain/error.ts";
import { orAborted } from "../abort.ts";
import { runCommand } from "../command.ts";
import { killGroup, startProgram } from "../program.ts";
import { addressOf, connectFailure, SSH, type SshHost, sshOptions } from "./client.ts";
import { openTurns } from "../turns.ts";

/** How long the connection may take in all: name, TCP, keys, login, shell. */
const CONNECT_MS_MAX = 30_000;

/**
 * Sessions at the same time. sshd allows ten for one connection unless told otherwise
 * (MaxSessions); one of them is the connection's own.
 */
const SESSIONS_MAX = 8;

/** Read of what a login shell says before our own program speaks, characters. */
const GREETING_CHARS_MAX = 64 * 1024;

/** For asking the process of the connection, which is on this machine. */
const CHECK_MS_MAX = 5_000;

const SOCKET_NAME = "control";

/** A connection, as sessions use it. */
export interface SshConnection {
  readonly host: SshHost;
  /**
   * Runs a function that calls ssh with these options, when there is a connection and a turn for
   * another session.
   * @throws {AgentError} `host` when no connection can be made; `aborted`
   */
  session<T>(
    signal: AbortSignal | undefined,
    run: (options: readonly string[]) => Promise<T>,
  ): Promise<T>;
  /** As session(), for channels that sshd does not count, for as long as they are used. */
  options(signal: AbortSignal | undefined): Promise<readonly string[]>;
  /** Whether there is a connection, as its own process says; it may be broken without knowing. */
  isUp(): Promise<boolean>;
  /** Ends the connection, and every session with it. */
  close(): Promise<void>;
}

interface Master {
  readonly child: Deno.ChildProcess;
  readonly ready: Promise<void>;
  readonly socket: string;
  ended: boolean;
}

/**
 * Opens the way to a host; nothing is sent before the first session.
 * @param newMark makes a text of letters and digits that nobody guesses
 */
export function openSshConnection(host: SshHost, newMark: () => string): SshConnection {
  const turns = openTurns(SESSIONS_MAX);
  let master: Master | undefined;
  let closed = false;
  const connect = async (signal: AbortSignal | undefined): Promise<readonly string[]> => {
    const action = `Cannot reach ${addressOf(host)} by ssh`;
    if (closed) throw new AgentError("aborted", `${action}: the agent is stopping`);
    if (master === undefined || master.ended) master = startMaster(host, newMark());
    const { ready, socket } = master;
    await orAborted(action, ready, signal);
    return clientOptions(host, socket);
  };
  return {
    host,
    session: (signal, run) =>
      turns.take(`Cannot open another session on ${addressOf(host)}`, signal, async () => {
        return await run(await connect(signal));
      }),
    options: connect,
    isUp: async () => {
      const asked = master;
      if (asked === undefined || asked.ended) return false;
      const args = [...clientOptions(host, asked.socket), "-O", "check", "--", host.destination];
      const { code } = await runCommand(SSH, args, { cwd: host.folder, deadlineMs: CHECK_MS_MAX });
      // Its socket goes a moment before its process does; whoever asks next needs another one.
      if (code !== 0) endMaster(asked);
      return code === 0;
    },
    close: async () => {
      closed = true;
      if (master === undefined) return;
      endMaster(master);
      await master.child.status;
      await master.ready.catch(() => {});
      removeSockets(host.folder);
    },
  };
}

function clientOptions(host: SshHost, socket: string): readonly string[] {
  return [
    ...sshOptions(host),
    ...["-o", "LogLevel=ERROR", "-o", "ControlMaster=no", "-o", `ControlPath=./${socket}`],
    // Without the connection ssh would make one of its own for this session; this fails instead.
    ...["-o", "ProxyCommand=exit 255"],
  ];
}

function startMaster(host: SshHost, mark: string): Master {
  // Relative, and ssh started in its folder: the path of a socket may have 107 bytes, ssh appends
  // some, and a state folder can be deeper than that.
  const socket = `${SOCKET_NAME}-${mark.slice(0, 8)}`;
  Deno.mkdirSync(host.folder, { recursive: true, mode: 0o700 });
  removeSockets(host.folder);
  const args = [
    ...sshOptions(host),
    ...["-o", "LogLevel=INFO", "-o", "ControlMaster=yes", "-o", `ControlPath=./${socket}`],
    ...["-T", "--", host.destination, `echo ${mark}; exec cat >/dev/null`],
  ];
  const child = startProgram(SSH, args, { cwd: host.folder, stdin: "" });
  const master: Master = { child, socket, ended: false, ready: readyOf(host, child, mark) };
  // Whoever waits for it hears of it; nobody may be waiting any more.
  master.ready.catch(() => endMaster(master));
  child.status.finally(() => master.ended = true);
  return master;
}

/** Sockets of connections that ended with their process; the folder is ours alone. */
function removeSockets(folder: string): void {
  for (const { name } of Deno.readDirSync(folder)) {
    if (name.startsWith(SOCKET_NAME)) Deno.removeSync(join(folder, name));
  }
}

/** Settles when the program at the far end has spoken. */
async function readyOf(host: SshHost, child: Deno.ChildProcess, mark: string): Promise<void> {
  let stderr = "";
  const words = readText(child.stderr, (text) => {
    stderr = (stderr + text).slice(-GREETING_CHARS_MAX);
    return false;
  });
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), CONNECT_MS_MAX);
  const action = `Cannot reach ${addressOf(host)} by ssh`;
  let greeting = "";
  const greeted = readText(child.stdout, (text) => {
    greeting = greeting.length > GREETING_CHARS_MAX ? greeting : greeting + text;
    return greeting.includes(`${mark}\n`);
  });
  try {
    if (await orAborted(action, greeted, late.signal)) return;
  } catch (cause) {
    if (!late.signal.aborted) throw cause;
    throw connectFailure(host, `${stderr}\nno login within ${CONNECT_MS_MAX / 1000} s`, cause);
  } finally {
    clearTimeout(timer);
  }
  await words;
  throw connectFailure(host, stderr);
}

/** Reads a stream to its end; settles with true as soon as `enough` says so, the rest is dropped. */
function readText(
  stream: ReadableStream<Uint8Array>,
  enough: (text: string) => boolean,
): Promise<boolean> {
  const { promise, resolve, reject } = Promise.withResolvers<boolean>();
  const decoder = new TextDecoder();
  const read = async () => {
    for await (const part of stream) {
      if (enough(decoder.decode(part, { stream: true }))) resolve(true);
    }
    resolve(false);
  };
  read().catch(reject);
  return promise;
}

function endMaster(master: Master): void {
  if (master.ended) return;
  master.ended = true;
  killGroup(master.child);
  // Closed only now: while the process lives, its closing would end the connection in order and wait
  // for every session.
  master.child.stdin.close().catch(() => {});
}

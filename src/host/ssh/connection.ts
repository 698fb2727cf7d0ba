// The one ssh connection to a host, over which all sessions run. It is opened on first use, and again after
// it breaks.
//
// Its process belongs to the agent and holds a session whose remote program, `cat`, ends when its input
// closes. So the connection ends with the agent, however the agent ends; a background ssh master would not.

import { join } from "@std/path";
import { AgentError } from "../../domain/error.ts";
import { openTurns } from "../locks.ts";
import { orAborted } from "../../runtime/wait.ts";
import { killGroup, runCommand, startProgram } from "../program.ts";

/** Milliseconds to connect in all: name lookup, TCP, keys, login, shell. */
const CONNECT_MS_MAX = 30_000;

/**
 * Sessions at the same time. sshd allows ten per connection by default (MaxSessions); one of them is the
 * connection's own.
 */
const SESSIONS_MAX = 8;

/** Most characters that a login shell may print before our program does. */
const GREETING_CHARS_MAX = 64 * 1024;

/** Milliseconds to query the local process of the connection. */
const CHECK_MS_MAX = 5_000;

const SOCKET_NAME = "control";

/** A connection that runs sessions. */
export interface SshConnection {
  readonly host: SshHost;
  /**
   * Runs a function that calls ssh with these options, once there is a connection and a free session.
   * @throws {AgentError} `host` when no connection can be made; `aborted`
   */
  session<T>(
    signal: AbortSignal | undefined,
    run: (options: readonly string[]) => Promise<T>,
  ): Promise<T>;
  /** Like session(), for channels, which sshd does not count as sessions. */
  options(signal: AbortSignal | undefined): Promise<readonly string[]>;
  /** Whether there is a connection. It may have broken without its process noticing. */
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
 * Prepares the connection to a host; nothing is sent before the first session.
 * @param newMark makes an unguessable text of letters and digits
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
      // Its socket disappears a moment before its process; the next caller needs a new connection.
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
    // Without this, ssh would make a connection for this session alone; this makes it fail instead.
    ...["-o", "ProxyCommand=exit 255"],
  ];
}

function startMaster(host: SshHost, mark: string): Master {
  // Relative, with ssh started in its folder: a socket's path has at most 107 bytes, ssh appends some,
  // and a state folder can be deeper.
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
  // Its waiters get the error; there may be none left.
  master.ready.catch(() => endMaster(master));
  child.status.finally(() => master.ended = true);
  return master;
}

/** Removes sockets of earlier connections; no other program uses the folder. */
function removeSockets(folder: string): void {
  for (const { name } of Deno.readDirSync(folder)) {
    if (name.startsWith(SOCKET_NAME)) Deno.removeSync(join(folder, name));
  }
}

/** Settles when the remote program has printed its mark. */
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

/** Reads a stream to its end. Settles with true as soon as `enough` does; the rest is dropped. */
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
  // Closed only now: closing it earlier would end the connection in order, after waiting for every session.
  master.child.stdin.close().catch(() => {});
}

/** Which host ssh connects to, and with which files. */
export interface SshHost {
  /** `host` or `user@host`. */
  readonly destination: string;
  readonly port: number;
  /** Private key; null for the default keys of the agent's user. */
  readonly identityFile: string | null;
  /** File of known hosts; null for ssh's own. */
  readonly knownHostsFile: string | null;
  /** Absolute path of a private folder for the connection's control socket. */
  readonly folder: string;
}

/** Its path on Linux, illumos, macOS and the BSDs. */
export const SSH = "/usr/bin/ssh";

/** Seconds for the TCP connection and the greeting. */
const CONNECT_SECONDS = 10;
/** Seconds between checks; a connection that is silent for 15 s is closed. */
const ALIVE_SECONDS = 5;
const ALIVE_COUNT = 3;

/** Options of each call. OpenSSH reads no configuration file, so only the agent's settings count. */
function sshOptions(host: SshHost): string[] {
  const options = [
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",
    ...(host.knownHostsFile === null ? [] : [
      `UserKnownHostsFile=${optionText(host.knownHostsFile)}`,
      "GlobalKnownHostsFile=none",
    ]),
    ...(host.identityFile === null
      ? []
      : [`IdentityFile=${optionText(host.identityFile)}`, "IdentitiesOnly=yes"]),
    `ConnectTimeout=${CONNECT_SECONDS}`,
    "ConnectionAttempts=1",
    `ServerAliveInterval=${ALIVE_SECONDS}`,
    `ServerAliveCountMax=${ALIVE_COUNT}`,
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RequestTTY=no",
    `Port=${host.port}`,
  ];
  return ["-F", "none", ...options.flatMap((option) => ["-o", option])];
}

/** Quotes a path in an option: `%` begins a token there, and a space ends the path. */
function optionText(path: string): string {
  return `"${path.replaceAll("%", "%%")}"`;
}

/** Characters of ssh's own message in an error. */
const WORDS_CHARS_MAX = 400;

/** ssh's own message in one line. */
export function sshWords(stderr: string): string {
  const lines = stderr.split(/\r?\n/).map((line) => line.trim())
    .filter((line) => line !== "" && !/^@+$/.test(line));
  return lines.join("; ").slice(0, WORDS_CHARS_MAX) || "ssh gave no reason";
}

/** Why no connection could be made, from ssh's message, and what would help. */
function connectFailure(host: SshHost, stderr: string, cause?: unknown): AgentError {
  const [why, expected] = connectCause(host, stderr);
  const words = sshWords(stderr);
  const message = `Cannot reach ${addressOf(host)} by ssh: ${why}: ${words}, expected ${expected}`;
  return new AgentError("host", message, { cause: cause ?? new Error(words) });
}

function connectCause(host: SshHost, stderr: string): readonly [why: string, expected: string] {
  const { destination, port, identityFile, knownHostsFile } = host;
  const known = knownHostsFile ?? "~/.ssh/known_hosts";
  const name = destination.slice(destination.lastIndexOf("@") + 1);
  const scan = `the line of "ssh-keyscan -p ${port} ${name}", compared with the key on the host`;
  if (/IDENTIFICATION HAS CHANGED/.test(stderr)) {
    return [`its host key differs from the one in ${known}`, `${scan}, in place of the old one`];
  }
  if (/host key is known|host key verification failed/i.test(stderr)) {
    return [`its host key is not in ${known}`, scan];
  }
  if (/permission denied/i.test(stderr)) {
    const key = identityFile === null ? "a key in ~/.ssh" : identityFile;
    const there = `the public key of ${key} in the user's authorized_keys there`;
    return ["it refused the login", `${there}, and the private one readable by its owner alone`];
  }
  return ["no connection could be made", "its sshd to answer there, see --host"];
}

/** The host as messages name it. */
export function addressOf({ destination, port }: SshHost): string {
  return `${destination}:${port}`;
}

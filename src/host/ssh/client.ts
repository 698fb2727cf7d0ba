// How OpenSSH's client is called: host, options, and the meaning of its errors. It reads no configuration
// file, so only the agent's settings count.

import { AgentError } from "../../domain/error.ts";

/** A host behind ssh. */
export interface SshHost {
  /** `host` or `user@host`. */
  readonly destination: string;
  readonly port: number;
  /** Private key; null for the default ones in the home of the agent's user. */
  readonly identityFile: string | null;
  /** File of known hosts; null for ssh's own. */
  readonly knownHostsFile: string | null;
  /** Absolute private folder for the connection's control socket. */
  readonly folder: string;
}

/** Its path on Linux, illumos, macOS and the BSDs. */
export const SSH = "/usr/bin/ssh";

/** Seconds for the TCP connection and the greeting. */
const CONNECT_SECONDS = 10;
/** A connection that is silent for 15 s is closed. */
const ALIVE_SECONDS = 5;
const ALIVE_COUNT = 3;

/** The options of every call, without the destination. */
export function sshOptions(host: SshHost): string[] {
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

/** Why no connection could be made, from ssh's message; advice comes first. */
export function connectFailure(host: SshHost, stderr: string, cause?: unknown): AgentError {
  const known = host.knownHostsFile ?? "~/.ssh/known_hosts";
  const why = /IDENTIFICATION HAS CHANGED/.test(stderr)
    ? `its host key differs from the one in ${known}`
    : /host key is known|host key verification failed/i.test(stderr)
    ? `its host key is not in ${known}`
    : /permission denied/i.test(stderr)
    ? "it refused the login"
    : "no connection could be made";
  const message = `Cannot reach ${addressOf(host)} by ssh: ${why}: ${sshWords(stderr)}`;
  return new AgentError("host", message, { cause: cause ?? new Error(sshWords(stderr)) });
}

/** The host's name in messages. */
export function addressOf({ destination, port }: SshHost): string {
  return `${destination}:${port}`;
}

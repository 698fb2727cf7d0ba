// A real sshd on loopback for tests, with keys, configuration and log of its own in a folder of the
// test. Nothing of the system's own sshd is read or changed.

import type { SshHost } from "../../src/host/ssh/connection.ts";
import { findProgram } from "../support/program.ts";
import { until } from "../support/until.ts";

const SBIN = ["/usr/sbin", "/usr/lib/ssh"];
/** Where sshd drops its privileges to when root starts it; its package makes it at boot. */
const EMPTY_FOLDER = "/run/sshd";
const STARTS_MAX = 5;

export interface SshServer {
  readonly port: number;
  /** How the agent reaches it. */
  readonly host: SshHost;
  /** Ends the listener and every connection at once, as a power cut does, but no other program. */
  kill(): Promise<void>;
  /** Ends every connection at once; the listener goes on. */
  dropConnections(): Promise<void>;
  /** Listens again after kill(), on the same port. */
  start(): Promise<void>;
  /** Stops every process of the server where it is, or lets it go on. */
  freeze(frozen: boolean): Promise<void>;
  /** How many connections there are. */
  connections(): Promise<number>;
}

/** The path of sshd, which need not be on the PATH of everyone. */
export function findSshd(): string | undefined {
  return findProgram("sshd", { PATH: [Deno.env.get("PATH"), ...SBIN].join(":") });
}

/** Registers a test that needs sshd and ssh; without them it is skipped by name. */
export function sshTest(name: string, fn: () => Promise<void>): void {
  const required = Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") === "all";
  const there = findSshd() !== undefined && findProgram("ssh") !== undefined;
  Deno.test({ name: `${name} [needs sshd]`, ignore: !required && !there, fn });
}

/** Lines of the server's configuration that a test needs otherwise. */
export type SshServerOptions = readonly string[];

/** Runs a function with a server whose files are in a new folder below this one. */
export async function withSshServer<T>(
  parent: string,
  run: (server: SshServer) => Promise<T>,
  options: SshServerOptions = [],
): Promise<T> {
  const folder = `${parent}/sshd`;
  await Deno.mkdir(folder);
  await makeKey(`${folder}/host_key`);
  await makeKey(`${folder}/login_key`);
  await Deno.copyFile(`${folder}/login_key.pub`, `${folder}/authorized_keys`);
  if (Deno.uid() === 0) await Deno.mkdir(EMPTY_FOLDER, { recursive: true, mode: 0o755 });
  const server = await openServer(folder, options);
  try {
    return await run(server);
  } finally {
    await server.kill();
  }
}

/** Makes a key pair without a passphrase. */
export async function makeKey(path: string): Promise<void> {
  const args = ["-q", "-t", "ed25519", "-N", "", "-f", path];
  const { success, stderr } = await new Deno.Command("ssh-keygen", { args }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}

async function openServer(folder: string, options: SshServerOptions): Promise<SshServer> {
  let listener: Deno.ChildProcess;
  let port = freePort();
  for (let starts = 1;; starts++) {
    const started = await startSshd(folder, port, options);
    if (started !== null) {
      listener = started;
      break;
    }
    // Somebody took the port between our look and sshd's.
    if (starts === STARTS_MAX) throw new Error(await Deno.readTextFile(`${folder}/log`));
    port = freePort();
  }
  const [type, key] = (await Deno.readTextFile(`${folder}/host_key.pub`)).split(" ");
  await Deno.writeTextFile(`${folder}/known_hosts`, `[127.0.0.1]:${port} ${type} ${key}\n`);
  const user = new TextDecoder().decode(
    (await new Deno.Command("id", { args: ["-un"] }).output())
      .stdout,
  ).trim();
  const signalAll = async (signal: Deno.Signal) => {
    for (const pid of await sshdsBelow(listener.pid)) kill(pid, signal);
  };
  return {
    port,
    host: {
      destination: `${user}@127.0.0.1`,
      port,
      identityFile: `${folder}/login_key`,
      knownHostsFile: `${folder}/known_hosts`,
      folder: `${folder}/agent`,
    },
    async kill() {
      const pids = await sshdsBelow(listener.pid);
      kill(listener.pid, "SIGKILL");
      for (const pid of pids) kill(pid, "SIGKILL");
      await listener.status;
    },
    dropConnections: () => signalAll("SIGKILL"),
    async start() {
      const started = await startSshd(folder, port, options);
      if (started === null) throw new Error(await Deno.readTextFile(`${folder}/log`));
      listener = started;
    },
    async freeze(frozen) {
      const signal = frozen ? "SIGSTOP" : "SIGCONT";
      kill(listener.pid, signal);
      await signalAll(signal);
    },
    connections: async () => (await sshdsBelow(listener.pid, 1)).length,
  };
}

function freePort(): number {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  return port;
}

/** Starts it, or null when it ended at once. */
async function startSshd(
  folder: string,
  port: number,
  options: SshServerOptions,
): Promise<Deno.ChildProcess | null> {
  const lines = [
    ...options,
    `Port ${port}`,
    "ListenAddress 127.0.0.1",
    `HostKey ${folder}/host_key`,
    `AuthorizedKeysFile ${folder}/authorized_keys`,
    "PidFile none",
    "UsePAM no",
    // The folder of a test lies below one that others may write to.
    "StrictModes no",
    "PasswordAuthentication no",
    "KbdInteractiveAuthentication no",
    "PermitRootLogin prohibit-password",
    "Subsystem sftp internal-sftp",
  ];
  await Deno.writeTextFile(`${folder}/config`, lines.join("\n"));
  await Deno.remove(`${folder}/log`).catch(() => {});
  const args = ["-D", "-f", `${folder}/config`, "-E", `${folder}/log`];
  const child = new Deno.Command(findSshd() ?? "sshd", { args, stdout: "null", stderr: "null" })
    .spawn();
  let ended = false;
  child.status.then(() => ended = true);
  await until("sshd to listen", async () => {
    const log = await Deno.readTextFile(`${folder}/log`).catch(() => "");
    return ended || /Server listening/.test(log);
  });
  return ended ? null : child;
}

/** Every sshd below a process, down to so many generations, but not what they run. */
async function sshdsBelow(root: number, generations = Infinity): Promise<number[]> {
  const parents = new Map<number, number[]>();
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const stat = await Deno.readTextFile(`/proc/${name}/stat`).catch(() => "");
    const [, comm, state, parent] = /^\d+ \((.*)\) (\S) (\d+)/s.exec(stat) ?? [];
    if (comm === undefined || !comm.startsWith("sshd") || state === "Z") continue;
    parents.set(Number(parent), [...parents.get(Number(parent)) ?? [], Number(name)]);
  }
  const below = (pid: number, left: number): number[] =>
    left === 0
      ? []
      : (parents.get(pid) ?? []).flatMap((child) => [child, ...below(child, left - 1)]);
  return below(root, generations);
}

function kill(pid: number, signal: Deno.Signal): void {
  try {
    Deno.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

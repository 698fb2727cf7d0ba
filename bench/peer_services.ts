// The servers that some peers need, each started in a folder of its own, reachable only from this
// machine, and ended with the run.

import { join } from "@std/path";
import { childrenCpuMs, ownCpuMs } from "./process_use.ts";

export interface Service {
  /** How a client reaches it. */
  readonly address: string;
  readonly version: string;
  readonly pid: number;
  stop(): Promise<void>;
}

const DEBIAN_POSTGRES = "/usr/lib/postgresql";
const START_SECONDS = 20;

/** Processor time that a service has used so far, milliseconds. */
export function serviceCpuMs({ pid }: Service): number {
  return ownCpuMs(pid) + childrenCpuMs(pid);
}

/**
 * Starts PostgreSQL with its own defaults, in which a commit is durable.
 * @param sessions that it takes
 * @throws {Error} telling why it cannot
 */
export async function startPostgres(folder: string, sessions = 100): Promise<Service> {
  const programs = await postgresPrograms();
  const account = await unprivilegedAccount();
  const data = join(folder, "postgres");
  const password = crypto.randomUUID();
  const passwordFile = join(folder, "postgres-password");
  await Deno.mkdir(data, { mode: 0o700 });
  await Deno.writeTextFile(passwordFile, password, { mode: 0o600 });
  if (account !== undefined) {
    await Deno.chown(data, account.uid, account.gid);
    await Deno.chown(passwordFile, account.uid, account.gid);
  }
  const init = await new Deno.Command(join(programs, "initdb"), {
    args: ["-D", data, "-U", "bench", "--auth=scram-sha-256", `--pwfile=${passwordFile}`],
    env: { LC_ALL: "C.UTF-8" },
    cwd: data,
    ...account,
  }).output();
  if (!init.success) throw new Error(`initdb failed: ${textOf(init.stderr)}`);
  const port = freePort();
  const server = new Deno.Command(join(programs, "postgres"), {
    args: ["-D", data, "-h", "127.0.0.1", "-p", `${port}`, "-k", "", "-N", `${sessions}`],
    cwd: data,
    stdin: "null",
    stdout: "null",
    stderr: "piped",
    ...account,
  }).spawn();
  const drained = await untilSays(server, "ready to accept connections");
  return {
    address: `postgres://bench:${password}@127.0.0.1:${port}/postgres`,
    version: textOf((await output(join(programs, "postgres"), ["--version"])).stdout).trim(),
    pid: server.pid,
    stop: async () => {
      server.kill("SIGINT"); // Its fast shutdown.
      await server.status;
      await drained.finished;
    },
  };
}

/** Makes an empty database. @returns its address */
export async function newDatabase({ address }: Service): Promise<string> {
  const name = `bench_${crypto.randomUUID().replaceAll("-", "")}`;
  const args = ["--quiet", "--dbname", address, "--command", `CREATE DATABASE ${name}`];
  const { success, stderr } = await new Deno.Command("psql", { args }).output();
  if (!success) throw new Error(`Cannot create a database: ${textOf(stderr)}`);
  return address.replace(/[^/]*$/, name);
}

/** Starts Redis as its defaults have it: snapshots now and then, no log of writes. */
export async function startRedis(
  folder: string,
  program: string,
  libraries: string,
): Promise<Service> {
  const data = join(folder, "redis");
  await Deno.mkdir(data);
  const socket = join(data, "redis.sock");
  const env = { LD_LIBRARY_PATH: libraries };
  const server = new Deno.Command(program, {
    args: ["--port", "0", "--unixsocket", socket, "--unixsocketperm", "700", "--dir", data],
    env,
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const drained = await untilSays(server, "eady to accept connections", server.stdout);
  return {
    address: socket,
    version: textOf((await output(program, ["--version"], env)).stdout).trim(),
    pid: server.pid,
    stop: async () => {
      server.kill("SIGTERM");
      await server.status;
      await drained.finished;
    },
  };
}

async function postgresPrograms(): Promise<string> {
  const versions: string[] = [];
  try {
    for await (const { name } of Deno.readDir(DEBIAN_POSTGRES)) versions.push(name);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  const newest = versions.sort((a, b) => Number(a) - Number(b)).at(-1);
  if (newest === undefined) throw new Error(`no PostgreSQL in ${DEBIAN_POSTGRES}`);
  return join(DEBIAN_POSTGRES, newest, "bin");
}

/** PostgreSQL refuses to run as root: the account to run it as, when we are. */
async function unprivilegedAccount(): Promise<{ uid: number; gid: number } | undefined> {
  if (Deno.uid() !== 0) return undefined;
  const accounts = await Deno.readTextFile("/etc/passwd");
  const line = /^(?:postgres|nobody):[^:]*:(\d+):(\d+):/m.exec(accounts);
  if (line === null) throw new Error("neither postgres nor nobody is an account of this machine");
  return { uid: Number(line[1]), gid: Number(line[2]) };
}

/** A port that the system has just chosen, and given back. */
function freePort(): number {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  return port;
}

async function output(program: string, args: string[], env: Record<string, string> = {}) {
  return await new Deno.Command(program, { args, env }).output();
}

function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

/** Waits for the words of a starting server. @returns what ends when its output does */
async function untilSays(
  server: Deno.ChildProcess,
  words: string,
  stream = server.stderr,
): Promise<{ finished: Promise<void> }> {
  const reader = stream.getReader();
  const timer = setTimeout(() => server.kill("SIGKILL"), START_SECONDS * 1000);
  let text = "";
  while (!text.includes(words)) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`it ended before it was ready: ${text.slice(-1000)}`);
    text += textOf(value);
  }
  clearTimeout(timer);
  reader.releaseLock();
  return { finished: stream.pipeTo(new WritableStream()) };
}

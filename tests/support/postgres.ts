// A PostgreSQL server of tests: Debian's, in a folder of its own, reached by a socket in that folder, on request also
// by an address of the loopback, and ended by the test file that started it. Its programs are not on PATH there.

import { fromFileUrl } from "@std/path";
import { silentLog } from "../../src/metrics/log.ts";
import { until } from "./until.ts";

/** Who runs the server, which refuses to be root. */
const NOBODY = 65_534;
const FOLDERS = "/usr/lib/postgresql";
const DEFAULT_PORT = 5432;

export interface PostgresServer {
  readonly pid: number;
  /** The folder of its socket. */
  readonly folder: string;
  /** The address of a database, as `--store` takes it. @param user the owner of all unless given */
  url(database: string, user?: string): string;
  /** Runs SQL in a database, as the owner of all unless a user is given. @returns what psql prints */
  sql(text: string, database?: string, user?: string): Promise<string>;
  /** Runs one of the server's own programs on it, such as pg_dump. @returns what it prints */
  run(program: string, ...args: readonly string[]): Promise<string>;
  /** Ends the server, and all sessions with it. */
  stop(): Promise<void>;
  /** Stops all its processes: nothing is answered, and no connection ends. */
  pause(): Promise<void>;
  /** Lets them go on. */
  resume(): Promise<void>;
  /** Ends it at once, as a crash does. */
  kill(): Promise<void>;
  /** Starts it again on the same data. */
  restart(): Promise<void>;
}

/** Where a server is reached by TCP as well. */
export interface ServerAddress {
  readonly hostname: string;
  readonly port: number;
  /** Lines of pg_hba.conf for those who come that way. */
  readonly admits: string;
}

/** An address of the loopback that no other server of this machine has. */
export function freeAddress(admits: string): ServerAddress {
  const bytes = crypto.getRandomValues(new Uint8Array(3));
  const hostname = `127.${bytes.map((byte) => 1 + byte % 254).join(".")}`;
  const listener = Deno.listen({ hostname, port: 0 });
  const { port } = listener.addr;
  listener.close();
  return { hostname, port, admits };
}

/** What an outage is lived through with, for stores of tests. */
export const OUTAGE = { journalBytesMax: 2 ** 20, log: silentLog };

/** Registers a test that needs the server. Its name ends in `[needs postgres]`, so a skip is seen. */
export function postgresTest(name: string, fn: () => Promise<void>): void {
  const mayBeSkipped = Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") !== "all";
  const ignore = mayBeSkipped && postgresFolder() === undefined;
  Deno.test({ name: `${name} [needs postgres]`, ignore, fn });
}

/** The folder of the server's programs; undefined when it is not installed. */
export function postgresFolder(): string | undefined {
  try {
    const versions = Array.from(Deno.readDirSync(FOLDERS), ({ name }) => Number(name));
    const newest = Math.max(...versions.filter(Number.isFinite));
    const folder = `${FOLDERS}/${newest}/bin`;
    return Deno.statSync(`${folder}/initdb`).isFile ? folder : undefined;
  } catch {
    return undefined; // not installed
  }
}

/** How a server is started. */
interface ServerOptions {
  readonly detached?: boolean;
  readonly around?: readonly string[];
  /** The server whose standby it is to be, by the name STANDBY. */
  readonly of?: PostgresServer;
}

/**
 * Starts a server without data.
 * @param parent an empty folder, which the server may enter
 * @param settings further ones of the server, as `name=value`
 * @param address for TCP; none unless given
 * @param options `detached`: Ctrl-C does not reach it, so that who started it ends it last; `around`: a program with
 * its arguments, run by this user, that runs the server; `of`: it begins as a standby of that one
 */
export async function startPostgres(
  parent: string,
  settings: readonly string[] = ["fsync=off"],
  address?: ServerAddress,
  { detached = false, around = [], of }: ServerOptions = {},
): Promise<PostgresServer> {
  const programs = postgresFolder();
  if (programs === undefined) throw new Error("Cannot start PostgreSQL: it is not installed");
  const folder = `${parent}/postgres`;
  await Deno.mkdir(folder);
  if (Deno.uid() === 0) {
    await Deno.chown(folder, NOBODY, NOBODY);
    await Deno.chmod(parent, 0o711);
  }
  const data = `${folder}/data`;
  const port = `${address?.port ?? DEFAULT_PORT}`;
  if (of === undefined) await makeData(programs, folder);
  else await finished(command(`${programs}/pg_basebackup`, [...copying(of), "-D", data], folder));
  if (address !== undefined) {
    const lines = `local all all trust\n${address.admits}\n`;
    await Deno.writeTextFile(`${data}/pg_hba.conf`, lines);
  }
  const runAs = async (user: string, program: string, args: readonly string[]) => {
    const place = ["-h", folder, "-p", port, "-U", user];
    return await finished(command(`${programs}/${program}`, [...place, ...args], folder));
  };
  const sql = async (text: string, database = "postgres", user = "owner") =>
    await runAs(user, "psql", ["-qtAX", "-v", "ON_ERROR_STOP=1", "-c", text, database]);
  const start = () =>
    startServer(
      command(
        `${programs}/postgres`,
        [
          "-D",
          data,
          // Nowhere else: two servers never meet.
          ...[`listen_addresses=${address?.hostname ?? ""}`, `port=${port}`, ...settings]
            .flatMap((setting) => ["-c", setting]),
          ...["-c", `unix_socket_directories=${folder}`],
        ],
        folder,
        { detached, around },
      ),
      () => sql("SELECT 1"),
    );
  let running = await start();
  return {
    get pid() {
      return running.pid;
    },
    folder,
    url: (database, user = "owner") =>
      `postgres://${user}@localhost:${port}/${database}?host=${encodeURIComponent(folder)}`,
    sql,
    run: (program, ...args) => runAs("owner", program, args),
    pause: () => signalAll(running.pid, "SIGSTOP"),
    resume: () => signalAll(running.pid, "SIGCONT"),
    kill: () => running.end("SIGKILL"),
    restart: async () => void (running = await start()),
    // The fast shutdown: sessions are ended.
    stop: () => running.end("SIGINT"),
  };
}

/** What initdb has made, by its version and the user; no server runs there. */
const KEPT = fromFileUrl(new URL("../../.toolchain/postgres", import.meta.url));

/** Makes the data of a new server: a copy of what initdb made the first time, which takes a third of its processor time. */
async function makeData(programs: string, folder: string): Promise<void> {
  const version = await finished(command(`${programs}/initdb`, ["--version"], folder));
  const kept = `${KEPT}/${version.replaceAll(/[^\w.]+/g, "-")}-${Deno.uid()}`;
  const data = `${folder}/data`;
  if (await copied(kept, data)) return;
  const auth = ["--auth=trust", "--username=owner", "--encoding=UTF8", "--no-locale"];
  await finished(command(`${programs}/initdb`, ["--no-sync", ...auth, "-D", data], folder));
  await Deno.mkdir(KEPT, { recursive: true });
  const part = await Deno.makeTempDir({ dir: KEPT });
  try {
    await copied(data, `${part}/data`);
    await Deno.rename(`${part}/data`, kept);
  } catch (error) {
    // Another file of tests was faster: what it has kept is not empty, and stays.
    if (!isFolder(kept)) throw error;
  } finally {
    await Deno.remove(part, { recursive: true });
  }
}

/** Copies a folder with its owners. @returns false when it is not there */
async function copied(from: string, to: string): Promise<boolean> {
  if (!isFolder(from)) return false;
  await finished(new Deno.Command("cp", { args: ["--archive", from, to], stderr: "piped" }));
  return true;
}

function isFolder(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false; // nothing was kept yet
  }
}

/** The name of a standby, by which it may count for commits. */
export const STANDBY = "second";

/** How a standby copies its first, and follows it from then on. */
function copying({ folder }: PostgresServer): string[] {
  const first = `host=${folder} user=owner application_name=${STANDBY}`;
  return ["--no-sync", "--checkpoint=fast", "--write-recovery-conf", "-d", first];
}

/** Starts the server's process, and waits until it answers. */
async function startServer(
  program: Deno.Command,
  ask: () => Promise<string>,
): Promise<{ readonly pid: number; end(signal: Deno.Signal): Promise<void> }> {
  const child = program.spawn();
  const log = new Response(child.stderr).text();
  let isEnded = false;
  const ended = child.status.then(async ({ code }) => {
    isEnded = true;
    throw new Error(`PostgreSQL ended with code ${code}: ${await log}`);
  });
  ended.catch(() => {});
  const ready = until("PostgreSQL to answer", () => ask().catch(() => undefined));
  await Promise.race([ready, ended]);
  return {
    pid: child.pid,
    async end(signal) {
      if (!isEnded) child.kill(signal);
      await child.status;
      await log;
      // Both are settled, and neither is asked for again.
      await ready;
    },
  };
}

/** To a server and the processes that it started. */
async function signalAll(pid: number, signal: Deno.Signal): Promise<void> {
  const children = await Deno.readTextFile(`/proc/${pid}/task/${pid}/children`);
  for (const one of [pid, ...children.trim().split(" ").map(Number)]) {
    try {
      Deno.kill(one, signal);
    } catch (error) {
      // A session that has just ended.
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
}

function command(
  program: string,
  args: readonly string[],
  cwd: string,
  { detached = false, around = [] }: ServerOptions = {},
): Deno.Command {
  const [first = "", ...more] = [...around, program, ...args];
  return new Deno.Command(first, {
    detached,
    args: more,
    cwd,
    clearEnv: true,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
    ...(Deno.uid() === 0 && around.length === 0 ? { uid: NOBODY, gid: NOBODY } : {}),
  });
}

async function finished(one: Deno.Command): Promise<string> {
  const { success, stdout, stderr } = await one.output();
  const decoder = new TextDecoder();
  if (success) return decoder.decode(stdout).trim();
  throw new Error(`A program of PostgreSQL failed: ${decoder.decode(stderr).trim()}`);
}

// A PgBouncer of tests, in transaction mode: Debian's, before a server of tests, reached by a socket in a folder of
// its own. Its program is not on PATH for all.

import type { PostgresServer } from "./postgres.ts";
import { until } from "./until.ts";

const PROGRAM = "/usr/sbin/pgbouncer";
/** Who runs it, since it refuses to be root. */
const NOBODY = 65_534;
const PORT = 6432;
/** Sessions that it has with the server. */
const SESSIONS = 3;

/** Registers a test that needs PostgreSQL and PgBouncer. */
export function pgbouncerTest(name: string, ignore: boolean, fn: () => Promise<void>): void {
  const mayBeSkipped = Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") !== "all";
  const missing = ignore || !isThere();
  Deno.test({ name: `${name} [needs pgbouncer]`, ignore: mayBeSkipped && missing, fn });
}

function isThere(): boolean {
  try {
    return Deno.statSync(PROGRAM).isFile;
  } catch {
    return false; // not installed
  }
}

/** A pooler that answers. */
interface Pooler {
  /** The address of a database by the pooler, as `--store` takes it. */
  url(database: string, user: string): string;
  stop(): Promise<void>;
}

/**
 * Starts a pooler before a server.
 * @param folder a new one of this name is made
 * @param users who may come, without a password
 */
export async function startPgbouncer(
  server: PostgresServer,
  folder: string,
  users: readonly string[],
): Promise<Pooler> {
  await Deno.mkdir(folder);
  await Deno.writeTextFile(`${folder}/users`, users.map((user) => `"${user}" ""\n`).join(""));
  await Deno.writeTextFile(
    `${folder}/pgbouncer.ini`,
    `[databases]
* = host=${server.folder} port=5432
[pgbouncer]
listen_port = ${PORT}
unix_socket_dir = ${folder}
auth_type = trust
auth_file = ${folder}/users
pool_mode = transaction
default_pool_size = ${SESSIONS}
`,
  );
  const asNobody = Deno.uid() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  if (Deno.uid() === 0) {
    for (const path of [folder, `${folder}/users`, `${folder}/pgbouncer.ini`]) {
      await Deno.chown(path, NOBODY, NOBODY);
    }
  }
  const child = new Deno.Command(PROGRAM, {
    args: ["-q", `${folder}/pgbouncer.ini`],
    cwd: folder,
    clearEnv: true,
    stdin: "null",
    stdout: "null",
    stderr: "piped",
    ...asNobody,
  }).spawn();
  const log = new Response(child.stderr).text();
  const ended = child.status.then(async ({ code }) => {
    throw new Error(`PgBouncer ended with code ${code}: ${await log}`);
  });
  ended.catch(() => {});
  const socket = () => Deno.stat(`${folder}/.s.PGSQL.${PORT}`).catch(() => undefined);
  await Promise.race([until("PgBouncer to listen", socket), ended]);
  return {
    url: (database, user) =>
      `postgres://${user}@localhost:${PORT}/${database}?host=${encodeURIComponent(folder)}`,
    async stop() {
      child.kill("SIGTERM");
      await child.status;
      await log;
    },
  };
}

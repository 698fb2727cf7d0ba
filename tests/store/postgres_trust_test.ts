// What an agent trusts and tells: the server must prove its name by TLS, and the password stays in its file.

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { makeCertificate, type Wishes } from "../http/tls_files.ts";
import { programOfRun, runProgram, startAgentProcess } from "../support/agent_process.ts";
import {
  freeAddress,
  postgresFolder,
  type PostgresServer,
  postgresTest,
  type ServerAddress,
  startPostgres,
} from "../support/postgres.ts";
import { pgbouncerTest, startPgbouncer } from "../support/pgbouncer.ts";
import { withFolder } from "../support/until.ts";

const PASSWORD = "correct-horse-battery-staple";
/** Who runs the server. */
const NOBODY = 65_534;
const ADMITS = "hostssl all all 127.0.0.0/8 scram-sha-256";

interface Trusted {
  readonly server: PostgresServer;
  readonly folder: string;
  readonly address: ServerAddress;
  /** The certificate of the server, by itself its authority. */
  readonly certificate: string;
  /** A file with the password of the role `runs`. */
  readonly passwordFile: string;
}

/** A server that admits the role `runs` with a password over TLS alone. */
async function withTrusted(
  wishes: (address: ServerAddress) => Wishes,
  run: (trusted: Trusted) => Promise<void>,
  admits = ADMITS,
): Promise<void> {
  await withFolder(async (folder) => {
    const address = freeAddress(admits);
    const { certPath, keyPath } = await makeCertificate(folder, "server", wishes(address));
    // The server takes no key of another user, and reads a certificate of its own under any umask.
    if (Deno.uid() === 0) {
      for (const path of [certPath, keyPath]) await Deno.chown(path, NOBODY, NOBODY);
    }
    const tls = ["ssl=on", `ssl_cert_file=${certPath}`, `ssl_key_file=${keyPath}`];
    await Deno.chmod(folder, 0o711);
    const server = await startPostgres(folder, ["fsync=off", ...tls], address);
    try {
      await server.sql(`CREATE ROLE runs LOGIN PASSWORD '${PASSWORD}'`);
      await server.sql("CREATE DATABASE fleet");
      const owner = { url: server.url("fleet"), deadlineMs: 60_000 };
      await migrateSharedDatabase(owner, { agent: "runs" });
      const passwordFile = `${folder}/password`;
      await Deno.writeTextFile(passwordFile, `${PASSWORD}\n`, { mode: 0o600 });
      await run({ server, folder, address, certificate: certPath, passwordFile });
    } finally {
      await server.stop();
    }
  });
}

const named = ({ hostname }: ServerAddress): Wishes => ({ names: `IP:${hostname}` });

/** The flags of an agent that asks a host for the database. */
function flagsOf({ address: { port }, certificate, passwordFile }: Trusted, host: string) {
  return [
    ...["--host", "simulated", "--store", `postgres://runs@${host}:${port}/fleet`],
    ...["--store-password-file", passwordFile, "--store-ca-file", certificate],
  ];
}

/** Asks for the database with what an agent has, which must be refused. @returns what is said */
async function refusal(flags: readonly string[]): Promise<string> {
  // An agent would start, and ask again until it is let in.
  const { code, stderr } = await runProgram(programOfRun(), ["db", "migrate", ...flags.slice(2)]);
  assertEquals(code, 1, stderr);
  assertStringIncludes(stderr, "Cannot reach the database");
  return stderr;
}

postgresTest(
  "an agent reaches a server with a verified name, and shows its password to nobody",
  () =>
    withTrusted(named, async (trusted) => {
      const { server, folder, address: { hostname } } = trusted;
      const flags = flagsOf(trusted, hostname);
      const agent = await startAgentProcess(programOfRun(), `${folder}/agent`, flags);
      const told: string[] = [];
      try {
        const sessions = await server.sql(
          `SELECT count(*) FILTER (WHERE ssl), count(*) FILTER (WHERE NOT ssl)
             FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'runs'`,
        );
        const [encrypted, plain] = sessions.split("|").map(Number);
        assert(encrypted !== undefined && encrypted > 0 && plain === 0, sessions);
        const shown = await runProgram(programOfRun(), ["config", "show", "--json", ...flags]);
        const pid = /"pid":(\d+)/.exec(agent.log())?.[1];
        for (const file of ["cmdline", "environ"]) {
          told.push(await Deno.readTextFile(`/proc/${pid}/${file}`));
        }
        for (const path of ["/agent/v1/config", "/agent/v1/host", "/agent/v1/doctor", "/metrics"]) {
          const response = await fetch(agent.url + path);
          assertEquals(response.status, 200, path);
          told.push(await response.text());
        }
        told.push(shown.stdout, shown.stderr);
      } finally {
        await agent.stop();
      }
      told.push(agent.log());
      for (const text of told) assert(!text.includes(PASSWORD), text);
      // Each is what it says it is.
      assertStringIncludes(told.join("\n"), trusted.passwordFile);

      await Deno.writeTextFile(trusted.passwordFile, "wrong\n");
      const said = await refusal(flags);
      assertStringIncludes(said, "password authentication failed");
      assert(!said.includes("wrong\n"), said);
      await Deno.chmod(trusted.passwordFile, 0o644);
      const open = await runProgram(programOfRun(), ["db", "migrate", ...flags.slice(2)]);
      assertStringIncludes(open.stderr, "its mode is 0644");
      const otherCa = (await makeCertificate(folder, "other", named(trusted.address))).certPath;
      await Deno.chmod(trusted.passwordFile, 0o600);
      const other = await refusal([...flags.slice(0, -1), otherCa]);
      assert(/certificate|UnknownIssuer|issuer/i.test(other), other);
    }),
);

postgresTest(
  "a server with the certificate of another name is refused",
  () =>
    withTrusted(() => ({ names: "DNS:db.example,DNS:localhost" }), async (trusted) => {
      const said = await refusal(flagsOf(trusted, trusted.address.hostname));
      assert(/certificate/i.test(said), said);
    }),
);

postgresTest(
  "beyond loopback nothing is sent without TLS",
  () =>
    withFolder(async (folder) => {
      const address = freeAddress("host all all all trust");
      const server = await startPostgres(folder, ["fsync=off"], address);
      try {
        await server.sql("CREATE DATABASE fleet");
        const { hostname, port } = address;
        // The address of a loopback in the other family: for the agent one like any other.
        const store = `postgres://owner@[::ffff:${hostname}]:${port}/fleet`;
        const { code, stderr } = await runProgram(programOfRun(), [
          ...["db", "migrate", "--store", store],
        ]);
        assertEquals(code, 1, stderr);
        assertStringIncludes(stderr, "does not support SSL");
        const near = `postgres://owner@${hostname}:${port}/fleet`;
        const reached = await runProgram(programOfRun(), ["db", "migrate", "--store", near]);
        assertEquals(reached.code, 0, reached.stderr);
      } finally {
        await server.stop();
      }
    }),
);

postgresTest(
  "an agent that the server refuses names the wrong setting, and ends",
  () =>
    withFolder(async (folder) => {
      const address = freeAddress("host all all 127.0.0.0/8 scram-sha-256");
      const server = await startPostgres(folder, ["fsync=off"], address);
      try {
        await server.sql(`CREATE ROLE runs LOGIN PASSWORD '${PASSWORD}'`);
        await server.sql("CREATE DATABASE fleet");
        const [right, wrong] = [`${folder}/right`, `${folder}/wrong`];
        await Deno.writeTextFile(right, PASSWORD, { mode: 0o600 });
        await Deno.writeTextFile(wrong, "guessed", { mode: 0o600 });
        const wants = "the user's password in store_password_file";
        const failed = (user: string) => `password authentication failed for user "${user}"`;
        for (
          const [place, file, said] of [
            ["runs@/fleet", wrong, `${failed("runs")}, expected ${wants}`],
            ["runs@/fleet", undefined, `the server asks for a password, expected ${wants}`],
            ["nobody@/fleet", wrong, `${failed("nobody")}, expected ${wants}`],
            [
              "runs@/none",
              right,
              'database "none" does not exist, expected an existing database in store',
            ],
          ] as const
        ) {
          const store = `postgres://${place.replace("/", `${address.hostname}:${address.port}/`)}`;
          const { code, stderr } = await runProgram(programOfRun(), [
            ...["serve", "--listen", "127.0.0.1:0", "--state-dir", `${folder}/agent`],
            ...["--host", "simulated", "--store", store],
            // The longest: an agent that asked again would be late.
            ...["--store-deadline", "10"],
            ...(file === undefined ? [] : ["--store-password-file", file]),
          ]);
          assertEquals(code, 1, stderr);
          assertStringIncludes(stderr, `Cannot reach the database: ${said}\n`);
        }
      } finally {
        await server.stop();
      }
    }),
);

pgbouncerTest(
  "an agent that the server behind a pooler refuses ends as well",
  postgresFolder() === undefined,
  () =>
    withFolder(async (folder) => {
      const server = await startPostgres(folder);
      const pooler = await startPgbouncer(server, `${folder}/pooler`, ["owner", "ghost"]);
      try {
        await server.sql("CREATE DATABASE fleet");
        for (
          const [database, user, said] of [
            ["fleet", "ghost", 'role "ghost" does not exist, expected a user in store'],
            ["fleet", "nobody", '"trust" authentication failed, expected a user in store'],
            ["none", "owner", 'database "none" does not exist, expected an existing database'],
          ] as const
        ) {
          const { code, stderr } = await runProgram(programOfRun(), [
            ...["serve", "--listen", "127.0.0.1:0", "--state-dir", `${folder}/agent`],
            ...["--host", "simulated", "--store", pooler.url(database, user)],
          ]);
          assertEquals(code, 1, stderr);
          assertStringIncludes(stderr, `Cannot reach the database: ${said}`);
        }
      } finally {
        await pooler.stop();
        await server.stop();
      }
    }),
);

Deno.test("a missing socket is named in the agent's own words", async () => {
  const url = `postgres://agent@localhost/fleet?host=${encodeURIComponent("/nowhere")}`;
  const error = await assertRejects(() => migrateSharedDatabase({ url, deadlineMs: 5_000 }));
  assertEquals(
    (error as Error).message,
    "Cannot reach the database: no server listens on the socket /nowhere/.s.PGSQL.5432",
  );
});

// The time limits of an agent's sessions, kept by the server itself, and the session that listens: it may die, and
// what is committed meanwhile is seen all the same.

import { assertEquals, assertRejects } from "@std/assert";
// @ts-types="@types/pg"
import pg from "pg";
import { AgentError } from "../../src/domain/error.ts";
import type { JobUuid } from "../../src/domain/id.ts";
import { SharedDatabase } from "../../src/store/postgres/connection.ts";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { WATCHERS_LOCK } from "../../src/store/postgres/listening.ts";
import { changedNotice } from "../../src/store/postgres/notices.ts";
import { uuidOf } from "../support/job.ts";
import { type PostgresServer, postgresTest, startPostgres } from "../support/postgres.ts";
import { until, withFolder } from "../support/until.ts";

/** For calls that must not be late on a busy machine. */
const LONG_MS = 60_000;
const DATABASE = "fleet";

interface Sessions {
  readonly server: PostgresServer;
  readonly folder: string;
  /** Opens an agent's sessions, which the test need not close. */
  open(deadlineMs: number, url?: string): SharedDatabase;
}

async function withSessions(run: (sessions: Sessions) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const server = await startPostgres(folder);
    const opened: SharedDatabase[] = [];
    try {
      await server.sql(`CREATE DATABASE ${DATABASE}`);
      const url = server.url(DATABASE);
      await migrateSharedDatabase({ url, deadlineMs: LONG_MS });
      const open = (deadlineMs: number, by = url) => {
        const db = new SharedDatabase({ url: by, deadlineMs });
        opened.push(db);
        return db;
      };
      await run({ server, folder, open });
    } finally {
      for (const db of opened) await db.close();
      await server.stop();
    }
  });
}

/** Has a write that stays in its transaction. @returns ends it */
async function holding(db: SharedDatabase, sql: string): Promise<() => Promise<void>> {
  const [held, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const writing = db.write(async (tx) => {
    await tx.run(sql);
    held.resolve();
    await release.promise;
  });
  writing.catch(() => {});
  await held.promise;
  return async () => {
    release.resolve();
    await writing;
  };
}

const CHECK = "INSERT INTO write_checks (host, checked_at) VALUES";
const TOUCH = "UPDATE write_checks SET checked_at = 'later' WHERE host = 'one'";

postgresTest(
  "the server itself ends a statement that is over the deadline",
  () =>
    withSessions(async ({ server, open }) => {
      const db = open(300);
      for (const call of [db.read.bind(db), db.write.bind(db)]) {
        const error = await assertRejects(
          () => call((tx) => tx.rows("SELECT pg_sleep(600)")),
          AgentError,
        );
        assertEquals(error.code, "overloaded");
      }
      const sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' " +
        "AND pid <> pg_backend_pid() AND state = 'active'";
      await until("no statement to run", async () => await server.sql(sleeping) === "0");
    }),
);

postgresTest(
  "a write that waits for a row lock delays no later write, and is made in the end",
  () =>
    withSessions(async ({ open }) => {
      const [one, other] = [open(LONG_MS), open(15_000)];
      await one.write((tx) => tx.run(`${CHECK} ('one', 'now')`));
      const release = await holding(one, TOUCH);
      let waits = true;
      const waiting = other.write((tx) => tx.run(TOUCH)).finally(() => waits = false);
      await other.write((tx) => tx.run(`${CHECK} ('other', 'now')`));
      assertEquals(waits, true);
      await release();
      assertEquals(await waiting, 1);
    }),
);

postgresTest(
  "a write that never gets its row lock fails at its deadline",
  () =>
    withSessions(async ({ open }) => {
      const [one, other] = [open(LONG_MS), open(500)];
      await one.write((tx) => tx.run(`${CHECK} ('one', 'now')`));
      const release = await holding(one, TOUCH);
      const error = await assertRejects(() => other.write((tx) => tx.run(TOUCH)), AgentError);
      assertEquals(error.code, "overloaded");
      await release();
      assertEquals(await other.write((tx) => tx.run(TOUCH)), 1);
    }),
);

postgresTest(
  "the server frees the locks of an agent that is cut off in a transaction",
  () =>
    withSessions(async ({ server, folder, open }) => {
      const relay = relayTo(`${server.folder}/.s.PGSQL.5432`, `${folder}/relay`);
      try {
        const near = open(LONG_MS);
        await near.write((tx) => tx.run(`${CHECK} ('one', 'now')`));
        const url = `postgres://owner@localhost/${DATABASE}?host=${
          encodeURIComponent(relay.folder)
        }`;
        const far = open(1_000, url);
        const release = await holding(far, TOUCH);
        relay.cut();
        assertEquals(await near.write((tx) => tx.run(TOUCH)), 1);
        await assertRejects(release, AgentError);
      } finally {
        await relay.close();
      }
    }),
);

postgresTest(
  "a listening session that dies is replaced, and no event is missed meanwhile",
  () =>
    withSessions(async ({ server, open }) => {
      const [one, other] = [open(LONG_MS), open(LONG_MS)];
      const heard: string[] = [];
      let calls = 0;
      const end = one.follow((words) => {
        calls += 1;
        heard.push(...words);
      });
      const listeners =
        "FROM pg_stat_activity WHERE query = 'LISTEN zonewright' AND state = 'idle'";
      const listening = () =>
        until(
          "a session to listen",
          async () => Number(await server.sql(`SELECT pid ${listeners}`)),
        );
      const first = await listening();
      const say = (word: string) => other.write((tx) => Promise.resolve(tx.notify(word)));
      await say("first");
      await until("the first word", () => heard.includes("first"));
      await server.sql(`SELECT pg_terminate_backend(pid, ${LONG_MS}) ${listeners}`);
      const before = calls;
      // Nobody listens: the look that comes every few seconds finds what it stands for.
      await say("unheard");
      await until("a look without a notice", () => calls > before);
      const second = await listening();
      assertEquals(second === first, false);
      await say("second");
      await until("the second word", () => heard.includes("second"));
      end();
    }),
);

postgresTest(
  "a write sends every agent only the notices that it asks for",
  () =>
    withSessions(async ({ server, open }) => {
      const listener = new pg.Client({ host: server.folder, user: "owner", database: DATABASE });
      await listener.connect();
      try {
        const heard: string[] = [];
        listener.on("notification", ({ payload = "" }) => heard.push(payload));
        await listener.query("LISTEN zonewright");
        const db = open(LONG_MS);
        await db.write((tx) => tx.run(`${CHECK} ('one', 'now')`), true);
        await db.write((tx) => Promise.resolve(tx.notify("word")), true);
        await db.write((tx) => tx.run(TOUCH));
        await db.write((tx) => Promise.resolve(tx.notify("last")));
        await until("the last notice", () => heard.includes("last"));
        assertEquals(heard, ["word", "last"]);
      } finally {
        await listener.end();
      }
    }),
);

postgresTest(
  "a watcher that comes during a commit looks after it, and then hears of changed jobs",
  () =>
    withSessions(async ({ server, open }) => {
      const [one, other] = [open(LONG_MS), open(LONG_MS)];
      const heard: string[] = [];
      const looks = () => heard.filter((word) => word === "m").length;
      one.follow((words) => heard.push(...words));
      await until("the session to listen", () => looks() === 1);
      const committing = new pg.Client({ host: server.folder, user: "owner", database: DATABASE });
      await committing.connect();
      try {
        await committing.query(`BEGIN; SELECT pg_try_advisory_xact_lock(${WATCHERS_LOCK})`);
        one.watch();
        const waiting =
          `SELECT count(*) FROM pg_locks WHERE NOT granted AND objid = ${WATCHERS_LOCK}`;
        await until("the watcher to wait", async () => await server.sql(waiting) === "1");
        assertEquals(looks(), 1);
        await committing.query("COMMIT");
        await until("the look after the commit", () => looks() === 2);
      } finally {
        await committing.end();
      }
      const changed = changedNotice(uuidOf<JobUuid>(1));
      await other.write((tx) => Promise.resolve(tx.notify(changed)));
      await until("the notice", () => heard.includes(changed));
    }),
);

postgresTest(
  "a session keeps the plans of statements that come again, and is replaced when its tables change",
  () =>
    withSessions(async ({ server, open }) => {
      const db = open(LONG_MS);
      await server.sql("CREATE TABLE changing AS SELECT 1 AS a", DATABASE);
      const all = "SELECT * FROM changing";
      const looks = () => db.write((tx) => tx.row<object>(all));
      for (let times = 0; times < 9; times++) assertEquals(await looks(), { a: 1 });
      const kept = await db.write((tx) =>
        tx.row<{ plans: number }>(
          `SELECT count(*) AS plans FROM pg_prepared_statements WHERE statement = '${all}'`,
        )
      );
      assertEquals(kept?.plans, 1);
      await server.sql("ALTER TABLE changing ADD COLUMN b INT", DATABASE);
      assertEquals(await looks(), { a: 1, b: null });
    }),
);

/** A way to a socket that can be cut without either side noticing. */
function relayTo(socket: string, folder: string) {
  Deno.mkdirSync(folder);
  const listener = Deno.listen({ transport: "unix", path: `${folder}/.s.PGSQL.5432` });
  const connections: Deno.Conn[] = [];
  let isCut = false;
  const carry = async (from: Deno.Conn, to: Deno.Conn) => {
    const bytes = new Uint8Array(64 * 1024);
    for (;;) {
      const read = await from.read(bytes);
      // Neither is told: both connections stay open.
      if (isCut || read === null) return;
      for (let at = 0; at < read;) at += await to.write(bytes.subarray(at, read));
    }
  };
  const carrying: Promise<unknown>[] = [];
  const accepting = (async () => {
    for await (const near of listener) {
      const far = await Deno.connect({ transport: "unix", path: socket });
      connections.push(near, far);
      carrying.push(...[carry(near, far), carry(far, near)].map((one) => one.catch(() => {})));
    }
  })();
  return {
    folder,
    cut: () => void (isCut = true),
    async close() {
      listener.close();
      for (const connection of connections) connection.close();
      await Promise.all([accepting, ...carrying]);
    },
  };
}

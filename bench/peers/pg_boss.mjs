// pg-boss: a queue in PostgreSQL. With LISTEN/NOTIFY, and batches of 100 while there is a backlog.

import { load, measure, readOrder } from "./harness.mjs";

const QUEUE = "no-op";
const BATCH = 100;

const order = readOrder();
const { PgBoss } = await load(order.packages, "pg-boss");
const { default: pg } = await load(order.packages, "pg");

const boss = new PgBoss({ connectionString: order.address, max: 25, useListenNotify: true });
boss.on("error", (error) => console.error(error));
await boss.start();
await boss.createQueue(QUEUE, { notify: true });
const database = new pg.Pool({ connectionString: order.address, max: 1 });

await measure({
  enqueue: (number) => boss.send(QUEUE, { number }),
  async work(begun) {
    const options = { batchSize: BATCH, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
    await boss.work(QUEUE, options, (jobs) => {
      for (const { data } of jobs) begun(data.number);
      return Promise.resolve();
    });
  },
  async unfinished() {
    const { rows } = await database.query(
      "SELECT count(*)::int AS jobs FROM pgboss.job WHERE name = $1 AND state < 'completed'",
      [QUEUE],
    );
    return rows[0].jobs;
  },
  async close() {
    await boss.stop({ graceful: false });
    await database.end();
  },
}, order);

// graphile-worker: a queue in PostgreSQL, woken by LISTEN/NOTIFY. With the options that its own page
// on performance recommends: a local queue, and completions in batches.

import { load, measure, readOrder } from "./harness.mjs";

const order = readOrder();
const { Logger, makeWorkerUtils, run } = await load(order.packages, "graphile-worker");
const { default: pg } = await load(order.packages, "pg");

const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});
const utils = await makeWorkerUtils({ connectionString: order.address, logger });
await utils.migrate();
const database = new pg.Pool({ connectionString: order.address, max: 1 });

let runner;
await measure({
  enqueue: (number) => utils.addJob("no-op", { number }),
  async work(begun) {
    runner = await run({
      taskList: { "no-op": ({ number }) => void begun(number) },
      preset: {
        worker: {
          connectionString: order.address,
          concurrentJobs: 24,
          maxPoolSize: 25,
          localQueue: { size: 500 },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
          logger,
        },
      },
      noHandleSignals: true,
    });
  },
  async unfinished() {
    const { rows } = await database.query(
      "SELECT count(*)::int AS jobs FROM graphile_worker.jobs",
    );
    return rows[0].jobs;
  },
  async close() {
    await runner.stop();
    await utils.release();
    await database.end();
  },
}, order);

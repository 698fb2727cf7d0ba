// DBOS Transact: durable workflows in PostgreSQL. Each job is a workflow of no steps on a queue.

import { load, measure, readOrder } from "./harness.mjs";

const QUEUE = "no-op";
/** Its queues are polled; the default of a second would only measure that. */
const POLL_MS = 10;

const order = readOrder();
const { DBOS } = await load(order.packages, "@dbos-inc/dbos-sdk");
const { default: pg } = await load(order.packages, "pg");

let begun = () => {};
const noop = DBOS.registerWorkflow((number) => {
  begun(number);
  return Promise.resolve();
}, { name: "no-op" });

DBOS.setConfig({ name: "bench", systemDatabaseUrl: order.address, logLevel: "error" });
await DBOS.launch();
const database = new pg.Pool({ connectionString: order.address, max: 1 });

await measure({
  enqueue: (number) => DBOS.startWorkflow(noop, { queueName: QUEUE })(number),
  async work(callback) {
    begun = callback;
    await DBOS.registerQueue(QUEUE, { minPollingIntervalMs: POLL_MS });
  },
  async unfinished() {
    const { rows } = await database.query(
      "SELECT count(*)::int AS jobs FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING')",
    );
    return rows[0].jobs;
  },
  async close() {
    await database.end();
    await DBOS.shutdown();
  },
}, order);

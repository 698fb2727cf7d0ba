// plainjob: a queue in SQLite, in the caller's process. The order says how durable its commits are.

import { join } from "node:path";
import { load, measure, readOrder } from "./harness.mjs";

const order = readOrder();
const { default: Database } = await load(order.packages, "better-sqlite3");
const { better, defineQueue, defineWorker, JobStatus } = await load(order.packages, "plainjob");

const silent = { error: console.error, warn() {}, info() {}, debug() {} };
const database = new Database(join(order.folder, "queue.db"));
const queue = defineQueue({ connection: better(database), logger: silent });
// After defineQueue(), which chooses NORMAL.
database.pragma(`synchronous = ${order.synchronous}`);

let worker;
await measure({
  enqueue: (number) => queue.add("no-op", { number }),
  work(begun) {
    const task = (job) => begun(JSON.parse(job.data).number);
    worker = defineWorker("no-op", task, { queue, logger: silent });
    void worker.start();
  },
  unfinished: () =>
    queue.countJobs({ status: JobStatus.Pending }) +
    queue.countJobs({ status: JobStatus.Processing }),
  async close() {
    await worker.stop();
    queue.close();
  },
}, order);

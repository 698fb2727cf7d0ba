// BullMQ: a queue in Redis. Redis keeps snapshots only, so an accepted job is not durable.

import { load, measure, readOrder } from "./harness.mjs";

const QUEUE = "no-op";
const CONCURRENCY = 100;

const order = readOrder();
const { Queue, Worker } = await load(order.packages, "bullmq");

const queue = new Queue(QUEUE, { connection: { path: order.address } });
await queue.waitUntilReady();

let worker;
await measure({
  enqueue: (number) => queue.add("no-op", { number }),
  async work(begun) {
    const task = ({ data }) => Promise.resolve(begun(data.number));
    const connection = { path: order.address, maxRetriesPerRequest: null };
    worker = new Worker(QUEUE, task, { connection, concurrency: CONCURRENCY });
    worker.on("error", (error) => console.error(error));
    await worker.waitUntilReady();
  },
  async unfinished() {
    const counts = await queue.getJobCounts("wait", "active", "prioritized", "delayed");
    return Object.values(counts).reduce((sum, count) => sum + count, 0);
  },
  async close() {
    await worker.close();
    await queue.close();
  },
}, order);

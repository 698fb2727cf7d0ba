// The load generator, a process of its own: reads orders as JSON lines from standard input, carries
// each out over raw kept-alive connections, and answers with one JSON line. It lives for a whole
// run, so that its own code is warm; see load_generator.ts for the other end.

import { HttpConnection, requestBytes } from "./http_connection.ts";
import type { BurstOrder, BurstResult, Order, SinglesOrder, SinglesResult } from "./load_order.ts";
import { quantile } from "./numbers.ts";
import { wallClockOffsetMs } from "./wall_clock.ts";

/** Longest pause between two jobs that run one at a time. */
const PAUSE_MS_MAX = 2;
/** How long one job may take before the benchmark gives up. */
const WAIT_MS = 30_000;
const POLL_MS = 1;

/** Posts the same request, but for its key, over and over on several connections, one in flight on each. */
async function burst(order: BurstOrder): Promise<BurstResult> {
  const url = new URL(order.url);
  const same = requestBytes(url, "POST", "/jobs", order.body);
  const keyed = () => requestBytes(url, "POST", "/jobs", order.body, crypto.randomUUID());
  const connections = await open(url, order.connections);
  const latenciesMs = new Float64Array(order.requests);
  let sent = 0;
  const began = performance.now();
  await Promise.all(connections.map(async (connection) => {
    while (sent < order.requests) {
      const request_number = sent++;
      const request = order.keyed === true ? keyed() : same;
      const sentAt = performance.now();
      const { status, body } = await connection.send(request);
      latenciesMs[request_number] = performance.now() - sentAt;
      if (status !== 201) {
        throw new Error(`POST /jobs answered ${status}: ${new TextDecoder().decode(body)}`);
      }
    }
  }));
  const seconds = (performance.now() - began) / 1000;
  for (const connection of connections) connection.close();
  return {
    per_second: order.requests / seconds,
    p50_ms: quantile(latenciesMs, 0.5),
    p99_ms: quantile(latenciesMs, 0.99),
  };
}

/** Posts a job, waits for its end, and only then posts the next. */
async function singles(order: SinglesOrder): Promise<SinglesResult> {
  const url = new URL(order.url);
  const request = requestBytes(url, "POST", "/jobs", order.body);
  const connection = await HttpConnection.open(url);
  const epochMs = wallClockOffsetMs();
  const wholeMs = new Float64Array(order.jobs);
  const pickupMs = new Float64Array(order.jobs);
  const sentToBodyMs = new Float64Array(order.jobs);
  for (let job = 0; job < order.jobs; job++) {
    // A pause of random length, so that the jobs fall anywhere between two ticks of any clock.
    await new Promise((resolve) => setTimeout(resolve, Math.random() * PAUSE_MS_MAX));
    spin(Math.random());
    const sentAt = performance.now();
    const { uuid } = await connection.json(request, 201);
    const acceptedAt = performance.now();
    const ended = order.waits
      ? await connection.json(
        requestBytes(url, "GET", `/jobs/${uuid}/wait?timeout=${WAIT_MS / 1000}`),
        200,
      )
      : await poll(connection, requestBytes(url, "GET", `/jobs/${uuid}`));
    wholeMs[job] = performance.now() - sentAt;
    const begun = bodyBegan(ended);
    pickupMs[job] = begun - (epochMs + acceptedAt);
    sentToBodyMs[job] = begun - (epochMs + sentAt);
  }
  connection.close();
  return {
    whole_p50_ms: quantile(wholeMs, 0.5),
    whole_p99_ms: quantile(wholeMs, 0.99),
    pickup_p50_ms: quantile(pickupMs, 0.5),
    pickup_p99_ms: quantile(pickupMs, 0.99),
    sent_to_body_p50_ms: quantile(sentToBodyMs, 0.5),
    sent_to_body_p99_ms: quantile(sentToBodyMs, 0.99),
  };
}

/** Asks until the job has succeeded, as clients without a wait have to. */
async function poll(
  connection: HttpConnection,
  request: Uint8Array,
): Promise<Record<string, unknown>> {
  const deadline = performance.now() + WAIT_MS;
  for (;;) {
    const job = await connection.json(request, 200);
    if (job.execution === "succeeded" || performance.now() > deadline) return job;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

async function open(url: URL, count: number): Promise<HttpConnection[]> {
  return await Promise.all(Array.from({ length: count }, () => HttpConnection.open(url)));
}

/**
 * When the body of a job began, milliseconds since 1970. A task's clock counts whole milliseconds:
 * half of one is added, so that on average it is right.
 */
function bodyBegan(job: Record<string, unknown>): number {
  const { began, execution } = job;
  if (typeof began !== "number") {
    throw new Error(`The job does not say when its body began: it is ${execution}`);
  }
  return Number.isInteger(began) ? began + 0.5 : began;
}

function spin(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

async function carryOut(order: Order): Promise<BurstResult | SinglesResult> {
  return order.kind === "burst" ? await burst(order) : await singles(order);
}

let rest = "";
for await (const text of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + text).split("\n");
  rest = lines.pop() ?? "";
  for (const line of lines) {
    try {
      console.log(JSON.stringify(await carryOut(JSON.parse(line))));
    } catch (error) {
      console.log(JSON.stringify({ error: error instanceof Error ? error.message : `${error}` }));
    }
  }
}

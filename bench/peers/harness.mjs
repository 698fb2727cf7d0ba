// What every peer in this folder is put through, so that their measurements mean the same. A driver runs
// under Node in a process of its own: `driver.mjs ORDER`, where ORDER is JSON; it prints one JSON
// line of measurements. Drivers are written from the public documentation of their libraries.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import process from "node:process";
import { pathToFileURL } from "node:url";

const IN_FLIGHT = 32;
const POLL_MS = 5;
/** Longest pause before a job that runs alone; a peer that polls needs its interval. */
const PAUSE_MS_MAX = 2;
const DEADLINE_MS = 120_000;

/** @returns {Record<string, any>} what the benchmark asks of this driver */
export function readOrder() {
  return JSON.parse(process.argv[2] ?? "{}");
}

/** Loads a package from the folder that it was installed into. */
export async function load(folder, name) {
  const resolve = createRequire(join(folder, "package.json")).resolve;
  return await import(pathToFileURL(resolve(name)).href);
}

export function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function quantile(values, share) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.round((sorted.length - 1) * share)];
}

/** Calls `one` for each number from 0, so many in flight. @returns calls a second */
async function perSecond(calls, inFlight, one) {
  let next = 0;
  const began = performance.now();
  await Promise.all(Array.from({ length: inFlight }, async () => {
    while (next < calls) await one(next++);
  }));
  return calls / ((performance.now() - began) / 1000);
}

async function until(reached, what) {
  const deadline = performance.now() + DEADLINE_MS;
  while (!(await reached())) {
    if (performance.now() > deadline) throw new Error(`Gave up waiting: ${what}`);
    await sleep(POLL_MS);
  }
}

/**
 * Takes the measurements of a library that works in the process of its caller.
 * @param {object} peer
 * @param {(number: number) => unknown} peer.enqueue durable when what it returns has resolved
 * @param {(begun: (number: number) => void) => unknown} peer.work starts the worker, whose task
 *   calls `begun` and does nothing else
 * @param {() => number | Promise<number>} peer.unfinished jobs whose end is not recorded
 * @param {() => unknown} peer.close
 */
export async function measure(peer, order) {
  const { one_at_a_time, in_flight } = order;
  const figures = {};
  figures.accepted_1 = await perSecond(one_at_a_time, 1, peer.enqueue);
  figures.accepted_32 = await perSecond(in_flight, IN_FLIGHT, peer.enqueue);

  const begunAt = new Map();
  let bodies = 0;
  const begun = (number) => {
    bodies += 1;
    begunAt.set(number, performance.now());
  };
  const finished = async (jobs) =>
    await until(async () => bodies >= jobs && await peer.unfinished() === 0, `${jobs} jobs`);

  const preloaded = one_at_a_time + in_flight;
  const cpu = process.cpuUsage();
  let began = performance.now();
  await peer.work(begun);
  await finished(preloaded);
  figures.drained = preloaded / ((performance.now() - began) / 1000);
  const { user, system } = process.cpuUsage(cpu);
  figures.server_cpu_ms = (user + system) / 1000 / preloaded;

  began = performance.now();
  await perSecond(in_flight, IN_FLIGHT, peer.enqueue);
  await finished(preloaded + in_flight);
  figures.finished_32 = in_flight / ((performance.now() - began) / 1000);

  Object.assign(figures, await measurePickups(peer, order, begunAt));
  await peer.close();
  figures.server_peak_mib = peakMiB();
  console.log(JSON.stringify(figures));
}

/** Not from getrusage(), whose maximum begins with that of the program that started this one. */
function peakMiB() {
  const status = readFileSync("/proc/self/status", "utf8");
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)[1]) / 1024;
}

/** One job at a time: from its acceptance, and from the call, to the beginning of its body. */
async function measurePickups(peer, order, begunAt) {
  const first = 1_000_000;
  const afterAcceptance = [];
  const afterCall = [];
  for (let number = first; number < first + order.pickups; number++) {
    await sleep(Math.random() * (order.pause_ms_max ?? PAUSE_MS_MAX));
    const calledAt = performance.now();
    await peer.enqueue(number);
    const acceptedAt = performance.now();
    while (!begunAt.has(number)) await sleep(0);
    afterAcceptance.push(begunAt.get(number) - acceptedAt);
    afterCall.push(begunAt.get(number) - calledAt);
    await until(async () => await peer.unfinished() === 0, `job ${number}`);
  }
  return {
    pickup_p50_ms: quantile(afterAcceptance, 0.5),
    pickup_p99_ms: quantile(afterAcceptance, 0.99),
    sent_to_body_p50_ms: quantile(afterCall, 0.5),
    sent_to_body_p99_ms: quantile(afterCall, 0.99),
  };
}

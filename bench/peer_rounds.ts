// One round of a peer: in the process of its driver, or over HTTP like the agent itself.

import { fromFileUrl } from "@std/path";
import { type Contestant, postWorkflows } from "./contestant.ts";
import {
  measureExecuted,
  measureMemory,
  measureSingles,
  type Metrics,
  warmUp,
} from "./http_rounds.ts";
import type { LoadGenerator } from "./load_generator.ts";
import type { HttpPeerSizes, PeerSizes } from "./peer_list.ts";
import { newDatabase, type Service, serviceCpuMs } from "./peer_services.ts";
import type { PreparedPeer } from "./peers.ts";
import { treeMiB } from "./process_use.ts";

function driverArgs({ peer }: PreparedPeer, order: Record<string, unknown>): string[] {
  const script = fromFileUrl(new URL(`peers/${peer.driver}`, import.meta.url));
  return ["--no-deprecation", script, JSON.stringify({ ...peer.order, ...order })];
}

/** One round of a peer that works in the process of its caller, from an empty queue. */
export async function runInProcess(
  prepared: PreparedPeer,
  sizes: PeerSizes,
  folder: string,
): Promise<Metrics> {
  const { packagesFolder: packages, service, node } = prepared;
  const address = service && await emptyStore(service, prepared);
  const args = driverArgs(prepared, { packages, address, folder, ...sizes });
  const before = service && serviceCpuMs(service);
  const memory = service && new MemoryWatch(service.pid);
  const { success, stdout, stderr } = await new Deno.Command(node, { args }).output();
  const service_mib = memory?.stop() ?? 0;
  const decoder = new TextDecoder();
  if (!success) throw new Error(`${prepared.peer.name} failed:\n${decoder.decode(stderr)}`);
  const metrics: Metrics = JSON.parse(decoder.decode(stdout).trim().split("\n").at(-1) ?? "");
  if (service === undefined || before === undefined) return metrics;
  const jobs = sizes.one_at_a_time + 2 * sizes.in_flight + sizes.pickups;
  return {
    ...metrics,
    service_cpu_ms: (serviceCpuMs(service) - before) / jobs,
    service_mib,
  };
}

/** A database, or the whole of Redis, with nothing in it. @returns how to reach it */
async function emptyStore(service: Service, { peer }: PreparedPeer): Promise<string> {
  if (peer.server === "redis") {
    const connection = await Deno.connect({ transport: "unix", path: service.address });
    await connection.write(new TextEncoder().encode("FLUSHALL\r\n"));
    await connection.read(new Uint8Array(64));
    connection.close();
    return service.address;
  }
  return await newDatabase(service);
}

/** Starts a peer that takes POST /jobs itself; its store is empty, since it is in memory. */
async function startHttpPeer(prepared: PreparedPeer): Promise<Contestant> {
  const args = driverArgs(prepared, { packages: prepared.packagesFolder });
  const process = new Deno.Command(prepared.node, { args, stdin: "piped", stdout: "piped" })
    .spawn();
  const reader = process.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.includes("\n")) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`${prepared.peer.name} ended before it listened`);
    text += value;
  }
  const { url, watch_url } = JSON.parse(text);
  return {
    url,
    watchUrl: watch_url,
    waits: false,
    pid: process.pid,
    ...await postWorkflows(url),
    stop: async () => {
      await process.stdin.close();
      await process.status;
      await reader.cancel();
    },
  };
}

/** One round of a peer over HTTP. */
export async function runHttpPeer(
  prepared: PreparedPeer,
  sizes: HttpPeerSizes,
  load: LoadGenerator,
): Promise<Metrics> {
  const contestant = await startHttpPeer(prepared);
  try {
    await warmUp(contestant, load, sizes.warmUp);
    const memory = new MemoryWatch(contestant.pid);
    const metrics = {
      ...await measureSingles(contestant, load, sizes.singles),
      ...await measureExecuted(contestant, load, 32, sizes.executed),
    };
    return { ...metrics, ...measureMemory(contestant), tree_peak_mib: memory.stop() };
  } finally {
    await contestant.stop();
  }
}

const LOOK_MS = 500;

/** The most memory that a process and those below it had, as far as looks now and then can tell. */
class MemoryWatch {
  readonly #pid: number;
  readonly #timer: ReturnType<typeof setInterval>;
  #mib = 0;

  constructor(pid: number) {
    this.#pid = pid;
    this.#timer = setInterval(() => this.#look(), LOOK_MS);
  }

  /** @returns the largest sum that was seen, shared pages counted once, MiB */
  stop(): number {
    clearInterval(this.#timer);
    this.#look();
    return this.#mib;
  }

  #look(): void {
    this.#mib = Math.max(this.#mib, treeMiB(this.#pid));
  }
}

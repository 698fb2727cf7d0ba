// The peers that zonewright is measured beside: what each one is, and how much of it one round does.

import type { Packages } from "./peer_install.ts";

/** Jobs of one round of a peer that works in the process of its caller. */
export interface PeerSizes {
  readonly one_at_a_time: number;
  readonly in_flight: number;
  readonly pickups: number;
  readonly pause_ms_max?: number;
}

/** Jobs of one round of a peer over HTTP. */
export interface HttpPeerSizes {
  readonly warmUp: number;
  readonly singles: number;
  readonly executed: number;
}

interface PeerBase {
  readonly name: string;
  /** As `--peers` has it; several peers may share it. */
  readonly option: string;
  /** What the measurements are of. */
  readonly about: string;
  readonly driver: string;
  readonly packages: Packages;
  /** As `major.minor`. */
  readonly nodeMinimum: string;
  readonly server?: "postgres" | "redis";
  /** Handed to the driver. */
  readonly order?: Readonly<Record<string, unknown>>;
}

export interface InProcessPeer extends PeerBase {
  readonly kind: "in process";
  readonly sizes: PeerSizes;
}

export interface HttpPeer extends PeerBase {
  readonly kind: "over HTTP";
  readonly sizes: HttpPeerSizes;
}

export type Peer = InProcessPeer | HttpPeer;

const PLAINJOB = { plainjob: "0.0.14", "better-sqlite3": "12.11.1" };
const PG = "8.23.1";

function plainjob(synchronous: "FULL" | "NORMAL"): InProcessPeer {
  return {
    kind: "in process",
    name: `plainjob ${synchronous}`,
    option: "plainjob",
    about: `plainjob 0.0.14, SQLite WAL synchronous=${synchronous}; in process, not isolated`,
    driver: "plainjob.mjs",
    packages: PLAINJOB,
    nodeMinimum: "20.0",
    order: { synchronous },
    // It polls once a second: the pause has to fall anywhere in that.
    sizes: { one_at_a_time: 3_000, in_flight: 3_000, pickups: 6, pause_ms_max: 1_000 },
  };
}

function nodeWorkflow(mode: "forked" | "tuned"): HttpPeer {
  const forked = mode === "forked";
  return {
    kind: "over HTTP",
    name: `node-workflow ${mode}`,
    option: "wf",
    about: forked
      ? "node-workflow 1.2.2, REST, store in memory; as it comes: a forked process per job"
      : "node-workflow 1.2.2, REST, store in memory; in process, 100 slots, polls every 10 ms",
    driver: "wf.mjs",
    packages: { wf: "1.2.2" },
    nodeMinimum: "20.0",
    order: { runner: forked ? {} : { do_fork: false, forks: 100, run_interval: 10 } },
    sizes: forked
      ? { warmUp: 5, singles: 8, executed: 40 }
      : { warmUp: 50, singles: 100, executed: 1_000 },
  };
}

export const PEERS: readonly Peer[] = [
  plainjob("FULL"),
  plainjob("NORMAL"),
  nodeWorkflow("forked"),
  nodeWorkflow("tuned"),
  {
    kind: "in process",
    name: "DBOS",
    option: "dbos",
    about: "DBOS Transact 5.3.0, PostgreSQL, queue polled every 10 ms; in process, not isolated",
    driver: "dbos.mjs",
    packages: { "@dbos-inc/dbos-sdk": "5.3.0", pg: PG },
    nodeMinimum: "20.0",
    server: "postgres",
    sizes: { one_at_a_time: 1_000, in_flight: 1_500, pickups: 100 },
  },
  {
    kind: "in process",
    name: "graphile-worker",
    option: "graphile-worker",
    about: "graphile-worker 0.18.0, PostgreSQL, local queue and batches; in process, not isolated",
    driver: "graphile_worker.mjs",
    packages: { "graphile-worker": "0.18.0", pg: PG },
    nodeMinimum: "22.18",
    server: "postgres",
    sizes: { one_at_a_time: 1_500, in_flight: 3_000, pickups: 100 },
  },
  {
    kind: "in process",
    name: "BullMQ",
    option: "bullmq",
    about: "BullMQ 6.7.0, Redis with snapshots only: not durable; in process, not isolated",
    driver: "bullmq.mjs",
    packages: { bullmq: "6.7.0", ioredis: "6.0.0" },
    nodeMinimum: "20.0",
    server: "redis",
    sizes: { one_at_a_time: 5_000, in_flight: 10_000, pickups: 200 },
  },
];

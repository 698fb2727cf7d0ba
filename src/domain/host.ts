// Hosts: what an agent registers about its host in a store, and facts about the agent and its host, as answers show
// them. Most facts come from programs of the host; see host/inventory.ts.

import { format } from "@std/fmt/bytes";
import {
  COUNT,
  FLAG,
  INSTANT,
  mapOf,
  NULLABLE_COUNT,
  NULLABLE_TEXT,
  orNull,
  type ShapeOf,
  TEXT,
  whole,
  wordOf,
} from "./description/answer.ts";
import type { HostUuid } from "./id.ts";
import { type Instant, msBetween } from "./instant.ts";
import type { Taking } from "./taking.ts";

/** What an agent registers at its start about itself and the host that it manages. */
export interface HostFacts extends Taking {
  /** Name of the managed host; several hosts may have the same one. */
  readonly name: string;
  /** Version of the agent. */
  readonly version: string;
  /** Names of the capabilities that its tasks may call. */
  readonly capabilities: readonly string[];
  /** Jobs that run at the same time. */
  readonly slots: number;
  /** Brands of the machines that it can create. */
  readonly brands: readonly string[];
  /** The URL where other agents reach it; null when they cannot. */
  readonly address: string | null;
  /** The key that verifies its calls to other agents, as domain/peer.ts writes it; null when it makes none. */
  readonly public_key: string | null;
}

/** A host that has registered in a store. */
export interface RegisteredHost extends HostFacts {
  readonly uuid: HostUuid;
  /** Starts of its agent so far. */
  readonly generation: number;
  /** When its agent was last heard from, by the store's clock. */
  readonly seen_at: Instant;
  /** How long after that it still counts as connected, milliseconds. */
  readonly lease_ms: number;
  /** Whether it claims no new jobs. */
  readonly cordoned: boolean;
  /** Whether it must not act at all until it is admitted again. */
  readonly forgotten: boolean;
}

/** Longest name of a host, characters. */
export const HOST_CHARS_MAX = 255;

/** States of a host. A cordoned host that is away counts as away. */
export const HOST_STATES = ["connected", "away", "cordoned", "forgotten"] as const;
/** One of HOST_STATES. */
export type HostState = typeof HOST_STATES[number];

/** The host of a job, as answers show it. */
export type JobHost = Pick<RegisteredHost, "uuid" | "name"> & { readonly state: HostState };

/** The state of a host. @param now by the store's clock */
export function hostState(
  host: Pick<RegisteredHost, "seen_at" | "lease_ms" | "cordoned" | "forgotten">,
  now: Instant,
): HostState {
  if (host.forgotten) return "forgotten";
  if (!isHeard(host, now)) return "away";
  return host.cordoned ? "cordoned" : "connected";
}

/** Whether the agent of a host was heard from within its lease. @param now by the store's clock */
export function isHeard(
  { seen_at, lease_ms }: Pick<RegisteredHost, "seen_at" | "lease_ms">,
  now: Instant,
): boolean {
  // A time in the future was written while the clock was ahead.
  return Math.abs(msBetween(seen_at, now)) < lease_ms;
}

/** What a host may claim: everything, nothing new, or nothing at all. */
export type Admission = "open" | "cordoned" | "forgotten";

/** The admission that a host's row stands for. */
export function admissionOf(
  { cordoned, forgotten }: Pick<RegisteredHost, "cordoned" | "forgotten">,
): Admission {
  if (forgotten) return "forgotten";
  return cordoned ? "cordoned" : "open";
}

/** Bytes in binary units, such as `631 MiB`. */
export function sizeText(bytes: number): string {
  const digits = bytes < 1024 ** 3 ? 0 : 1;
  // The prefix for 1024 is Ki; the library writes k, as for 1000.
  return format(bytes, { binary: true, maximumFractionDigits: digits }).replace("kiB", "KiB");
}

/** A size in bytes, for the shapes of answers. */
export const BYTES = { ...COUNT, description: "Bytes." };

/** Hardware and platform of a host. */
export const HOST_HARDWARE = whole(
  "Hardware and platform; null for what the host does not report.",
  {
    hostname: NULLABLE_TEXT,
    platform: { ...NULLABLE_TEXT, description: "Its version, such as `20260101T000000Z`." },
    cpu: { ...NULLABLE_TEXT, description: "The processor's name." },
    cpus: { ...NULLABLE_COUNT, description: "Logical processors." },
    ram_mib: { ...NULLABLE_COUNT, description: "Memory, MiB." },
    hvm: { ...orNull(FLAG), description: "Whether its processors can run machines." },
  },
);
/** The hardware of a host in the page of `GET /agent/v1/host`. */
export type HostHardware = ShapeOf<typeof HOST_HARDWARE>;

/** Space in the pool of the machines. */
export const HOST_POOL = whole("Space in the pool.", {
  name: TEXT,
  used_bytes: BYTES,
  free_bytes: BYTES,
});
/** The same as a type; sizes in bytes. */
export type HostPool = ShapeOf<typeof HOST_POOL>;

/** One of the walls around a guest. */
export const WALL = whole("A wall around tasks.", { name: TEXT, ok: FLAG, detail: TEXT });
/** A wall with whether it stands; `detail` says why not. */
export type Wall = ShapeOf<typeof WALL>;

/** How many walls stand, as a sentence: `1 of the 10 walls around tasks does not stand: user (it is root)`. */
export function wallsText(walls: readonly Wall[]): string {
  const open = walls.filter(({ ok }) => !ok);
  if (open.length === 0) return `all ${walls.length} walls stand`;
  const which = open.map(({ name, detail }) => `${name} (${detail})`).join(", ");
  const stand = open.length === 1 ? "does not stand" : "do not stand";
  return `${open.length} of the ${walls.length} walls around tasks ${stand}: ${which}`;
}

/** How many machines a host has, all of them and by state, as `vmadm list` showed them last. */
export const MACHINE_COUNTS = whole("Numbers of machines.", {
  total: COUNT,
  by_state: { ...mapOf(COUNT), description: "By vmadm's word for the state." },
});
/** The numbers of one reading of `vmadm list`. */
export type MachineCounts = ShapeOf<typeof MACHINE_COUNTS>;

/** The disk of the state folder. */
export const DISK_ROOM = whole("Space on a disk.", {
  folder: TEXT,
  free_bytes: { ...NULLABLE_COUNT, description: "Null where the system does not say." },
});
/** A folder, and the bytes that are free on its disk. */
export type DiskRoom = ShapeOf<typeof DISK_ROOM>;

/** Facts that do not change while the agent runs. */
export const AGENT_FACTS = {
  name: { ...TEXT, description: "Of the managed host." },
  mode: wordOf(["local", "simulated", "ssh"]),
  version: { ...TEXT, description: "Of the agent." },
  commit: { ...NULLABLE_TEXT, description: "What the agent was built from; null from source." },
  runtime: TEXT,
  target: { ...TEXT, description: "The platform that the agent was built for." },
  pid: { ...COUNT, minimum: 1 },
  started_at: INSTANT,
};
/** The values of AGENT_FACTS. */
export type AgentFacts = {
  readonly [Name in keyof typeof AGENT_FACTS]: ShapeOf<typeof AGENT_FACTS[Name]>;
};

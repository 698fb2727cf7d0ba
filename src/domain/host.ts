// Facts about the agent and its host. Most of them come from programs of the host; see host/inventory.ts.

import type { Instant } from "./instant.ts";

/** Hardware and platform of a host; null for what is unknown. */
export interface HostHardware {
  readonly hostname: string | null;
  /** The version of the platform, such as `20260101T000000Z`. */
  readonly platform: string | null;
  readonly cpu: string | null;
  /** Logical processors. */
  readonly cpus: number | null;
  /** Memory, MiB. */
  readonly ram_mib: number | null;
  /** Whether its processors can run machines. */
  readonly hvm: boolean | null;
}

/** Room in the pool of the machines, bytes. */
export interface HostPool {
  readonly name: string;
  readonly used_bytes: number;
  readonly free_bytes: number;
}

/** One of the walls around a guest. */
export interface Wall {
  readonly name: string;
  readonly ok: boolean;
  readonly detail: string;
}

/** Which walls stand, in words: `1 of the 10 walls around tasks does not stand: user (it is root)`. */
export function wallsText(walls: readonly Wall[]): string {
  const open = walls.filter(({ ok }) => !ok);
  if (open.length === 0) return `all ${walls.length} walls stand`;
  const which = open.map(({ name, detail }) => `${name} (${detail})`).join(", ");
  const stand = open.length === 1 ? "does not stand" : "do not stand";
  return `${open.length} of the ${walls.length} walls around tasks ${stand}: ${which}`;
}

/** Numbers of machines by vmadm's word for their state. */
export interface MachineCounts {
  readonly total: number;
  readonly by_state: Readonly<Record<string, number>>;
}

/** The disk of the state folder. */
export interface DiskRoom {
  readonly folder: string;
  /** Null where the system does not say. */
  readonly free_bytes: number | null;
}

/** What does not change while the agent runs. */
export interface AgentFacts {
  /** Of the managed host. */
  readonly name: string;
  readonly mode: "local" | "simulated" | "ssh";
  readonly version: string;
  readonly commit: string | null;
  readonly runtime: string;
  readonly target: string;
  readonly pid: number;
  readonly started_at: Instant;
}

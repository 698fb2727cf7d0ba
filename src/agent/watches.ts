// Watches the host in the background: free space on the disk, the walls around guests and the states of machines are
// reported as events when they change.

import { type EventPayload, ownText } from "../domain/event.ts";
import { sizeText, type Wall, wallsText } from "../domain/host.ts";
import type { MachineUuid } from "../domain/id.ts";
import type { JsonObject } from "../domain/json.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";
import { FREE_BYTES_MIN, type FreeBytes } from "../mirror/media/disk.ts";
import type { EventStore } from "../store/event_store.ts";
import type { Emit } from "./shared_parts.ts";

/** Milliseconds between two checks of the disk. */
const DISK_LOOK_MS = 5_000;
/** Space above the reserve at which the disk counts as fine again, so that small writes cause no events. */
const FINE_AGAIN_BYTES = 16 * 1024 * 1024;
/** Milliseconds between two lists of the machines while events are being read. */
const MACHINES_LOOK_MS = 30_000;

/** Stores an event about the agent or its host. */
export type EmitHost = (change: EventPayload<"host">["change"], detail: string) => Promise<void>;

/**
 * Compares the free space of the disk with the reserve.
 * @returns makes one check; to be called regularly
 */
export function diskLook(
  { folder, freeBytes, emit }: {
    readonly folder: string;
    readonly freeBytes: FreeBytes;
    readonly emit: EmitHost;
  },
): () => Promise<void> {
  let low = false;
  return async () => {
    const free = await freeBytes(folder);
    const isLow = free < FREE_BYTES_MIN + (low ? FINE_AGAIN_BYTES : 0);
    if (isLow === low) return;
    low = isLow;
    const room = `${sizeText(free)} are free at ${folder}`;
    const words = low ? `${room}, expected ${sizeText(FREE_BYTES_MIN)}` : room;
    await emit(low ? "disk_low" : "disk_fine", words);
  };
}

/** Compares the walls with those of the previous check. The first check reports only missing ones. */
export function wallsLook(emit: EmitHost): (walls: readonly Wall[]) => Promise<void> {
  let before = "";
  return async (walls) => {
    const now = walls.filter(({ ok }) => !ok).map(({ name }) => name).join(", ");
    if (now === before) return;
    before = now;
    await emit("walls_changed", wallsText(walls));
  };
}

/** A machine as a list shows it. */
interface SeenMachine {
  readonly alias: string | null;
  readonly state: string;
}

/**
 * Compares each list of the machines with the previous one, for any caller. The first causes no event.
 * @returns the same vmadm
 */
export function withSeenStates(vmadm: Vmadm, emit: Emit): Vmadm {
  let seen: ReadonlyMap<string, SeenMachine> | undefined;
  let begun = 0;
  let compared = 0;
  const compare = (machines: readonly JsonObject[]) => {
    const now = new Map(machines.map((machine) => [String(machine.uuid), seenMachine(machine)]));
    const before = seen;
    seen = now;
    if (before === undefined) return;
    for (const [uuid, { alias, state }] of now) {
      if (before.get(uuid)?.state !== state) emitState(emit, uuid, alias, state);
    }
    for (const [uuid, { alias }] of before) {
      if (!now.has(uuid)) emitState(emit, uuid, alias, null);
    }
  };
  return {
    ...vmadm,
    async list(o) {
      begun += 1;
      const turn = begun;
      const machines = await vmadm.list(o);
      // A list that began before the one compared last is older, so it is ignored.
      if (turn > compared) {
        compared = turn;
        compare(machines);
      }
      return machines;
    },
  };
}

function seenMachine({ alias, state }: JsonObject): SeenMachine {
  return {
    alias: typeof alias === "string" ? ownText(alias) : null,
    state: typeof state === "string" ? ownText(state) : "unknown",
  };
}

function emitState(emit: Emit, uuid: string, alias: string | null, state: string | null): void {
  // vmadm's parser has checked it.
  const machine_uuid = uuid as MachineUuid;
  const payload = { change: "state", machine_uuid, alias, machine_state: state } as const;
  void emit({ kind: "own_machine", payload });
}

/** Counts the readers of live events. */
export function withFollowers(
  events: EventStore,
): { readonly events: EventStore; readonly followed: () => boolean } {
  let followers = 0;
  return {
    events: {
      ...events,
      follow(committed) {
        const unfollow = events.follow(committed);
        followers += 1;
        return () => {
          followers -= 1;
          unfollow();
        };
      },
    },
    followed: () => followers > 0,
  };
}

interface HostLooks {
  readonly disk: () => Promise<void>;
  /** Lists the machines, which reports what has changed. */
  readonly machines: () => Promise<unknown>;
  /** Whether events are being read; otherwise the host is spared the work of listing. */
  readonly followed: () => boolean;
}

/** Checks regularly. @returns stops that, after the check in progress */
export function watchHost({ disk, machines, followed }: HostLooks): () => Promise<void> {
  // The first checks come later, because other work and the event about the start come first.
  let looking: Promise<unknown> = Promise.resolve();
  const disks = setInterval(() => looking = disk(), DISK_LOOK_MS);
  const lists = setInterval(() => {
    if (followed()) void machines();
  }, MACHINES_LOOK_MS);
  return async () => {
    clearInterval(disks);
    clearInterval(lists);
    await looking;
  };
}

// What /readyz checks: store, disk, guests, host and index.

import { type Admission, sizeText } from "../domain/host.ts";
import { MS_PER_SECOND, msBetween } from "../domain/instant.ts";
import type { JsonObject } from "../domain/json.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";
import { type KeptReading, keptReading } from "../http/answer/cached_reading.ts";
import {
  openReadiness,
  type ReadinessCheck,
  type ReadinessFinding,
  type ReadinessReport,
} from "../http/routes/monitoring.ts";
import { FREE_BYTES_MIN, type FreeBytes } from "../mirror/media/disk.ts";
import type { Runner } from "../runner/runner.ts";
import type { ProgramFile } from "../runtime/executable.ts";
import type { GuestPool } from "../sandbox/pool.ts";
import type { Store } from "../store/store.ts";
import type { SharedParts } from "./shared_parts.ts";

/** Time for a write with its sync; a slower disk delays every caller. */
const STORE_DEADLINE_MS = 5_000;
const STORE_KEEP_MS = 2_000;
const DISK_DEADLINE_MS = 5_000;
const DISK_KEEP_MS = 5_000;
const GUESTS_DEADLINE_MS = 5_000;
const GUESTS_KEEP_MS = 2_000;
/** vmadm takes seconds on a host with many machines, and uses the host's processors. */
const HOST_DEADLINE_MS = 10_000;
const HOST_KEEP_MS = 30_000;
/** A console that shows the number of machines may stay open all day. */
const LIST_KEEP_MS = 10_000;
const INDEX_DEADLINE_MS = 5_000;
const INDEX_KEEP_MS = 2_000;
/** Missed syncs after which the index counts as old. */
const SYNCS_MISSED_MAX = 3;

/** The list of the host's machines, kept for a while. */
export type MachineList = () => Promise<KeptReading<readonly JsonObject[]>>;

/** Lists the machines for monitoring. */
export function openMachineList(
  { now }: Pick<SharedParts, "now">,
  vmadm: Pick<Vmadm, "list">,
): MachineList {
  const look = (signal: AbortSignal) => vmadm.list({ signal });
  return keptReading(
    { keepMs: LIST_KEEP_MS, deadlineMs: HOST_DEADLINE_MS, look },
    { now, monotonicMs: () => performance.now() },
  );
}

interface ReadinessPlaces {
  readonly store: Store;
  readonly machines: MachineList;
  readonly stateDir: string;
  readonly runner: Pick<Runner, "admission">;
  readonly guests: Pick<GuestPool, "startProblem">;
  /** See rememberProgramFile(). */
  readonly program: () => Promise<ProgramFile>;
  readonly freeBytes: FreeBytes;
}

/** The checks behind `/readyz`, each bounded in time and cached for a while. */
export function openAgentReadiness(
  context: Pick<SharedParts, "config" | "now">,
  places: ReadinessPlaces,
): () => Promise<ReadinessReport> {
  const checks = {
    store: storeCheck(places),
    disk: diskCheck(places),
    guests: guestsCheck(places),
    host: hostCheck(places),
    admission: admissionCheck(places),
    index: indexCheck(context, places),
  };
  return openReadiness(checks, { now: context.now, monotonicMs: () => performance.now() });
}

/** Makes a normal write with its sync. */
function storeCheck({ store }: ReadinessPlaces): ReadinessCheck {
  return {
    keepMs: STORE_KEEP_MS,
    deadlineMs: STORE_DEADLINE_MS,
    async look() {
      await store.measures.check();
      return { status: "ok", detail: "a write was committed" };
    },
  };
}

function diskCheck({ stateDir, freeBytes }: ReadinessPlaces): ReadinessCheck {
  return {
    keepMs: DISK_KEEP_MS,
    deadlineMs: DISK_DEADLINE_MS,
    async look() {
      const free = await freeBytes(stateDir);
      if (free === Number.POSITIVE_INFINITY) {
        return { status: "ok", detail: "this system does not report it" };
      }
      const detail = `${sizeText(free)} free`;
      if (free >= FREE_BYTES_MIN) return { status: "ok", detail };
      const shortage = `${detail}, expected ${sizeText(FREE_BYTES_MIN)}`;
      return { status: "failed", detail: shortage };
    },
  };
}

/** Guests start from the file of this program. Those that run go on without it. */
function guestsCheck({ guests, program }: ReadinessPlaces): ReadinessCheck {
  return {
    keepMs: GUESTS_KEEP_MS,
    deadlineMs: GUESTS_DEADLINE_MS,
    async look() {
      const { file, state } = await program();
      const why = state === "removed" ? `${file} was removed` : guests.startProblem;
      if (why !== undefined) return { status: "failed", detail: `guests do not start: ${why}` };
      if (state === "same") return { status: "ok", detail: "guests start" };
      const detail = `${file} was replaced: restart the agent, so that guests are of its version`;
      return { status: "warn", detail };
    },
  };
}

function hostCheck({ machines }: ReadinessPlaces): ReadinessCheck {
  return {
    keepMs: HOST_KEEP_MS,
    deadlineMs: HOST_DEADLINE_MS,
    async look() {
      const listed = await machines();
      if (listed.error !== null) return { status: "failed", detail: listed.error };
      return { status: "ok", detail: `vmadm answers: ${listed.value.length} machines` };
    },
  };
}

/** What the host may claim, by the latest answer to its runner. */
function admissionCheck({ runner }: ReadinessPlaces): ReadinessCheck {
  return {
    keepMs: 0,
    deadlineMs: HOST_DEADLINE_MS,
    look: () => Promise.resolve(ADMISSION_FINDINGS[runner.admission]),
  };
}

const ADMISSION_FINDINGS: Readonly<Record<Admission, ReadinessFinding>> = {
  open: { status: "ok", detail: "the host takes jobs" },
  cordoned: { status: "warn", detail: "the host is cordoned: it claims nothing new" },
  forgotten: {
    status: "failed",
    detail: "the host was forgotten: it acts on nothing until it is uncordoned",
  },
};

/** An old index is still served, as promised; a missing one cannot be served. */
function indexCheck(
  { config, now }: Pick<SharedParts, "config" | "now">,
  { store }: ReadinessPlaces,
): ReadinessCheck {
  return {
    keepMs: INDEX_KEEP_MS,
    deadlineMs: INDEX_DEADLINE_MS,
    async look() {
      if (config.index.value === null && !config.dev.value) {
        return { status: "ok", detail: "no upstream is configured" };
      }
      const compared = (await store.index.lastSync())?.compared_at;
      if (compared === undefined) {
        return { status: "failed", detail: "never compared with its upstream" };
      }
      const ageSeconds = Math.max(Math.round(msBetween(compared, now()) / MS_PER_SECOND), 0);
      const interval = config.index_interval.value;
      const detail = `compared with its upstream ${ageSeconds} s ago`;
      if (interval === 0 || ageSeconds <= interval * SYNCS_MISSED_MAX) {
        return { status: "ok", detail };
      }
      return { status: "warn", detail: `${detail}, expected every ${interval} s` };
    },
  };
}

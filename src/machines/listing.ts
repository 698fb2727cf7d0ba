// The list of machines: those of this host as vmadm reports them, those that other hosts have reported, and those that jobs
// are about to create. Whatever the number of hosts, a page of it is a few reads of the store.

import { undefinedWhileAway } from "../domain/error.ts";
import type { HostUuid } from "../domain/id.ts";
import { msBetween } from "../domain/instant.ts";
import type { JsonObject } from "../domain/json.ts";
import type { MachineFilter, MachineJob, MachinePage } from "../store/machine_store.ts";
import type { MachineReportStore } from "../store/report_store.ts";
import {
  historiesOf,
  type HistoriesOnly,
  type MachineHistory,
  staleHistory,
  WORKFLOWS,
} from "./history.ts";

/** Where a machine is, and how old that information is. */
interface MachinePlace {
  readonly host: HostUuid;
  /** The name of the host. */
  readonly name: string;
  /** Milliseconds; null while there is only a job. */
  readonly ageMs: number | null;
}

/** A machine of a host, or the job that is about to create one. */
export interface ListedMachine {
  readonly uuid: string;
  /** Undefined where no host is known. */
  readonly place: MachinePlace | undefined;
  /** Null while there is only a job. */
  readonly machine: JsonObject | null;
  readonly history: MachineHistory;
}

interface MachineReading {
  readonly machines: readonly JsonObject[];
  readonly ageMs: number;
}

/** Reads the machines of the host. @param maxAgeMs 0 asks vmadm */
export type ReadMachines = (maxAgeMs: number) => Promise<MachineReading>;

/** Most machines in a list that is kept for later requests; a longer one would take too much memory. */
const KEPT_MAX = 2_000;

/**
 * Asks vmadm for the machines and keeps its latest answer for display only: vmadm takes seconds on a host
 * with hundreds of machines. If vmadm fails, the kept answer is not used instead.
 */
export function openMachineReading(
  vmadm: { list(options: { detailed: true }): Promise<JsonObject[]> },
  monotonicMs: () => number,
): ReadMachines {
  let kept: { readonly machines: readonly JsonObject[]; readonly atMs: number } | undefined;
  return async (maxAgeMs) => {
    if (kept !== undefined && maxAgeMs > 0) {
      const ageMs = monotonicMs() - kept.atMs;
      if (ageMs <= maxAgeMs) return { machines: kept.machines, ageMs };
    }
    // Taken before the call: the answer may be as old as the question.
    const atMs = monotonicMs();
    const machines = await vmadm.list({ detailed: true });
    // Of two concurrent calls, the one that started later is kept.
    if (kept === undefined || kept.atMs <= atMs) {
      kept = machines.length <= KEPT_MAX ? { machines, atMs } : undefined;
    }
    return { machines, ageMs: 0 };
  };
}

type PlacedMachines = readonly {
  readonly machine: JsonObject;
  readonly place: MachinePlace;
}[];

/** Where a list of machines comes from. */
interface MachineSources {
  readonly store: HistoriesOnly;
  /** Of this host; none when the filter names another one. */
  readonly own: PlacedMachines;
  /** Of the other hosts; undefined when there are none, or when the filter names this host. */
  readonly reports: Pick<MachineReportStore, "list"> | undefined;
}

/** A page of machines, and how many there are on all pages. */
interface MachineListing {
  readonly listed: readonly ListedMachine[];
  readonly count: number;
  /** Whether machines are missing that only the database knows, because it is away. */
  readonly stale: boolean;
}

/** The state of a machine that exists only as a job. */
export const ABSENT = "absent";

/**
 * Lists the machines of this host, then those that other hosts have reported, then those that jobs are about to
 * create. If two have the same uuid, the first one counts.
 * @throws {AgentError} of the store, unless it is away
 */
export async function listAllMachines(
  filter: MachineFilter,
  { limit, offset }: { readonly limit: number; readonly offset: number },
  { store, own, reports }: MachineSources,
): Promise<MachineListing> {
  const fits = fitting(filter);
  const first = Map.groupBy(own, ({ machine }) => machine.uuid);
  const matching = [...first.values()].flatMap(([one]) => one ?? []).filter(({ machine }) =>
    fits(machine)
  );
  const here = matching.slice(offset, offset + limit);
  const without = [...first.keys()].map(String);
  /** The rest of the page, given how many machines matched so far and which of them are on the page. */
  const after = (count: number, shown: readonly unknown[]) => ({
    limit: limit - shown.length,
    offset: Math.max(offset - count, 0),
    without,
  });
  const others = after(matching.length, here);
  const reported =
    await (reports === undefined
      ? { machines: [], count: 0 }
      : undefinedWhileAway(reportedBy(reports, filter, others)));
  if (reported === undefined) {
    const listed = here.map((one) => listedMachine(one, staleHistory(one.machine)));
    return { listed, count: matching.length, stale: true };
  }
  const found = [...here, ...reported.machines];
  const known = matching.length + reported.count;
  const making = await (filter.state === undefined || filter.state === ABSENT
    ? undefinedWhileAway(
      store.machineHistories.making(WORKFLOWS.make, filter, after(known, found)),
    )
    : { jobs: [], count: 0 });
  const histories = await historiesOf(found, store);
  const listed = found.flatMap((one, index) => {
    const history = histories[index];
    return history === undefined ? [] : [listedMachine(one, history)];
  });
  return {
    listed: [...listed, ...(making?.jobs ?? []).map(madeBy)],
    count: known + (making?.count ?? 0),
    stale: making === undefined || histories.some(({ stale }) => stale),
  };
}

async function reportedBy(
  reports: Pick<MachineReportStore, "list">,
  filter: MachineFilter,
  page: MachinePage,
): Promise<{ readonly machines: PlacedMachines; readonly count: number }> {
  const { now, machines, count } = await reports.list(filter, page);
  const placed = machines.map(({ machine, host, name, reported_at }) => {
    return { machine, place: { host, name, ageMs: Math.max(msBetween(reported_at, now), 0) } };
  });
  return { machines: placed, count };
}

function listedMachine(
  { machine, place }: PlacedMachines[number],
  history: MachineHistory,
): ListedMachine {
  return { uuid: String(machine.uuid), place, machine, history };
}

/** A machine that exists only as a job. */
function madeBy(job: MachineJob): ListedMachine {
  const history = { job, media: [], stale: false };
  return { uuid: job.machine_uuid, place: placeOfJob(job), machine: null, history };
}

/** The host that runs the job of a machine that is not there yet. */
export function placeOfJob({ host_uuid, host }: MachineJob): MachinePlace | undefined {
  return host_uuid === null ? undefined : { host: host_uuid, name: host ?? host_uuid, ageMs: null };
}

/** Makes the check whether vmadm's description of a machine fits a filter. */
function fitting(filter: MachineFilter): (machine: JsonObject) => boolean {
  const wanted = (["state", "brand", "alias"] as const).flatMap((name) => {
    const value = filter[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return (machine) => wanted.every(([name, value]) => machine[name] === value);
}

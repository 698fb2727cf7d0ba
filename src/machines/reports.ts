// The reports of this host's machines to the shared store, from which the other hosts list them.

import type { JsonObject } from "../domain/json.ts";
import { MACHINE_REPORT_MS, reportedMachine } from "../domain/machine/shown.ts";
import type { Log } from "../metrics/log.ts";
import { type Notifier } from "../runtime/notifier.ts";
import { pause } from "../runtime/wait.ts";
import type { MachineReportStore } from "../store/report_store.ts";

/** Milliseconds from a change to its report, so that further changes share it. */
const SETTLE_MS = 500;
/** After so many reports everything is reported again: the database may have been restored from a backup. */
const WHOLE_EVERY = 60;
/** Most machines that one host reports. */
const MACHINES_MAX = 2_000;

interface ReportOptions {
  readonly reports: Pick<MachineReportStore, "report">;
  readonly vmadm: { list(o: { detailed: true; signal: AbortSignal }): Promise<JsonObject[]> };
  /** Fires when a machine has changed. */
  readonly changed: Pick<Notifier, "wait">;
  readonly log: Log;
}

/**
 * Reports the machines of this host to the shared store. vmadm takes seconds on a host with hundreds of machines, so it
 * is asked from time to time, and soon after a job has changed a machine. Only differences from the last report are
 * written, with the time of the look.
 * @returns ends the reports, after the one in progress
 */
export function reportMachines(
  { reports, vmadm, changed, log }: ReportOptions,
): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const { signal } = stopping;
  /** What the store has, by uuid; undefined when unknown. */
  let reported: ReadonlyMap<string, string> | undefined;
  let left = 0;
  let count = 0;
  const report = async () => {
    const all = await vmadm.list({ detailed: true, signal });
    const machines = all.slice(0, MACHINES_MAX).map(reportedMachine);
    if (all.length - machines.length !== left) {
      left = all.length - machines.length;
      log.warn("machines not reported", { count: left, maximum: MACHINES_MAX });
    }
    const before = count++ % WHOLE_EVERY === 0 ? undefined : reported;
    // If the write fails, the next report is complete.
    reported = undefined;
    const now = new Map(machines.map((one) => [String(one.uuid), JSON.stringify(one)]));
    await reports.report({
      machines: machines.filter(({ uuid }) => before?.get(String(uuid)) !== now.get(String(uuid))),
      gone: before === undefined ? null : [...before.keys()].filter((uuid) => !now.has(uuid)),
    });
    reported = now;
  };
  const loop = (async () => {
    while (!signal.aborted) {
      await report().catch((error: unknown) => {
        if (!signal.aborted) log.warn("machines not reported", { error });
      });
      await changed.wait(MACHINE_REPORT_MS, signal);
      await pause(SETTLE_MS, signal);
    }
  })();
  return {
    async stop() {
      stopping.abort();
      await loop;
    },
  };
}

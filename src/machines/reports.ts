// Reports the machines of this host to the store that hosts share, so that any agent lists them all. vmadm takes seconds on
// a host with hundreds of machines, so it is asked now and then, and soon after a job has changed one. Only what differs
// from the last report is written, and that the host has looked.

import type { JsonObject } from "../domain/json.ts";
import { reportedMachine } from "../domain/machine/shown.ts";
import type { Log } from "../metrics/log.ts";
import { type Notifier, pause } from "../runtime/waiting.ts";
import type { MachineReportStore } from "../store/machine_report_store.ts";

/** Milliseconds between two reports while nothing is known to have changed. */
const REPORT_MS = 60_000;
/** Milliseconds from a change to its report, in which others may follow. */
const SETTLE_MS = 500;
/** Reports after which all is reported again: the database may have been restored from a backup. */
const WHOLE_EVERY = 60;
/** Machines of one host that are reported. */
const MACHINES_MAX = 2_000;

interface ReportOptions {
  readonly reports: Pick<MachineReportStore, "report">;
  readonly vmadm: { list(o: { detailed: true; signal: AbortSignal }): Promise<JsonObject[]> };
  /** Says that a machine has changed. */
  readonly changed: Pick<Notifier, "wait">;
  readonly log: Log;
}

/** Starts to report. @returns ends that, after the report in progress */
export function reportMachines(
  { reports, vmadm, changed, log }: ReportOptions,
): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const { signal } = stopping;
  /** What the store has, by uuid; undefined when that is not known. */
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
    // Should the write fail, the next report is whole.
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
      await changed.wait(REPORT_MS, signal);
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

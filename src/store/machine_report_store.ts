// What the hosts of a shared store last reported of their machines, so that any agent lists them all and knows whom to
// ask about one. It is for display and for finding the host, which alone acts on its machines.

import type { HostUuid, MachineUuid } from "../domain/id.ts";
import type { Instant } from "../domain/instant.ts";
import type { JsonObject } from "../domain/json.ts";
import type { ListedHost } from "./host_store.ts";
import type { MachineFilter, MachinePage } from "./history_store.ts";

/** A change of what a host reports. */
export interface MachineReport {
  /** Machines that are new or have changed, each as reportedMachine() makes it. */
  readonly machines: readonly JsonObject[];
  /** Machines that are gone; null when `machines` are all that there are. */
  readonly gone: readonly string[] | null;
}

/** A machine as its host last reported it. */
interface ReportedMachine {
  readonly host: HostUuid;
  /** The name of the host. */
  readonly name: string;
  /** When its host last looked at its machines. */
  readonly reported_at: Instant;
  readonly machine: JsonObject;
}

/** The hosts of the store at one time. */
export interface HostReading {
  /** By the store's clock. */
  readonly now: Instant;
  readonly hosts: readonly ListedHost[];
}

/** A page of machines. */
export interface ReportedMachines extends Pick<HostReading, "now"> {
  readonly machines: readonly ReportedMachine[];
  /** How many there are on all pages. */
  readonly count: number;
}

/** The reports. Every call may be repeated after its answer was lost. */
export interface MachineReportStore {
  /** Writes what has changed on this host, and that it has looked. */
  report(report: MachineReport): Promise<void>;
  /**
   * The machines of other hosts that are not forgotten, by the names of the hosts. Of two with one uuid the first
   * counts.
   */
  list(filter: MachineFilter, page: MachinePage): Promise<ReportedMachines>;
  /** The hosts, to find the one that a name stands for or that has signed a call. */
  hosts(): Promise<HostReading>;
  /**
   * The host that has a machine, or whose unfinished job makes it: this one if it does; undefined when no host is
   * known to.
   */
  ownerOf(uuid: MachineUuid): Promise<HostUuid | undefined>;
}

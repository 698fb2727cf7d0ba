// What the hosts of a shared store report about their machines, for the other hosts.

import type { HostUuid, MachineUuid } from "../domain/id.ts";
import type { Instant } from "../domain/instant.ts";
import type { JsonObject } from "../domain/json.ts";
import type { ListedHost } from "./host_store.ts";
import type { MachineFilter, MachinePage } from "./machine_store.ts";

/** The differences since a host's last report. */
export interface MachineReport {
  /** New and changed machines, as reportedMachine() makes them. */
  readonly machines: readonly JsonObject[];
  /** Uuids of machines that no longer exist; null when `machines` is complete. */
  readonly gone: readonly string[] | null;
}

/** A machine as its host last reported it. */
interface ReportedMachine {
  readonly host: HostUuid;
  /** The name of the host. */
  readonly name: string;
  /** When the host last looked at its machines. */
  readonly reported_at: Instant;
  readonly machine: JsonObject;
}

/** All hosts at one moment. */
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

/**
 * What the hosts of a shared store last reported about their machines, so that any agent can list them all and find the
 * host of one. Only that host acts on its machines. Every call may be repeated after its answer was lost.
 */
export interface MachineReportStore {
  /** Writes the differences on this host, and the time of its look. */
  report(report: MachineReport): Promise<void>;
  /**
   * Machines of other hosts that are not forgotten, ordered by the names of the hosts. If two have one uuid, the
   * first counts.
   */
  list(filter: MachineFilter, page: MachinePage): Promise<ReportedMachines>;
  /** The hosts, to find one by name, or the one that signed a call. */
  hosts(): Promise<HostReading>;
  /**
   * The host that has a machine, or whose unfinished job makes it: this host if it does; undefined when no host is
   * known to.
   */
  ownerOf(uuid: MachineUuid): Promise<HostUuid | undefined>;
}

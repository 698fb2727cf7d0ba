// Limits how many host programs run at the same time for tasks and callers. A call about a machine
// is a process of vmadm; a task may have 32 calls under way, and 256 requests may arrive at once.
// Without a limit each would start as many processes, and starve the host and the agent.

import { openTurns, type Turns } from "../host/turns.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";

/**
 * Concurrent lookups of machines, for all tasks together and for all callers together: each is one
 * short process.
 */
export const READS_AT_ONCE = 6;
/**
 * With more slots each has a lookup of its own, so that no job waits for others; with many slots
 * they share.
 */
export const READS_AT_ONCE_MAX = 16;
/**
 * Concurrent machine changes of one execution. Not of all executions together: a change may take
 * minutes, and another job's undo must not wait for it.
 */
export const CHANGES_AT_ONCE = 4;

/** The limit on one execution's machine changes. */
export function openChangeTurns(): Turns {
  return openTurns(CHANGES_AT_ONCE);
}

/**
 * vmadm with limited lookups; its other methods are unchanged.
 * @param slots concurrent jobs
 */
export function withReadTurns(vmadm: Vmadm, slots: number): Vmadm {
  const turns = openTurns(Math.min(Math.max(slots, READS_AT_ONCE), READS_AT_ONCE_MAX));
  return {
    ...vmadm,
    get: (uuid, o = {}) =>
      turns.take(`Cannot look at machine ${uuid}`, o.signal, () => vmadm.get(uuid, o)),
    list: (o = {}) => turns.take("Cannot list the machines", o.signal, () => vmadm.list(o)),
    validateCreate: (payload, o = {}) =>
      turns.take("Cannot check the payload", o.signal, () => vmadm.validateCreate(payload, o)),
    infoVnc: (uuid, o = {}) =>
      turns.take(`Cannot look up the console of ${uuid}`, o.signal, () => vmadm.infoVnc(uuid, o)),
    vncConsole: (uuid, o = {}) =>
      turns.take(
        `Cannot look up the console of ${uuid}`,
        o.signal,
        () => vmadm.vncConsole(uuid, o),
      ),
  };
}

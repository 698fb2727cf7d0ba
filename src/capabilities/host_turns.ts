// How many programs of the host tasks, and callers, may have running at the same time. A call of a
// machine is a process of vmadm; a task may have 32 calls under way, and 256 requests may: without
// turns, one of them would start as many processes at once, and the host, the agent included, would do
// nothing else.

import { openTurns, type Turns } from "../host/turns.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";

/** Looks at machines, of all tasks together or of all callers, whatever the number of slots: each is one short process. */
export const READS_AT_ONCE = 6;
/** With more slots each has a look of its own, so that no job waits for others; with many they take turns. */
export const READS_AT_ONCE_MAX = 16;
/**
 * Changes of machines of one execution. Not of all together: a change may take minutes, for which
 * the undoing of another job must not wait.
 */
export const CHANGES_AT_ONCE = 4;

/** The turns in which one execution changes machines. */
export function openChangeTurns(): Turns {
  return openTurns(CHANGES_AT_ONCE);
}

/**
 * vmadm with turns for what only looks; its other methods are as they were.
 * @param slots Jobs that run at the same time
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
      turns.take(`Cannot ask for the console of ${uuid}`, o.signal, () => vmadm.infoVnc(uuid, o)),
    vncConsole: (uuid, o = {}) =>
      turns.take(
        `Cannot ask for the console of ${uuid}`,
        o.signal,
        () => vmadm.vncConsole(uuid, o),
      ),
  };
}

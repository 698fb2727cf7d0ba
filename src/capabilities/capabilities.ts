// All capabilities together, as run_task.ts calls them on behalf of one execution of a task. Here a
// name becomes a capability, calls are counted, each gets its deadline, and what it throws becomes
// something that a task may read.

import { AgentError, messageOf } from "../domain/error.ts";
import type { Now } from "../domain/instant.ts";
import type { Policy } from "../domain/policy.ts";
import type { Transport } from "../host/transport.ts";
import type { Vmadm } from "../host/vmadm.ts";
import type { Log } from "../log.ts";
import type { Mirror } from "../mirror/mirror.ts";
import { CALLS_IN_FLIGHT_MAX, type CapabilityName } from "../sandbox/protocol.ts";
import type { Perform } from "../sandbox/run_task.ts";
import type { Store } from "../store/store.ts";
import { type Capability, type TaskContext, withDeadline } from "./capability.ts";
import { openFoundMedia } from "./found_media.ts";
import { imagesCapabilities } from "./images.ts";
import { infoCapabilities, openNotes, openProgress } from "./info.ts";
import { logCapabilities } from "./log.ts";
import { mediaCapabilities } from "./media.ts";
import { vmadmCapabilities } from "./vmadm.ts";
import { vncCapabilities } from "./vnc.ts";

/** Calls of one execution of a task. Polling once a second for a day needs as many. */
const CALLS_MAX = 100_000;

/** What the capabilities work with; the same for every task. */
export interface CapabilityDeps {
  readonly vmadm: Vmadm;
  readonly transport: Transport;
  readonly mirror: Mirror;
  readonly store: Store;
  readonly policy: Policy;
  /** Absolute folders from which media may be taken by path. */
  readonly mediaDirs: readonly string[];
  readonly log: Log;
  readonly now: Now;
}

/**
 * Opens the capabilities.
 * @returns makes what one execution of a task may call
 * @see docs/tasks.md
 */
export function openCapabilities(deps: CapabilityDeps): (context: TaskContext) => Perform {
  const found = openFoundMedia();
  // The compiler refuses the table while a name of the protocol is missing.
  const table: Readonly<Record<CapabilityName, Capability>> = {
    ...vmadmCapabilities(deps.vmadm, deps.policy),
    ...mediaCapabilities({ ...deps, found }),
    ...imagesCapabilities(deps.mirror, found),
    ...vncCapabilities(deps.vmadm),
    ...infoCapabilities,
    ...logCapabilities(deps.log),
  };
  return (context) => performFor(context, table, deps);
}

function performFor(
  { job_uuid, task_name, signal: over }: TaskContext,
  table: Readonly<Record<CapabilityName, Capability>>,
  deps: CapabilityDeps,
): Perform {
  const note = openNotes(deps, job_uuid);
  let calls = 0;
  let underWay = 0;
  return async (name, args, signal) => {
    if (!Object.hasOwn(table, name)) {
      throw new AgentError("forbidden", `Cannot call ${JSON.stringify(name)}: no such capability`);
    }
    calls += 1;
    if (calls > CALLS_MAX) throw tooMany(name, `the task has made ${CALLS_MAX} calls`);
    // Nobody waits for log lines, so any number of them may be on their way.
    const waitedFor = !name.startsWith("log.");
    if (waitedFor && underWay >= CALLS_IN_FLIGHT_MAX) {
      throw tooMany(name, `${underWay} calls are under way`);
    }
    if (waitedFor) underWay += 1;
    const capability = table[name];
    const progress = openProgress(deps, job_uuid, task_name);
    const both = AbortSignal.any([over, signal]);
    try {
      return await withDeadline(
        name,
        capability.deadlineMs,
        both,
        (signal) =>
          capability.perform({ job_uuid, task_name, signal, note, progress: progress.tell }, args),
      );
    } catch (error) {
      throw readable(error, name, deps.log, { job_uuid, task_name });
    } finally {
      if (waitedFor) underWay -= 1;
      await progress.end();
    }
  };
}

function tooMany(name: string, why: string): AgentError {
  return new AgentError("overloaded", `Cannot call ${name}: ${why}, more are not allowed`);
}

/** A defect of the agent is logged here; a task learns only that there was one. */
function readable(
  error: unknown,
  name: CapabilityName,
  log: Log,
  fields: { job_uuid: string; task_name: string },
): AgentError {
  if (error instanceof AgentError) return error;
  if (error instanceof DOMException && error.name === "AbortError") {
    return new AgentError("aborted", `Cannot finish ${name}: given up`, { cause: error });
  }
  log.error("capability failed", { ...fields, name, error: messageOf(error) });
  return new AgentError("internal", `Cannot perform ${name}: internal error`, { cause: error });
}
